// SPDX-License-Identifier: GPL-3.0-or-later
//
// Any bytes: either an error with a sentence that begins with the file's name, or a scenario that keeps the limits the
// session counts on.
#include "engine/serve/scenario.h"
#include "tests/fuzz/require.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

using namespace kvloupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Result<Scenario> scenario = parse_scenario({reinterpret_cast<const std::byte*>(data), size}, "input");
    if (!scenario) {
        KVLOUPE_REQUIRE(scenario.error().sentence.substr(0, 6) == "input:" && scenario.error().sentence.size() > 7);
        return 0;
    }
    KVLOUPE_REQUIRE(!scenario->lanes.empty() && !scenario->model.empty());
    std::set<std::string> lanes, ids;
    for (const LaneOptions& lane : scenario->lanes) {
        KVLOUPE_REQUIRE(!lane.name.empty() && lanes.insert(lane.name).second);
        KVLOUPE_REQUIRE(lane.cache.block_size > 0 && (!lane.cache.blocks || *lane.cache.blocks >= 2));
        for (const auto* types : {&lane.cache.key_dtypes, &lane.cache.value_dtypes}) {
            KVLOUPE_REQUIRE(!types->empty());
            for (const DType type : *types) KVLOUPE_REQUIRE(elements_per_pack(type) <= 32);
        }
        KVLOUPE_REQUIRE(lane.cache.group.value_or(1) > 0);
        if (lane.convert) {
            const ConvertOptions& convert = *lane.convert;
            const bool latent = convert.to == ConvertOptions::Target::mla;
            KVLOUPE_REQUIRE(latent ? (convert.width > 0) != (convert.budget > 0) && convert.kv_heads == 0 : convert.kv_heads > 0);
        }
        const CacheOptions& cache = lane.cache;
        KVLOUPE_REQUIRE(cache.watermark >= 0 && cache.watermark < 1 && cache.hash_bits >= 1 && cache.hash_bits <= 256);
        KVLOUPE_REQUIRE(!cache.span || (!cache.span->full() && (cache.span->window == 0 || cache.span->chunk == 0)));
        KVLOUPE_REQUIRE(!cache.span || cache.span->sinks == 0 || cache.span->window > 0);
        KVLOUPE_REQUIRE(cache.kind == CacheKind::paged || !cache.prefix_caching);
        KVLOUPE_REQUIRE(cache.prefix_index == PrefixIndexKind::hash || (cache.prefix_caching && !cache.span));
        KVLOUPE_REQUIRE(lane.scheduler.preemption == PreemptionMode::recompute || lane.scheduler.swap_blocks > 0);
        KVLOUPE_REQUIRE(!is_accounting(*scenario, lane) || lane.kv_cache);
        KVLOUPE_REQUIRE(lane.scheduler.max_num_seqs > 0 && lane.scheduler.max_num_batched_tokens > 0);
    }
    for (const RequestOptions& request : scenario->requests) {
        KVLOUPE_REQUIRE(!request.id.empty() && ids.insert(request.id).second);
        KVLOUPE_REQUIRE(request.prompt.has_value() != request.prompt_tokens.has_value());
        KVLOUPE_REQUIRE(request.max_new_tokens > 0 && request.temperature >= 0 && request.top_p > 0 && request.top_p <= 1);
        KVLOUPE_REQUIRE(!request.output_tokens || !request.output_tokens->empty());
        for (const TokenId token : request.prompt_tokens.value_or(std::vector<TokenId>())) KVLOUPE_REQUIRE(token >= 0);
    }
    for (const RequestOptions& request : scenario->requests)
        for (std::uint32_t c = 0; c < std::max(request.n > 1 ? request.n : 0u, request.beam_width); ++c)
            KVLOUPE_REQUIRE(ids.insert(request.id + "." + std::to_string(c)).second);
    for (const ScenarioAction& action : scenario->actions)
        KVLOUPE_REQUIRE(action.kind != ActionKind::fork || ids.insert(action.as).second);
    for (const ScenarioAction& action : scenario->actions) {
        const bool on_request = action.kind != ActionKind::evict && action.kind != ActionKind::reset_prefix_cache;
        KVLOUPE_REQUIRE(ids.count(action.request) == (on_request ? 1u : 0u));
        KVLOUPE_REQUIRE(action.kind != ActionKind::evict || (action.block && *action.block > 0));
        KVLOUPE_REQUIRE(action.position.value_or(1) > 0 && !(action.prompt && action.prompt_tokens));
    }
    KVLOUPE_REQUIRE(scenario->record.stages_every > 0 && scenario->record.memory_mib > 0);
    return 0;
}
