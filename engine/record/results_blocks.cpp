// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/lane_state.h"
#include "engine/record/results.h"
#include "engine/record/results_text.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>

namespace kvloupe {

namespace {

// Who waits and who runs, in order, told by the events. First come first served: arrivals join the end of the queue, the
// preempted its head. By priority: whoever comes stands by (priority, arrival). A fork counts as arrived with its parent;
// that of a parent that waits has nothing to share and waits as well.
class Queues {
public:
    Queues(const Recording& recording, const LaneRecord& lane) : m_priority(lane.sequences().size(), 0) {
        m_by_priority = lane.info().policy.scheduling == "priority";
        m_order.resize(m_priority.size(), 0);
        for (std::size_t i = 0; i < m_priority.size(); ++i)
            if (const RequestId request = lane.sequences()[i].request; request.value < recording.requests().size())
                m_priority[i] = recording.requests()[request.value].priority;
    }

    void apply(const Event& event) {
        const std::uint32_t id = event.sequence.value;
        if (id >= m_priority.size()) return;
        switch (event.kind) {
        case EventKind::arrive:
            m_order[id] = m_arrived++;
            wait(id, false);
            break;
        case EventKind::admit:
        case EventKind::resume: run(id); break;
        case EventKind::fork: {
            const bool known = event.other < m_order.size();
            if (!known || std::find(m_running.begin(), m_running.end(), event.other) != m_running.end()) {
                m_order[id] = known ? m_order[event.other] : m_arrived++;
                run(id);
            } else {
                m_order[id] = m_arrived++;
                wait(id, false);
            }
            break;
        }
        case EventKind::preempt:
            remove(m_running, id);
            wait(id, true);
            break;
        case EventKind::reject:
        case EventKind::finish:
            remove(m_waiting, id);
            remove(m_running, id);
            break;
        default: break;
        }
    }
    const std::deque<std::uint32_t>& waiting() const { return m_waiting; }
    const std::deque<std::uint32_t>& running() const { return m_running; }

private:
    static void remove(std::deque<std::uint32_t>& from, std::uint32_t id) {
        if (const auto found = std::find(from.begin(), from.end(), id); found != from.end()) from.erase(found);
    }
    void run(std::uint32_t id) {
        remove(m_waiting, id);
        remove(m_running, id);
        m_running.push_back(id);
    }
    void wait(std::uint32_t id, bool at_head) {
        const auto before = [this](std::uint32_t a, std::uint32_t b) {
            return m_priority[a] != m_priority[b] ? m_priority[a] < m_priority[b] : m_order[a] < m_order[b];
        };
        if (m_by_priority) m_waiting.insert(std::upper_bound(m_waiting.begin(), m_waiting.end(), id, before), id);
        else if (at_head) m_waiting.push_front(id);
        else m_waiting.push_back(id);
    }

    bool m_by_priority = false;
    std::uint64_t m_arrived = 0;
    std::vector<std::int32_t> m_priority;  // (sequences)
    std::vector<std::uint64_t> m_order;    // (sequences) of arrival
    std::deque<std::uint32_t> m_waiting, m_running;
};

std::string quoted(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <class Range, class Write>
void append_list(std::string& json, const char* key, const Range& range, Write write) {
    json += std::string(",\"") + key + "\":[";
    bool first = true;
    for (const auto& item : range) {
        if (!first) json += ',';
        first = false;
        json += write(item);
    }
    json += ']';
}

std::string block_text(BlockId block) { return std::to_string(block.value); }

// {"a":[1,2],"b":[3]} for one group.
void append_tables(std::string& json, const LaneState& state, std::uint8_t group, const SequenceNames& names) {
    std::vector<std::uint32_t> holders = state.holders();
    std::sort(holders.begin(), holders.end());
    json += '{';
    bool first = true;
    for (const std::uint32_t id : holders) {
        const TableState& table = state.table(SequenceId(id), group);
        if (table.empty()) continue;
        json += (first ? "" : ",") + quoted(names.name(SequenceId(id))) + ":[";
        first = false;
        for (std::size_t i = 0; i < table.size(); ++i) json += (i ? "," : "") + block_text(table[i]);
        json += ']';
    }
    json += '}';
}

void append_step(std::string& json, const LaneInfo& info, const LaneState& state, const Queues& queues,
                 const SequenceNames& names) {
    const auto name_text = [&](std::uint32_t id) { return quoted(names.name(SequenceId(id))); };
    json += "{\"step\":" + std::to_string(state.step());
    std::vector<BlockId> free = state.free_order();
    if (info.policy.kind == "contiguous") std::sort(free.begin(), free.end());
    append_list(json, "free_order", free, block_text);
    json += ",\"tables\":";
    append_tables(json, state, 0, names);
    if (info.policy.groups.size() > 1) {
        for (std::size_t group = 0; group < info.policy.groups.size(); ++group) {
            json += group == 0 ? ",\"group_tables\":[" : ",";
            append_tables(json, state, static_cast<std::uint8_t>(group), names);
        }
        json += ']';
    }
    json += ",\"ref_counts\":{";
    bool first = true;
    std::vector<BlockId> hashed;
    for (std::uint32_t block = 1; block < state.blocks().size(); ++block) {
        const BlockState& one = state.blocks()[block];
        if (one.hashed) hashed.emplace_back(block);
        if (one.owners == 0) continue;
        json += (first ? "\"" : ",\"") + std::to_string(block) + "\":" + std::to_string(one.owners);
        first = false;
    }
    json += '}';
    append_list(json, "hashed", hashed, block_text);
    append_list(json, "waiting", queues.waiting(), name_text);
    append_list(json, "running", queues.running(), name_text);
    json += '}';
}

}  // namespace

std::string blocks_json(const Recording& recording) {
    std::string json = "{\"lanes\":[";
    for (std::size_t i = 0; i < recording.lanes().size(); ++i) {
        const LaneRecord& lane = *recording.lanes()[i];
        const SequenceNames names(recording, lane);
        json += (i ? ",\n" : "\n") + std::string("{\"name\":") + quoted(lane.info().name) + ",\"steps\":[";
        LaneState state = lane.state_before(0);
        Queues queues(recording, lane);
        for (std::size_t s = 0, end = lane.step_count(); s < end; ++s) {
            const StepRecord& step = lane.step(s);
            state.begin_step(static_cast<std::uint32_t>(s));
            for (std::uint64_t e = step.events.begin; e < step.events.end; ++e) {
                state.apply(lane.events()[e]);
                queues.apply(lane.events()[e]);
            }
            json += s ? ",\n" : "\n";
            append_step(json, lane.info(), state, queues, names);
        }
        json += "]}";
    }
    return json += "]}\n";
}

}  // namespace kvloupe
