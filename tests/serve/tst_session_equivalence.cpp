// SPDX-License-Identifier: GPL-3.0-or-later
//
// Whatever the cache does (hits, forks, copies, preemption, swapping, growing by copy, windows), a sequence's logits are
// those of an undisturbed run. Fresh blocks and the null block hold NaN throughout, so that a wrong read shows.
#include "tests/serve/reference_model.h"
#include "tests/serve/support.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr double tolerance = 1e-5;

struct Run {
    Logits logits;
    std::shared_ptr<const Recording> recording;
    explicit Run(const std::string& rest) {
        auto s = session(rest, options(&logits));
        if (auto ran = s->run_to_end(); !ran) throw std::runtime_error(ran.error().message());
        recording = s->recording();
    }
    int count(EventKind kind) const {
        int found = 0;
        const auto& events = recording->lane(lane0).events();
        for (std::uint64_t i = 0; i < events.size(); ++i) found += events[i].kind == kind;
        return found;
    }
};

std::string list(const std::vector<TokenId>& tokens) {
    std::string text = "[";
    for (const TokenId token : tokens) text += (text.size() > 1 ? "," : "") + std::to_string(token);
    return text + "]";
}

std::vector<TokenId> text(int first, int count) {
    std::vector<TokenId> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(10 + (first * 37 + i * 11 + i * i) % 270);
    return tokens;
}

std::string req(const char* id, const std::vector<TokenId>& prompt, const std::vector<TokenId>& output, const std::string& more = {}) {
    return std::string("{\"id\": \"") + id + "\", \"prompt_tokens\": " + list(prompt) + ", \"output_tokens\": " + list(output) +
           (more.empty() ? "" : ", " + more) + "}";
}

// Largest difference of the logits of a sequence to those of an undisturbed run with the same tokens; outputs from `from` on.
double difference(const Run& run, RequestId track, const std::vector<TokenId>& prompt, const std::vector<TokenId>& output,
                  std::uint32_t from = 0) {
    const Run alone(R"("lanes": [{"cache": {"dtype": "f32", "prefix_caching": false}}], "requests": [)" + req("x", prompt, output) + "]");
    double largest = 0;
    for (std::uint32_t i = from; i < output.size(); ++i) {
        const auto ours = run.logits.find({0, track.value, i});
        if (ours == run.logits.end()) return INFINITY;
        largest = std::max(largest, largest_difference(ours->second, alone.logits.at({0, 0, i})));
    }
    return largest;
}

