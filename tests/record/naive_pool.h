// SPDX-License-Identifier: GPL-3.0-or-later
//
// Makes up a random life of requests by the rules of naive_rules.h.
#pragma once

#include "naive_rules.h"

namespace kvloupe {

class NaivePool : public NaiveRules {
public:
    using NaiveRules::NaiveRules;

    // The events of one random step.
    std::vector<Event> step() {
        m_events.clear();
        for (unsigned i = 0, count = roll(4) + 1; i < count; ++i) act();
        for (const std::uint32_t id : m_living)
            for (const Table& table : m_sequences[id].tables)
                for (const std::uint32_t block : table) m_used[block] = m_now;
        ++m_now;
        return m_events;
    }

private:
    void arrive() {
        const auto id = static_cast<std::uint32_t>(m_sequences.size());
        m_living.insert(id);
        m_sequences[id].tables.resize(m_options.groups);
        m_sequences[id].prompt = 1 + roll(3 * m_block_size);
        tell(EventKind::arrive, id).tokens = m_sequences[id].prompt;
        if (roll(8) != 0) return;
        m_sequences[id].status = SequenceStatus::rejected;
        m_living.erase(id);
        tell(EventKind::reject, id).cause = Cause::exceeds_pool;
    }

    // A block with a hash that may be hit by the sequence, or 0. By a short hash it may be one from another place.
    std::uint32_t hit_for(const Sequence& sequence, std::uint8_t group) {
        if (m_hashed.empty()) return 0;
        auto hit = m_hashed.begin();
        std::advance(hit, roll(static_cast<unsigned>(m_hashed.size())));
        const Table& table = sequence.tables[group];
        return m_group[hit->first] != group || std::count(table.begin(), table.end(), hit->first) ? 0 : hit->first;
    }

    void admit(std::uint32_t id) {
        Sequence& sequence = m_sequences[id];
        if (sequence.status == SequenceStatus::swapped) return swap_in(id);
        tell(sequence.status == SequenceStatus::preempted ? EventKind::resume : EventKind::admit, id);
        sequence.status = SequenceStatus::running;
        // Hits on hashed blocks, owned or not, one event each, in all groups.
        for (std::uint32_t logical = 0; roll(2) == 0; ++logical) {
            Table found;
            for (std::uint8_t group = 0; group < m_options.groups; ++group) found.push_back(hit_for(sequence, group));
            if (std::count(found.begin(), found.end(), 0u)) return;
            for (std::uint8_t group = 0; group < m_options.groups; ++group) {
                m_free.remove(found[group]);
                m_held.erase(found[group]);
                Event& event = tell(EventKind::prefix_hit, id, found[group], group);
                event.tokens = m_block_size;
                if (roll(2)) event.other = logical;
                sequence.tables[group].push_back(found[group]);
                sequence.known[group] = {logical, m_hashed[found[group]].hash};
            }
            sequence.computed += m_block_size;
        }
    }

    void fork(std::uint32_t parent) {
        const auto id = static_cast<std::uint32_t>(m_sequences.size());
        const Sequence from = m_sequences[parent];
        if (from.computed == 0) return;
        const std::uint32_t position = 1 + roll(from.computed);
        const std::uint32_t shared = (position + m_block_size - 1) / m_block_size;
        Sequence& child = m_sequences[id];
        m_living.insert(id);
        child.status = SequenceStatus::running;
        child.computed = position;
        for (const Table& table : from.tables) child.tables.emplace_back(table.begin(), table.begin() + shared);
        Event& event = tell(EventKind::fork, id);
        event.other = parent;
        event.tokens = position;
    }

    // Blocks before the window become the null block; the last block stays.
    void slide(std::uint32_t id, std::uint8_t group) {
        Table& table = m_sequences[id].tables[group];
        for (std::uint32_t logical = 0; logical + 1 < table.size(); ++logical) {
            const std::uint32_t block = table[logical];
            if (block == 0 || roll(2) == 0) continue;
            table[logical] = 0;
            tell(EventKind::null_block, id, block, group).other = logical;
            give_back(id, block, Cause::out_of_window, group);
        }
    }

    // The radix tree has the block already: its own takes the place of the sequence's.
    void replace(std::uint32_t id, std::uint8_t group) {
        Sequence& sequence = m_sequences[id];
        Table& table = sequence.tables[group];
        const std::uint32_t block = hit_for(sequence, group);
        if (table.empty() || block == 0) return;
        const auto logical = static_cast<std::uint32_t>(roll(static_cast<unsigned>(table.size())));
        const std::uint32_t before = table[logical];
        if (before == 0 || (logical + 1) * m_block_size > sequence.computed) return;
        m_free.remove(block);
        m_held.erase(block);
        table[logical] = block;
        sequence.known[group] = {logical, m_hashed[block].hash};
        Event& event = tell(EventKind::prefix_hit, id, block, group);
        event.cause = Cause::duplicate_owner;
        event.other = logical;
        give_back(id, before, Cause::duplicate_owner, group);
    }

