// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/memory_snapshot.h"

#include "engine/record/snapshot_trace.h"
#include "engine/record/writer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

namespace kvloupe {

namespace {

constexpr std::uintmax_t max_file = std::uintmax_t{4} << 30;

// Addresses as cells: intervals that were ever a segment, one behind the other, none sharing a cell with another.
class CellMap {
public:
    CellMap(std::vector<SnapshotRange> ranges) {
        std::sort(ranges.begin(), ranges.end(), [](const SnapshotRange& a, const SnapshotRange& b) { return a.begin < b.begin; });
        for (SnapshotRange range : ranges) {
            range.begin -= range.begin % snapshot_granule;
            if (!m_intervals.empty() && range.begin <= m_intervals.back().end)
                m_intervals.back().end = std::max(m_intervals.back().end, range.end);
            else
                m_intervals.push_back({range.begin, range.end, 0});
        }
        set_unit(snapshot_granule);
    }

    void set_unit(std::uint64_t unit) {
        m_unit = unit;
        m_cells = 0;
        for (Interval& one : m_intervals) {
            one.first_cell = m_cells;
            m_cells += (one.end - one.begin + unit - 1) / unit;
        }
    }
    std::uint64_t unit() const { return m_unit; }
    std::uint64_t cells() const { return m_cells; }

    // First cell and number of cells; 0 cells where the range lies in no interval.
    std::pair<std::uint64_t, std::uint64_t> find(std::uint64_t address, std::uint64_t size) const {
        auto after = std::upper_bound(m_intervals.begin(), m_intervals.end(), address,
                                      [](std::uint64_t at, const Interval& one) { return at < one.begin; });
        if (after == m_intervals.begin() || size == 0) return {0, 0};
        const Interval& one = *--after;
        if (address + size > one.end) return {0, 0};
        const std::uint64_t first = (address - one.begin) / m_unit, last = (address - one.begin + size - 1) / m_unit;
        return {one.first_cell + first, last - first + 1};
    }

private:
    struct Interval {
        std::uint64_t begin, end, first_cell;
    };
    std::vector<Interval> m_intervals;
    std::uint64_t m_unit = snapshot_granule, m_cells = 0;
};

// Blocks whose size is known from the end of the snapshot; the trace itself tells only what was asked for.
SnapshotBlock block_of(const SnapshotAction& action, const SnapshotDevice& device, bool last_there) {
    const auto live = device.live.find(action.address);
    const std::uint64_t size = last_there && live != device.live.end() ? live->second.size : granules(action.size) * snapshot_granule;
    return {action.address, std::max(size, granules(action.size) * snapshot_granule), action.size, action.site, action.stream};
}

Result<CellMap> cells_of(const SnapshotDevice& device, const SnapshotStart& start, const SnapshotOptions& options) {
    std::vector<SnapshotRange> ranges = device.segments;
    std::uint64_t moved = 0;  // bytes that allocate and free events tell of
    const auto add = [&](std::uint64_t address, std::uint64_t size) {
        ranges.push_back({address, address + granules(size) * snapshot_granule});
    };
    for (const auto& [address, block] : start.live) add(address, block.size), moved += 2 * block.size;
    for (const SnapshotAction& action : device.actions) {
        if (action.kind == SnapshotAction::oom) continue;
        add(action.address, action.size);
        if (action.kind == SnapshotAction::alloc) moved += 2 * action.size;
    }
    if (ranges.empty()) return Error{"The snapshot has a device without any memory", "Write the snapshot again"};
    CellMap cells(std::move(ranges));
    for (std::uint64_t unit = snapshot_granule; cells.cells() > options.max_cells || moved / unit > options.max_events; unit *= 2) {
        if (unit > std::uint64_t{1} << 40) return Error{"The snapshot has more segments than can be shown", "Record a shorter history"};
        cells.set_unit(unit * 2);
    }
    return cells;
}

// One device's lane while it is written.
class DeviceLane {
public:
    DeviceLane(RecordingWriter& writer, LaneWriter& lane, CellMap cells) : m_writer(&writer), m_lane(&lane), m_cells(std::move(cells)) {}

    void begin(std::uint64_t ns) {
        m_writer->set_time(ns);
        m_lane->begin_step();
    }
    void end(std::uint64_t ns) {
        m_writer->set_time(ns);
        StepRecord step;
        const auto slots = [](std::uint64_t bytes) { return bytes / snapshot_granule; };
        step.running = static_cast<std::uint32_t>(m_live.size());
        step.used_blocks = m_lane->state().used_blocks();
        step.free_blocks = static_cast<std::uint32_t>(m_cells.cells()) - step.used_blocks;
        step.kv_bytes = step.allocated_kv_bytes = m_allocated;
        step.slots.token = m_asked_slots;
        step.slots.internal = slots(m_allocated) - std::min(slots(m_allocated), m_asked_slots);
        const std::uint64_t all = m_cells.cells() * slots(m_cells.unit()), taken = step.slots.token + step.slots.internal;
        step.slots.external = std::min(slots(m_reserved) - std::min(slots(m_reserved), slots(m_allocated)), all - std::min(all, taken));
        step.slots.free = all - std::min(all, taken + step.slots.external);
        m_lane->end_step(step);
    }

