// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/snapshot_trace.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace kvloupe {

namespace {

using Node = PlainPickle::Node;

constexpr std::uint64_t max_address = std::uint64_t{1} << 56;
constexpr std::uint64_t max_bytes = std::uint64_t{1} << 46;

Error impossible(const char* what, std::int64_t value) {
    return {"The snapshot names " + std::string(what) + " of " + std::to_string(value) + ", which cannot be", "Write the snapshot again"};
}

class SnapshotReading {
public:
    explicit SnapshotReading(const PlainPickle& pickle) : m_pickle(pickle) { m_trace.sites.push_back("(no frames recorded)"); }

    Result<SnapshotTrace> read() {
        const Node root = m_pickle.root();
        const Node segments = m_pickle.find(root, "segments"), traces = m_pickle.find(root, "device_traces");
        if (!is(segments, PlainPickle::Kind::list))
            return Error{"The pickle is no memory snapshot: it has no list 'segments'",
                         "Write one with torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")"};
        for (std::size_t i = 0; i < m_pickle.size(segments); ++i)
            if (auto segment = read_segment(m_pickle.element(segments, i)); !segment) return segment.error();
        for (std::size_t device = 0; device < m_pickle.size(traces); ++device) {
            const Node list = m_pickle.element(traces, device);
            for (std::size_t i = 0; i < m_pickle.size(list); ++i)
                if (auto action = read_action(m_pickle.element(list, i), static_cast<std::int64_t>(device)); !action) return action.error();
        }
        read_settings(m_pickle.find(root, "allocator_settings"));
        if (m_trace.devices.empty())
            return Error{"The snapshot is empty: no device has a segment or an action", "Allocate something before writing it"};
        return std::move(m_trace);
    }

private:
    bool is(Node node, PlainPickle::Kind kind) const { return node != PlainPickle::absent && m_pickle.kind(node) == kind; }
    std::int64_t number(Node of, std::string_view key, std::int64_t otherwise = 0) const {
        const Node node = m_pickle.find(of, key);
        return node == PlainPickle::absent ? otherwise : m_pickle.integer(node, otherwise);
    }

    Result<void> read_segment(Node segment) {
        const std::int64_t device = number(segment, "device"), address = number(segment, "address"), total = number(segment, "total_size");
        if (device < 0 || device > 4096) return impossible("a device", device);
        if (address < 0 || static_cast<std::uint64_t>(address) > max_address) return impossible("an address", address);
        if (total < 0 || static_cast<std::uint64_t>(total) > max_bytes) return impossible("a segment", total);
        SnapshotDevice& to = m_trace.devices[device];
        const auto begin = static_cast<std::uint64_t>(address);
        std::uint64_t at = begin, end = begin + static_cast<std::uint64_t>(total);
        const Node blocks = m_pickle.find(segment, "blocks");
        for (std::size_t i = 0; i < m_pickle.size(blocks); ++i) {
            const Node block = m_pickle.element(blocks, i);
            const std::int64_t size = number(block, "size"), asked = number(block, "requested_size", size);
            const std::int64_t place = number(block, "address", static_cast<std::int64_t>(at));  // old snapshots: one behind the other
            if (size < 0 || static_cast<std::uint64_t>(size) > max_bytes) return impossible("a block", size);
            if (place < 0 || static_cast<std::uint64_t>(place) > max_address) return impossible("an address", place);
            at = static_cast<std::uint64_t>(place) + static_cast<std::uint64_t>(size);
            end = std::max(end, at);
            if (m_pickle.text(m_pickle.find(block, "state")).rfind("active", 0) != 0 || size == 0) continue;
            const std::uint64_t requested = asked > 0 && asked <= size ? static_cast<std::uint64_t>(asked) : static_cast<std::uint64_t>(size);
            to.live[at - static_cast<std::uint64_t>(size)] = {static_cast<std::uint64_t>(place), static_cast<std::uint64_t>(size), requested,
                                                              site_of(m_pickle.find(block, "frames")), number(segment, "stream")};
        }
        if (end > begin) to.segments.push_back({begin, end});
        return {};
    }

