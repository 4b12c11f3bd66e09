// SPDX-License-Identifier: GPL-3.0-or-later
//
// Scratch: device memory that one operation fills and uses up before the next. Grows to the largest that was asked for, so
// that a step of a shape that was seen before allocates nothing; growing forgets recorded passes, which name its address.
#pragma once

#include "kernels/cuda/card_memory.h"

#include <bit>

namespace kvloupe::cuda {

class Scratch {
public:
    Scratch(Card& card, const char* what) : m_card(card), m_what(what) {}

    Result<void> reserve(std::uint64_t bytes) {
        if (bytes <= m_memory.bytes()) return {};
        if (m_card.recording)  // the pass ran before with the same sizes, so this cannot be
            return Error{std::string(m_what) + " grew while a pass was recorded", "This is a defect of the program"};
        // In powers of two up to 64 MiB, so that growing contexts do not grow it at every step.
        constexpr std::uint64_t coarse = std::uint64_t{64} << 20;
        const std::uint64_t rounded = bytes < coarse ? std::bit_ceil(bytes) : (bytes + coarse - 1) / coarse * coarse;
        m_card.forget_passes();
        m_memory = {};  // before the larger one: both need not fit
        auto memory = CardMemory::make(m_card, rounded, Purpose::activations, m_what);
        if (!memory) return memory.error();
        m_memory = std::move(*memory);
        return {};
    }
    // The same within a step, where an error can only be kept. Null: the step has failed.
    std::byte* take(std::uint64_t bytes) {
        if (auto reserved = reserve(bytes); !reserved) {
            m_card.fault().note_in_step(reserved.error());
            return nullptr;
        }
        return m_memory.data();
    }

private:
    Card& m_card;
    const char* m_what;
    CardMemory m_memory;
};

}  // namespace kvloupe::cuda
