// SPDX-License-Identifier: GPL-3.0-or-later
//
// SmolLM2-135M-Instruct (Q4_1) with llama.cpp's own greedy tokens forced, for five prompts: the argmax is the same
// wherever its margin exceeds the largest logit difference. Three references: llama.cpp with the tokens as one batch, whose
// products BLAS computes (make_smollm2_batched.py): the differences stay small; llama.cpp token by token, where it rounds
// the activations of quantised products to 8 bits (make_smollm2_expected.py), which moves its own logits by about 1; and
// transformers in f32 on the unpacked weights (make_smollm2_exact.py).
#include "tests/serve/support.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <nlohmann/json.hpp>

using namespace kvloupe;
using namespace kvloupe::test;
using nlohmann::json;

namespace {

const char* const expected_file = KVLOUPE_SOURCE_DIR "/tests/serve/smollm2_expected.json";
const std::string model_file = KVLOUPE_FETCHED_MODELS "/SmolLM2-135M-Instruct.Q4_1.gguf";

// llama.cpp's greedy tokens forced for all prompts in one lane; logits by (lane, request, output).
void force(Check& check, DType cache, Logits& logits, std::vector<std::vector<TokenId>>& prompt_tokens) {
    const json prompts = json::parse(read_file(expected_file)).at("prompts");
    CHECK_EQUAL(prompts.size(), 5);
    Scenario wanted;
    wanted.model = model_file;
    wanted.device = "cpu";
    wanted.lanes.emplace_back();
    wanted.lanes.front().cache.key_dtypes = wanted.lanes.front().cache.value_dtypes = {cache};
    for (const json& prompt : prompts) {
        RequestOptions request;
        request.id = std::string(1, char('a' + wanted.requests.size()));
        request.prompt = prompt.at("text").get<std::string>();
        request.output_tokens = prompt.at("greedy").get<std::vector<TokenId>>();
        CHECK_EQUAL(request.output_tokens->size(), std::size_t(64));
        wanted.requests.push_back(std::move(request));
    }
    auto session = Session::create(wanted, options(&logits));
    CHECK_RESULT(session);
    CHECK_RESULT((*session)->run_to_end());
    CHECK_EQUAL(logits.size(), std::size_t(5 * 64));
    for (int p = 0; p < 5; ++p) prompt_tokens.push_back((*session)->recording()->requests()[std::size_t(p)].prompt);
}

// The same for a cache of f16, as llama.cpp's: computed once for the references that are compared with it.
struct Forced {
    Logits logits;
    std::vector<std::vector<TokenId>> prompt_tokens;
};
const Forced& forced_in_f16(Check& check) {
    static Forced forced;
    if (forced.logits.empty()) force(check, DType::f16, forced.logits, forced.prompt_tokens);
    return forced;
}

struct Step {
    TokenId ours, theirs;  // argmax
    double margin;         // of theirs over the second
};

// The argmax is the same wherever its margin exceeds the largest difference. Returns the 99.9th percentile.
double compare(Check& check, const char* what, std::vector<double>& differences, const std::vector<Step>& steps) {
    std::sort(differences.begin(), differences.end());
    const double largest = differences.back();
    const double percentile = differences[std::size_t(double(differences.size() - 1) * 0.999)];
    int sure = 0, same = 0, wrong = 0;
    for (const Step& step : steps) {
        same += step.ours == step.theirs;
        if (step.margin <= largest) continue;
        ++sure;
        wrong += step.ours != step.theirs;
    }
    check.note(printed("%zu logits against %s: median difference %.4f, 99.9th percentile %.3f, largest %.3f; "
                       "argmax equal in %d of %zu steps, in %d of the %d whose margin exceeds the largest difference",
                       differences.size(), what, differences[differences.size() / 2], percentile, largest, same, steps.size(), sure - wrong, sure));
    if (wrong > 0) check.fail("an argmax differs although its margin exceeds the largest difference", __FILE__, __LINE__);
    if (sure <= 100) check.fail("too few steps have a margin beyond the largest difference", __FILE__, __LINE__);
    return percentile;
}

// What transformers computes in f32 from the unpacked weights (make_smollm2_exact.py), and how far llama.cpp is from it.
void logitsEqualExactArithmetic(Check& check) {
    SKIP_WITHOUT(model_file);
    const json exact = json::parse(read_file(KVLOUPE_SOURCE_DIR "/tests/serve/smollm2_exact.json"));
    const json expected = json::parse(read_file(expected_file));
    const std::size_t every = exact.at("sample_every").get<std::size_t>(), coarse = every / expected.at("sample_every").get<std::size_t>();
    Logits logits;
    std::vector<std::vector<TokenId>> prompt_tokens;
    force(check, DType::f32, logits, prompt_tokens);
    if (!check.good()) return;
    double largest = 0;
    std::vector<double> theirs;
    for (std::uint32_t p = 0; p < 5; ++p) {
        for (std::uint32_t i = 0; i < 64; ++i) {
            const std::vector<float>& row = logits.at({0, p, i});
            const auto sample = exact.at("logits").at(p).at(i).get<std::vector<double>>();
            const auto rounded = expected.at("prompts").at(p).at("logits").at(i).get<std::vector<double>>();
            CHECK_EQUAL(sample.size(), 48);
            for (std::size_t s = 0; s < sample.size(); ++s) {
                largest = std::max(largest, std::fabs(double(row.at(s * every)) - sample[s]));
                theirs.push_back(std::fabs(rounded.at(s * coarse) - sample[s]));
            }
        }
    }
    std::sort(theirs.begin(), theirs.end());
    check.note(printed("%zu logits against exact f32 arithmetic: largest difference %.5f; llama.cpp's 99.9th percentile %.3f, "
                       "largest %.3f", theirs.size(), largest, theirs[std::size_t(double(theirs.size() - 1) * 0.999)], theirs.back()));
    CHECK_THAT(largest < 2e-3);
}

void logitsFollowLlamaCpp(Check& check) {
    SKIP_WITHOUT(model_file);
    const json expected = json::parse(read_file(KVLOUPE_SOURCE_DIR "/tests/serve/smollm2_batched.json"));
    const auto every = expected.at("sample_every").get<std::size_t>();
    const Logits& logits = forced_in_f16(check).logits;
    if (!check.good()) return;
    std::vector<double> differences;
    std::vector<Step> steps;
    for (std::uint32_t p = 0; p < 5; ++p) {
        const auto of = [&](const char* key, std::uint32_t i) -> const json& { return expected.at(key).at(p).at(i); };
        for (std::uint32_t i = 0; i < 64; ++i) {
            const std::vector<float>& row = logits.at({0, p, i});
            const auto sample = of("logits", i).get<std::vector<double>>();
            CHECK_EQUAL(sample.size(), (row.size() + every - 1) / every);
            for (std::size_t s = 0; s < sample.size(); ++s) differences.push_back(std::fabs(double(row[s * every]) - sample[s]));
            const auto theirs = of("argmax", i).get<TokenId>();
            differences.push_back(std::fabs(double(row[std::size_t(theirs)]) - of("top", i).get<double>()));
            steps.push_back({TokenId(std::max_element(row.begin(), row.end()) - row.begin()), theirs,
                             of("margin", i).get<double>()});
        }
    }
    CHECK_THAT(compare(check, "llama.cpp, one batch through BLAS", differences, steps) < 0.5);
}

void logitsFollowLlamaCppsRoundedDecoding(Check& check) {
    SKIP_WITHOUT(model_file);
    const json expected = json::parse(read_file(expected_file));
    const json& prompts = expected.at("prompts");
    const auto& [logits, prompt_tokens] = forced_in_f16(check);
    if (!check.good()) return;
    const auto every = expected.at("sample_every").get<std::size_t>();
    std::vector<double> differences;
    std::vector<Step> steps;
    for (std::uint32_t p = 0; p < prompts.size(); ++p) {
        const json& prompt = prompts[p];
        CHECK_EQUAL(prompt_tokens.at(p), prompt.at("tokens").get<std::vector<TokenId>>());
        for (std::uint32_t i = 0; i < 64; ++i) {
            const std::vector<float>& row = logits.at({0, p, i});
            CHECK_EQUAL(row.size(), expected.at("vocabulary").get<std::size_t>());
            const auto sample = prompt.at("logits").at(i).get<std::vector<double>>();
            CHECK_EQUAL(sample.size(), (row.size() + every - 1) / every);
            for (std::size_t s = 0; s < sample.size(); ++s) differences.push_back(std::fabs(double(row[s * every]) - sample[s]));
            const auto theirs = prompt.at("greedy").at(i).get<TokenId>();
            differences.push_back(std::fabs(double(row[std::size_t(theirs)]) - prompt.at("top").at(i).get<double>()));
            steps.push_back({TokenId(std::max_element(row.begin(), row.end()) - row.begin()), theirs,
                             prompt.at("margin").at(i).get<double>()});
        }
    }
    compare(check, "llama.cpp, token by token, activations rounded", differences, steps);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(logitsEqualExactArithmetic));
    claims.add(CLAIM(logitsFollowLlamaCpp));
    claims.add(CLAIM(logitsFollowLlamaCppsRoundedDecoding));
    return claims.rows();
}
