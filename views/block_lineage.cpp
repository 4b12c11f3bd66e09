// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/block_lineage.h"

#include <algorithm>
#include <unordered_map>

namespace kvloupe {

namespace {

bool begins(const Event& event, BlockId block) {
    switch (event.kind) {
    case EventKind::allocate:
    case EventKind::swap_in: return event.block == block;
    case EventKind::copy_on_write: return event.other == block.value;
    default: return false;
    }
}

std::vector<std::uint64_t>::const_iterator from(const std::vector<std::uint64_t>& events, std::uint64_t first) {
    return std::lower_bound(events.begin(), events.end(), first);
}

}  // namespace

void BlockEvents::update(const Recording& recording, LaneId laneId) {
    if (&recording != m_recording || laneId != m_laneId) {
        *this = BlockEvents();
        m_recording = &recording;
        m_laneId = laneId;
        m_lane = &recording.lane(laneId);
        m_blocks.resize(m_lane->info().kv_cache ? m_lane->info().blocks : 0);
    }
    const auto name = [this](std::uint32_t block, std::uint64_t event) {
        if (block != null_block_id.value && block < m_blocks.size()) m_blocks[block].push_back(event);
    };
    const auto steps = static_cast<std::uint32_t>(m_lane->step_count());
    for (; m_steps < steps; ++m_steps) {
        const LogRange range = m_lane->step(m_steps).events;
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
            const Event& event = m_lane->events()[i];
            switch (event.kind) {
            case EventKind::fork: m_forks.push_back(i); break;
            case EventKind::copy_on_write:
                m_copies.push_back(i);
                name(event.block.value, i);
                name(event.other, i);
                break;
            case EventKind::swap_out:
                m_swapsOut.push_back(i);
                name(event.block.value, i);
                break;
            case EventKind::swap_in:
                m_swapsIn.push_back(i);
                name(event.block.value, i);
                break;
            case EventKind::allocate:
            case EventKind::prefix_hit:
            case EventKind::free:
            case EventKind::store:
            case EventKind::evict: name(event.block.value, i); break;
            case EventKind::reset: m_resets.push_back(i); break;
            default: break;
            }
        }
    }
}

const std::vector<std::uint64_t>& BlockEvents::of(BlockId block) const {
    static const std::vector<std::uint64_t> nothing;
    return block.value < m_blocks.size() ? m_blocks[block.value] : nothing;
}

std::uint32_t BlockEvents::stepOf(std::uint64_t event) const {
    std::uint32_t low = 0, high = m_steps;
    while (low < high) {
        const std::uint32_t middle = low + (high - low) / 2;
        if (m_lane->step(middle).events.end <= event) low = middle + 1;
        else high = middle;
    }
    return low;
}

std::optional<std::uint64_t> BlockEvents::birth(BlockId block, std::uint64_t end) const {
    const auto& events = of(block);
    for (auto event = from(events, end); event != events.begin();)
        if (begins(m_lane->events()[*--event], block)) return *event;
    return {};
}

void BlockLineage::ancestors(const BlockEvents& events, BlockId block, std::uint64_t end) {
    std::vector<Content> chain;  // the youngest first
    auto birth = events.birth(block, end);
    while (birth && chain.size() < most_contents) {
        chain.push_back({block, *birth, none, 0});
        const Event& event = events.lane()->events()[*birth];
        if (event.kind == EventKind::copy_on_write) {
            block = event.block;
        } else if (event.kind == EventKind::swap_in) {
            // The block that it left for host memory.
            const auto& outs = events.swapsOut();
            auto out = from(outs, *birth);
            block = BlockId();
            while (out != outs.begin() && !block.valid()) {
                const Event& moved = events.lane()->events()[*--out];
                if (moved.sequence == event.sequence && moved.other == event.other) block = moved.block;
            }
            if (!block.valid()) break;
            birth = *out;
        } else {
            break;
        }
        birth = events.birth(block, *birth);
    }
    for (auto content = chain.rbegin(); content != chain.rend(); ++content) {
        content->parent = m_contents.empty() ? none : static_cast<std::uint32_t>(m_contents.size()) - 1;
        m_contents.push_back(*content);
    }
    m_focus = m_contents.empty() ? 0 : static_cast<std::uint32_t>(m_contents.size()) - 1;
}

std::uint32_t BlockLineage::child(BlockId block, std::uint64_t birth, std::uint32_t parent) {
    const auto known = std::find_if(m_contents.begin(), m_contents.end(), [&](const Content& c) { return c.birth == birth; });
    if (known != m_contents.end()) return static_cast<std::uint32_t>(known - m_contents.begin());
    if (m_contents.size() >= most_contents) {
        ++m_left;
        return none;
    }
    m_contents.push_back({block, birth, parent, m_contents[parent].logical});
    return static_cast<std::uint32_t>(m_contents.size()) - 1;
}