    void reserve(std::uint64_t bytes) { m_reserved += bytes; }
    void give_back(std::uint64_t bytes) { m_reserved -= std::min(m_reserved, bytes); }

    void allocate(const SnapshotBlock& block) {
        if (m_live.count(block.address)) release(block.address);  // its end was not recorded
        const auto [first, count] = m_cells.find(block.address, block.size);
        const Live live{add(block), first, count, block.size, granules(block.requested)};
        const auto slots = static_cast<std::uint32_t>(std::min<std::uint64_t>(live.asked_slots, UINT32_MAX));
        std::string detail = std::to_string(block.requested) + " bytes";
        if (block.stream != 0) detail += ", stream " + std::to_string(block.stream);
        tell(EventKind::admit, Cause::none, live.sequence, BlockId::none(), Event{}.other, slots, m_lane->intern(detail));
        for (std::uint64_t i = 0; i < count; ++i)
            tell(EventKind::allocate, Cause::reservation, live.sequence, cell(first + i), static_cast<std::uint32_t>(i), 0);
        tell(EventKind::prefill, Cause::none, live.sequence, BlockId::none(), 0, slots);
        m_allocated += live.size;
        m_asked_slots += live.asked_slots;
        m_live[block.address] = live;
    }

    void release(std::uint64_t address) {
        const auto found = m_live.find(address);
        if (found == m_live.end()) return;
        const Live live = found->second;
        m_live.erase(found);
        for (std::uint64_t i = live.count; i-- > 0;) {
            const std::uint32_t owners = m_lane->state().blocks()[cell(live.first + i).value].owners;
            tell(EventKind::free, Cause::requested, live.sequence, cell(live.first + i), owners > 0 ? owners - 1 : 0, 0);
        }
        tell(EventKind::finish, Cause::requested, live.sequence, BlockId::none(), Event{}.other, 0);
        m_allocated -= live.size;
        m_asked_slots -= live.asked_slots;
    }

    void refuse(const SnapshotAction& action) {
        const SequenceId sequence = add({0, action.size, action.size, action.site, action.stream});
        const std::uint64_t needed = (action.size + m_cells.unit() - 1) / m_cells.unit();
        const auto free = static_cast<std::uint32_t>(m_cells.cells()) - m_lane->state().used_blocks();
        tell(EventKind::refuse, Cause::pool_too_full, sequence, BlockId::none(), free,
             static_cast<std::uint32_t>(std::min<std::uint64_t>(needed, UINT32_MAX)),
             m_lane->intern("out of memory: " + std::to_string(action.size) + " bytes were asked for, the device had " +
                            std::to_string(action.address) + " free"));
    }

private:
    struct Live {
        SequenceId sequence;
        std::uint64_t first = 0, count = 0, size = 0, asked_slots = 0;
    };
    static BlockId cell(std::uint64_t index) { return BlockId(static_cast<std::uint32_t>(index + 1)); }  // 0 is the null block

    SequenceId add(const SnapshotBlock& block) {
        SequenceInfo info;
        info.request = RequestId(block.site);
        info.name = "#" + std::to_string(m_sequences++);
        return m_lane->add_sequence(info);
    }
    void tell(EventKind kind, Cause cause, SequenceId sequence, BlockId block, std::uint32_t other, std::uint32_t tokens,
              StringId detail = {}) {
        Event event;
        event.kind = kind;
        event.cause = cause;
        event.sequence = sequence;
        event.block = block;
        event.other = other;
        event.tokens = tokens;
        event.detail = detail;
        m_lane->event(event);
    }

