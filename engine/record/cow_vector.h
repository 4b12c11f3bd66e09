// SPDX-License-Identifier: GPL-3.0-or-later
//
// CowVector<T>: a vector in pages that copies share until one of them writes (copy-on-write).
// Goals: a copy costs one counted pointer per page, whatever the elements cost; a write costs at most one page; two
// copies may be read and written by two threads. Non-goals: references that outlive a write, writes by several threads
// to one object (as with std::vector).
// Rejected: a tree of pages (a copy would cost less still, but every read one more step, and pictures read millions of
// elements); std::shared_ptr for pages (twice the size, and its use_count() does not order a reader's last read before
// the writer's first write).
#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace kvloupe {

template <class T, std::size_t PageShift>
class CowVector {
    struct Page {
        std::atomic<std::uint32_t> owners{1};
        std::array<T, std::size_t{1} << PageShift> items{};

        Page() = default;
        explicit Page(const Page& other) : items(other.items) {}
    };

    class Pointer {
    public:
        Pointer() = default;
        explicit Pointer(Page* page) : m_page(page) {}
        Pointer(const Pointer& other) : m_page(other.m_page) {
            if (m_page) m_page->owners.fetch_add(1, std::memory_order_relaxed);
        }
        Pointer(Pointer&& other) noexcept : m_page(std::exchange(other.m_page, nullptr)) {}
        Pointer& operator=(Pointer other) noexcept {
            std::swap(m_page, other.m_page);
            return *this;
        }
        // Release orders what this owner read before the page's next write or end; acquire is the other side of it.
        ~Pointer() {
            if (m_page && m_page->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete m_page;
        }
        bool alone() const { return m_page->owners.load(std::memory_order_acquire) == 1; }
        Page* get() const { return m_page; }

    private:
        Page* m_page = nullptr;
    };

public:
    static constexpr std::size_t page_size = std::size_t{1} << PageShift;  // elements
    static constexpr std::size_t page_bytes = sizeof(Page);

    class const_iterator {
    public:
        using iterator_category = std::random_access_iterator_tag;
        using value_type = T;
        using difference_type = std::ptrdiff_t;
        using pointer = const T*;
        using reference = const T&;

        const_iterator() = default;
        const_iterator(const CowVector* vector, std::size_t index) : m_vector(vector), m_index(index) {}
        reference operator*() const { return (*m_vector)[m_index]; }
        pointer operator->() const { return &(*m_vector)[m_index]; }
        reference operator[](difference_type n) const { return *(*this + n); }
        const_iterator& operator+=(difference_type n) {
            m_index = static_cast<std::size_t>(static_cast<difference_type>(m_index) + n);
            return *this;
        }
        const_iterator& operator-=(difference_type n) { return *this += -n; }
        const_iterator& operator++() { return *this += 1; }
        const_iterator& operator--() { return *this += -1; }
        const_iterator operator++(int) { return std::exchange(*this, *this + 1); }
        const_iterator operator--(int) { return std::exchange(*this, *this - 1); }
        friend const_iterator operator+(const_iterator i, difference_type n) { return i += n; }
        friend const_iterator operator+(difference_type n, const_iterator i) { return i += n; }
        friend const_iterator operator-(const_iterator i, difference_type n) { return i -= n; }
        friend difference_type operator-(const_iterator a, const_iterator b) {
            return static_cast<difference_type>(a.m_index) - static_cast<difference_type>(b.m_index);
        }
        friend bool operator==(const_iterator a, const_iterator b) { return a.m_index == b.m_index; }
        friend auto operator<=>(const_iterator a, const_iterator b) { return a.m_index <=> b.m_index; }

    private:
        const CowVector* m_vector = nullptr;
        std::size_t m_index = 0;
    };
    using value_type = T;
    using iterator = const_iterator;

    CowVector() = default;
    // `count` equal elements; all full pages are one page until they are written.
    CowVector(std::size_t count, const T& value) : m_size(count) {
        if (count == 0) return;
        Pointer page(new Page());
        page.get()->items.fill(value);
        m_pages.assign((count + page_size - 1) / page_size, page);
    }

    CowVector(const CowVector&) = default;
    CowVector& operator=(const CowVector&) = default;
    CowVector(CowVector&& other) noexcept
        : m_pages(std::exchange(other.m_pages, {})), m_size(std::exchange(other.m_size, 0)) {}
    CowVector& operator=(CowVector&& other) noexcept {
        m_pages = std::exchange(other.m_pages, {});
        m_size = std::exchange(other.m_size, 0);
        return *this;
    }
    ~CowVector() = default;

    std::size_t size() const { return m_size; }
    bool empty() const { return m_size == 0; }
    const T& operator[](std::size_t index) const {
        assert(index < m_size);
        return m_pages[index >> PageShift].get()->items[index & (page_size - 1)];
    }
    const T& front() const { return (*this)[0]; }
    const T& back() const { return (*this)[m_size - 1]; }
    const_iterator begin() const { return {this, 0}; }
    const_iterator end() const { return {this, m_size}; }
    std::reverse_iterator<const_iterator> rbegin() const { return std::reverse_iterator(end()); }
    std::reverse_iterator<const_iterator> rend() const { return std::reverse_iterator(begin()); }
    std::vector<T> to_vector() const { return std::vector<T>(begin(), end()); }

    // Writes. The bytes of pages that a write had to make, because there were none or others hold them too, are added
    // to `made`.
    T& edit(std::size_t index, std::uint64_t& made) {
        assert(index < m_size);
        Pointer& page = m_pages[index >> PageShift];
        if (!page.alone()) {
            page = Pointer(new Page(*page.get()));
            made += page_bytes;
        }
        return page.get()->items[index & (page_size - 1)];
    }
    void push_back(T value, std::uint64_t& made) {
        if (m_size == m_pages.size() * page_size) {
            m_pages.emplace_back(new Page());
            made += page_bytes;
        }
        ++m_size;
        edit(m_size - 1, made) = std::move(value);
    }
    void resize(std::size_t count, const T& value, std::uint64_t& made) {
        while (m_size < count) push_back(value, made);
        while (m_size > count) pop_back();
    }
    void pop_back() {
        --m_size;
        if (m_size == (m_pages.size() - 1) * page_size) m_pages.pop_back();
    }
    void clear() {
        m_pages.clear();
        m_size = 0;
    }

    // Bytes of all pages, those that copies share included; what elements hold themselves is not counted.
    std::uint64_t bytes() const { return m_pages.size() * page_bytes + own_bytes(); }
    // Bytes of what is never shared: the list of pages.
    std::uint64_t own_bytes() const { return m_pages.capacity() * sizeof(Pointer); }

    friend bool operator==(const CowVector& a, const CowVector& b) {
        if (a.m_size != b.m_size) return false;
        for (std::size_t page = 0; page < a.m_pages.size(); ++page) {
            if (a.m_pages[page].get() == b.m_pages[page].get()) continue;
            const std::size_t end = a.m_size < (page + 1) * page_size ? a.m_size : (page + 1) * page_size;
            for (std::size_t i = page * page_size; i < end; ++i)
                if (!(a[i] == b[i])) return false;
        }
        return true;
    }

private:
    std::vector<Pointer> m_pages;
    std::size_t m_size = 0;
};

}  // namespace kvloupe
