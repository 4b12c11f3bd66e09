// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/emulation/block_runner.h"

#include "emulation/memory.h"
#include "tests/emulation/registry.h"

#include <bit>
#include <cstdio>
#include <cstring>

namespace kvloupe::emulation {

constinit thread_local const ThisThread* this_thread = nullptr;

namespace {

EmulatedThread& running() { return *static_cast<EmulatedThread*>(const_cast<ThisThread*>(this_thread)); }

std::string shown(const char* what, const uint3& index) {
    char text[80];
    std::snprintf(text, sizeof text, "%s (%u, %u, %u)", what, index.x, index.y, index.z);
    return text;
}

std::string hexadecimal(std::uint32_t mask) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%08x", mask);
    return text;
}

std::string place(const char* file, int line) {
    const char* slash = std::strrchr(file, '/');
    return std::string(slash != nullptr ? slash + 1 : file) + ":" + std::to_string(line);
}

}  // namespace

void BlockRunner::thread_main() {
    Fiber::entered();
    for (;;) {
        EmulatedThread& thread = running();
        BlockRunner& runner = *thread.runner;
        acquire(&runner.m_block_begins);
        runner.m_launch->body(runner.m_launch->context);
        release(&runner.m_block_ends);
        thread.returned = true;
        ++runner.m_returned;
        runner.m_warps[thread.linear / warp_lanes].alive &= ~(1u << thread.linear % warp_lanes);
        runner.give_way(thread);
    }
}

EmulatedThread* BlockRunner::next_ready() {
    if (m_ready_begin == m_ready_end) return nullptr;
    return m_threads[m_ready[m_ready_begin++ % m_ready.size()]].get();
}

void BlockRunner::give_way(EmulatedThread& thread) {
    EmulatedThread* const next = next_ready();
    this_thread = next;
    Fiber::switch_fiber(thread.fiber, next != nullptr ? next->fiber : m_scheduler);
}

void BlockRunner::start_threads(std::uint64_t block) {
    const dim3& blocks = m_launch->grid.blocks;
    const dim3& size = m_launch->grid.threads;
    m_count = size.x * size.y * size.z;
    while (m_threads.size() < m_count)
        m_threads.push_back(
            std::make_unique<EmulatedThread>(*this, static_cast<unsigned>(m_threads.size()), &thread_main));
    const uint3 block_index = {static_cast<unsigned>(block % blocks.x), static_cast<unsigned>(block / blocks.x % blocks.y),
                               static_cast<unsigned>(block / blocks.x / blocks.y)};
    for (Warp& warp : m_warps) warp.alive = warp.waiting = 0;
    for (unsigned i = 0; i < m_count; ++i) {
        EmulatedThread& thread = *m_threads[i];
        thread.thread_index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
        thread.block_index = block_index;
        thread.block_size = size;
        thread.grid_size = blocks;
        thread.first = i == 0;
        thread.returned = false;
        thread.copies_begin = thread.copies_end = thread.copy_group = 0;
        m_warps[i / warp_lanes].alive |= 1u << i % warp_lanes;
        m_at_barrier[i] = false;
        ready(i);
    }
    m_returned = m_arrived = 0;
    m_vote = m_broken = false;
}

bool BlockRunner::run(LaunchState& launch, std::uint64_t block) {
    m_launch = &launch;
    m_kernel = nullptr;
    m_shared.start_block(m_launch->grid.shared_bytes);
    m_ready_begin = m_ready_end = 0;
    start_threads(block);
    release(&m_block_begins);
    EmulatedThread* const first = next_ready();
    this_thread = first;
    Fiber::switch_fiber(m_scheduler, first->fiber);
    // Here again: nobody is ready, or a thread failed.
    if (m_returned == m_count) {
        acquire(&m_block_ends);
        return true;
    }
    if (!m_broken) {
        for (unsigned i = 0; i < m_count; ++i)
            if (!m_threads[i]->returned) {
                tell(*m_threads[i], why_nobody_goes_on(*m_threads[i]));
                break;
            }
    }
    for (unsigned i = 0; i < m_count; ++i) {
        m_threads[i]->fiber.release_suspended(&m_block_ends, m_scheduler);
        m_threads[i]->fiber.restart(&thread_main);
    }
    acquire(&m_block_ends);
    return false;
}

