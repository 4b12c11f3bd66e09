// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/demo_paged.h"

#include <algorithm>

namespace kvloupe {

DemoPaged::DemoPaged(RecordingWriter& writer, LaneWriter& lane, const DemoSharingOptions& options)
    : DemoEngine(writer, lane, options),
      m_radix(m_info.policy.prefix_index == "radix"),
      m_swap(m_info.policy.preemption == "swap"),
      m_groups(static_cast<std::uint8_t>(m_info.policy.groups.size())),
      m_host_left(m_info.policy.host_blocks) {}

std::uint64_t DemoPaged::most_slots() const {
    return std::uint64_t{(m_info.blocks - 1) / m_groups} * m_info.block_size;
}

std::uint32_t DemoPaged::available() const {
    return m_info.blocks - 1 - state().used_blocks();  // cached blocks are free as soon as they are needed
}

std::uint64_t DemoPaged::hash_of(Sequence& sequence, std::size_t block) {
    while (sequence.hashes.size() <= block) {
        std::uint64_t hash = sequence.hashes.empty() ? 0x4e1195df020de59eu : sequence.hashes.back();
        for (std::size_t t = sequence.hashes.size() * m_info.block_size;
             t < (sequence.hashes.size() + 1) * m_info.block_size; ++t)
            hash = demo_mix(hash, static_cast<std::uint64_t>(sequence.tokens[t]));
        sequence.hashes.push_back(hash);
    }
    return sequence.hashes[block];
}

void DemoPaged::forget(BlockId block) {
    const BlockState& one = state().blocks()[block.value];
    if (!one.hashed) return;
    const auto found = m_index.find(one.hash);
    if (found == m_index.end()) return;
    std::erase(found->second, block);
    if (found->second.empty()) m_index.erase(found);
    if (m_radix && one.parent_hash != 0) --m_children[one.parent_hash];
}

// The least recently used block of the tree that nobody owns and nothing follows.
void DemoPaged::evict_leaf(SequenceId taker) {
    while (!m_leaves.empty()) {
        const auto [used, block] = *m_leaves.begin();
        m_leaves.erase(m_leaves.begin());
        const BlockState& one = state().blocks()[block];
        if (!one.held || one.last_use != used || m_children[one.hash] > 0) continue;
        const std::uint64_t parent = one.parent_hash;
        Event event = DemoEngine::event(EventKind::evict, Cause::leaf_evicted, taker);
        event.block = BlockId(block);
        event.flags = Event::flag_released | Event::flag_front;
        event.group = one.group;
        forget(event.block);
        emit(event);
        if (const auto above = m_index.find(parent); above != m_index.end()) {
            const BlockId up = above->second.front();
            if (state().blocks()[up.value].held) m_leaves.emplace(state().blocks()[up.value].last_use, up.value);
        }
        return;
    }
}

BlockId DemoPaged::pop_free(SequenceId taker) {
    if (m_radix && state().free_order(1).empty()) evict_leaf(taker);
    const BlockId block = state().free_order(1).front();
    if (state().blocks()[block.value].hashed) {
        forget(block);
        Event event = DemoEngine::event(EventKind::evict, Cause::block_needed, taker);
        event.block = block;
        event.group = state().blocks()[block.value].group;
        emit(event);
    }
    return block;
}

bool DemoPaged::must_copy(const Sequence& sequence, std::uint8_t group) const {
    if (sequence.computed % m_info.block_size == 0) return false;
    const TableState& table = state().table(sequence.id, group);
    const std::uint32_t logical = sequence.computed / m_info.block_size;
    return logical < table.size() && state().blocks()[table[logical].value].owners > 1;
}

std::uint32_t DemoPaged::needed(const Sequence& sequence, std::uint32_t count) const {
    std::uint32_t blocks = 0;
    for (std::uint8_t group = 0; group < m_groups; ++group) {
        const auto held = static_cast<std::uint32_t>(state().table(sequence.id, group).size());
        const std::uint32_t wanted = blocks_for(std::uint64_t{sequence.computed} + count);
        blocks += (wanted > held ? wanted - held : 0) + must_copy(sequence, group);
    }
    return blocks;
}

// Blocks wholly before what the window still sees become the null block, the last of them first.
void DemoPaged::slide(Sequence& sequence) {
    for (std::uint8_t group = 0; group < m_groups; ++group) {
        const CachePolicy::Group& sees = m_info.policy.groups[group];
        if (sees.window == 0 || sequence.computed + 1 <= sees.window) continue;
        const std::uint32_t end = (sequence.computed + 1 - sees.window) / m_info.block_size;
        const std::uint32_t begin = blocks_for(sees.sinks);
        for (std::uint32_t logical = end; logical-- > begin;) {
            const TableState& table = state().table(sequence.id, group);
            if (logical >= table.size()) continue;
            if (table[logical] == null_block_id) break;
            Event event = DemoEngine::event(EventKind::null_block, Cause::out_of_window, sequence.id);
            event.block = table[logical];
            event.other = logical;
            event.group = group;
            emit(event);
            const BlockState& block = state().blocks()[event.block.value];
            event.kind = EventKind::free;
            event.other = block.owners - 1;
            event.flags = block.owners == 1 && !block.hashed ? Event::flag_front : std::uint8_t{0};
            emit(event);
        }
    }
}

// Slots for the next `count` tokens; there must be room.
void DemoPaged::write_to(Sequence& sequence, std::uint32_t count) {
    for (std::uint8_t group = 0; group < m_groups; ++group) {
        const std::uint32_t logical = sequence.computed / m_info.block_size;
        const std::uint32_t offset = sequence.computed % m_info.block_size;
        if (must_copy(sequence, group)) {
            Event event = DemoEngine::event(EventKind::copy_on_write, Cause::shared_block_written, sequence.id);
            event.block = state().table(sequence.id, group)[logical];
            event.other = pop_free(sequence.id).value;
            event.tokens = offset;
            event.group = group;
            emit(event);
        } else if (offset > 0 && logical < state().table(sequence.id, group).size()) {
            const BlockId block = state().table(sequence.id, group)[logical];
            if (block != null_block_id && state().blocks()[block.value].hashed) {
                forget(block);
                Event event = DemoEngine::event(EventKind::evict, Cause::last_owner_writes, sequence.id);
                event.block = block;
                event.group = group;
                emit(event);
            }
        }
        while (state().table(sequence.id, group).size() < blocks_for(std::uint64_t{sequence.computed} + count)) {
            Event event = DemoEngine::event(EventKind::allocate, Cause::first_slot_of_block, sequence.id);
            event.other = static_cast<std::uint32_t>(state().table(sequence.id, group).size());
            event.block = pop_free(sequence.id);
            event.group = group;
            emit(event);
        }
    }
    if (!m_radix) store(sequence, (sequence.computed + count) / m_info.block_size);
}

// Registers full blocks under their hash; the radix tree replaces those that it has already.
void DemoPaged::store(Sequence& sequence, std::uint32_t full_blocks) {
    if (!m_info.policy.prefix_caching) return;
    sequence.stored.resize(m_groups);
    for (std::uint8_t group = 0; group < m_groups; ++group) {
        for (std::uint32_t& i = sequence.stored[group]; i < full_blocks; ++i) {
            const BlockId block = state().table(sequence.id, group)[i];
            if (block == null_block_id || state().blocks()[block.value].hashed) continue;
            const std::uint64_t hash = demo_mix(hash_of(sequence, i), group);
            std::vector<BlockId>& same = m_index[hash];
            if (m_radix && !same.empty()) {
                Event event = DemoEngine::event(EventKind::prefix_hit, Cause::duplicate_owner, sequence.id);
                event.block = same.front();
                event.other = i;
                emit(event);
                event.kind = EventKind::free;
                event.block = block;
                event.other = state().blocks()[block.value].owners - 1;
                event.flags = event.other == 0 ? Event::flag_front : std::uint8_t{0};
                emit(event);
                continue;
            }
            same.push_back(block);
            Event event = DemoEngine::event(EventKind::store, Cause::block_full, sequence.id);
            event.block = block;
            event.other = static_cast<std::uint32_t>(hash >> 32);
            event.tokens = static_cast<std::uint32_t>(hash);
            event.group = group;
            emit(event);
            if (const std::uint64_t parent = state().blocks()[block.value].parent_hash; m_radix && parent != 0)
                ++m_children[parent];
        }
    }
}

void DemoPaged::computed(Sequence& sequence) {
    if (m_radix) store(sequence, sequence.computed / m_info.block_size);
}

// Longest cached prefix by group, whole blocks, at most all tokens but one. A window needs the blocks it sees only.
std::vector<std::vector<BlockId>> DemoPaged::hits(Sequence& sequence) {
    std::vector<std::vector<BlockId>> blocks(m_groups);
    if (!m_info.policy.prefix_caching) return blocks;
    const std::size_t most = (sequence.tokens.size() - 1) / m_info.block_size;
    std::size_t length = 0;  // of the full-attention group
    const auto at = [&](std::size_t i, std::uint8_t group) {
        const auto found = m_index.find(demo_mix(hash_of(sequence, i), group));
        return found == m_index.end() ? null_block_id : found->second.front();
    };
    while (length < most && at(length, 0) != null_block_id) blocks[0].push_back(at(length++, 0));
    for (std::uint8_t group = 1; group < m_groups; ++group) {
        const std::size_t window = blocks_for(m_info.policy.groups[group].window - std::uint64_t{1});
        for (; length > 0; --length) {
            std::size_t run = 0;
            while (run < std::min(window, length) && at(length - 1 - run, group) != null_block_id) ++run;
            if (run < std::min(window, length)) continue;
            blocks[group].assign(length, null_block_id);
            for (std::size_t i = length - run; i < length; ++i) blocks[group][i] = at(i, group);
            break;
        }
        blocks[0].resize(length);
        if (length == 0) blocks[group].clear();
    }
    return blocks;
}

bool DemoPaged::grow(std::size_t index, std::uint32_t count) {
    const SequenceId id = m_running[index].id;
    slide(m_running[index]);
    while (needed(m_running[index], count) > available()) {
        const std::size_t victim = m_running.size() - 1;
        const bool itself = victim == index;
        preempt(victim, id);
        if (itself) return false;
    }
    write_to(m_running[index], count);
    return true;
}

bool DemoPaged::admit(Sequence& sequence, std::uint32_t budget, std::uint32_t& count) {
    if (sequence.swapped) return swap_in(sequence, count, budget);
    const auto found = hits(sequence);
    const auto hit = static_cast<std::uint32_t>(found[0].size() * m_info.block_size);
    const auto all = static_cast<std::uint32_t>(sequence.tokens.size());
    count = std::min(all - hit, budget);
    std::uint32_t needs = 0;
    for (const auto& group : found) {
        needs += blocks_for(all) - static_cast<std::uint32_t>(group.size());
        for (const BlockId block : group) needs += block != null_block_id && state().blocks()[block.value].owners == 0;
    }
    if (needs > available()) {
        refuse(sequence, Cause::prompt_too_long_now, needs, available());
        return false;
    }
    Event event = DemoEngine::event(sequence.started ? EventKind::resume : EventKind::admit,
                                    sequence.started ? Cause::recomputed : Cause::fits_beside_running, sequence.id);
    event.tokens = sequence.started ? hit : sequence.prompt;
    emit(event);
    (sequence.started ? m_preempted_queried : m_queried) += all;
    (sequence.started ? m_preempted_hit : m_hit) += hit;
    for (std::uint8_t group = 0; group < m_groups; ++group) {
        for (std::uint32_t i = 0; i < found[group].size(); ++i) {
            const bool null = found[group][i] == null_block_id;
            event = DemoEngine::event(null ? EventKind::null_block : EventKind::prefix_hit,
                                      null ? Cause::out_of_window : Cause::prefix_shared, sequence.id);
            if (!null) event.block = found[group][i];
            event.other = i;
            event.tokens = null ? 0 : m_info.block_size;
            event.group = group;
            emit(event);
        }
    }
    sequence.computed = hit;
    sequence.stored.assign(m_groups, hit / m_info.block_size);
    write_to(sequence, count);
    return true;
}

void DemoPaged::preempt(std::size_t victim, SequenceId needer) {
    Sequence& sequence = m_running[victim];
    std::uint32_t blocks = 0;
    for (std::uint8_t group = 0; group < m_groups; ++group)
        for (const BlockId block : state().table(sequence.id, group)) blocks += block != null_block_id;
    const bool swaps = m_swap && blocks <= m_host_left;
    Event event = DemoEngine::event(EventKind::preempt, Cause::last_running, sequence.id);
    event.other = needer.value;
    event.tokens = swaps ? 0 : sequence.computed;
    emit(event);
    if (swaps) {
        sequence.host.clear();
        for (std::uint8_t group = 0; group < m_groups; ++group) {
            for (std::uint32_t i = 0; i < state().table(sequence.id, group).size(); ++i) {
                event = DemoEngine::event(EventKind::swap_out, Cause::swapped_out, sequence.id);
                event.block = state().table(sequence.id, group)[i];
                if (event.block == null_block_id) continue;
                event.other = m_next_host++ % m_info.policy.host_blocks;
                sequence.host.push_back(event.other);
                event.tokens = std::min(m_info.block_size, sequence.computed - i * m_info.block_size);
                event.group = group;
                emit(event);
            }
        }
        m_host_left -= blocks;
        sequence.swapped = true;
    }
    release(sequence, swaps ? Cause::swapped_out : Cause::sequence_preempted);
    if (!swaps) sequence.computed = 0;
    take_from_running(victim);
}

bool DemoPaged::swap_in(Sequence& sequence, std::uint32_t& count, std::uint32_t budget) {
    const std::uint32_t host = state().sequences()[sequence.id.value].host_blocks;
    count = std::min(sequence.to_do(), budget);
    const std::uint32_t needs = host + m_groups;  // and the block that its next token may open
    if (needs > available()) {
        refuse(sequence, Cause::pool_too_full, needs, available());
        return false;
    }
    for (std::uint32_t i = 0; i < blocks_for(sequence.computed); ++i) {
        Event event = DemoEngine::event(EventKind::swap_in, Cause::swapped_in, sequence.id);
        event.other = sequence.host[i];
        event.tokens = std::min(m_info.block_size, sequence.computed - i * m_info.block_size);
        event.block = pop_free(sequence.id);
        emit(event);
    }
    Event event = DemoEngine::event(EventKind::resume, Cause::swapped_in, sequence.id);
    event.tokens = sequence.computed;
    emit(event);
    m_host_left += host;
    sequence.swapped = false;
    sequence.stored.assign(m_groups, 0);
    write_to(sequence, count);
    return true;
}

void DemoPaged::release(Sequence& sequence, Cause cause) {
    for (std::uint8_t g = m_groups; g-- > 0;) {
        while (!state().table(sequence.id, g).empty()) {
            const BlockId id = state().table(sequence.id, g).back();
            const BlockState& block = state().blocks()[id.value];
            Event event = DemoEngine::event(EventKind::free, cause, sequence.id);
            event.block = id;
            event.other = block.owners - 1;
            event.group = g;
            if (event.other == 0) {
                if (m_radix && block.hashed) event.flags = Event::flag_held;
                else if (!block.hashed) event.flags = Event::flag_front;
            }
            emit(event);
            const BlockState& after = state().blocks()[id.value];
            if (after.held && m_children[after.hash] == 0) m_leaves.emplace(after.last_use, id.value);
        }
    }
    sequence.stored.clear();
}

void DemoPaged::count(SlotCounts& slots, StepRecord& counters) const {
    const std::uint64_t size = m_info.block_size;
    slots.token = state().token_slots();
    slots.cached = counters.cached_blocks * size;
    std::unordered_map<std::uint32_t, std::uint64_t> shared;  // slots that an owner will write in a shared block
    for (const Sequence& one : m_running) {
        for (std::uint8_t group = 0; group < m_groups; ++group) {
            const TableState& table = state().table(one.id, group);
            const std::uint64_t end = std::min<std::uint64_t>(table.size() * size, one.final_slots());
            const std::uint64_t logical = one.computed / size;
            if (end <= one.computed || logical >= table.size()) continue;
            const BlockState& block = state().blocks()[table[logical].value];
            if (block.owners == 1) {
                slots.reserved += end - one.computed;
                continue;
            }
            const std::uint64_t last = std::min(end, (logical + 1) * size) - logical * size;
            if (last > block.filled) shared[table[logical].value] = std::max(shared[table[logical].value], last - block.filled);
            slots.reserved += end > (logical + 1) * size ? end - (logical + 1) * size : 0;
        }
    }
    for (const auto& [block, more] : shared) slots.reserved += more;
    slots.internal = counters.used_blocks * size - slots.token - slots.reserved;
    slots.free = counters.free_blocks * size;
}

}  // namespace kvloupe