void BlockLineage::join(const BlockEvents& events, SequenceId sequence, std::uint32_t content, std::uint64_t event) {
    for (auto hold = m_holds.rbegin(); hold != m_holds.rend(); ++hold)
        if (hold->content == content && hold->cached && hold->end == open_end) hold->end = events.stepOf(event);
    if (m_holds.size() >= most_holds) {
        ++m_left;
        return;
    }
    m_holds.push_back({sequence, content, events.stepOf(event), open_end, event, false});
}

void BlockLineage::leave(const BlockEvents& events, SequenceId sequence, std::uint32_t content, std::uint64_t event) {
    for (auto hold = m_holds.rbegin(); hold != m_holds.rend(); ++hold)
        if (hold->content == content && hold->sequence == sequence && hold->end == open_end && !hold->cached) {
            hold->end = events.stepOf(event) + 1;
            return;
        }
}

// Nobody owns it any more, but it can still be hit: until its hash is lost, one by one or all at once.
void BlockLineage::keepCached(const BlockEvents& events, const Hold& after, std::uint64_t end) {
    if (m_holds.size() >= most_holds) {
        ++m_left;
        return;
    }
    m_holds.push_back(after);
    const auto reset = from(events.resets(), after.event);
    if (reset != events.resets().end() && *reset < end) m_holds.back().end = events.stepOf(*reset) + 1;
}

// Events of one content from its birth to the next content of its block, forks of its owners among them.
void BlockLineage::follow(const BlockEvents& events, std::uint32_t index, std::uint64_t end) {
    const LaneRecord& lane = *events.lane();
    const BlockId block = m_contents[index].block;
    const std::uint64_t birth = m_contents[index].birth;
    const auto& own = events.of(block);
    const auto& forks = events.forks();
    auto event = from(own, birth);
    auto fork = from(forks, birth);
    const std::uint32_t size = std::max(1u, lane.info().block_size);
    std::vector<SequenceId> owners;
    bool hashed = false;
    const auto owns = [&](SequenceId sequence) { return std::find(owners.begin(), owners.end(), sequence) != owners.end(); };
    const auto gone = [&](SequenceId sequence, std::uint64_t at) {
        owners.erase(std::remove(owners.begin(), owners.end(), sequence), owners.end());
        leave(events, sequence, index, at);
    };
    while ((event != own.end() && *event < end) || (fork != forks.end() && *fork < end)) {
        if (owners.empty() && (event == own.end() || *event >= end)) break;  // nobody is left who could fork
        if (event == own.end() || (fork != forks.end() && *fork < *event)) {
            const std::uint64_t at = *fork++;
            const Event& forked = lane.events()[at];
            if (at >= end) continue;
            if (!owns(SequenceId(forked.other)) || std::uint64_t{m_contents[index].logical} * size >= forked.tokens) continue;
            owners.push_back(forked.sequence);
            join(events, forked.sequence, index, at);
            m_events.push_back(at);
            continue;
        }
        const std::uint64_t at = *event++;
        if (at >= end) break;
        const Event& own_event = lane.events()[at];
        if (at != birth && begins(own_event, block)) break;
        switch (own_event.kind) {
        case EventKind::allocate:
        case EventKind::swap_in:
        case EventKind::prefix_hit:
            if (own_event.kind != EventKind::prefix_hit) {
                if (own_event.other != Event{}.other && own_event.kind == EventKind::allocate) m_contents[index].logical = own_event.other;
            }
            if (!owns(own_event.sequence)) owners.push_back(own_event.sequence);
            join(events, own_event.sequence, index, at);
            m_events.push_back(at);
            break;
        case EventKind::copy_on_write:
            m_events.push_back(at);
            if (at == birth) {
                owners.push_back(own_event.sequence);
                join(events, own_event.sequence, index, at);
            } else {
                if (own_event.cause != Cause::grown_by_copy) gone(own_event.sequence, at);
                child(BlockId(own_event.other), at, index);
            }
            break;
        case EventKind::swap_out: {
            m_events.push_back(at);
            const auto& ins = events.swapsIn();
            for (auto in = from(ins, at); in != ins.end() && *in < end; ++in) {
                const Event& back = lane.events()[*in];
                if (back.sequence != own_event.sequence || back.other != own_event.other) continue;
                child(back.block, *in, index);
                break;
            }
            break;
        }
        case EventKind::free: {
            const bool last = owners.size() == 1 && owns(own_event.sequence);
            gone(own_event.sequence, at);
            if (last && (hashed || (own_event.flags & Event::flag_held)))
                keepCached(events, {own_event.sequence, index, events.stepOf(at) + 1, open_end, at, true}, end);
            break;
        }
        case EventKind::store: hashed = true; break;
        case EventKind::evict:
            hashed = false;
            m_events.push_back(at);
            for (auto hold = m_holds.rbegin(); hold != m_holds.rend(); ++hold)
                if (hold->content == index && hold->cached && hold->end == open_end) hold->end = events.stepOf(at) + 1;
            break;
        default: break;
        }
    }
}

