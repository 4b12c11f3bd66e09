// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/predicted_bytes.h"

#include "engine/record/figures.h"
#include "engine/record/kv_layout.h"
#include "engine/record/ledger.h"
#include "engine/record/recount.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

PredictedBytes::PredictedBytes(const Recording* recording, LaneId lane)
    : m_lane(&recording->lane(lane)), m_windowed(windowed(m_lane->info())),
      m_state(m_windowed ? m_lane->info().blocks : 0, m_lane->info().block_size) {}

bool PredictedBytes::windowed(const LaneInfo& lane) {
    return lane.kv_cache && std::any_of(lane.layer_infos.begin(), lane.layer_infos.end(),
                                        [](const LayerInfo& layer) { return layer.window > 0 || layer.chunk > 0; });
}

void PredictedBytes::advance() {
    const LaneInfo& info = m_lane->info();
    const std::size_t count = m_lane->step_count();
    for (std::size_t step = m_steps.size(); step < count; ++step) {
        if (m_windowed) {
            m_steps.push_back(counted(step));
            continue;
        }
        const std::uint64_t tokens = m_lane->step(step).slots.token;
        m_steps.push_back({tokens, predicted_kv_bytes(info, tokens)});
    }
}

PredictedBytes::Step PredictedBytes::counted(std::size_t step) {
    const LogRange events = m_lane->step(step).events;
    const std::uint64_t release = release_begin(*m_lane, step);
    m_state.begin_step(static_cast<std::uint32_t>(step));
    for (std::uint64_t e = events.begin; e < release; ++e) m_state.apply(m_lane->events()[e]);
    Step counted;
    double bytes = 0;
    for (const std::uint32_t id : m_state.holders()) {
        const std::uint64_t tokens = m_state.sequences()[id].computed_tokens;
        counted.tokens += tokens;
        for (const LayerInfo& layer : m_lane->info().layer_infos)
            bytes += static_cast<double>(layer.kept_tokens(tokens)) * layer.bytes_per_token();
    }
    counted.bytes = static_cast<std::uint64_t>(std::llround(bytes));
    for (std::uint64_t e = std::max(release, events.begin); e < events.end; ++e) m_state.apply(m_lane->events()[e]);
    return counted;
}

std::int64_t PredictedBytes::residual(std::size_t step) const {
    return static_cast<std::int64_t>(m_lane->step(step).kv_bytes) - static_cast<std::int64_t>(m_steps[step].bytes);
}

std::string PredictedBytes::whyResidual(std::size_t step) const {
    if (!m_lane->info().kv_cache || step >= m_steps.size()) return {};
    for (const LedgerEntry& entry : ledger(*m_lane, step))
        if (entry.what == (m_windowed ? "KV by formula" : "token slots")) return entry.residual_why;
    return {};
}

bool PredictedBytes::onlySlotsAreUnpredicted(const LaneInfo& lane) {
    return !windowed(lane) && lane.residual_pages == 0 && KvLayout::of(lane.layer_infos, lane.block_size).fixed_bytes == 0;
}

std::uint64_t PredictedBytes::tokensThatFill(const LaneInfo& lane, std::uint64_t memory) {
    if (!lane.kv_cache || lane.bytes_per_token == 0) return 0;
    if (!windowed(lane)) return memory / lane.bytes_per_token;
    // The formula grows, steeply at first and then with the layers that see everything; a chunk's part also falls, but never
    // below that. Doubling finds a length that is too long, halving the last one that fits.
    constexpr std::uint64_t longest = std::uint64_t{1} << 50;
    std::uint64_t fits = 0, over = 1;
    while (over < longest && predicted_sequence_bytes(lane, over) <= memory) {
        fits = over;
        over *= 2;
    }
    if (over >= longest) return 0;
    while (over - fits > 1) {
        const std::uint64_t middle = fits + (over - fits) / 2;
        (predicted_sequence_bytes(lane, middle) <= memory ? fits : over) = middle;
    }
    return fits;
}

}  // namespace kvloupe
