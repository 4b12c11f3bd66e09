// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/kivi_residual.h"
#include "tests/support/claims.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// The paper's rule, step by step: what is in f16 grows by one, and at `residual` all of it is quantised; a prompt leaves its
// length mod `residual`.
void kivisRuleIsThatOfThePaper(Check& check) {
    for (const std::uint32_t residual : {32u, 128u})
        for (const std::uint32_t prompt : {1u, 31u, 32u, 100u, 128u, 129u, 500u}) {
            const KiviResidual rule{residual, 16, ResidualRule::kivi};
            std::uint32_t in_f16 = prompt % residual;
            for (std::uint32_t computed = prompt; computed < prompt + 300; ++computed) {
                CHECK_EQUAL(computed - rule.quantised_tokens(computed, prompt), in_f16);
                CHECK_EQUAL(rule.sealed_blocks(computed, prompt), (computed - in_f16) / 16);
                if (++in_f16 == residual) in_f16 = 0;
            }
        }
}

// T3: the prompt is quantised at once; then what is in f16 grows by one per token, and when it would reach 128 it is empty.
void transformersQuantisesThePromptAtOnce(Check& check) {
    for (const std::uint32_t prompt : {1u, 100u, 128u, 300u}) {
        const KiviResidual rule{128, 32, ResidualRule::transformers};
        CHECK_EQUAL(rule.quantised_tokens(prompt, prompt), prompt);
        std::uint32_t in_f16 = 0;
        for (std::uint32_t computed = prompt + 1; computed < prompt + 600; ++computed) {
            in_f16 = in_f16 + 1 >= 128 ? 0 : in_f16 + 1;  // QuantizedLayer.update
            CHECK_EQUAL(computed - rule.quantised_tokens(computed, prompt), in_f16);
        }
    }
    CHECK_EQUAL((KiviResidual{128, 32, ResidualRule::transformers}.quantised_tokens(40, 100)), 40u);  // a prompt in chunks
}

// Blocks are sealed whole and stay sealed; pages are what is left of the sequence.
void blocksAreSealedOnceAndWhole(Check& check) {
    for (const ResidualRule kind : {ResidualRule::kivi, ResidualRule::transformers})
        for (const std::uint32_t prompt : {1u, 50u, 64u, 200u}) {
            const KiviResidual rule{64, 32, kind};
            std::uint32_t before = 0;
            for (std::uint32_t computed = prompt; computed < prompt + 300; ++computed) {
                const std::uint32_t sealed = rule.sealed_blocks(computed, prompt);
                CHECK_THAT(sealed >= before);
                CHECK_THAT(sealed * 32 <= computed);
                CHECK_EQUAL(rule.pages(computed, prompt), (computed + 31) / 32 - sealed);
                if (computed > prompt) CHECK_THAT(rule.pages_in_step(computed - 1, computed, prompt) <= 64 / 32 + 2);
                before = sealed;
            }
        }
    const KiviResidual rule{64, 32, ResidualRule::kivi};
    CHECK_EQUAL(rule.sealed_blocks(63, 10), 0u);
    CHECK_EQUAL(rule.sealed_blocks(64, 10), 2u);
    CHECK_EQUAL(rule.pages(63, 10), 2u);
    CHECK_EQUAL(rule.pages(64, 10), 0u);
    CHECK_EQUAL(rule.pages_in_step(63, 64, 10), 2u);
    CHECK_EQUAL(rule.pages_in_step(0, 200, 200), 7u);
    CHECK_EQUAL((KiviResidual{0, 32, ResidualRule::kivi}.sealed_blocks(70, 10)), 2u);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(kivisRuleIsThatOfThePaper));
    claims.add(CLAIM(transformersQuantisesThePromptAtOnce));
    claims.add(CLAIM(blocksAreSealedOnceAndWhole));
    return claims.rows();
}