struct S11_hitsForksAndPreemptionGiveTheLogitsOfAnUndisturbedRunCase {
    std::string cache, scheduler, actions;
    int must;  // an event kind that has to occur, or the test shows nothing
};
Cases<S11_hitsForksAndPreemptionGiveTheLogitsOfAnUndisturbedRunCase> S11_hitsForksAndPreemptionGiveTheLogitsOfAnUndisturbedRun_cases() {
    Cases<S11_hitsForksAndPreemptionGiveTheLogitsOfAnUndisturbedRunCase> cases;
    const auto row = [&](const char* name, const char* cache, const char* scheduler, const char* actions, EventKind must) {
        cases.add(name, {std::string(cache), std::string(scheduler), std::string(actions), int(must)});
    };
    row("prefix hits", R"("blocks": 200)", "", "", EventKind::prefix_hit);
    row("blocks of 1", R"("block_size": 1, "blocks": 400)", "", "", EventKind::prefix_hit);
    row("blocks of 7", R"("block_size": 7, "blocks": 100)", "", "", EventKind::prefix_hit);
    row("blocks of 256", R"("block_size": 256, "blocks": 20)", "", "", EventKind::decode);
    row("radix", R"("prefix_index": "radix", "blocks": 100)", "", "", EventKind::prefix_hit);
    row("pages of 4", R"("prefix_index": "radix", "block_size": 4, "blocks": 100)", "", "", EventKind::prefix_hit);
    row("preempted by action", R"("blocks": 200)", "", R"({"at_step": 9, "do": "preempt", "request": "b"}, {"at_step": 12, "do": "preempt", "request": "a"})", EventKind::resume);
    row("a storm", R"("block_size": 4, "blocks": 26)", R"("reserve_full_prompt": false)", "", EventKind::preempt);
    row("a storm in chunks", R"("block_size": 4, "blocks": 26)", R"("reserve_full_prompt": false, "max_num_batched_tokens": 9)", "", EventKind::preempt);
    row("SGLang's victims", R"("block_size": 4, "blocks": 26, "prefix_index": "radix")", R"("victim": "sglang")", "", EventKind::preempt);
    row("swapped by action", R"("blocks": 200)", R"("preemption": "swap", "swap_blocks": 30)", R"({"at_step": 9, "do": "preempt", "request": "b"})", EventKind::swap_in);
    row("a storm that swaps", R"("block_size": 4, "blocks": 26)", R"("preemption": "swap", "swap_blocks": 40)", "", EventKind::swap_in);
    row("too little host memory", R"("block_size": 4, "blocks": 26)", R"("preemption": "swap", "swap_blocks": 3)", "", EventKind::resume);
    row("one region each", R"("kind": "contiguous", "blocks": 65)", "", "", EventKind::allocate);
    row("growing by copy", R"("kind": "contiguous", "reserve": "grow", "block_size": 4, "blocks": 129)", "", "", EventKind::copy_on_write);
    row("static batch", R"("block_size": 4, "blocks": 40)", R"("batching": "static")", "", EventKind::decode);
    row("reset in between", R"("blocks": 200)", "", R"({"at_step": 9, "do": "preempt", "request": "e"}, {"at_step": 9, "do": "preempt", "request": "d"}, {"at_step": 9, "do": "preempt", "request": "c"}, {"at_step": 9, "do": "preempt", "request": "b"}, {"at_step": 9, "do": "preempt", "request": "a"}, {"at_step": 9, "do": "reset_prefix_cache"})", EventKind::reset);
    return cases;
}
void S11_hitsForksAndPreemptionGiveTheLogitsOfAnUndisturbedRun(Check& check, const S11_hitsForksAndPreemptionGiveTheLogitsOfAnUndisturbedRunCase& row) {
    const std::vector<TokenId> prompt = text(1, 40), longer = text(1, 45), other = text(5, 21);
    std::vector<TokenId> different = text(1, 33);
    different.back() = 9;
    const std::vector<TokenId> out = text(9, 22);
    const Run run(R"("lanes": [{"cache": {"dtype": "f32", )" + row.cache + R"(}, "scheduler": {)" + row.scheduler + R"(}}], "actions": [)" + row.actions +
                  R"(], "requests": [)" + req("a", prompt, out) + "," + req("b", longer, out, R"("arrival_step": 3)") + "," +
                  req("c", different, out, R"("arrival_step": 3)") + "," + req("d", other, out, R"("arrival_step": 5)") + "," +
                  req("e", prompt, out, R"("arrival_step": 5)") + "]");
    CHECK_THAT(run.count(EventKind(row.must)) > 0);
    double largest = 0;
    largest = std::max(largest, difference(run, RequestId{0}, prompt, out));
    largest = std::max(largest, difference(run, RequestId{1}, longer, out));
    largest = std::max(largest, difference(run, RequestId{2}, different, out));
    largest = std::max(largest, difference(run, RequestId{3}, other, out));
    largest = std::max(largest, difference(run, RequestId{4}, prompt, out));
    check.note(printed("largest logit difference: %.3g", largest));
    CHECK_THAT(largest <= tolerance);
}