void BlockRunner::tell(const EmulatedThread& thread, const std::string& sentence) {
    const std::lock_guard<std::mutex> guard(m_launch->lock);
    if (m_launch->failed.exchange(true)) return;
    m_launch->failure = std::string("Kernel ") + (m_kernel != nullptr ? m_kernel : "without KVLOUPE_KERNEL") + ", " +
                       shown("block", thread.block_index) + ", " + shown("thread", thread.thread_index) + ": " + sentence;
}

void BlockRunner::abandon(EmulatedThread& thread) {
    m_broken = true;
    this_thread = nullptr;
    Fiber::switch_fiber(thread.fiber, m_scheduler);
    __builtin_unreachable();  // the fiber is restarted
}

// Why the first thread that has not returned waits in vain.
std::string BlockRunner::why_nobody_goes_on(const EmulatedThread& thread) const {
    if (m_at_barrier[thread.linear] || m_arrived > 0) {
        for (unsigned i = 0; i < m_count; ++i) {
            if (m_at_barrier[i]) continue;
            const EmulatedThread& missing = *m_threads[i];
            return "divergent __syncthreads: the block waits at " + place(m_barrier_file, m_barrier_line) + ", which " +
                   shown("thread", missing.thread_index) + " never reaches: it " +
                   (missing.returned ? "has returned" : "waits for lanes of its warp");
        }
    }
    const Warp& warp = m_warps[thread.linear / warp_lanes];
    const unsigned lane = thread.linear % warp_lanes;
    const std::uint32_t missing = warp.masks[lane] & ~warp.waiting;
    const unsigned first = static_cast<unsigned>(std::countr_zero(missing));
    return std::string("lane ") + std::to_string(lane) + " waits in " + warp.operations[lane]->name + " with mask " +
           hexadecimal(warp.masks[lane]) + " for lane " + std::to_string(first) + ", which " +
           ((warp.alive >> first & 1u) == 0 ? "has returned" : "waits elsewhere");
}

bool BlockRunner::synchronise(EmulatedThread& thread, bool vote, const char* file, int line) {
    if (m_arrived == 0) {
        m_barrier_file = file;
        m_barrier_line = line;
    } else if (line != m_barrier_line || std::strcmp(file, m_barrier_file) != 0) {
        fail(thread, [&] {
            return "divergent __syncthreads: this thread waits at " + place(file, line) + ", others wait at " +
                   place(m_barrier_file, m_barrier_line);
        });
    }
    const unsigned parity = m_parity;
    release(&m_ordered[parity]);
    m_vote = m_vote || vote;
    m_at_barrier[thread.linear] = true;
    if (++m_arrived == m_count) {
        m_results[parity] = m_vote;
        m_vote = false;
        m_arrived = 0;
        m_parity ^= 1u;
        for (unsigned i = 0; i < m_count; ++i) {
            m_at_barrier[i] = false;
            if (i != thread.linear) ready(i);
        }
    } else {
        give_way(thread);
    }
    acquire(&m_ordered[parity]);
    return m_results[parity];
}

