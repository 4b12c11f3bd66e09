// SPDX-License-Identifier: GPL-3.0-or-later
//
// Memory of a card, and pinned main memory that its kernels reach. Both are counted as they are taken and given back.
#pragma once

#include "kernels/cuda/card.h"

#include <cstddef>
#include <string>
#include <utility>

namespace kvloupe::cuda {

// "1.50 GiB", "12.0 MiB", "640 bytes"
std::string size_text(std::uint64_t bytes);

// One allocation on the card, aligned to 256 bytes at least. Giving it back waits for what runs there (cudaFree does).
class CardMemory {
public:
    CardMemory() = default;
    // Errors: not enough memory, with the sizes; the card's fault. what: "the KV cache".
    static Result<CardMemory> make(Card& card, std::uint64_t bytes, Purpose purpose, const std::string& what);
    ~CardMemory() { release(); }
    CardMemory(CardMemory&& other) noexcept { swap(other); }
    CardMemory& operator=(CardMemory&& other) noexcept {
        if (this != &other) {
            release();
            swap(other);
        }
        return *this;
    }

    std::byte* data() const { return m_data; }
    std::uint64_t bytes() const { return m_bytes; }
    template <class T>
    T* as(std::uint64_t offset = 0) const {
        return reinterpret_cast<T*>(m_data + offset);
    }

private:
    void release();
    void swap(CardMemory& other) {
        std::swap(m_card, other.m_card);
        std::swap(m_data, other.m_data);
        std::swap(m_bytes, other.m_bytes);
        std::swap(m_purpose, other.m_purpose);
    }
    Card* m_card = nullptr;
    std::byte* m_data = nullptr;
    std::uint64_t m_bytes = 0;
    Purpose m_purpose = Purpose::activations;
};

// Pinned main memory: asynchronous copies read and write it directly, kernels through device().
class PinnedMemory {
public:
    PinnedMemory() = default;
    // counted: as host blocks; other pinned memory is a small staging area of the program itself.
    static Result<PinnedMemory> make(Card& card, std::uint64_t bytes, bool counted, const std::string& what);
    ~PinnedMemory() { release(); }
    PinnedMemory(PinnedMemory&& other) noexcept { swap(other); }
    PinnedMemory& operator=(PinnedMemory&& other) noexcept {
        if (this != &other) {
            release();
            swap(other);
        }
        return *this;
    }

    std::byte* data() const { return m_data; }
    std::byte* device() const { return m_device; }  // the same memory, as kernels name it
    std::uint64_t bytes() const { return m_bytes; }

private:
    void release();
    void swap(PinnedMemory& other) {
        std::swap(m_card, other.m_card);
        std::swap(m_data, other.m_data);
        std::swap(m_device, other.m_device);
        std::swap(m_bytes, other.m_bytes);
        std::swap(m_counted, other.m_counted);
    }
    Card* m_card = nullptr;
    std::byte* m_data = nullptr;
    std::byte* m_device = nullptr;
    std::uint64_t m_bytes = 0;
    bool m_counted = false;
};

}  // namespace kvloupe::cuda
