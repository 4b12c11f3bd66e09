// SPDX-License-Identifier: GPL-3.0-or-later
//
// Any bytes, as a table of known models and as a config.json: either an error with a sentence, or sizes that hang together for
// every number of GPUs that is accepted.
#include "engine/analysis/known_models.h"
#include "engine/analysis/size_report.h"
#include "engine/analysis/size_source.h"
#include "engine/analysis/size_text.h"
#include "tests/fuzz/require.h"

#include <cstdint>

using namespace kvloupe;

namespace {

void measure(const SizedModel& model) {
    for (const DType dtype : {DType::f16, DType::int8, DType::kivi2, DType::q4_0})
        for (const std::uint32_t gpus : {1u, 2u, 3u}) {
            SizeRequest request;
            request.precision = {KvFormat::of(dtype), KvFormat::of(dtype)};
            request.parallel = {gpus, gpus};
            request.context = 1000;
            request.gpu = &gpu_table().front();
            const Result<SizeReport> report = size_report(model, request);
            if (!report) {
                KVLOUPE_REQUIRE(!report.error().sentence.empty());
                continue;
            }
            std::uint64_t of_stages = 0;
            for (const StageSize& stage : report->stages) of_stages += stage.kv_bytes;
            KVLOUPE_REQUIRE(of_stages * gpus >= report->kv_bytes && of_stages <= report->kv_bytes);
            KVLOUPE_REQUIRE(report->sequences_that_fit.has_value());
            KVLOUPE_REQUIRE(size_lines(*report).size() > 3);
        }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
    const Result<KnownModels> table = KnownModels::parse(bytes, "input");
    if (table)
        for (const KnownModel& known : table->models()) measure(known.model);
    else
        KVLOUPE_REQUIRE(table.error().sentence.substr(0, 5) == "input");
    const Result<SizedModel> config = sized_model_from_config(bytes, "input");
    if (config) measure(*config);
    else KVLOUPE_REQUIRE(config.error().sentence.substr(0, 5) == "input");
    return 0;
}
