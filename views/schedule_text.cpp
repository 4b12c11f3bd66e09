// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the scheduler view says: names of phases, tips, table.
#include "views/schedule_view.h"

#include "engine/record/describe.h"
#include "views/csv_line.h"
#include "views/format.h"
#include "views/picking.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

QString ScheduleView::phaseName(ScheduleData::Phase phase) const {
    switch (phase) {
    case ScheduleData::Phase::waiting: return tr("waiting");
    case ScheduleData::Phase::prefill: return tr("prefill");
    case ScheduleData::Phase::decode: return tr("decode");
    case ScheduleData::Phase::preempted: return tr("preempted");
    case ScheduleData::Phase::swapped: return tr("swapped out");
    }
    return {};
}

QString ScheduleView::describe(SequenceId sequence, std::uint32_t step) const {
    const Recording& recording = *cursor()->recording();
    const LaneRecord& lane = *cursor()->laneRecord();
    const ScheduleData::Row& row = data().rows()[sequence.value];
    const QString measured = originMark(Origin::measured);
    QStringList lines;
    const auto sentence = [&](std::uint64_t event) {
        return QString::fromStdString(describe_event(recording, lane, event));
    };
    const QString who = sequenceLabel(recording, lane, sequence);
    if (step < row.first) {
        lines << tr("%1 arrives in step %2").arg(who, formatCount(row.first));
    } else if (const ScheduleData::Span* span = data().spanAt(sequence, step)) {
        const std::uint32_t end = std::min(span->end, data().steps());
        lines << tr("%1, %2 in steps %3–%4").arg(who, phaseName(span->phase), formatCount(span->begin), formatCount(end - 1));
        if (span->tokens > 0) lines << (span->tokens == 1 ? tr("%1 %2 token computed") : tr("%1 %2 tokens computed")).arg(measured, formatCount(span->tokens));
        if (span->phase == ScheduleData::Phase::waiting) {
            if (const auto refusal = data().refusal(sequence, step)) lines << sentence(*refusal);
        } else if (span->tokens == 0) {
            lines << sentence(span->event);
        }
    } else if (step > row.last || (step == row.last && row.ending == EventKind::reject)) {
        lines << tr("%1 ended in step %2").arg(who, formatCount(row.last));
    } else {
        lines << tr("%1 runs, nothing was computed for it in step %2").arg(who, formatCount(step));
    }
    for (const ScheduleData::Mark& mark : row.marks)
        if (mark.step == step && lines.size() < 9)
            lines << (mark.count > 1 ? tr("%1 (the first of %2)").arg(sentence(mark.event)).arg(mark.count) : sentence(mark.event));
    return lines.join(QLatin1Char('\n'));
}

QString ScheduleView::tipAt(const QPointF& position) const {
    const Layout layout = layoutFor(QRectF(rect()));
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane || position.x() > layout.rows.right()) return {};
    const double at = std::floor(layout.axis.stepAt(std::max(position.x(), layout.rows.left())));
    const int step = position.x() < layout.rows.left() ? std::max(0, cursor()->step()) : static_cast<int>(at);
    if (step < 0 || step >= static_cast<int>(data().steps())) return {};
    if (const auto sequence = sequenceAt(layout, position)) return describe(*sequence, static_cast<std::uint32_t>(step));
    if (position.y() < layout.rows.bottom() || position.x() < layout.rows.left()) return {};
    const StepRecord& record = lane->step(static_cast<std::size_t>(step));
    const QString mark = originMark(Origin::measured);
    const CachePolicy& policy = lane->info().policy;
    const auto of = [](std::uint32_t limit) { return limit ? tr(" of %1").arg(formatCount(limit)) : QString(); };
    return QStringList{tr("Step %1").arg(formatCount(static_cast<quint64>(step))),
                       tr("%1 %2 prefill + %3 decode tokens%4")
                           .arg(mark, formatCount(record.prefill_tokens), formatCount(record.decode_tokens),
                                of(policy.max_num_batched_tokens)),
                       tr("%1 %2 running%3").arg(mark, formatCount(record.running), of(policy.max_num_seqs)),
                       tr("%1 %2 waiting").arg(mark, formatCount(record.waiting))}
        .join(QLatin1Char('\n'));
}

// A row per span of a sequence, then one per step; both only where they are in sight.
QString ScheduleView::csv() const {
    QString csv = csvLine({QStringLiteral("kind"), QStringLiteral("sequence"), QStringLiteral("name"), QStringLiteral("first_step"),
                           QStringLiteral("last_step"), QStringLiteral("tokens_measured"), QStringLiteral("prefill_tokens_measured"),
                           QStringLiteral("decode_tokens_measured"), QStringLiteral("running_measured"),
                           QStringLiteral("waiting_measured"), QStringLiteral("cause")});
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane || data().steps() == 0) return csv;
    const auto [begin, end] = range();
    const auto sentence = [&](std::uint64_t event) {
        return QString::fromStdString(describe_event(*cursor()->recording(), *lane, event));
    };
    const Layout layout = layoutFor(QRectF(rect()));
    for (std::size_t i = 0; i < m_order.size(); ++i) {
        const auto place = static_cast<double>(i);
        if (place + 1 <= layout.first || place >= layout.first + layout.shown) continue;
        const SequenceId sequence = m_order[i];
        const QString number = QString::number(sequence.value), name = sequenceName(*cursor()->recording(), *lane, sequence);
        for (const ScheduleData::Span& span : data().rows()[sequence.value].spans) {
            const std::uint32_t last = std::min(span.end, data().steps()) - 1;
            if (last < begin || span.begin >= end) continue;
            csv += csvLine({phaseName(span.phase), number, name, QString::number(span.begin), QString::number(last),
                            QString::number(span.tokens), {}, {}, {}, {}, sentence(span.event)});
        }
    }
    const auto last = static_cast<std::uint32_t>(std::min<double>(data().steps(), std::ceil(end)));
    for (auto step = static_cast<std::uint32_t>(std::max(0.0, begin)); step < last; ++step) {
        const StepRecord& record = lane->step(step);
        csv += csvLine({QStringLiteral("step"), {}, {}, QString::number(step), QString::number(step),
                        QString::number(std::uint64_t{record.prefill_tokens} + record.decode_tokens),
                        QString::number(record.prefill_tokens), QString::number(record.decode_tokens),
                        QString::number(record.running), QString::number(record.waiting), {}});
    }
    return csv;
}

}  // namespace kvloupe
