// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/free_runs.h"

#include <algorithm>
#include <bit>

namespace kvloupe {

FreeRuns FreeRuns::of(const LaneState& state) {
    FreeRuns result;
    FreeRun run;
    const auto close = [&] {
        if (run.length > 0) result.runs.push_back(run);
        if (run.length > result.largest.length) result.largest = run;
        run = {};
    };
    for (std::uint32_t block = 1; block < state.blocks().size(); ++block) {
        const BlockState& each = state.blocks()[block];
        if (each.owners > 0) {
            close();
            continue;
        }
        const bool cached = each.cached();
        if (run.length++ == 0) run.first = block;
        run.cached += cached;
        ++result.blocks;
        result.cached += cached;
    }
    close();
    return result;
}

const FreeRun* FreeRuns::holding(std::uint32_t block) const {
    const auto after = std::upper_bound(runs.begin(), runs.end(), block, [](std::uint32_t at, const FreeRun& run) { return at < run.first; });
    if (after == runs.begin()) return nullptr;
    const FreeRun& run = *(after - 1);
    return block < run.first + run.length ? &run : nullptr;
}

std::vector<RunBar> runBars(const FreeRuns& runs, std::uint32_t most) {
    std::vector<RunBar> bars;
    const bool powers = runs.largest.length > most;
    const std::size_t count = powers ? static_cast<std::size_t>(std::bit_width(runs.largest.length)) : runs.largest.length;
    for (std::uint32_t i = 0; i < count; ++i)
        bars.push_back(powers ? RunBar{1u << i, static_cast<std::uint32_t>((std::uint64_t{2} << i) - 1)} : RunBar{i + 1, i + 1});
    for (const FreeRun& run : runs.runs) {
        RunBar& bar = bars[powers ? static_cast<std::size_t>(std::bit_width(run.length)) - 1 : run.length - std::size_t{1}];
        if (bar.plain + bar.cached == 0) bar.first = run.first;
        ++(run.cached > 0 ? bar.cached : bar.plain);
    }
    return bars;
}

}  // namespace kvloupe
