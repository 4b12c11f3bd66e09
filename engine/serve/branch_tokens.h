// SPDX-License-Identifier: GPL-3.0-or-later
//
// BranchTokens: the output tokens that a branch takes from the lane that it continues: by sequence name and position, of the steps
// before the branch.
#pragma once

#include "engine/record/recording.h"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace kvloupe {

class BranchTokens {
public:
    // at_step: the first step of the parent whose tokens are no longer taken.
    explicit BranchTokens(std::uint32_t at_step) : m_at_step(at_step) {}

    // Reads the parent's steps that were not read yet, as far as they count; from an earlier recording of the same run as well.
    void learn(const Recording& recording, const LaneRecord& parent);
    // All steps that count were read.
    bool complete() const { return m_learned >= m_at_step; }

    // The token at the position of the sequence, or -1: the branch's own.
    TokenId at(const std::string& sequence, std::uint32_t position) const;

private:
    std::uint32_t m_at_step;
    std::uint32_t m_learned = 0;   // steps
    std::unordered_map<std::string, std::unordered_map<std::uint32_t, TokenId>> m_tokens;  // by sequence and position
};

}  // namespace kvloupe
