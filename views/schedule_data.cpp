// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/schedule_data.h"

#include <algorithm>

namespace kvloupe {

void ScheduleData::Load::include(const Load& other) {
    if (std::uint64_t{other.prefill} + other.decode > std::uint64_t{prefill} + decode) {
        prefill = other.prefill;
        decode = other.decode;
    }
    running = std::max(running, other.running);
    waiting = std::max(waiting, other.waiting);
}

namespace {

ScheduleData::Load loadOf(const StepRecord& step) {
    return {step.prefill_tokens, step.decode_tokens, step.running, step.waiting};
}

}  // namespace

ScheduleData::Row& ScheduleData::row(SequenceId sequence, std::uint32_t step) {
    if (sequence.value >= m_rows.size()) {
        m_rows.resize(std::size_t{sequence.value} + 1);
        m_refusals.resize(m_rows.size());
    }
    Row& row = m_rows[sequence.value];
    if (!row.seen) {
        row.seen = true;
        row.first = step;
    }
    return row;
}

void ScheduleData::closeOpen(Row& row) {
    if (row.spans.empty() || row.spans.back().end != open_end) return;
    row.spans.back().end = m_steps;
    if (row.spans.back().begin == m_steps) row.spans.pop_back();  // it was over in the step in which it began
}

void ScheduleData::hold(SequenceId sequence, Phase phase, std::uint64_t event) {
    Row& held = row(sequence, m_steps);
    if (!held.spans.empty() && held.spans.back().end == open_end && held.spans.back().phase == phase) return;
    closeOpen(held);
    // What the step had given to it was undone.
    if (!held.spans.empty() && held.spans.back().end > m_steps) {
        Span& undone = held.spans.back();
        undone.end = m_steps;
        undone.tokens -= std::min(undone.tokens, held.workTokens);
        if (undone.phase == Phase::decode) held.decoded -= std::min(held.decoded, 1u);
        if (undone.begin == m_steps) held.spans.pop_back();
    }
    held.spans.push_back({m_steps, open_end, 0, phase, event});
    m_phases[static_cast<std::size_t>(phase)] = true;
}

void ScheduleData::work(SequenceId sequence, Phase phase, std::uint32_t tokens, std::uint64_t event) {
    Row& worker = row(sequence, m_steps);
    closeOpen(worker);
    m_phases[static_cast<std::size_t>(phase)] = true;
    if (worker.workStep != m_steps) {
        worker.workStep = m_steps;
        worker.workTokens = 0;
    }
    worker.workTokens += tokens;
    if (!worker.spans.empty()) {
        Span& last = worker.spans.back();
        if (last.phase == phase && last.end >= m_steps) {
            last.end = m_steps + 1;
            last.tokens += tokens;
            return;
        }
        if (last.end > m_steps) {  // recomputed and decoded in one step: an uncached lane; the decoded token counts
            last.end = m_steps;
            if (last.begin == m_steps) worker.spans.pop_back();
        }
    }
    worker.spans.push_back({m_steps, m_steps + 1, tokens, phase, event});
}

void ScheduleData::mark(SequenceId sequence, EventKind kind, std::uint64_t event) {
    Row& marked = row(sequence, m_steps);
    m_kinds[static_cast<std::size_t>(kind)] = true;
    for (auto entry = marked.marks.rbegin(); entry != marked.marks.rend() && entry->step == m_steps; ++entry)
        if (entry->kind == kind) {
            ++entry->count;
            return;
        }
    marked.marks.push_back({m_steps, 1, kind, event});
}

void ScheduleData::take(const Event& event, std::uint64_t index) {
    const SequenceId sequence = event.sequence;
    if (!sequence.valid()) return;
    switch (event.kind) {
    case EventKind::arrive:
        row(sequence, m_steps).prompt = event.tokens;
        hold(sequence, Phase::waiting, index);
        break;
    case EventKind::refuse:
        row(sequence, m_steps);
        m_refusals[sequence.value].push_back({m_steps, index});
        break;
    case EventKind::admit: closeOpen(row(sequence, m_steps)); break;
    case EventKind::resume:
        closeOpen(row(sequence, m_steps));
        mark(sequence, event.kind, index);
        break;
    case EventKind::preempt:
        mark(sequence, event.kind, index);
        hold(sequence, Phase::preempted, index);
        break;
    case EventKind::swap_out: hold(sequence, Phase::swapped, index); break;
    case EventKind::fork: {
        Row& child = row(sequence, m_steps);
        if (sequence.value < m_lane->sequences().size()) child.prompt = m_lane->sequences()[sequence.value].prompt_tokens;
        if (child.prompt == 0) child.prompt = event.tokens;
        mark(sequence, event.kind, index);
        break;
    }
    case EventKind::prefill:
        work(sequence, event.cause == Cause::no_kv_cache ? Phase::decode : Phase::prefill, event.tokens, index);
        break;
    case EventKind::decode:
        work(sequence, Phase::decode, event.tokens, index);
        row(sequence, m_steps).decoded += event.tokens;
        break;
    case EventKind::prefix_hit:
        if (event.cause == Cause::duplicate_owner) break;  // a duplicate was merged, nothing was found
        [[fallthrough]];
    case EventKind::copy_on_write: mark(sequence, event.kind, index); break;
    case EventKind::reject:
    case EventKind::finish: {
        Row& ended = row(sequence, m_steps);
        closeOpen(ended);
        ended.last = m_steps;
        ended.ending = event.kind;
        mark(sequence, event.kind, index);
        break;
    }
    default: break;
    }
}

void ScheduleData::update(const Recording& recording, LaneId laneId, const std::atomic<bool>& cancelled) {
    if (&recording != m_recording || laneId != m_laneId) {
        *this = ScheduleData();
        m_recording = &recording;
        m_laneId = laneId;
    }
    m_lane = &recording.lane(laneId);
    const auto steps = static_cast<std::uint32_t>(m_lane->step_count());
    for (; m_steps < steps && !cancelled.load(std::memory_order_relaxed); ++m_steps) {
        const StepRecord& step = m_lane->step(m_steps);
        for (std::uint64_t i = step.events.begin; i < step.events.end; ++i) take(m_lane->events()[i], i);
        const Load load = loadOf(step);
        m_peaks.tokens = std::max(m_peaks.tokens, load.prefill + load.decode);
        m_peaks.running = std::max(m_peaks.running, load.running);
        m_peaks.waiting = std::max(m_peaks.waiting, load.waiting);
        if (m_steps % fold == 0) m_folded.emplace_back();
        m_folded.back().include(load);
    }
}

ScheduleData::Load ScheduleData::load(std::uint32_t begin, std::uint32_t end) const {
    Load most;
    end = std::min(end, m_steps);
    for (std::uint32_t step = begin; step < end;) {
        if (step % fold == 0 && end - step >= fold) {
            most.include(m_folded[step / fold]);
            step += fold;
        } else {
            most.include(loadOf(m_lane->step(step)));
            ++step;
        }
    }
    return most;
}

const ScheduleData::Span* ScheduleData::spanAt(SequenceId sequence, std::uint32_t step) const {
    if (sequence.value >= m_rows.size() || step >= m_steps) return nullptr;
    const std::vector<Span>& spans = m_rows[sequence.value].spans;
    auto next = std::upper_bound(spans.begin(), spans.end(), step,
                                 [](std::uint32_t value, const Span& span) { return value < span.begin; });
    if (next == spans.begin()) return nullptr;
    --next;
    return step < next->end ? &*next : nullptr;
}

std::optional<std::uint64_t> ScheduleData::refusal(SequenceId sequence, std::uint32_t step) const {
    if (sequence.value >= m_refusals.size()) return {};
    const auto& refusals = m_refusals[sequence.value];
    const auto next = std::upper_bound(refusals.begin(), refusals.end(), step,
                                       [](std::uint32_t value, const Refusal& r) { return value < r.step; });
    return next == refusals.begin() ? std::nullopt : std::optional((next - 1)->event);
}

}  // namespace kvloupe
