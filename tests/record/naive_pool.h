// SPDX-License-Identifier: GPL-3.0-or-later
//
// A model of pool, tables and sequences written only from the rules (CACHE_SEMANTICS 1.1), with lists and maps and no
// regard for speed; it makes up a random life of requests and tells it as events.
#pragma once

#include "engine/record/lane_state.h"

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace kvloupe {

class NaivePool {
public:
    struct Sequence {
        SequenceStatus status = SequenceStatus::arrived;
        std::uint32_t prompt = 0, computed = 0, output = 0;
        std::vector<std::uint32_t> table;  // 0: the null block
    };

    NaivePool(std::uint32_t blocks, std::uint32_t block_size, unsigned seed, std::size_t sequences)
        : m_block_size(block_size), m_most(sequences), m_random(seed) {
        for (std::uint32_t block = 1; block < blocks; ++block) m_free.push_back(block);
    }

    // The events of one random step.
    std::vector<Event> step() {
        m_events.clear();
        for (unsigned i = 0, count = roll(4) + 1; i < count; ++i) act();
        return m_events;
    }

    const std::map<std::uint32_t, Sequence>& sequences() const { return m_sequences; }
    const std::list<std::uint32_t>& free_order() const { return m_free; }
    const std::set<std::uint32_t>& hashed() const { return m_hashed; }

    std::uint32_t owners(std::uint32_t block) const {
        std::uint32_t count = 0;
        for (const std::uint32_t id : m_living) {
            const auto& table = m_sequences.at(id).table;
            count += static_cast<std::uint32_t>(std::count(table.begin(), table.end(), block));
        }
        return count;
    }

    std::uint32_t filled(std::uint32_t block) const {
        if (m_hashed.count(block)) return m_block_size;
        std::uint32_t most = 0;
        for (const std::uint32_t id : m_living) {
            const Sequence& sequence = m_sequences.at(id);
            for (std::uint32_t logical = 0; logical < sequence.table.size(); ++logical)
                if (sequence.table[logical] == block && sequence.computed > logical * m_block_size)
                    most = std::max(most, std::min(m_block_size, sequence.computed - logical * m_block_size));
        }
        return most;
    }

private:
    unsigned roll(unsigned sides) { return static_cast<unsigned>(m_random() % sides); }

    Event& tell(EventKind kind, std::uint32_t sequence = Event{}.other, std::uint32_t block = Event{}.other) {
        Event event;
        event.kind = kind;
        if (sequence != event.other) event.sequence = SequenceId(sequence);
        if (block != event.other) event.block = BlockId(block);
        m_events.push_back(event);
        return m_events.back();
    }

    std::uint32_t pop_free() {
        const std::uint32_t block = m_free.front();
        m_free.pop_front();
        if (m_hashed.erase(block)) tell(EventKind::evict, Event{}.other, block).cause = Cause::block_needed;
        return block;
    }

    void release(std::uint32_t id, Cause cause) {
        Sequence& sequence = m_sequences[id];
        while (!sequence.table.empty()) {
            const std::uint32_t block = sequence.table.back();
            sequence.table.pop_back();
            if (block != 0) give_back(id, block, cause);
        }
    }

    void give_back(std::uint32_t id, std::uint32_t block, Cause cause) {
        Event& event = tell(EventKind::free, id, block);
        event.cause = cause;
        event.other = owners(block);
        if (event.other > 0) return;
        if (m_hashed.count(block)) {
            m_free.push_back(block);
        } else {
            m_free.push_front(block);
            event.flags = Event::flag_front;
        }
    }

    // Lets a sequence compute `count` tokens: copies a shared last block, opens blocks, hashes full ones now and then.
    void compute(std::uint32_t id, std::uint32_t count) {
        Sequence& sequence = m_sequences[id];
        const std::uint32_t first = sequence.computed;
        const std::uint32_t needed = (first + count + m_block_size - 1) / m_block_size;
        const bool partial = first % m_block_size != 0;
        const std::uint32_t last = first / m_block_size;
        const bool copies = partial && owners(sequence.table[last]) > 1;
        if (needed - sequence.table.size() + copies > m_free.size()) return;
        if (copies) {
            const std::uint32_t source = sequence.table[last];
            const std::uint32_t copy = pop_free();
            Event& event = tell(EventKind::copy_on_write, id, source);
            event.other = copy;
            event.tokens = first % m_block_size;
            sequence.table[last] = copy;
        } else if (partial && m_hashed.erase(sequence.table[last])) {
            tell(EventKind::evict, Event{}.other, sequence.table[last]);
        }
        while (sequence.table.size() < needed) {
            const auto logical = static_cast<std::uint32_t>(sequence.table.size());
            const std::uint32_t block = pop_free();
            tell(EventKind::allocate, id, block).other = logical;
            sequence.table.push_back(block);
        }
        sequence.computed = first + count;
        Event& event = tell(count == 1 ? EventKind::decode : EventKind::prefill, id);
        event.tokens = count;
        event.other = first;
        for (std::uint32_t logical = 0; logical < sequence.computed / m_block_size; ++logical) {
            const std::uint32_t block = sequence.table[logical];
            if (block == 0 || m_hashed.count(block) || roll(3) == 0) continue;
            m_hashed.insert(block);
            tell(EventKind::store, Event{}.other, block);
        }
    }

    void arrive() {
        const auto id = static_cast<std::uint32_t>(m_sequences.size());
        m_living.insert(id);
        m_sequences[id].prompt = 1 + roll(3 * m_block_size);
        tell(EventKind::arrive, id).tokens = m_sequences[id].prompt;
        if (roll(8) == 0) {
            m_sequences[id].status = SequenceStatus::rejected;
            m_living.erase(id);
            tell(EventKind::reject, id).cause = Cause::exceeds_pool;
        }
    }

    void admit(std::uint32_t id) {
        Sequence& sequence = m_sequences[id];
        tell(sequence.status == SequenceStatus::preempted ? EventKind::resume : EventKind::admit, id);
        sequence.status = SequenceStatus::running;
        // Hits on hashed blocks, owned or free, one event each.
        while (!m_hashed.empty() && roll(2) == 0) {
            auto hit = m_hashed.begin();
            std::advance(hit, roll(static_cast<unsigned>(m_hashed.size())));
            const std::uint32_t block = *hit;
            if (std::count(sequence.table.begin(), sequence.table.end(), block)) break;
            // Sharers hold a block at the same place, as a common prefix does.
            bool elsewhere = false;
            for (const std::uint32_t other : m_living) {
                const auto& table = m_sequences.at(other).table;
                for (std::size_t l = 0; l < table.size(); ++l)
                    elsewhere = elsewhere || (table[l] == block && l != sequence.table.size());
            }
            if (elsewhere) break;
            m_free.remove(block);
            Event& event = tell(EventKind::prefix_hit, id, block);
            event.tokens = m_block_size;
            if (roll(2)) event.other = static_cast<std::uint32_t>(sequence.table.size());
            sequence.table.push_back(block);
            sequence.computed += m_block_size;
        }
    }

    void fork(std::uint32_t parent) {
        const auto id = static_cast<std::uint32_t>(m_sequences.size());
        const Sequence from = m_sequences[parent];
        if (from.computed == 0) return;
        const std::uint32_t position = 1 + roll(from.computed);
        Sequence& child = m_sequences[id];
        m_living.insert(id);
        child.status = SequenceStatus::running;
        child.computed = position;
        const std::uint32_t shared = (position + m_block_size - 1) / m_block_size;
        child.table.assign(from.table.begin(), from.table.begin() + shared);
        if (std::all_of(child.table.begin(), child.table.end(), [](std::uint32_t block) { return block == 0; })) {
            m_sequences.erase(id);
            m_living.erase(id);
            return;
        }
        Event& event = tell(EventKind::fork, id);
        event.other = parent;
        event.tokens = position;
    }

    // Blocks before the window become the null block; the last block stays.
    void slide(std::uint32_t id) {
        Sequence& sequence = m_sequences[id];
        for (std::uint32_t logical = 0; logical + 1 < sequence.table.size(); ++logical) {
            const std::uint32_t block = sequence.table[logical];
            if (block == 0 || roll(2) == 0) continue;
            sequence.table[logical] = 0;
            Event& event = tell(EventKind::null_block, id, block);
            event.other = logical;
            give_back(id, block, Cause::out_of_window);
        }
    }

    void act() {
        std::vector<std::uint32_t> running, waiting;
        for (const std::uint32_t id : m_living)
            (m_sequences.at(id).status == SequenceStatus::running ? running : waiting).push_back(id);
        const unsigned what = roll(20);
        if (what < 2 && m_sequences.size() < m_most) return arrive();
        if (what < 5 && !waiting.empty()) return admit(waiting[roll(static_cast<unsigned>(waiting.size()))]);
        if (what == 19 && roll(10) == 0) {
            m_hashed.clear();
            tell(EventKind::reset);
            return;
        }
        if (running.empty()) return;
        const std::uint32_t id = running[roll(static_cast<unsigned>(running.size()))];
        if (what < 14) return compute(id, roll(3) ? 1 : 1 + roll(2 * m_block_size));
        if (what == 14) return fork(id);
        if (what == 15) return slide(id);
        if (what == 16) {
            Event& event = tell(EventKind::preempt, id);
            event.tokens = m_sequences[id].computed;
            m_sequences[id].computed = 0;
            m_sequences[id].status = SequenceStatus::preempted;
            return release(id, Cause::block_needed);
        }
        if (what == 17 && roll(2)) {
            const unsigned how = roll(3);
            Event& event = tell(EventKind::finish, id);
            event.tokens = 5;
            event.cause = how == 0 ? Cause::sequence_cancelled : how == 1 ? Cause::sequence_failed : Cause::length_reached;
            m_sequences[id].output = 5;
            m_sequences[id].status = how == 0   ? SequenceStatus::cancelled
                                     : how == 1 ? SequenceStatus::failed
                                                : SequenceStatus::finished;
            release(id, Cause::sequence_finished);
            m_living.erase(id);
        }
    }

    std::uint32_t m_block_size;
    std::size_t m_most;
    std::mt19937 m_random;
    std::map<std::uint32_t, Sequence> m_sequences;
    std::set<std::uint32_t> m_living;  // arrived and neither rejected nor ended
    std::list<std::uint32_t> m_free;
    std::set<std::uint32_t> m_hashed;
    std::vector<Event> m_events;
};

}  // namespace kvloupe
