// SPDX-License-Identifier: GPL-3.0-or-later
//
// HostPool: blocks of host memory for sequences that were swapped out. O(1); the lowest ids are handed out first.
#pragma once

#include <cstdint>
#include <vector>

namespace kvloupe {

class HostPool {
public:
    explicit HostPool(std::uint32_t blocks) : m_size(blocks) {}

    std::uint32_t used() const { return m_taken - static_cast<std::uint32_t>(m_given_back.size()); }
    std::uint32_t free() const { return m_size - used(); }

    // free() > 0.
    std::uint32_t take() {
        if (m_given_back.empty()) return m_taken++;
        const std::uint32_t id = m_given_back.back();
        m_given_back.pop_back();
        return id;
    }
    void give_back(std::uint32_t id) { m_given_back.push_back(id); }

private:
    std::uint32_t m_size;
    std::uint32_t m_taken = 0;                // ids 0 .. m_taken - 1 have been handed out at least once
    std::vector<std::uint32_t> m_given_back;  // last one next
};

}  // namespace kvloupe
