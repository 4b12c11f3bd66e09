// SPDX-License-Identifier: GPL-3.0-or-later
//
// ChunkedLog<T>: an append-only sequence with one writer and any number of readers, without locks.
// Goals: an element never moves once it was appended (readers keep references); appending is amortised O(1) with no
// copy of what is there; a reader sees a prefix; elements of a file are read by chunks when they are first asked for, so
// that a large recording opens at once. Non-goals: removal, several writers.
// Rejected: std::vector behind a mutex (a reader that draws would stall the engine), std::deque (its map moves).
#pragma once

#include "engine/record/reading_as.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace kvloupe {

// Where the elements of a log lie that was not written by this program's run: a file.
template <class T>
class LogSource {
public:
    virtual ~LogSource() = default;
    // Fills elements first .. first + out.size() - 1; several threads may ask at once. What cannot be read stays as it was made; the
    // source remembers why.
    virtual void read(std::size_t first, std::span<T> out) = 0;
};

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
        for (std::size_t first = 0; first < count; first += chunk_size) {
            T* c = present(first >> ChunkShift);
            if (!c) continue;
            std::destroy_n(c, std::min(chunk_size, count - first));
            std::allocator<T>().deallocate(c, chunk_size);
        }
        for (auto& page : m_pages) delete page.load(std::memory_order_relaxed);
    }

    // Makes an empty log one of `count` elements that `source` reads when they are asked for. Before any reader; nothing is appended
    // afterwards. T is default constructible.
    void open(std::size_t count, std::unique_ptr<LogSource<T>> source) {
        assert(empty() && !m_source && source && count <= chunk_size * chunks_per_page * max_pages);
        m_source = std::move(source);
        for (std::size_t page = 0; page * chunks_per_page * chunk_size < count; ++page)
            m_pages[page].store(new Page(), std::memory_order_release);
        m_size.store(count, std::memory_order_release);
    }

    // Appends one element and publishes it. Writer thread only. Returns its index.
    std::size_t push_back(T value) {
        assert(!m_source);
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
        const T* c = present(chunk);
        if (!c) c = read_chunk(chunk);
        return *std::launder(c + (index & (chunk_size - 1)));
    }

    // Element `index` < size() takes no reading from a file.
    bool at_hand(std::size_t index) const { return present(index >> ChunkShift) != nullptr; }

    // Bytes of memory held by the chunks; of a file's those that were read.
    std::size_t bytes() const {
        const std::size_t chunks = m_source ? m_chunks_read.load(std::memory_order_relaxed) : (size() + chunk_size - 1) / chunk_size;
        return chunks * chunk_size * sizeof(T);
    }

private:
    using Page = std::array<std::atomic<T*>, chunks_per_page>;

    T* present(std::size_t chunk) const {
        const Page* p = m_pages[chunk / chunks_per_page].load(std::memory_order_acquire);
        return (*p)[chunk % chunks_per_page].load(std::memory_order_acquire);
    }

    // Without a lock: who reads what somebody waits for must not stand behind who reads ahead. Of two who read one chunk at once the
    // first one's stays. Those who read ahead wait for one another: they mostly walk the same way.
    const T* read_chunk(std::size_t chunk) const {
        std::unique_lock<std::mutex> ahead;
        if (ReadingAs::here() == Reading::ahead) {
            ahead = std::unique_lock(m_ahead_mutex);
            if (const T* c = present(chunk)) return c;
        }
        T* c = std::allocator<T>().allocate(chunk_size);
        const std::size_t first = chunk << ChunkShift;
        const std::size_t count = std::min(chunk_size, m_size.load(std::memory_order_relaxed) - first);
        if constexpr (std::is_default_constructible_v<T>) {
            std::uninitialized_value_construct_n(c, count);
            m_source->read(first, {c, count});
        }
        Page* p = m_pages[chunk / chunks_per_page].load(std::memory_order_relaxed);
        T* there = nullptr;
        if (!(*p)[chunk % chunks_per_page].compare_exchange_strong(there, c, std::memory_order_acq_rel)) {
            std::destroy_n(c, count);
            std::allocator<T>().deallocate(c, chunk_size);
            return there;
        }
        m_chunks_read.fetch_add(1, std::memory_order_relaxed);
        return c;
    }

    std::array<std::atomic<Page*>, max_pages> m_pages{};
    std::atomic<std::size_t> m_size{0};
    std::unique_ptr<LogSource<T>> m_source;      // of a file's log
    mutable std::mutex m_ahead_mutex;
    mutable std::atomic<std::size_t> m_chunks_read{0};
};

}  // namespace kvloupe
