// SPDX-License-Identifier: GPL-3.0-or-later
//
// A device that summarises logits gives the same tokens, ranks and probabilities as one whose rows are read, and is asked
// for whole rows wherever somebody needs them.
#include "engine/serve/sampler.h"
#include "kernels/cpu/scalar.h"
#include "tests/serve/failing_backend.h"
#include "tests/serve/support.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <random>
#include <utility>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

struct Reads {
    int rows = 0;       // reads of whole rows
    int summaries = 0;
};

class SummarisingBackend final : public WrappingBackend {
public:
    SummarisingBackend(std::unique_ptr<Backend> real, std::shared_ptr<Reads> reads)
        : WrappingBackend(std::move(real)), m_reads(std::move(reads)) {}

    bool supports_summaries() const override { return true; }
    Result<void> read(const Buffer& in, std::span<float> destination) override {
        ++m_reads->rows;
        return m_real->read(in, destination);
    }
    Result<void> summarise(const Buffer& logits, std::uint32_t vocabulary, std::span<const TokenId> asked,
                           std::span<LogitSummary> out) override {
        ++m_reads->summaries;
        if (asked.size() != out.size()) return Error{"as many asked as rows", ""};
        std::vector<float> values(out.size() * vocabulary);
        if (auto read = m_real->read(logits, values); !read) return read;
        for (std::size_t row = 0; row < out.size(); ++row)
            out[row] = cpu::scalar::summarise_row(std::span(values).subspan(row * vocabulary, vocabulary), asked[row]);
        return {};
    }

private:
    std::shared_ptr<Reads> m_reads;
};

SessionOptions summarising(const std::shared_ptr<Reads>& reads, const std::shared_ptr<Sabotage>& sabotage = std::make_shared<Sabotage>()) {
    SessionOptions given = options();
    given.make_backend = [reads, sabotage](const std::string& device) -> Result<std::unique_ptr<Backend>> {
        auto real = make_backend(BackendOptions{device, 2});
        if (!real) return real.error();
        auto failing = std::make_unique<FailingBackend>(std::move(*real), sabotage);
        return std::unique_ptr<Backend>(std::make_unique<SummarisingBackend>(std::move(failing), reads));
    };
    return given;
}

// Two floats of one value, each rounded once, after sums of exponentials that differ by their own rounding.
// Tokens that a beam took over from its parent have none.
bool agree(float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return std::fabs(double(a) - double(b)) <= 2e-6 * std::max(std::fabs(double(a)), std::fabs(double(b)));
}

bool agree(const SampledToken& a, const SampledToken& b) {
    bool equal = a.token == b.token && a.rank == b.rank && agree(a.probability, b.probability) &&
                 a.alternative_count == b.alternative_count;
    for (std::uint32_t i = 0; equal && i < a.alternative_count; ++i)
        equal = a.alternatives[i].token == b.alternatives[i].token && a.alternatives[i].logit == b.alternatives[i].logit &&
                agree(a.alternatives[i].probability, b.alternatives[i].probability);
    return equal;
}

// What two recordings say of a lane's tokens.
void compareTokens(Check& check, const LaneRecord& a, const LaneRecord& b) {
    CHECK_EQUAL(a.tokens().size(), b.tokens().size());
    for (std::size_t i = 0; i < a.tokens().size(); ++i) {
        const TokenRecord& one = a.tokens()[i];
        const TokenRecord& other = b.tokens()[i];
        CHECK_EQUAL(one.token, other.token);
        CHECK_EQUAL(one.rank, other.rank);
        CHECK_EQUAL(int(one.source), int(other.source));
        CHECK_EQUAL(one.alternative_count, other.alternative_count);
        CHECK_THAT(agree(one.probability, other.probability));
        for (std::uint64_t k = 0; k < one.alternative_count; ++k) {
            const Alternative& x = a.alternatives()[one.alternatives_begin + k];
            const Alternative& y = b.alternatives()[other.alternatives_begin + k];
            CHECK_EQUAL(x.token, y.token);
            CHECK_EQUAL(x.logit, y.logit);
            CHECK_THAT(agree(x.probability, y.probability));
        }
    }
}

struct ASummaryGivesWhatTheRowGivesCase {
    int vocabulary;
    float spread;
};
Cases<ASummaryGivesWhatTheRowGivesCase> aSummaryGivesWhatTheRowGives_cases() {
    Cases<ASummaryGivesWhatTheRowGivesCase> cases;
    for (const int vocabulary : {1, 2, 9, 10, 11, 257, 32000})
        for (const float spread : {0.0f, 0.3f, 4.0f, 40.0f})
            cases.add(printed("%d tokens, logits within %g", vocabulary, double(spread)), {vocabulary, spread});
    return cases;
}
void aSummaryGivesWhatTheRowGives(Check& check, const ASummaryGivesWhatTheRowGivesCase& row) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> value(-row.spread, row.spread);
    std::vector<float> logits(static_cast<std::size_t>(row.vocabulary));
    for (float& logit : logits) logit = std::round(value(random) * 8) / 8;  // with ties
    Sampler sampler;
    for (const TokenId forced : {-1, 0, row.vocabulary / 2, row.vocabulary - 1}) {
        const SampledToken expected = sampler.sample(logits, {}, 0, forced);
        const SampledToken given = Sampler::sample(cpu::scalar::summarise_row(logits, forced), forced);
        CHECK_OR_SAY(agree(given, expected), "forced " + std::to_string(forced));
    }
}