// A line per sequence in the order of their forks, children below their parents.
void BlockLineage::lineUp(const LaneRecord& lane) {
    std::vector<std::uint32_t> order(m_holds.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) { return m_holds[a].event < m_holds[b].event; });
    std::unordered_map<std::uint32_t, std::uint32_t> place;  // sequence -> line
    std::vector<Line> lines;
    for (const std::uint32_t i : order) {
        const auto [found, added] = place.try_emplace(m_holds[i].sequence.value, static_cast<std::uint32_t>(lines.size()));
        if (added) {
            Line line;
            line.sequence = m_holds[i].sequence;
            if (line.sequence.value < lane.sequences().size()) {
                const auto parent = place.find(lane.sequences()[line.sequence.value].parent.value);
                if (parent != place.end() && lane.sequences()[line.sequence.value].parent != line.sequence) line.parent = parent->second;
            }
            lines.push_back(line);
        }
        lines[found->second].holds.push_back(i);
    }
    std::vector<std::vector<std::uint32_t>> children(lines.size());
    std::vector<std::uint32_t> open;
    for (std::uint32_t i = static_cast<std::uint32_t>(lines.size()); i-- > 0;)
        if (lines[i].parent == none) open.push_back(i);
        else children[lines[i].parent].push_back(i);
    std::vector<std::uint32_t> moved(lines.size(), none);
    while (!open.empty()) {
        const std::uint32_t i = open.back();
        open.pop_back();
        moved[i] = static_cast<std::uint32_t>(m_lines.size());
        Line line = lines[i];
        if (line.parent != none) {
            line.parent = moved[line.parent];
            line.depth = m_lines[line.parent].depth + 1;
        }
        m_lines.push_back(std::move(line));
        for (const std::uint32_t child : children[i]) open.push_back(child);  // the last pushed is the oldest
    }
}

BlockLineage BlockLineage::of(const BlockEvents& events, BlockId block, std::uint64_t when, std::uint64_t end) {
    BlockLineage lineage;
    if (!events.lane()) return lineage;
    lineage.ancestors(events, block, when);
    if (lineage.empty()) return lineage;
    // The first content says where in its sequence all of them stand.
    const Event& first = events.lane()->events()[lineage.m_contents.front().birth];
    if (first.kind == EventKind::allocate && first.other != Event{}.other)
        for (Content& content : lineage.m_contents) content.logical = first.other;
    // Contents are appended while they are followed: children come after their parents.
    for (std::uint32_t i = 0; i < lineage.m_contents.size(); ++i) lineage.follow(events, i, end);
    std::sort(lineage.m_events.begin(), lineage.m_events.end());
    lineage.m_events.erase(std::unique(lineage.m_events.begin(), lineage.m_events.end()), lineage.m_events.end());
    lineage.lineUp(*events.lane());
    return lineage;
}

SharingSaved sharingSaved(const LaneInfo& lane, const LaneState& state) {
    SharingSaved saved;
    const std::uint64_t size = std::max(1u, state.block_size());
    for (std::uint32_t b = 1; b < state.blocks().size(); ++b) {
        const BlockState& block = state.blocks()[b];
        if (block.owners < 2) continue;
        ++saved.blocks;
        saved.bytes += (block.owners - std::uint64_t{1}) * lane.block_bytes;
        // Sharers hold a block at the same logical index; each has the slots up to its own last token.
        std::uint64_t sum = 0, most = 0;
        for (const SequenceId owner : state.owners_of(BlockId(b))) {
            const std::uint64_t computed = state.sequences()[owner.value].computed_tokens, begin = block.logical * size;
            const std::uint64_t slots = computed <= begin ? 0 : std::min(computed - begin, size);
            sum += slots;
            most = std::max(most, slots);
        }
        saved.slotBytes += (sum - most) * lane.bytes_per_token;
    }
    return saved;
}

}  // namespace kvloupe
