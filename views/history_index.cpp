// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/history_index.h"

#include <algorithm>

namespace kvloupe {

namespace {

constexpr std::size_t least_slab = std::size_t{1} << 14;  // changes; below it the codes per slab would weigh too much

HistoryIndex::Code makeCode(BlockKind kind, std::uint32_t detail) {
    return static_cast<std::uint32_t>(kind) << 30 | (detail & HistoryIndex::detail_mask);
}

}  // namespace

HistoryIndex::HistoryIndex(std::shared_ptr<const Recording> recording, LaneId lane)
    : m_recording(std::move(recording)), m_lane(&m_recording->lane(lane)) {}

void HistoryIndex::touch(std::uint32_t block) {
    if (block == null_block_id.value || block >= m_touchedIn.size() || m_touchedIn[block] == m_steps + 1) return;
    m_touchedIn[block] = m_steps + 1;
    m_touched.push_back(block);
}

void HistoryIndex::touchTables(SequenceId sequence) {
    for (std::uint32_t group = 0; group < m_state.groups(); ++group) {
        const TableState& table = m_state.table(sequence, static_cast<std::uint8_t>(group));
        for (std::size_t logical = 0; logical < table.size(); ++logical) touch(table[logical].value);
    }
}

// Index of the set of sequences that own the block.
std::uint32_t HistoryIndex::ownerSet(std::uint32_t block) {
    std::vector<std::uint32_t> owners;
    for (const SequenceId owner : m_state.owners_of(BlockId(block))) owners.push_back(owner.value);
    std::sort(owners.begin(), owners.end());
    const auto [place, isNew] = m_setIds.try_emplace(owners, static_cast<std::uint32_t>(m_sets.size()));
    if (isNew) m_sets.push_back(std::move(owners));
    return place->second;
}

HistoryIndex::Code HistoryIndex::codeOf(std::uint32_t block) {
    const BlockState& state = m_state.blocks()[block];
    if (state.owners == 1) return makeCode(BlockKind::owned, state.first_owner.value);
    if (state.owners > 1) return makeCode(BlockKind::shared, ownerSet(block));
    if (!state.cached()) return makeCode(BlockKind::free, 0);
    const Code before = m_now[block];
    switch (kindOf(before)) {
    case BlockKind::cached: return before;
    case BlockKind::owned: return makeCode(BlockKind::cached, detailOf(before));
    case BlockKind::shared: {
        const auto& owners = m_sets[detailOf(before)];
        return makeCode(BlockKind::cached, owners.empty() ? detail_mask : owners.front());
    }
    case BlockKind::free: break;
    }
    return makeCode(BlockKind::cached, detail_mask);
}

void HistoryIndex::readStep(std::uint32_t step) {
    const LogRange range = m_lane->step(step).events;
    m_touched.clear();
    m_state.begin_step(step);
    for (std::uint64_t i = range.begin; i < range.end; ++i) {
        const Event& event = m_lane->events()[i];
        const SequenceId parent(event.other);
        if (event.block.valid()) touch(event.block.value);
        switch (event.kind) {
        case EventKind::copy_on_write:
            touch(event.other);
            m_marks.push_back({step, event.other, i});
            break;
        case EventKind::evict:  // by an action; a run's own are drawn where rows are high enough
            if (event.cause == Cause::requested && event.block.valid()) m_marks.push_back({step, event.block.value, i});
            break;
        case EventKind::preempt: m_marks.push_back({step, Index<int>::none_value, i}); break;
        case EventKind::fork:
            if (parent.valid() && parent.value < m_state.sequences().size()) touchTables(parent);
            break;
        case EventKind::reset:
            for (std::uint32_t block = 1; block < m_touchedIn.size(); ++block) touch(block);
            break;
        default: break;
        }
        m_state.apply(event);
        if (event.kind == EventKind::fork) {
            const TableState& table = m_state.table(event.sequence);
            m_marks.push_back({step, table.size() == 0 ? Index<int>::none_value : table[table.size() - 1].value, i});
        }
    }
    for (const std::uint32_t block : m_touched) {
        const Code code = codeOf(block);
        if (code == m_now[block]) continue;
        m_now[block] = code;
        m_tail.push_back({block, {step, code}});
        ++m_changes;
    }
    m_events = range.end;
}

// The tail's changes by block, then by step: a counting sort, because they are in the order of steps already.
std::shared_ptr<const HistoryIndex::Slab> HistoryIndex::sorted() const {
    auto slab = std::make_shared<Slab>();
    slab->begin = m_tailBegin;
    slab->end = m_steps;
    slab->codes = m_tailCodes;
    slab->offsets.assign(m_now.size() + 1, 0);
    for (const BlockChange& each : m_tail) ++slab->offsets[each.block + std::size_t{1}];
    for (std::size_t block = 0; block < m_now.size(); ++block) slab->offsets[block + 1] += slab->offsets[block];
    slab->changes.resize(m_tail.size());
    std::vector<std::uint32_t> next(slab->offsets.begin(), slab->offsets.end() - 1);
    for (const BlockChange& each : m_tail) slab->changes[next[each.block]++] = each.change;
    return slab;
}

void HistoryIndex::closeTail() {
    if (m_hasTail) m_slabs.pop_back();
    m_slabs.push_back(sorted());
    m_hasTail = false;
    m_tail.clear();
    m_tailBegin = m_steps;
    m_tailCodes = m_now;
}

void HistoryIndex::advance(std::size_t steps, const std::atomic<bool>& cancelled) {
    const LaneInfo& info = m_lane->info();
    if (m_now.empty() && info.blocks > 0) {
        m_state = m_lane->state_before(0);
        m_now.assign(info.blocks, 0);
        m_touchedIn.assign(info.blocks, 0);
        for (std::uint32_t block = 1; block < info.blocks; ++block) m_now[block] = codeOf(block);  // what a cut begins with
        m_tailCodes = m_now;
    }
    const std::uint32_t before = m_steps;
    while (m_steps < steps && !cancelled.load(std::memory_order_relaxed)) {
        readStep(m_steps);
        ++m_steps;
        if (m_tail.size() >= std::max(least_slab, m_now.size())) closeTail();
    }
    if (m_steps == before || m_tailBegin == m_steps) return;
    if (m_hasTail) m_slabs.pop_back();
    m_slabs.push_back(sorted());
    m_hasTail = true;
}

HistoryIndex::Code HistoryIndex::codeAt(std::uint32_t block, std::uint32_t step) const {
    const auto slab = std::upper_bound(m_slabs.begin(), m_slabs.end(), step,
                                       [](std::uint32_t at, const auto& each) { return at < each->end; });
    if (slab == m_slabs.end() || block >= m_now.size()) return 0;
    const auto begin = (*slab)->changes.begin() + (*slab)->offsets[block];
    const auto end = (*slab)->changes.begin() + (*slab)->offsets[block + std::size_t{1}];
    const auto after = std::upper_bound(begin, end, step, [](std::uint32_t at, const Change& each) { return at < each.step; });
    return after == begin ? (*slab)->codes[block] : (after - 1)->code;
}

std::vector<HistoryIndex::Interval> HistoryIndex::intervals(std::uint32_t block, std::uint32_t begin, std::uint32_t end) const {
    std::vector<Interval> result;
    if (block >= m_now.size()) return result;
    const auto add = [&](std::uint32_t from, std::uint32_t to, Code code) {
        from = std::max(from, begin);
        to = std::min(to, end);
        if (from >= to) return;
        if (!result.empty() && result.back().code == code) result.back().end = to;
        else result.push_back({from, to, code});
    };
    for (const auto& slab : m_slabs) {
        if (slab->end <= begin) continue;
        if (slab->begin >= end) break;
        std::uint32_t from = slab->begin;
        Code code = slab->codes[block];
        for (std::uint32_t i = slab->offsets[block]; i < slab->offsets[block + std::size_t{1}]; ++i) {
            add(from, slab->changes[i].step, code);
            from = slab->changes[i].step;
            code = slab->changes[i].code;
        }
        add(from, slab->end, code);
    }
    return result;
}

std::vector<SequenceId> HistoryIndex::owners(Code code) const {
    std::vector<SequenceId> result;
    const std::uint32_t detail = detailOf(code);
    switch (kindOf(code)) {
    case BlockKind::free: break;
    case BlockKind::cached:
        if (detail != detail_mask) result.emplace_back(detail);
        break;
    case BlockKind::owned: result.emplace_back(detail); break;
    case BlockKind::shared:
        for (const std::uint32_t owner : m_sets[detail]) result.emplace_back(owner);
        break;
    }
    return result;
}

std::uint64_t HistoryIndex::memoryBytes() const {
    std::uint64_t bytes = m_state.memory_bytes() + m_marks.capacity() * sizeof(Mark) + m_tail.capacity() * sizeof(BlockChange) +
                          (m_now.capacity() + m_touchedIn.capacity() + m_touched.capacity() + m_tailCodes.capacity()) * 4;
    for (const auto& set : m_sets) bytes += 2 * set.capacity() * 4 + 128;  // here and in the map of ids
    for (const auto& slab : m_slabs)
        bytes += slab->codes.capacity() * 4 + slab->offsets.capacity() * 4 + slab->changes.capacity() * sizeof(Change);
    return bytes;
}

}  // namespace kvloupe