struct AForkContinuesAsIfItHadAlwaysBeenAloneCase {
    int blockSize, position;
};
Cases<AForkContinuesAsIfItHadAlwaysBeenAloneCase> aForkContinuesAsIfItHadAlwaysBeenAlone_cases() {
    Cases<AForkContinuesAsIfItHadAlwaysBeenAloneCase> cases;
    for (const int size : {1, 4, 16}) {
        cases.add(printed("blocks of %d, in the prompt", size), {size, 7});
        cases.add(printed("blocks of %d, at a border", size), {size, 16});
        cases.add(printed("blocks of %d, in the output", size), {size, 23});
    }
    return cases;
}
void aForkContinuesAsIfItHadAlwaysBeenAlone(Check& check, const AForkContinuesAsIfItHadAlwaysBeenAloneCase& row) {
    const std::vector<TokenId> prompt = text(2, 19), out = text(3, 20), own = text(4, 12);
    const Run run(R"("lanes": [{"cache": {"dtype": "f32", "blocks": 120, "block_size": )" + std::to_string(row.blockSize) +
                  R"(}}], "requests": [)" + req("a", prompt, out) + R"(], "actions": [
                     {"at_step": 6, "do": "fork", "request": "a", "as": "end"},
                     {"at_step": 6, "do": "fork", "request": "a", "as": "early", "position": )" + std::to_string(row.position) +
                  R"(, "output_tokens": )" + list(own) + R"(}, {"at_step": 7, "do": "fork", "request": "end", "as": "turn", "prompt_tokens": )" +
                  list(text(6, 5)) + R"(, "output_tokens": )" + list(own) + R"(}, {"at_step": 8, "do": "preempt", "request": "end"}])");
    CHECK_THAT(run.count(EventKind::fork) == 3);
    CHECK_THAT(run.count(EventKind::copy_on_write) > 0 || row.blockSize == 1);
    CHECK_EQUAL(difference(run, RequestId{0}, prompt, out) <= tolerance, true);
    std::vector<TokenId> all = prompt;
    all.insert(all.end(), out.begin(), out.end());
    // At the end: position 24 is written, the token that stands there was inherited.
    const std::vector<TokenId> first(all.begin(), all.begin() + 24), rest(all.begin() + 24, all.end());
    CHECK_THAT(difference(run, logit_track(RequestId{0}, "end"), first, rest, 1) <= tolerance);
    CHECK_THAT(difference(run, logit_track(RequestId{0}, "early"), {all.begin(), all.begin() + row.position}, own, 1) <= tolerance);
    std::vector<TokenId> turned(all.begin(), all.begin() + 25);
    for (const TokenId token : text(6, 5)) turned.push_back(token);
    CHECK_THAT(difference(run, logit_track(RequestId{0}, "turn"), turned, own) <= tolerance);
}

void samplesOfOnePromptAreWhatTheyWereAlone(Check& check) {
    const std::vector<TokenId> prompt = text(2, 19), out = text(3, 12);
    const Run run(R"("lanes": [{"cache": {"dtype": "f32", "blocks": 40, "block_size": 4}}], "requests": [)" + req("a", prompt, out, R"("n": 3)") + "]");
    CHECK_EQUAL(run.count(EventKind::fork), 2);
    CHECK_EQUAL(run.count(EventKind::copy_on_write), 2);
    for (const char* name : {"a.0", "a.1", "a.2"}) CHECK_THAT(difference(run, logit_track(RequestId{0}, name), prompt, out) <= tolerance);
}

