// SPDX-License-Identifier: GPL-3.0-or-later
//
// ChunkedLog<T>: an append-only sequence with one writer and any number of readers, without locks.
// Goals: an element never moves once it was appended (readers keep references); appending is amortised O(1) with no
// copy of what is there; a reader sees a prefix. Non-goals: removal, several writers.
// Rejected: std::vector behind a mutex (a reader that draws would stall the engine), std::deque (its map moves).
#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace kvloupe {

template <class T, std::size_t ChunkShift = 12>
class ChunkedLog {
public:
    static constexpr std::size_t chunk_size = std::size_t{1} << ChunkShift;
    static constexpr std::size_t chunks_per_page = 1024;
    static constexpr std::size_t max_pages = 1024;

    ChunkedLog() = default;
    ChunkedLog(const ChunkedLog&) = delete;
    ChunkedLog& operator=(const ChunkedLog&) = delete;
    ~ChunkedLog() {
        const std::size_t count = m_size.load(std::memory_order_relaxed);
        for (std::size_t i = 0; i < count; ++i) at(i).~T();
        for (auto& page : m_pages) {
            Page* p = page.load(std::memory_order_relaxed);
            if (!p) break;
            for (auto& chunk : *p) {
                T* c = chunk.load(std::memory_order_relaxed);
                if (!c) break;
                std::allocator<T>().deallocate(c, chunk_size);
            }
            delete p;
        }
    }

    // Appends one element and publishes it. Writer thread only. Returns its index.
    std::size_t push_back(T value) {
        const std::size_t index = m_size.load(std::memory_order_relaxed);
        const std::size_t chunk = index >> ChunkShift;
        const std::size_t page = chunk / chunks_per_page;
        assert(page < max_pages);
        Page* p = m_pages[page].load(std::memory_order_relaxed);
        if (!p) {
            p = new Page();
            m_pages[page].store(p, std::memory_order_release);
        }
        T* c = (*p)[chunk % chunks_per_page].load(std::memory_order_relaxed);
        if (!c) {
            c = std::allocator<T>().allocate(chunk_size);
            (*p)[chunk % chunks_per_page].store(c, std::memory_order_release);
        }
        ::new (static_cast<void*>(c + (index & (chunk_size - 1)))) T(std::move(value));
        m_size.store(index + 1, std::memory_order_release);
        return index;
    }

    // Number of published elements; any thread. What lies below never changes.
    std::size_t size() const { return m_size.load(std::memory_order_acquire); }
    bool empty() const { return size() == 0; }

    // Element `index` < size() as this thread has seen it.
    const T& operator[](std::size_t index) const {
        const std::size_t chunk = index >> ChunkShift;
        const Page* p = m_pages[chunk / chunks_per_page].load(std::memory_order_acquire);
        const T* c = (*p)[chunk % chunks_per_page].load(std::memory_order_acquire);
        return *std::launder(c + (index & (chunk_size - 1)));
    }

    // Bytes of memory held by the chunks.
    std::size_t bytes() const { return (size() + chunk_size - 1) / chunk_size * chunk_size * sizeof(T); }

private:
    using Page = std::array<std::atomic<T*>, chunks_per_page>;

    T& at(std::size_t index) { return const_cast<T&>((*this)[index]); }

    std::array<std::atomic<Page*>, max_pages> m_pages{};
    std::atomic<std::size_t> m_size{0};
};

}  // namespace kvloupe
