// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/branch_tokens.h"

#include "engine/record/describe.h"

#include <algorithm>

namespace kvloupe {

void BranchTokens::learn(const Recording& recording, const LaneRecord& parent) {
    const auto steps = static_cast<std::uint32_t>(std::min<std::size_t>(parent.step_count(), m_at_step));
    for (; m_learned < steps; ++m_learned) {
        const LogRange range = parent.step(m_learned).tokens;
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
            const TokenRecord token = parent.tokens()[i];
            if (token.source == TokenRecord::prompt) continue;
            m_tokens[sequence_name(recording, parent, token.sequence)][token.position] = token.token;
        }
    }
}

TokenId BranchTokens::at(const std::string& sequence, std::uint32_t position) const {
    const auto found = m_tokens.find(sequence);
    if (found == m_tokens.end()) return -1;
    const auto token = found->second.find(position);
    return token == found->second.end() ? -1 : token->second;
}

}  // namespace kvloupe
