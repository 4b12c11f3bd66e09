// SPDX-License-Identifier: GPL-3.0-or-later
//
// "blocks": "auto" on a device with memory of its own fills the chosen share of it, and what does not fit is said with
// its sizes.
#include "engine/record/ledger.h"
#include "engine/record/results.h"
#include "engine/serve/pool_size.h"
#include "tests/serve/support.h"
#include "tests/serve/wrapping_backend.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <nlohmann/json.hpp>

#include <regex>
#include <utility>

using namespace kvloupe;
using namespace kvloupe::test;
using nlohmann::json;

namespace {

constexpr std::uint64_t mib = 1 << 20;

// A card of 64 MiB whose driver counts what is allocated on it, and what others hold.
class CardBackend final : public WrappingBackend {
public:
    CardBackend(std::unique_ptr<Backend> real, std::uint64_t others, std::shared_ptr<std::uint64_t> weights)
        : WrappingBackend(std::move(real)), m_others(others), m_weights(std::move(weights)) {}

    DeviceInfo info() const override {
        const std::uint64_t used = m_others + memory().weights + memory().kv_cache + memory().activations;
        return {"cuda:0", "A card", "", 64 * mib, 64 * mib - used, true};
    }
    MemoryCounters memory() const override {
        MemoryCounters counters = m_real->memory();
        counters.weights = *m_weights;
        return counters;
    }
    Result<std::unique_ptr<Weight>> weight(const Tensor& tensor) override {
        *m_weights += tensor.bytes();  // a card holds a copy
        return m_real->weight(tensor);
    }

private:
    std::uint64_t m_others;
    std::shared_ptr<std::uint64_t> m_weights;
};

Result<std::unique_ptr<Session>> on_card(const std::string& lanes, std::uint64_t others = 0) {
    Scenario wanted = scenario(R"({"version": 1, "lanes": [)" + lanes + R"(], "requests": [)" + request("a", 5, 3) + "]}");
    wanted.model = fixtures + "tiny-gqa";
    SessionOptions given = options();
    given.make_backend = [others, weights = std::make_shared<std::uint64_t>(0)](const std::string&) -> Result<std::unique_ptr<Backend>> {
        auto real = make_backend(BackendOptions{"cpu", 2});
        if (!real) return real.error();
        return std::unique_ptr<Backend>(std::make_unique<CardBackend>(std::move(*real), others, weights));
    };
    return Session::create(wanted, std::move(given));
}

// `more` stands among the options of its cache.
std::string lane(const std::string& name, const std::string& more = "") {
    return R"({"name": ")" + name + R"(", "cache": {"block_size": 16)" + more +
           R"(}, "scheduler": {"max_num_batched_tokens": 64, "max_num_seqs": 4}})";
}

std::uint64_t pool(const Session& session, std::size_t index) { return session.recording()->lanes()[index]->info().pool_bytes; }

struct AutoFillsTheShareOfTheCardCase {
    std::string more;  // of the cache's options
    double share;
    int others;  // MiB
};
Cases<AutoFillsTheShareOfTheCardCase> autoFillsTheShareOfTheCard_cases() {
    Cases<AutoFillsTheShareOfTheCardCase> cases;
    cases.add("nine tenths where nothing is said", {"", 0.9, 0});
    cases.add("half", {R"(, "memory_share": 0.5)", 0.5, 0});
    cases.add("beside others", {R"(, "memory_share": 0.5)", 0.5, 10});
    cases.add("all of it", {R"(, "blocks": "auto", "memory_share": 1)", 1.0, 3});
    return cases;
}
void autoFillsTheShareOfTheCard(Check& check, const AutoFillsTheShareOfTheCardCase& row) {
    auto made = on_card(lane("x", row.more), std::uint64_t(row.others) * mib);
    CHECK_RESULT(made);
    const LaneInfo& info = (*made)->recording()->lane(lane0).info();
    const auto memory = (*made)->recording()->device_memory();
    CHECK_EQUAL(memory.size(), std::size_t(1));
    // Weights are loaded, activations are to come: after a step of the whole budget the share is used up to a block.
    LaneSetup setup;
    setup.options = (*made)->scenario().lanes[0];
    auto backend = make_backend(BackendOptions{"cpu", 1});
    CHECK_RESULT(backend);
    auto device = DeviceModel::create((*made)->model(lane0), std::shared_ptr<Backend>(std::move(*backend)));
    CHECK_RESULT(device);
    setup.device = *device;
    const std::uint64_t reserve = activation_bytes(setup, {});
    const double used = double(memory[0].used_bytes() + reserve);
    CHECK_OR_SAY(used <= row.share * double(64 * mib), shown(used));
    CHECK_OR_SAY(used + double(info.block_bytes) + 4096 > row.share * double(64 * mib), shown(used));
}

void lanesOfOneCardShareFairly(Check& check) {
    auto alone = on_card(lane("x"));
    auto pair = on_card(lane("x") + "," + lane("y"));
    CHECK_RESULT(alone);
    CHECK_RESULT(pair);
    CHECK_EQUAL(pool(**pair, 0), pool(**pair, 1));
    CHECK_THAT(pool(**pair, 0) < pool(**alone, 0) / 2);  // their activations count twice
    CHECK_THAT(pool(**pair, 0) > pool(**alone, 0) / 2 - 2 * mib);
    // A pool of a given size is not shared out a second time.
    auto given = on_card(lane("x") + "," + lane("y", R"(, "blocks": 1000)"));
    CHECK_RESULT(given);
    CHECK_THAT(pool(**given, 0) + pool(**given, 1) <= std::uint64_t(0.9 * 64 * mib));
    CHECK_THAT(pool(**given, 0) > pool(**pair, 0));
}

void noRoomIsSaidWithItsSizes(Check& check) {
    const auto made = on_card(lane("x"), 60 * mib);
    CHECK_THAT(!made);
    const std::string says = made.error().message();
    CHECK_OR_SAY(says.starts_with("Lane 'x': 58 MiB of the 64 MiB of cuda:0") && contains(says, "61 MiB are in use"), says);
}

void aPoolThatIsTooLargeIsToldWhatFits(Check& check) {
    const auto made = on_card(lane("x", ", \"blocks\": 100000"));
    CHECK_THAT(!made);
    const std::string says = made.error().message();
    std::smatch match;
    const bool told = std::regex_search(says, match, std::regex(
        R"(asks for 100000 blocks, (\d+) MiB, but (\d+) MiB are free on cuda:0\. Give it at most (\d+) blocks)"));
    CHECK_OR_SAY(told, says);
    // As many do fit, and one more does not.
    const std::string most = match.str(3);
    const std::string more = std::to_string(std::stoi(most) + 1);
    CHECK_RESULT(on_card(lane("x", ", \"blocks\": " + most)));
    CHECK_THAT(!on_card(lane("x", ", \"blocks\": " + more)));
}

void memoryIsGivenUpOnceAndOnlyForWhatIsKnownToBeGood(Check& check) {
    int released = 0;
    std::uint64_t loaded = 0;  // bytes of weights on the card by then
    const auto create = [&](const std::string& rest, bool card) {
        Scenario wanted = scenario(R"({"version": 1, "lanes": [{"name": "x", "cache": {"blocks": 10}}, {"name": "y", "kv_cache": false}], )" + rest + "}");
        wanted.model = fixtures + "tiny-gqa";
        SessionOptions given = options();
        const auto weights = std::make_shared<std::uint64_t>(0);
        if (card) given.make_backend = [weights](const std::string&) -> Result<std::unique_ptr<Backend>> {
            auto real = make_backend(BackendOptions{"cpu", 2});
            if (!real) return real.error();
            return std::unique_ptr<Backend>(std::make_unique<CardBackend>(std::move(*real), 0, weights));
        };
        given.release_memory = [&released, &loaded, weights] {
            ++released;
            loaded += *weights;
        };
        return Session::create(wanted, std::move(given));
    };
    CHECK_THAT(!create(R"("requests": [{"id": "a", "prompt_tokens": [999999]}])", true));
    CHECK_EQUAL(released, 0);
    CHECK_RESULT(create("\"requests\": [" + request("a", 5, 3) + "]", true));
    CHECK_EQUAL(released, 1);
    CHECK_EQUAL(loaded, std::uint64_t(0));
    CHECK_RESULT(create("\"requests\": [" + request("a", 5, 3) + "]", false));  // a CPU's memory is everybody's
    CHECK_EQUAL(released, 1);
}

void theSummarySaysWhatTheDriverSaysBesideWhatIsAccounted(Check& check) {
    auto made = on_card(lane("x"), 7 * mib);
    CHECK_RESULT(made);
    CHECK_RESULT((*made)->run_to_end());
    const json summary = json::parse(summary_json(*(*made)->recording()));
    const json card = summary.at("memory").at("cuda:0");
    const auto bytes = [&card](const char* name) { return card.at(name).get<std::uint64_t>(); };
    CHECK_EQUAL(bytes("total_bytes"), 64 * mib);
    CHECK_EQUAL(bytes("residual_bytes"), 7 * mib);
    CHECK_EQUAL(bytes("used_bytes"), bytes("weight_bytes") + bytes("kv_cache_bytes") + bytes("activation_bytes") + 7 * mib);
    CHECK_THAT(bytes("activation_bytes") > 0 && bytes("weight_bytes") > 0);
    CHECK_EQUAL(bytes("kv_cache_bytes"), pool(**made, 0));
    CHECK_EQUAL(summary.at("origins").at("residual_bytes").get<std::string>(), "derived");
    // The ledger has the same beside its prediction, and the copy of the weights.
    const Recording& recording = *(*made)->recording();
    std::map<std::string, LedgerEntry> entries;
    for (LedgerEntry& entry : ledger(recording.lane(lane0), 2, recording.device_memory())) entries[entry.what] = entry;
    CHECK_EQUAL(*entries.at("device memory").measured, bytes("used_bytes"));
    CHECK_EQUAL(entries.at("device memory").residual, std::int64_t(7 * mib));
    CHECK_EQUAL(*entries.at("weights").measured, recording.lane(lane0).info().memory.weights);
    CHECK_EQUAL(recording.lane(lane0).info().memory.mapped_weights, std::uint64_t(0));
    for (const auto& [what, entry] : entries) CHECK_OR_SAY(entry.unexplained == 0, what + ": " + entry.residual_why);
    // A CPU has no memory of its own to speak of.
    auto plain = session(R"("requests": [)" + request("a", 5, 3) + "]");
    const json of_plain = json::parse(summary_json(*plain->recording()));
    CHECK_THAT(of_plain.is_object() && !of_plain.contains("memory"));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(autoFillsTheShareOfTheCard), autoFillsTheShareOfTheCard_cases());
    claims.add(CLAIM(lanesOfOneCardShareFairly));
    claims.add(CLAIM(noRoomIsSaidWithItsSizes));
    claims.add(CLAIM(aPoolThatIsTooLargeIsToldWhatFits));
    claims.add(CLAIM(memoryIsGivenUpOnceAndOnlyForWhatIsKnownToBeGood));
    claims.add(CLAIM(theSummarySaysWhatTheDriverSaysBesideWhatIsAccounted));
    return claims.rows();
}
