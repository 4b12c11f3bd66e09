// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/slot_series.h"

#include "engine/record/figures.h"
#include "engine/record/recount.h"

#include <algorithm>

namespace kvloupe {

namespace {

constexpr std::uint64_t events_inline = 50000;  // recounted at once: a few milliseconds

}  // namespace

SlotSums sumsOf(const SlotCounts& slots) {
    return {slots.token, slots.reserved, slots.internal, slots.external, slots.cached, slots.free};
}

std::uint64_t SlotSeries::pool() const {
    const LaneInfo& info = m_lane->info();
    return info.kv_cache && info.blocks > 1 ? std::uint64_t{info.blocks - 1} * info.block_size : 0;
}

void SlotSeries::advance(std::size_t steps) {
    const std::size_t from = m_slots.size();
    for (std::size_t step = from; step < steps; ++step) {
        const StepRecord& record = m_lane->step(step);
        std::uint32_t rejections = 0;
        for (std::uint64_t i = record.events.begin; i < record.events.end; ++i)
            rejections += m_lane->events()[i].kind == EventKind::reject;
        m_slots.push_back(record.slots);
        m_rejections.push_back(rejections);
    }
    accumulate(from);
}

void SlotSeries::recounted(const std::vector<SlotCounts>& slots) {
    m_recounted = std::min(slots.size(), m_slots.size());
    std::copy_n(slots.begin(), m_recounted, m_slots.begin());
    accumulate(0);
}

void SlotSeries::accumulate(std::size_t from) {
    m_past.resize(from + 1);
    for (std::size_t step = from; step < m_slots.size(); ++step) {
        Past past = m_past.back();
        const StepRecord& record = m_lane->step(step);
        const SlotSums sums = sumsOf(m_slots[step]);
        for (std::size_t kind = 0; kind < sums.size(); ++kind) past.sums[kind] += sums[kind];
        const bool waits = record.waiting > 0;
        past.waiting += waits;
        if (const auto wasted = wasted_share(m_slots[step])) {
            past.wasted += *wasted;
            ++past.held;
            past.wastedWaiting += waits ? *wasted : 0;
            past.heldWaiting += waits;
        }
        past.peakRunning = std::max(past.peakRunning, record.running);
        past.rejected += m_rejections[step];
        m_past.push_back(past);
    }
}

SlotSums SlotSeries::sum(std::size_t begin, std::size_t end) const {
    SlotSums sums{};
    for (std::size_t kind = 0; kind < sums.size(); ++kind) sums[kind] = m_past[end].sums[kind] - m_past[begin].sums[kind];
    return sums;
}

std::optional<double> SlotSeries::wastedSoFar(std::size_t step) const {
    const Past& past = m_past[step + 1];
    const std::uint32_t over = past.waiting > 0 ? past.heldWaiting : past.held;
    if (over == 0) return std::nullopt;
    return (past.waiting > 0 ? past.wastedWaiting : past.wasted) / over;
}

SlotHistory::SlotHistory(QObject* parent) : QObject(parent) {}

void SlotHistory::update(const std::shared_ptr<const Recording>& recording) {
    if (recording != m_recording) {
        m_job.cancel();
        m_recording = recording;
        m_series.clear();
        if (recording)
            for (const auto& lane : recording->lanes()) m_series.emplace_back(lane.get());
    }
    if (!recording) return;
    std::uint64_t events = 0;
    std::vector<std::size_t> steps;
    bool missing = false;
    for (std::size_t i = 0; i < m_series.size(); ++i) {
        const LaneRecord& lane = *recording->lanes()[i];
        m_series[i].advance(lane.step_count());
        steps.push_back(m_series[i].steps());
        if (m_series[i].pool() == 0 || m_series[i].recountedSteps() == steps.back()) continue;
        missing = true;
        events += lane.step(steps.back() - 1).events.end;
    }
    if (!missing || m_job.running() || recording->phase() == Phase::running) return;
    using Recounted = std::vector<std::vector<SlotCounts>>;
    const auto count = [recording, steps](const BackgroundJob::Cancelled& cancelled, Recounted& into) {
        for (std::size_t i = 0; i < steps.size() && !cancelled; ++i) {
            const LaneRecord& lane = *recording->lanes()[i];
            into.push_back(lane.info().kv_cache ? recount(*recording, lane, steps[i]).slots : std::vector<SlotCounts>());
        }
    };
    if (events <= events_inline) {
        Recounted slots;
        count(BackgroundJob::Cancelled(false), slots);
        for (std::size_t i = 0; i < slots.size(); ++i) m_series[i].recounted(slots[i]);
        return;
    }
    auto slots = std::make_shared<Recounted>();
    m_job.start([count, slots](const BackgroundJob::Cancelled& cancelled) { count(cancelled, *slots); },
                [this, slots] {
                    for (std::size_t i = 0; i < slots->size(); ++i) m_series[i].recounted((*slots)[i]);
                    Q_EMIT recounted();
                });
}

void SlotHistory::settle() {
    if (m_job.running()) m_job.finish();
}

}  // namespace kvloupe