void BlockRunner::exchange(EmulatedThread& thread, const WarpOperation& operation, std::uint32_t mask,
                           const std::uint32_t* in, unsigned words, std::uint32_t* out, unsigned results) {
    Warp& warp = m_warps[thread.linear / warp_lanes];
    const unsigned lane = thread.linear % warp_lanes;
    if ((mask >> lane & 1u) == 0)
        fail(thread, [&] { return std::string(operation.name) + " with mask " + hexadecimal(mask) + ", which does not name the lane itself"; });
    if ((mask & ~warp.alive) != 0)
        fail(thread, [&] {
            return std::string(operation.name) + " with mask " + hexadecimal(mask) + ", which names lanes that have returned or do not exist: only " +
                   hexadecimal(warp.alive) + " do";
        });
    warp.masks[lane] = mask;
    warp.operations[lane] = &operation;
    for (unsigned i = 0; i < words; ++i) warp.words[lane].in[i] = in[i];
    const auto check_same = [&](unsigned other) {
        if (warp.masks[other] == mask && warp.operations[other] == &operation) return;
        fail(thread, [&] {
            return "lane " + std::to_string(lane) + " is in " + operation.name + " with mask " + hexadecimal(mask) +
                   ", lane " + std::to_string(other) + " in " + warp.operations[other]->name + " with mask " +
                   hexadecimal(warp.masks[other]);
        });
    };
    if (const std::uint32_t others = warp.waiting & mask; others != 0)
        check_same(static_cast<unsigned>(std::countr_zero(others)));
    warp.waiting |= 1u << lane;
    const unsigned parity = warp.parity;
    if (operation.orders_memory) release(&warp.ordered[parity]);
    if ((warp.waiting & mask) == mask) {
        for (unsigned other = 0; other < warp_lanes; ++other)
            if ((mask >> other & 1u) != 0) check_same(other);
        if (const char* wrong = operation.exchange(warp.words.data(), mask); wrong != nullptr)
            fail(thread, [&] { return std::string(operation.name) + ": " + wrong; });
        warp.waiting &= ~mask;
        if (operation.orders_memory) warp.parity ^= 1u;
        const unsigned first = thread.linear - lane;
        for (unsigned other = 0; other < warp_lanes; ++other)
            if (other != lane && (mask >> other & 1u) != 0) ready(first + other);
    } else {
        give_way(thread);
    }
    if (operation.orders_memory) {
        acquire(&warp.ordered[parity]);
        // Parts of a warp meet independently, so that the parity may have changed in between.
        if (mask != 0xFFFFFFFFu) acquire(&warp.ordered[parity ^ 1u]);
    }
    for (unsigned i = 0; i < results; ++i) out[i] = warp.words[lane].out[i];
}

bool synchronise_block(bool vote, const char* file, int line) {
    EmulatedThread& thread = running();
    return thread.runner->synchronise(thread, vote, file, line);
}

void exchange(const WarpOperation& operation, std::uint32_t mask, const std::uint32_t* in, unsigned words,
              std::uint32_t* out, unsigned results) {
    EmulatedThread& thread = running();
    thread.runner->exchange(thread, operation, mask, in, words, out, results);
}

void* shared_array(const void* site, std::size_t bytes, std::size_t alignment) {
    EmulatedThread& thread = running();
    void* const array = thread.runner->shared().array(site, bytes);
    if (array == nullptr) fail_launch("more than 48 KiB of static shared memory");
    if (alignment > SharedMemory::alignment) fail_launch("a shared array that wants an alignment above 64");
    return array;
}

void* dynamic_shared() { return running().runner->shared().dynamic(); }

bool is_shared(const void* from, std::size_t bytes) { return running().runner->shared().holds(from, bytes); }

void add_copy(void* to, const void* from, unsigned bytes) {
    EmulatedThread& thread = running();
    if (thread.copies_end - thread.copies_begin == thread.copies.size())
        fail_launch("more than 256 asynchronous copies of one thread are under way");
    thread.copies[thread.copies_end++ % thread.copies.size()] = {to, from, bytes, thread.copy_group};
}

bool take_copy(unsigned groups_left, CopyInFlight& copy) {
    EmulatedThread& thread = running();
    if (thread.copies_begin == thread.copies_end) return false;
    copy = thread.copies[thread.copies_begin % thread.copies.size()];
    if (copy.group + groups_left >= thread.copy_group) return false;
    ++thread.copies_begin;
    return true;
}

void commit_copies() { ++running().copy_group; }

void note_kernel(const char* name) {
    running().runner->note_kernel(name);
    register_kernel(name);
}

void fail_launch(const char* sentence) {
    EmulatedThread& thread = running();
    thread.runner->fail(thread, [sentence] { return std::string(sentence); });
}

}  // namespace kvloupe::emulation