    RecordingWriter* m_writer;
    LaneWriter* m_lane;
    CellMap m_cells;
    std::map<std::uint64_t, Live> m_live;
    std::uint64_t m_allocated = 0, m_asked_slots = 0, m_reserved = 0, m_sequences = 0;
};

LaneInfo snapshot_lane(std::int64_t device, const CellMap& cells, const std::string& settings) {
    LaneInfo info;
    info.name = "cuda:" + std::to_string(device);
    info.model_name = "PyTorch memory snapshot";
    info.device = "CUDA device " + std::to_string(device);
    info.attention_variant = "none";
    info.cache_dtype = "bytes";
    info.block_size = static_cast<std::uint32_t>(cells.unit() / snapshot_granule);
    info.blocks = static_cast<std::uint32_t>(cells.cells() + 1);
    info.bytes_per_token = snapshot_granule;
    info.block_bytes = cells.unit();
    info.pool_bytes = cells.cells() * cells.unit();
    info.policy.kind = "contiguous";
    info.policy.reserve = "PyTorch's caching allocator";
    info.notes.push_back("A block is a cell of " + std::to_string(cells.unit()) + " bytes of the device's segments, a slot 512 bytes; small "
                         "allocations share a cell.");
    if (!settings.empty()) info.notes.push_back("Allocator settings: " + settings + ".");
    return info;
}

void write_actions(DeviceLane& lane, const SnapshotDevice& device, const SnapshotStart& start, std::size_t max_steps) {
    const std::vector<SnapshotAction>& actions = device.actions;
    const std::int64_t begin = actions.empty() ? 0 : actions.front().time_us;
    const auto ns = [&](std::size_t i) {
        return i < actions.size() ? static_cast<std::uint64_t>(std::max<std::int64_t>(actions[i].time_us - begin, 0)) * 1000 : std::uint64_t{0};
    };
    std::map<std::uint64_t, std::size_t> last_alloc;  // of an address: the one that lives at the end
    for (std::size_t i = 0; i < actions.size(); ++i)
        if (actions[i].kind == SnapshotAction::alloc) last_alloc[actions[i].address] = i;
    lane.begin(0);
    lane.reserve(start.reserved);
    for (const auto& [address, block] : start.live) lane.allocate(block);
    lane.end(0);
    const std::size_t together = (actions.size() + max_steps - 1) / std::max<std::size_t>(max_steps, 1);
    for (std::size_t i = 0; i < actions.size(); i += together) {
        const std::size_t end = std::min(i + together, actions.size());
        lane.begin(ns(i));
        for (std::size_t k = i; k < end; ++k) {
            const SnapshotAction& action = actions[k];
            switch (action.kind) {
            case SnapshotAction::alloc: lane.allocate(block_of(action, device, last_alloc[action.address] == k)); break;
            case SnapshotAction::free: lane.release(action.address); break;
            case SnapshotAction::segment_alloc: lane.reserve(action.size); break;
            case SnapshotAction::segment_free: lane.give_back(action.size); break;
            case SnapshotAction::oom: lane.refuse(action); break;
            }
        }
        lane.end(std::max(ns(i), end < actions.size() ? ns(end) : ns(actions.size() - 1)));
    }
}

}  // namespace

Result<StoredRecording> memory_snapshot(std::string_view bytes, const std::string& name, const SnapshotOptions& options) {
    const auto named = [&](const Error& error) { return Error{name + ": " + error.sentence, error.hint}; };
    const auto pickle = PlainPickle::read(bytes);
    if (!pickle) return named(pickle.error());
    const auto trace = read_snapshot(*pickle);
    if (!trace) return named(trace.error());
    RecordingWriter writer(std::filesystem::path(name).stem().string(), std::uint64_t{1} << 20);
    writer.set_time(0);
    std::vector<DeviceLane> lanes;
    std::vector<SnapshotStart> starts;
    for (const auto& [number, device] : trace->devices) {
        starts.push_back(start_of(device));
        auto cells = cells_of(device, starts.back(), options);
        if (!cells) return named(cells.error());
        LaneWriter& lane = writer.add_lane(snapshot_lane(number, *cells, trace->settings), nullptr);
        lanes.emplace_back(writer, lane, std::move(*cells));
    }
    writer.lanes_complete();
    for (const std::string& site : trace->sites) {
        RequestInfo info;
        info.id = site;
        writer.add_request(std::move(info));
    }
    std::size_t i = 0;
    for (const auto& [number, device] : trace->devices) {
        write_actions(lanes[i], device, starts[i], options.max_steps);
        ++i;
    }
    writer.set_phase(Phase::finished);
    StoredRecording stored;
    stored.recording = writer.recording();
    stored.meta = {{"title", stored.recording->title()}, {"program", "PyTorch memory snapshot"}, {"complete", "1"}, {"stripped", "0"}};
    stored.file_bytes = bytes.size();
    return stored;
}

Result<StoredRecording> open_memory_snapshot(const std::string& path) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (error) return Error{path + ": the file cannot be read (" + error.message() + ")", "Check the name"};
    if (size > max_file) return Error{path + ": the snapshot has " + std::to_string(size) + " bytes", "Snapshots of up to 4 GiB are read"};
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!file.good() && !file.eof()) return Error{path + ": the file cannot be read", "Check the rights on it"};
    return memory_snapshot(bytes, path);
}

}  // namespace kvloupe
