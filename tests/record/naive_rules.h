// SPDX-License-Identifier: GPL-3.0-or-later
//
// A model of pool, tables and sequences written only from the rules (CACHE_SEMANTICS 1.1, 1.2, 1.4), with lists and maps
// and no regard for speed, that tells what happens as events.
#pragma once

#include "engine/record/lane_state.h"

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace kvloupe {

struct NaiveOptions {
    std::uint32_t blocks = 12;
    std::uint32_t block_size = 4;
    unsigned seed = 1;
    std::size_t sequences = 300;
    std::uint8_t groups = 1;
    bool radix = false;  // hashed blocks are held when nobody owns them
};

class NaiveRules {
public:
    using Table = std::vector<std::uint32_t>;  // 0: the null block
    struct Sequence {
        SequenceStatus status = SequenceStatus::arrived;
        std::uint32_t prompt = 0, computed = 0, output = 0, host = 0;
        std::vector<Table> tables;                                         // (groups)
        std::map<std::uint8_t, std::pair<std::uint32_t, std::uint64_t>> known;  // group: block stored or hit last, its hash
    };
    struct Hash {
        std::uint64_t hash = 0, parent = 0;
    };

    explicit NaiveRules(const NaiveOptions& options)
        : m_options(options), m_block_size(options.block_size), m_random(options.seed) {
        for (std::uint32_t block = 1; block < options.blocks; ++block) m_free.push_back(block);
    }

    const std::map<std::uint32_t, Sequence>& sequences() const { return m_sequences; }
    const std::list<std::uint32_t>& free_order() const { return m_free; }
    const std::map<std::uint32_t, Hash>& hashed() const { return m_hashed; }
    const std::set<std::uint32_t>& held() const { return m_held; }
    std::uint32_t born(std::uint32_t block) const {
        const bool content = owners(block) > 0 || m_hashed.count(block) > 0;
        return content ? m_born.at(block) : BlockState::no_step;
    }
    std::uint32_t last_use(std::uint32_t block) const {
        return m_used.count(block) ? m_used.at(block) : BlockState::no_step;
    }

    std::uint32_t owners(std::uint32_t block) const {
        std::uint32_t count = 0;
        for (const std::uint32_t id : m_living)
            for (const Table& table : m_sequences.at(id).tables)
                count += static_cast<std::uint32_t>(std::count(table.begin(), table.end(), block));
        return count;
    }

    std::uint32_t filled(std::uint32_t block) const {
        if (m_hashed.count(block)) return m_block_size;
        std::uint32_t most = 0;
        for (const std::uint32_t id : m_living) {
            const Sequence& sequence = m_sequences.at(id);
            for (const Table& table : sequence.tables)
                for (std::uint32_t logical = 0; logical < table.size(); ++logical)
                    if (table[logical] == block && sequence.computed > logical * m_block_size)
                        most = std::max(most, std::min(m_block_size, sequence.computed - logical * m_block_size));
        }
        return most;
    }

protected:
    unsigned roll(unsigned sides) { return static_cast<unsigned>(m_random() % sides); }

    Event& tell(EventKind kind, std::uint32_t sequence = Event{}.other, std::uint32_t block = Event{}.other,
                std::uint8_t group = 0) {
        Event event;
        event.kind = kind;
        event.group = group;
        if (sequence != event.other) event.sequence = SequenceId(sequence);
        if (block != event.other) event.block = BlockId(block);
        m_events.push_back(event);
        return m_events.back();
    }

    std::size_t available() const { return m_free.size() + m_held.size(); }

    std::uint32_t pop_free() {
        if (m_free.empty()) {  // some block of the tree goes
            const std::uint32_t block = *m_held.begin();
            m_held.erase(block);
            m_hashed.erase(block);
            const bool front = roll(2) == 0;
            Event& event = tell(EventKind::evict, Event{}.other, block);
            event.cause = Cause::leaf_evicted;
            event.flags = Event::flag_released | (front ? Event::flag_front : std::uint8_t{0});
            m_free.push_back(block);
        }
        const std::uint32_t block = m_free.front();
        m_free.pop_front();
        if (m_hashed.erase(block)) tell(EventKind::evict, Event{}.other, block).cause = Cause::block_needed;
        m_born[block] = m_now;
        return block;
    }

    void release(std::uint32_t id, Cause cause) {
        Sequence& sequence = m_sequences[id];
        for (std::uint8_t group = 0; group < m_options.groups; ++group) {
            Table& table = sequence.tables[group];
            while (!table.empty()) {
                const std::uint32_t block = table.back();
                table.pop_back();
                if (block != 0) give_back(id, block, cause, group);
            }
        }
    }

    void give_back(std::uint32_t id, std::uint32_t block, Cause cause, std::uint8_t group) {
        m_used[block] = m_now;
        Event& event = tell(EventKind::free, id, block, group);
        event.cause = cause;
        event.other = owners(block);
        if (event.other > 0) return;
        if (m_hashed.count(block) && m_options.radix) {
            m_held.insert(block);
            event.flags = Event::flag_held;
        } else if (m_hashed.count(block)) {
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
        std::size_t takes = 0;
        for (const Table& table : sequence.tables) {
            takes += needed - table.size() + (partial && owners(table[last]) > 1);
            if (partial && table[last] == 0) return;  // a fork that the window has left behind
        }
        if (takes > available()) return;
        for (std::uint8_t group = 0; group < m_options.groups; ++group) {
            Table& table = sequence.tables[group];
            if (partial && owners(table[last]) > 1) {
                const std::uint32_t source = table[last];
                const std::uint32_t copy = pop_free();
                Event& event = tell(EventKind::copy_on_write, id, source, group);
                event.other = copy;
                event.tokens = first % m_block_size;
                m_group[copy] = group;
                table[last] = copy;
                m_used[source] = m_now;
            } else if (partial && m_hashed.erase(table[last])) {
                tell(EventKind::evict, Event{}.other, table[last], group);
            }
            while (table.size() < needed) {
                const auto logical = static_cast<std::uint32_t>(table.size());
                const std::uint32_t block = pop_free();
                m_group[block] = group;
                tell(EventKind::allocate, id, block, group).other = logical;
                table.push_back(block);
            }
        }
        sequence.computed = first + count;
        Event& event = tell(count == 1 ? EventKind::decode : EventKind::prefill, id);
        event.tokens = count;
        event.other = first;
        for (std::uint8_t group = 0; group < m_options.groups; ++group) store(id, group);
    }

    void store(std::uint32_t id, std::uint8_t group) {
        Sequence& sequence = m_sequences[id];
        const Table& table = sequence.tables[group];
        for (std::uint32_t logical = 0; logical < sequence.computed / m_block_size; ++logical) {
            const std::uint32_t block = table[logical];
            if (block == 0 || m_hashed.count(block) || roll(3) == 0) continue;
            const auto known = sequence.known.find(group);
            Hash hash{m_random(), 0};
            if (logical > 0 && m_hashed.count(table[logical - 1])) hash.parent = m_hashed[table[logical - 1]].hash;
            else if (known != sequence.known.end() && known->second.first + 1 == logical && logical > 0)
                hash.parent = known->second.second;
            m_hashed[block] = hash;
            sequence.known[group] = {logical, hash.hash};
            Event& event = tell(EventKind::store, id, block, group);
            event.other = static_cast<std::uint32_t>(hash.hash >> 32);
            event.tokens = static_cast<std::uint32_t>(hash.hash);
        }
    }

    NaiveOptions m_options;
    std::uint32_t m_block_size;
    std::mt19937_64 m_random;
    std::map<std::uint32_t, Sequence> m_sequences;
    std::set<std::uint32_t> m_living;  // arrived and neither rejected nor ended
    std::list<std::uint32_t> m_free;
    std::map<std::uint32_t, Hash> m_hashed;
    std::set<std::uint32_t> m_held;
    std::map<std::uint32_t, std::uint32_t> m_born, m_used;
    std::map<std::uint32_t, std::uint8_t> m_group;
    std::map<std::uint32_t, std::vector<Table>> m_swapped;
    std::uint32_t m_now = 0;
    std::vector<Event> m_events;
};

}  // namespace kvloupe
