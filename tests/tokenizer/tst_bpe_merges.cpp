// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/bpe_merges.h"
#include "tests/support/claims.h"

#include <map>
#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

using Pairs = std::map<std::pair<TokenId, TokenId>, std::pair<std::size_t, TokenId>>;

// The rule word by word: the lowest rank, the leftmost of it, again and again.
std::vector<TokenId> merged_slowly(const Pairs& pairs, std::vector<TokenId> tokens) {
    while (true) {
        std::size_t best = tokens.size();
        std::size_t best_rank = 0;
        for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
            const auto it = pairs.find({tokens[i], tokens[i + 1]});
            if (it == pairs.end() || (best != tokens.size() && it->second.first >= best_rank)) continue;
            best = i;
            best_rank = it->second.first;
        }
        if (best == tokens.size()) return tokens;
        tokens[best] = pairs.at({tokens[best], tokens[best + 1]}).second;
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
}

void equalsTheRuleOnRandomVocabularies(Check& check) {
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
        BpeMerges merges;
        Pairs pairs;
        TokenId next = 4;
        for (int n = 0; n < 40; ++n) {
            const auto left = static_cast<TokenId>(random() % static_cast<unsigned>(next));
            const auto right = static_cast<TokenId>(random() % static_cast<unsigned>(next));
            const bool is_new = pairs.try_emplace({left, right}, pairs.size(), next).second;
            CHECK_EQUAL(merges.add(left, right, next), is_new);
            if (is_new) ++next;
        }
        for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{16}, std::size_t{17}, std::size_t{80}}) {
            std::vector<TokenId> tokens(length);
            for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 4);
            const std::vector<TokenId> expected = merged_slowly(pairs, tokens);
            tokens.resize(merges.apply(tokens));
            CHECK_EQUAL(tokens, expected);
        }
    }
}

// A quadratic merge would need 10^12 steps here and run into the test's limit.
void aMillionEqualLettersAreMerged(Check& check) {
    BpeMerges merges;
    merges.add(0, 0, 1);
    merges.add(1, 1, 2);
    std::vector<TokenId> tokens(1000003, 0);
    tokens.resize(merges.apply(tokens));
    CHECK_EQUAL(tokens.size(), std::size_t{250002});
    CHECK_EQUAL(tokens.front(), 2);
    CHECK_EQUAL(tokens[250000], 1);
    CHECK_EQUAL(tokens.back(), 0);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(equalsTheRuleOnRandomVocabularies));
    claims.add(CLAIM(aMillionEqualLettersAreMerged));
    return claims.rows();
}
