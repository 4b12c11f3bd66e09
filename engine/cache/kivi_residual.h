// SPDX-License-Identifier: GPL-3.0-or-later
//
// Which tokens of a sequence KIVI keeps in codes and which, the newest ones, in f16. Pure functions.
//
// Two rules are in use (CACHE_SEMANTICS 1.7 and T3, FORMATS 3.8); both quantise whole runs of `residual` tokens while a sequence
// grows by one token at a time:
//   kivi          the paper's: what is in f16 is `computed mod residual`, after a prompt too;
//   transformers  of Hugging Face: a prompt is quantised at once, whatever its length; after it what is in f16 grows by one per
//                 token, and when it would reach `residual` everything is quantised and nothing is left.
// Blocks are quantised as a whole, so a block that the rule cuts in two stays in f16 until it is full and the rule covers it.
#pragma once

#include <cstdint>

namespace kvloupe {

enum class ResidualRule : std::uint8_t { kivi, transformers };

struct KiviResidual {
    std::uint32_t residual = 128;    // KvFormat::residual; 0: a block is quantised as soon as it is full
    std::uint32_t block_size = 32;
    ResidualRule rule = ResidualRule::kivi;

    // Tokens, from the first on, that the rule keeps in codes after `computed` tokens, of which `prompt` came at once.
    std::uint32_t quantised_tokens(std::uint32_t computed, std::uint32_t prompt) const;
    // Blocks, from the first on, that are sealed then. Never fewer than after fewer tokens.
    std::uint32_t sealed_blocks(std::uint32_t computed, std::uint32_t prompt) const {
        return quantised_tokens(computed, prompt) / block_size;
    }
    // Blocks that are kept in f16 then.
    std::uint32_t pages(std::uint32_t computed, std::uint32_t prompt) const {
        return computed / block_size + (computed % block_size != 0 ? 1 : 0) - sealed_blocks(computed, prompt);
    }
    // Pages that a step needs which takes a sequence from `before` to `after` computed tokens: what it writes lies in f16 first and
    // is sealed when the step is done.
    std::uint32_t pages_in_step(std::uint32_t before, std::uint32_t after, std::uint32_t prompt) const {
        return after / block_size + (after % block_size != 0 ? 1 : 0) - sealed_blocks(before, prompt);
    }
};

}  // namespace kvloupe
