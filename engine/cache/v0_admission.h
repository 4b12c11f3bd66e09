// SPDX-License-Identifier: GPL-3.0-or-later
//
// vLLM v0's answer to "can this prompt be admitted?" (CACHE_SEMANTICS 1.2), for comparison with the rules of v1.
#pragma once

#include <cstdint>

namespace kvloupe {

enum class V0Admission : std::uint8_t { ok, later, never };

// blocks: of the whole pool and free; needed: by the prompt; watermark: left untouched (v0: 0.01 of the pool).
constexpr V0Admission v0_admission(std::uint64_t blocks, std::uint64_t free, std::uint64_t needed, std::uint64_t watermark) {
    if (blocks < needed + watermark) return V0Admission::never;
    return free >= needed + watermark ? V0Admission::ok : V0Admission::later;
}

}  // namespace kvloupe
