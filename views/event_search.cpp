// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/event_search.h"

#include "views/event_names.h"

#include <QCoreApplication>

#include <algorithm>

namespace kvloupe {

namespace {

constexpr std::uint64_t events_between_looks = 4096;  // at whether anybody still waits

QString searchWords(const char* text) { return QCoreApplication::translate("kvloupe::EventSearch", text); }

}  // namespace

std::uint32_t EventSearch::stepOf(std::uint64_t event) const {
    std::size_t low = 0, high = m_lane.step_count();
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        if (m_lane.step(middle).events.end <= event) low = middle + 1;
        else high = middle;
    }
    return static_cast<std::uint32_t>(low);
}

bool EventSearch::matches(const EventFilter& filter, std::uint64_t event, std::uint32_t step) const {
    return filter.matches(m_recording, m_lane, m_lane.events()[event], step);
}

std::optional<EventHit> EventSearch::findForwards(const EventFilter& filter, LogRange range, const std::atomic<bool>& cancelled) const {
    if (range.begin >= range.end) return {};
    std::uint32_t step = stepOf(range.begin);
    for (std::uint64_t event = range.begin; event < range.end; ++event) {
        while (m_lane.step(step).events.end <= event) ++step;
        if (matches(filter, event, step)) return EventHit{event, step};
        if (event % events_between_looks == 0 && cancelled.load(std::memory_order_relaxed)) return {};
    }
    return {};
}

std::optional<EventHit> EventSearch::findBackwards(const EventFilter& filter, LogRange range, const std::atomic<bool>& cancelled) const {
    if (range.begin >= range.end) return {};
    std::uint32_t step = stepOf(range.end - 1);
    for (std::uint64_t event = range.end; event-- > range.begin;) {
        while (m_lane.step(step).events.begin > event) --step;
        if (matches(filter, event, step)) return EventHit{event, step};
        if (event % events_between_looks == 0 && cancelled.load(std::memory_order_relaxed)) return {};
    }
    return {};
}

std::optional<EventHit> EventSearch::find(const EventFilter& filter, const SearchPlace& from, bool forwards,
                                          const std::atomic<bool>& cancelled) const {
    const std::size_t steps = m_lane.step_count();
    if (steps == 0 || !filter.error.isEmpty()) return {};
    const StepRecord& here = m_lane.step(std::min<std::size_t>(from.step, steps - 1));
    const std::uint64_t end = m_lane.step(steps - 1).events.end;
    const std::uint64_t own = from.event ? std::min(*from.event, end - 1) : 0;
    // Two stretches that make up the whole log: from here to its end, then from its other end back to here.
    std::optional<EventHit> hit;
    if (forwards) {
        const std::uint64_t first = from.event ? own + 1 : here.events.begin;
        hit = findForwards(filter, {first, end}, cancelled);
        if (!hit && (hit = findForwards(filter, {0, first}, cancelled))) hit->wrapped = true;
    } else {
        const std::uint64_t last = from.event ? own : here.events.end;
        hit = findBackwards(filter, {0, last}, cancelled);
        if (!hit && (hit = findBackwards(filter, {last, end}, cancelled))) hit->wrapped = true;
    }
    return hit;
}

QString filterText(const EventFilter& filter) {
    QStringList kinds;
    for (int i = 0; i < event_kind_count; ++i)
        if (filter.kinds.test(static_cast<std::size_t>(i))) kinds << kindLabel(static_cast<EventKind>(i));
    QString text = kinds.isEmpty() ? searchWords("event") : kinds.join(searchWords(" or "));
    if (!filter.request.isEmpty()) text += searchWords(" of request %1").arg(filter.request);
    if (!filter.sequence.isEmpty()) text += searchWords(" of sequence %1").arg(filter.sequence);
    if (filter.block) text += searchWords(" on block %1").arg(*filter.block);
    if (filter.firstStep)
        text += *filter.firstStep == *filter.lastStep ? searchWords(" in step %1").arg(*filter.firstStep)
                                                      : searchWords(" in steps %1 to %2").arg(*filter.firstStep).arg(*filter.lastStep);
    QStringList causes;
    for (int i = 0; i < cause_count; ++i)
        if (filter.causes.test(static_cast<std::size_t>(i))) causes << causeLabel(static_cast<Cause>(i));
    if (!causes.isEmpty()) text += searchWords(" because of %1").arg(causes.join(searchWords(" or ")));
    const QStringList said = filter.causeWords + filter.words;
    if (!said.isEmpty()) text += searchWords(" that says “%1”").arg(said.join(QLatin1Char(' ')));
    return text;
}

}  // namespace kvloupe
