// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/lane_state.h"
#include "engine/record/results.h"
#include "engine/record/results_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace kvloupe {

namespace {

// Who waits and who runs, in order, told by the events: arrivals join the end of the queue, the preempted its head.
class Queues {
public:
    void apply(const Event& event) {
        const std::uint32_t id = event.sequence.value;
        switch (event.kind) {
        case EventKind::arrive: m_waiting.push_back(id); break;
        case EventKind::admit:
        case EventKind::resume:
        case EventKind::fork:
            remove(m_waiting, id);
            if (std::find(m_running.begin(), m_running.end(), id) == m_running.end()) m_running.push_back(id);
            break;
        case EventKind::preempt:
            remove(m_running, id);
            m_waiting.insert(m_waiting.begin(), id);
            break;
        case EventKind::reject:
        case EventKind::finish:
            remove(m_waiting, id);
            remove(m_running, id);
            break;
        default: break;
        }
    }
    const std::vector<std::uint32_t>& waiting() const { return m_waiting; }
    const std::vector<std::uint32_t>& running() const { return m_running; }

private:
    static void remove(std::vector<std::uint32_t>& from, std::uint32_t id) {
        from.erase(std::remove(from.begin(), from.end(), id), from.end());
    }
    std::vector<std::uint32_t> m_waiting, m_running;
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

void append_step(std::string& json, std::size_t step, const LaneState& state, const Queues& queues,
                 const SequenceNames& names) {
    const auto block_text = [](BlockId block) { return std::to_string(block.value); };
    const auto name_text = [&](std::uint32_t id) { return quoted(names.name(SequenceId(id))); };
    json += "{\"step\":" + std::to_string(step);
    append_list(json, "free_order", state.free_order(), block_text);
    json += ",\"tables\":{";
    bool first = true;
    std::vector<std::uint32_t> holders = state.holders();
    std::sort(holders.begin(), holders.end());
    for (const std::uint32_t id : holders) {
        const TableState& table = state.sequences()[id].table;
        json += (first ? "" : ",") + name_text(id) + ":[";
        first = false;
        for (std::size_t i = 0; i < table.size(); ++i) json += (i ? "," : "") + block_text(table[i]);
        json += ']';
    }
    json += "},\"ref_counts\":{";
    first = true;
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
        LaneState state(lane.info().kv_cache ? lane.info().blocks : 0, lane.info().block_size);
        Queues queues;
        for (std::size_t s = 0, end = lane.step_count(); s < end; ++s) {
            const StepRecord& step = lane.step(s);
            for (std::uint64_t e = step.events.begin; e < step.events.end; ++e) {
                state.apply(lane.events()[e]);
                queues.apply(lane.events()[e]);
            }
            json += s ? ",\n" : "\n";
            append_step(json, s, state, queues, names);
        }
        json += "]}";
    }
    return json += "]}\n";
}

}  // namespace kvloupe
