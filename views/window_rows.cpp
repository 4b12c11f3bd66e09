// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/window_rows.h"

#include <algorithm>

namespace kvloupe {

namespace {

SlotUse useOf(const WindowRow& row, std::uint32_t position, std::uint32_t block_size) {
    const bool null = row.table[position / block_size] == null_block_id;
    if (position >= row.tokens) return SlotUse::unwritten;
    if (null) return SlotUse::given_up;
    if (!row.seen.sees(position)) return SlotUse::kept;
    return position < row.seen.sinks ? SlotUse::sink : SlotUse::seen;
}

std::vector<SlotRun> runsOf(const WindowRow& row, std::uint32_t block_size) {
    std::vector<SlotRun> runs;
    const auto slots = static_cast<std::uint32_t>(row.table.size() * block_size);
    for (std::uint32_t position = 0; position < slots; ++position) {
        const SlotUse use = useOf(row, position, block_size);
        if (!runs.empty() && runs.back().use == use) runs.back().end = position + 1;
        else runs.push_back({position, position + 1, use});
    }
    return runs;
}

// Groups as the recording names them; of a lane with one kind of layers, one.
std::vector<WindowRow> emptyRows(const LaneInfo& info) {
    std::vector<WindowRow> rows(std::max<std::size_t>(1, info.policy.groups.size()));
    const bool rank = info.policy.positions == "rank";
    for (std::size_t group = 0; group < rows.size(); ++group) {
        rows[group].group = static_cast<std::uint8_t>(group);
        if (group >= info.policy.groups.size()) continue;
        const CachePolicy::Group& of = info.policy.groups[group];
        rows[group].span = {of.window, of.sinks, of.chunk, rank};
    }
    for (std::uint32_t layer = 0; layer < info.layer_infos.size(); ++layer)
        if (info.layer_infos[layer].group < rows.size()) rows[info.layer_infos[layer].group].layers.push_back(layer);
    return rows;
}

}  // namespace

std::uint32_t WindowRow::count(SlotUse use) const {
    std::uint32_t slots = 0;
    for (const SlotRun& run : runs)
        if (run.use == use) slots += run.end - run.first;
    return slots;
}

std::uint32_t WindowRow::blocks_held() const { return static_cast<std::uint32_t>(table.size()) - blocks_given_up(); }

std::uint32_t WindowRow::blocks_given_up() const {
    return static_cast<std::uint32_t>(std::count(table.begin(), table.end(), null_block_id));
}

std::vector<WindowRow> windowRows(const LaneInfo& info, const LaneState& state, SequenceId sequence) {
    if (!sequence.valid() || sequence.value >= state.sequences().size() || state.block_size() == 0) return {};
    std::vector<WindowRow> rows = emptyRows(info);
    bool holds = false;
    for (WindowRow& row : rows) {
        row.table = state.table(sequence, row.group);
        row.tokens = state.sequences()[sequence.value].computed_tokens;
        if (row.tokens > 0) row.seen = row.span.seen(row.tokens - 1);
        row.runs = runsOf(row, state.block_size());
        holds = holds || row.table.size() > 0;
    }
    return holds ? rows : std::vector<WindowRow>{};
}

}  // namespace kvloupe