struct WindowsEqualAMaskedReferenceWithoutACacheCase {
    std::string cache;
    KeySpan span;
};
Cases<WindowsEqualAMaskedReferenceWithoutACacheCase> windowsEqualAMaskedReferenceWithoutACache_cases() {
    Cases<WindowsEqualAMaskedReferenceWithoutACacheCase> cases;
    const auto row = [&](const char* name, const char* cache, KeySpan span) { cases.add(name, {std::string(cache), span}); };
    row("full", R"("block_size": 4)", {});
    row("window", R"("window": 8, "block_size": 4)", {8, 0, 0, false});
    row("window of 1", R"("window": 1, "block_size": 4)", {1, 0, 0, false});
    row("window off the borders", R"("window": 7, "block_size": 5)", {7, 0, 0, false});
    row("window and sinks", R"("window": 9, "sinks": 3, "block_size": 4)", {9, 3, 0, false});
    row("many sinks", R"("window": 6, "sinks": 17, "block_size": 4)", {6, 17, 0, false});
    row("sinks by rank", R"("window": 9, "sinks": 3, "block_size": 4, "positions": "rank")", {9, 3, 0, true});
    row("chunks", R"("attention_chunk": 10, "block_size": 4)", {0, 0, 10, false});
    row("blocks of 1", R"("window": 9, "sinks": 3, "block_size": 1)", {9, 3, 0, false});
    row("one block", R"("window": 9, "sinks": 3, "block_size": 64)", {9, 3, 0, false});
    return cases;
}
void windowsEqualAMaskedReferenceWithoutACache(Check& check, const WindowsEqualAMaskedReferenceWithoutACacheCase& row) {
    const std::vector<TokenId> prompt = text(1, 27), out = text(8, 25);
    // A second one comes later and hits what the window left; a third is preempted.
    const Run run(R"("lanes": [{"cache": {"dtype": "f32", "blocks": 150, )" + row.cache + R"(}, "scheduler": {"max_num_batched_tokens": 16}}], "requests": [)" +
                  req("a", prompt, out) + "," + req("b", prompt, out, R"("arrival_step": 5)") + "," + req("c", prompt, out, R"("salt": "x")") +
                  R"(], "actions": [{"at_step": 15, "do": "preempt", "request": "c"}, {"at_step": 20, "do": "fork", "request": "a", "as": "f"}])");
    if (!row.span.full() && contains(row.cache, "\"block_size\": 4")) CHECK_THAT(run.count(EventKind::null_block) > 0 || row.span.sinks > 10);
    const auto model = load_model(fixtures + "tiny-gqa");
    CHECK_RESULT(model);
    std::vector<TokenId> tokens = prompt;
    tokens.insert(tokens.end(), out.begin(), out.end());
    const auto expected = ReferenceModel(**model).logits(tokens, row.span);
    double largest = 0;
    for (const std::uint32_t request : {0u, 1u, 2u})
        for (std::uint32_t i = 0; i < out.size(); ++i) {
            const std::vector<float>& ours = run.logits.at({0, request, i});
            for (std::size_t v = 0; v < ours.size(); ++v)
                largest = std::max(largest, std::fabs(double(ours[v]) - expected[prompt.size() - 1 + i][v]));
        }
    check.note(printed("largest logit difference to the masked reference: %.3g", largest));
    CHECK_THAT(largest <= tolerance);
}

void aWrongHitGivesOtherLogitsAndAComparisonPreventsIt(Check& check) {
    const std::vector<TokenId> prompt = text(1, 40), other = text(7, 40), out = text(9, 6);
    for (const bool compare : {false, true}) {
        const Run run(std::string(R"("lanes": [{"cache": {"dtype": "f32", "blocks": 60, "block_size": 4, "hash_bits": 1, "compare_tokens": )") + (compare ? "true" : "false") +
                      R"(}}], "requests": [)" + req("a", prompt, out) + "," + req("b", other, out, R"("arrival_step": 8)") + "]");
        CHECK_EQUAL(run.count(EventKind::prefix_hit) > 0, !compare);  // half of all blocks have the same hash
        CHECK_EQUAL(difference(run, RequestId{1}, other, out) > 1e-3, !compare);
    }
}

void untaggedExtraKeysTakeASaltForAnAdapter(Check& check) {
    const std::vector<TokenId> prompt = text(1, 40), out = text(9, 6);
    for (const bool tag : {false, true}) {
        const Run run(std::string(R"("lanes": [{"cache": {"blocks": 60, "block_size": 4, "tag_extra_keys": )") + (tag ? "true" : "false") +
                      R"(}}], "requests": [)" + req("a", prompt, out, R"("salt": "one")") + "," + req("b", prompt, out, R"("adapter": "one", "arrival_step": 2)") + "," +
                      req("c", prompt, out, R"("salt": "two", "arrival_step": 2)") + "]");
        CHECK_EQUAL(run.count(EventKind::prefix_hit), tag ? 0 : 1);  // the first block: a salt stands in no other
    }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(S11_hitsForksAndPreemptionGiveTheLogitsOfAnUndisturbedRun), S11_hitsForksAndPreemptionGiveTheLogitsOfAnUndisturbedRun_cases());
    claims.add(CLAIM(aForkContinuesAsIfItHadAlwaysBeenAlone), aForkContinuesAsIfItHadAlwaysBeenAlone_cases());
    claims.add(CLAIM(samplesOfOnePromptAreWhatTheyWereAlone));
    claims.add(CLAIM(windowsEqualAMaskedReferenceWithoutACache), windowsEqualAMaskedReferenceWithoutACache_cases());
    claims.add(CLAIM(aWrongHitGivesOtherLogitsAndAComparisonPreventsIt));
    claims.add(CLAIM(untaggedExtraKeysTakeASaltForAnAdapter));
    return claims.rows();
}