    // A region moves: every block that is the sequence's own is copied, then the old ones are given back.
    void move(std::uint32_t id) {
        Table& table = m_sequences[id].tables[0];
        Table old;
        for (std::uint32_t logical = 0; logical < table.size() && available() > 0; ++logical) {
            if (table[logical] == 0 || owners(table[logical]) > 1 || m_hashed.count(table[logical])) continue;
            const std::uint32_t copy = pop_free();
            Event& event = tell(EventKind::copy_on_write, id, table[logical]);
            event.cause = Cause::grown_by_copy;
            event.other = copy;
            event.tokens = std::min(m_block_size, m_sequences[id].computed - logical * m_block_size);
            m_group[copy] = 0;
            old.push_back(table[logical]);
            table[logical] = copy;
        }
        for (const std::uint32_t block : old) give_back(id, block, Cause::grown_by_copy, 0);
    }

    void preempt(std::uint32_t id, bool swaps) {
        Sequence& sequence = m_sequences[id];
        swaps = swaps && std::any_of(sequence.tables.begin(), sequence.tables.end(), [](const Table& table) {
                    return std::any_of(table.begin(), table.end(), [](std::uint32_t block) { return block != 0; });
                });
        tell(EventKind::preempt, id).tokens = swaps ? 0 : sequence.computed;
        sequence.status = swaps ? SequenceStatus::swapped : SequenceStatus::preempted;
        if (swaps) m_swapped[id] = sequence.tables;
        for (std::uint8_t group = 0; group < m_options.groups && swaps; ++group) {
            for (const std::uint32_t block : sequence.tables[group]) {
                if (block == 0) continue;
                tell(EventKind::swap_out, id, block, group).other = sequence.host;
                ++sequence.host;
            }
        }
        if (!swaps) sequence.computed = 0;
        release(id, swaps ? Cause::swapped_out : Cause::sequence_preempted);
    }

    void swap_in(std::uint32_t id) {
        Sequence& sequence = m_sequences[id];
        if (sequence.host > available()) return;
        const bool resumes_first = roll(2) == 0;
        const auto resume = [&] {
            Event& event = tell(EventKind::resume, id);
            event.cause = Cause::swapped_in;
            event.tokens = sequence.computed;
        };
        if (resumes_first) resume();
        for (std::uint8_t group = 0; group < m_options.groups; ++group) {
            const Table& saved = m_swapped[id][group];
            for (std::uint32_t logical = 0; logical < saved.size(); ++logical) {
                const std::uint32_t block = saved[logical] == 0 ? 0 : pop_free();
                Event& event = tell(block == 0 ? EventKind::null_block : EventKind::swap_in, id, block, group);
                event.other = block == 0 ? logical : 0;
                if (block != 0) event.tokens = std::min(m_block_size, sequence.computed - logical * m_block_size);
                if (block != 0) m_group[block] = group;
                sequence.tables[group].push_back(block);
            }
        }
        if (!resumes_first) resume();
        sequence.status = SequenceStatus::running;
        sequence.host = 0;
    }

    void finish(std::uint32_t id) {
        const unsigned how = roll(3);
        Event& event = tell(EventKind::finish, id);
        event.tokens = 5;
        event.cause = how == 0 ? Cause::sequence_cancelled : how == 1 ? Cause::sequence_failed : Cause::length_reached;
        m_sequences[id].output = 5;
        m_sequences[id].host = 0;
        m_sequences[id].status = how == 0   ? SequenceStatus::cancelled
                                 : how == 1 ? SequenceStatus::failed
                                            : SequenceStatus::finished;
        release(id, Cause::sequence_finished);
        m_living.erase(id);
    }

    void act() {
        std::vector<std::uint32_t> running, waiting;
        for (const std::uint32_t id : m_living)
            (m_sequences.at(id).status == SequenceStatus::running ? running : waiting).push_back(id);
        const unsigned what = roll(22);
        if (what < 2 && m_sequences.size() < m_options.sequences) return arrive();
        if (what < 5 && !waiting.empty()) return admit(waiting[roll(static_cast<unsigned>(waiting.size()))]);
        if (what == 5 && !waiting.empty() && roll(12) == 0) return finish(waiting.front());
        if (what == 6 && roll(20) == 0) {
            m_hashed.clear();
            for (const std::uint32_t block : m_held) m_free.push_back(block);
            m_held.clear();
            tell(EventKind::reset);
            return;
        }
        if (running.empty()) return;
        const std::uint32_t id = running[roll(static_cast<unsigned>(running.size()))];
        if (what < 15) return compute(id, roll(3) ? 1 : 1 + roll(2 * m_block_size));
        if (what == 15) return fork(id);
        if (what == 16) return slide(id, static_cast<std::uint8_t>(roll(m_options.groups)));
        if (what == 17) return preempt(id, false);
        if (what == 18) return preempt(id, true);
        if (what == 19) return replace(id, static_cast<std::uint8_t>(roll(m_options.groups)));
        if (what == 20 && roll(2)) return move(id);
        if (what == 21 && roll(2)) return finish(id);
    }
};

}  // namespace kvloupe