    Result<void> read_action(Node action, std::int64_t device) {
        const std::string_view name = m_pickle.text(m_pickle.find(action, "action"));
        const std::pair<std::string_view, SnapshotAction::Kind> known[] = {
            {"alloc", SnapshotAction::alloc},           {"free_completed", SnapshotAction::free},
            {"free", SnapshotAction::free},             {"segment_alloc", SnapshotAction::segment_alloc},
            {"segment_map", SnapshotAction::segment_alloc}, {"segment_free", SnapshotAction::segment_free},
            {"segment_unmap", SnapshotAction::segment_free}, {"oom", SnapshotAction::oom}};
        const auto found = std::find_if(std::begin(known), std::end(known), [&](const auto& one) { return one.first == name; });
        if (found == std::end(known)) return {};  // free_requested, snapshot and what later versions add change nothing
        SnapshotAction one;
        one.kind = found->second;
        const std::int64_t size = number(action, "size");
        const std::int64_t address = one.kind == SnapshotAction::oom ? number(action, "device_free") : number(action, "addr");
        if (size < 0 || static_cast<std::uint64_t>(size) > max_bytes) return impossible("a size", size);
        if (address < 0 || static_cast<std::uint64_t>(address) > max_address) return impossible("an address", address);
        if (size == 0 && one.kind != SnapshotAction::oom) return {};
        one.address = static_cast<std::uint64_t>(address);
        one.size = static_cast<std::uint64_t>(size);
        one.time_us = number(action, "time_us");
        one.site = site_of(m_pickle.find(action, "frames"));
        one.stream = number(action, "stream");
        m_trace.devices[device].actions.push_back(one);
        return {};
    }

    // The innermost frame that is not torch's own. Equal stacks are one node of the pickle, mostly.
    std::uint32_t site_of(Node frames) {
        if (m_pickle.size(frames) == 0) return 0;
        const auto [known, fresh] = m_by_frames.try_emplace(frames, 0);
        if (!fresh) return known->second;
        Node chosen = m_pickle.element(frames, 0);
        for (std::size_t i = 0; i < m_pickle.size(frames); ++i) {
            const std::string_view file = m_pickle.text(m_pickle.find(m_pickle.element(frames, i), "filename"));
            if (file.size() < 4 || file.substr(file.size() - 3) != ".py" || file.find("/torch/") != std::string_view::npos) continue;
            chosen = m_pickle.element(frames, i);
            break;
        }
        const std::string_view file = m_pickle.text(m_pickle.find(chosen, "filename"));
        const std::string name(m_pickle.text(m_pickle.find(chosen, "name")).substr(0, 120));
        const std::string place(file.substr(file.find_last_of('/') + 1).substr(0, 120));
        const std::string text = name + " (" + place + ":" + std::to_string(number(chosen, "line")) + ")";
        const auto [site, added] = m_by_text.try_emplace(text, static_cast<std::uint32_t>(m_trace.sites.size()));
        if (added) m_trace.sites.push_back(text);
        return known->second = site->second;
    }

    void read_settings(Node settings) {
        for (std::size_t i = 0; i < m_pickle.size(settings) && i < 64; ++i) {
            const auto [key, value] = m_pickle.entry(settings, i);
            if (key == PlainPickle::absent || !is(key, PlainPickle::Kind::text)) continue;
            std::string text;
            switch (m_pickle.kind(value)) {
            case PlainPickle::Kind::text: text = std::string(m_pickle.text(value)); break;
            case PlainPickle::Kind::boolean: text = m_pickle.integer(value) != 0 ? "true" : "false"; break;
            case PlainPickle::Kind::integer: text = std::to_string(m_pickle.integer(value)); break;
            case PlainPickle::Kind::real: text = std::to_string(m_pickle.real(value)); break;
            default: continue;
            }
            if (!text.empty()) m_trace.settings += (m_trace.settings.empty() ? "" : ", ") + std::string(m_pickle.text(key)) + " " + text;
        }
    }

    const PlainPickle& m_pickle;
    SnapshotTrace m_trace;
    std::unordered_map<Node, std::uint32_t> m_by_frames;
    std::unordered_map<std::string, std::uint32_t> m_by_text;
};

}  // namespace

Result<SnapshotTrace> read_snapshot(const PlainPickle& pickle) { return SnapshotReading(pickle).read(); }

SnapshotStart start_of(const SnapshotDevice& device) {
    SnapshotStart start;
    start.live = device.live;
    std::int64_t reserved = 0;
    for (const SnapshotRange& segment : device.segments) reserved += static_cast<std::int64_t>(segment.end - segment.begin);
    for (auto action = device.actions.rbegin(); action != device.actions.rend(); ++action) {
        switch (action->kind) {
        case SnapshotAction::alloc: start.live.erase(action->address); break;
        case SnapshotAction::free:
            start.live[action->address] = {action->address, granules(action->size) * snapshot_granule, action->size, action->site,
                                           action->stream};
            break;
        case SnapshotAction::segment_alloc: reserved -= static_cast<std::int64_t>(action->size); break;
        case SnapshotAction::segment_free: reserved += static_cast<std::int64_t>(action->size); break;
        case SnapshotAction::oom: break;
        }
    }
    start.reserved = static_cast<std::uint64_t>(std::max<std::int64_t>(reserved, 0));
    return start;
}

}  // namespace kvloupe