void valuesThatAreNotFiniteAreSaid(Check& check) {
    std::vector<float> logits = {1, 2, 3};
    CHECK_THAT(cpu::scalar::summarise_row(logits, -1).finite);
    for (const float bad : {INFINITY, -INFINITY, std::numeric_limits<float>::quiet_NaN()}) {
        logits[1] = bad;
        CHECK_THAT(!cpu::scalar::summarise_row(logits, 2).finite);
    }
}

Cases<std::string> aRunRecordsTheSame_cases() {
    Cases<std::string> cases;
    cases.add("greedy", R"("requests": [{"id": "a", "prompt_tokens": [5, 9, 12], "max_new_tokens": 12}])");
    cases.add("forced", "\"requests\": [" + request("a", 5, 9) + "," + request("b", 3, 4, ", \"arrival_step\": 2") + "]");
    cases.add("forced and greedy in one batch",
              "\"requests\": [" + request("a", 5, 9) + R"(, {"id": "b", "prompt_tokens": [5, 9, 12], "max_new_tokens": 12}])");
    cases.add("greedy samples of one prompt",
              R"("requests": [{"id": "a", "prompt_tokens": [5, 9, 12], "max_new_tokens": 6, "n": 3}])");
    cases.add("without a cache",
              R"("lanes": [{"kv_cache": false, "scheduler": {"max_num_batched_tokens": 4}}],
                 "requests": [{"id": "a", "prompt_tokens": [5, 9, 12], "max_new_tokens": 7}, )" + request("b", 5, 5) + "]");
    cases.add("chunks of a prompt",
              R"("lanes": [{"scheduler": {"max_num_batched_tokens": 4}}], "requests": [)" + request("a", 11, 3) + "]");
    return cases;
}
void aRunRecordsTheSame(Check& check, const std::string& work) {
    const auto reads = std::make_shared<Reads>();
    auto s = session(work, summarising(reads));
    CHECK_RESULT(s->run_to_end());
    CHECK_THAT(reads->summaries > 0);
    CHECK_EQUAL(reads->rows, 0);
    auto plain = session(work);
    CHECK_RESULT(plain->run_to_end());
    compareTokens(check, s->recording()->lane(lane0), plain->recording()->lane(lane0));
}

struct WholeRowsAreReadWhereSomebodyNeedsThemCase {
    std::string work;
    bool tap;
};
Cases<WholeRowsAreReadWhereSomebodyNeedsThemCase> wholeRowsAreReadWhereSomebodyNeedsThem_cases() {
    Cases<WholeRowsAreReadWhereSomebodyNeedsThemCase> cases;
    const std::string sampled = R"("requests": [{"id": "a", "prompt_tokens": [5, 9], "max_new_tokens": 6, )";
    cases.add("temperature", {sampled + R"("temperature": 0.8}])", false});
    cases.add("samples", {sampled + R"("temperature": 0.8, "n": 2}])", false});
    cases.add("beams", {sampled + R"("beam_width": 2}])", false});
    cases.add("compared lanes",
              {R"("lanes": [{"name": "x"}, {"name": "y", "kv_cache": false}], "requests": [)" + request("a", 3, 5) + "]", false});
    cases.add("a tap", {"\"requests\": [" + request("a", 3, 5) + "]", true});
    return cases;
}
void wholeRowsAreReadWhereSomebodyNeedsThem(Check& check, const WholeRowsAreReadWhereSomebodyNeedsThemCase& row) {
    const auto reads = std::make_shared<Reads>();
    SessionOptions given = summarising(reads);
    std::size_t tapped = 0;
    if (row.tap) given.logit_tap = [&tapped](LaneId, RequestId, std::uint32_t, std::span<const float> logits) { tapped += logits.size(); };
    auto s = session(row.work, std::move(given));
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(reads->summaries, 0);
    CHECK_THAT(reads->rows > 0);
    CHECK_EQUAL(tapped > 0, row.tap);
    auto plain = session(row.work);
    CHECK_RESULT(plain->run_to_end());
    for (std::size_t i = 0; i < s->recording()->lanes().size(); ++i) {
        const LaneId lane(static_cast<std::uint32_t>(i));
        compareTokens(check, s->recording()->lane(lane), plain->recording()->lane(lane));
    }
}

void aSummaryThatIsNotFiniteFailsTheStepByItsLayer(Check& check) {
    for (const char* lane : {"{}", R"({"kv_cache": false})"}) {
        const auto sabotage = std::make_shared<Sabotage>();
        sabotage->nan_layer = 1;
        sabotage->nan_row_token = 42;
        auto s = session(std::string(R"("lanes": [)") + lane + R"(], "requests": [)" + request("a", 2, 8) + "]",
                         summarising(std::make_shared<Reads>(), sabotage));
        CHECK_THAT(!s->run_to_end());
        const std::string says = s->recording()->reason();
        CHECK_OR_SAY(contains(says, "layer 1, in its attention half") && contains(says, "request 'a'"), says);
        CHECK_EQUAL(outputs(*s->recording(), lane0, "a").size(), std::size_t(3));
    }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aSummaryGivesWhatTheRowGives), aSummaryGivesWhatTheRowGives_cases());
    claims.add(CLAIM(valuesThatAreNotFiniteAreSaid));
    claims.add(CLAIM(aRunRecordsTheSame), aRunRecordsTheSame_cases());
    claims.add(CLAIM(wholeRowsAreReadWhereSomebodyNeedsThem), wholeRowsAreReadWhereSomebodyNeedsThem_cases());
    claims.add(CLAIM(aSummaryThatIsNotFiniteFailsTheStepByItsLayer));
    return claims.rows();
}
