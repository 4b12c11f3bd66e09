// SPDX-License-Identifier: GPL-3.0-or-later
//
// Step times of the lane in focus beside those of the lane that it is compared with.
#include "views/step_time_view.h"

#include "views/csv_line.h"
#include "views/format.h"
#include "views/reference.h"

#include <QComboBox>

#include <cmath>
#include <limits>

namespace kvloupe {

namespace {

constexpr double nothing_beside = std::numeric_limits<double>::quiet_NaN();

QString signedDuration(double nanoseconds) {
    const QString sign = nanoseconds < 0 ? QStringLiteral("−") : nanoseconds > 0 ? QStringLiteral("+") : QString();
    return sign + formatDuration(std::abs(nanoseconds));
}

QString percentOf(double difference, double of) {
    if (!(of > 0)) return {};
    const double percent = difference / of * 100;
    return QStringLiteral(" (%1%2 %)").arg(percent < 0 ? QStringLiteral("−") : QStringLiteral("+"), QString::number(std::abs(percent), 'f', 1));
}

}  // namespace

std::vector<ViewChoice> StepTimeView::choices() const {
    return cursor()->reference() ? std::vector<ViewChoice>{differenceChoice(m_showDifference)} : std::vector<ViewChoice>{};
}

void StepTimeView::setChoice(const QString&, int index) { m_showDifference = index == 1; }

bool StepTimeView::compares() const {
    const Reference* reference = cursor()->reference();
    return reference && m_showDifference && !reference->isSameLane();
}

StepTimeView::TimePair StepTimeView::timesOf(const LaneProgress& here, std::size_t step, const LaneProgress& there, int beside, bool summed) {
    const auto time = [summed](const LaneProgress& lane, std::size_t at) {
        if (at >= lane.steps()) return nothing_beside;
        const StepSums& sums = lane.at(at);
        if (summed) return static_cast<double>(sums.totalNs);
        return sums.decodes() ? static_cast<double>(sums.durationNs) : nothing_beside;
    };
    return {time(here, step), beside < 0 ? nothing_beside : time(there, static_cast<std::size_t>(beside))};
}

int StepTimeView::besideOf(std::size_t step) const {
    const Reference& reference = *cursor()->reference();
    if (reference.alignment() == Alignment::step && m_there && step >= m_there->steps()) return -1;  // it has ended
    return reference.stepFor(static_cast<int>(step));
}

// Another reference, alignment or lane, or another sequence whose tokens align: the curves are built anew.
void StepTimeView::refresh() {
    const Reference* reference = compares() ? cursor()->reference() : nullptr;
    Compared now;
    if (reference) {
        now.recording = reference->recording();
        now.lane = cursor()->lane();
        now.other = reference->lane();
        now.alignment = reference->alignment();
        if (now.alignment == Alignment::token) now.sequence = cursor()->sequence();
    }
    if (now.recording != m_compared.recording || now.lane != m_compared.lane || now.other != m_compared.other ||
        now.alignment != m_compared.alignment || now.sequence != m_compared.sequence || m_compared.provisional) {
        m_compared = now;
        rebuildNext();
    }
    PlotPane::refresh();
}

void StepTimeView::buildComparison() {
    const Reference& reference = *cursor()->reference();
    const bool logarithmic = m_scaleBox->currentIndex() == 1;
    m_compared.steps = 0;
    m_compared.times.clear();
    m_compared.distances.clear();
    m_there.emplace(reference.recording().get(), reference.lane());
    plot()->addPanel({cumulated() ? tr("time of all steps so far, prompt included") : tr("time of a decode step"),
                      PlotNumbers::duration, logarithmic, 4});
    const int below = plot()->addPanel({tr("difference: here minus %1").arg(reference.shortLabel()), PlotNumbers::duration, false, 3});
    plot()->setXAxis(tr("step of lane %1").arg(laneName(cursor()->lane())), PlotNumbers::count);
    const auto curve = [this](int panel, const QColor& colour, bool dashed = false) {
        PlotCurve made;
        made.panel = panel;
        made.colour = colour;
        made.dashed = dashed;
        return plot()->addCurve(made);
    };
    const Palette& colours = palette_();
    m_compared.there = curve(0, colours.there);
    m_compared.here = curve(0, colours.here);
    m_compared.zero = curve(below, colours.line);
    m_compared.more = curve(below, Qt::transparent);
    m_compared.less = curve(below, Qt::transparent);
    m_compared.difference = curve(below, colours.ink1);
    for (const auto& [bound, colour] : {std::pair(m_compared.more, colours.here), std::pair(m_compared.less, colours.there)}) {
        QColor pale = colour;
        pale.setAlphaF(0.3f);
        plot()->fillBetween(bound, m_compared.zero, pale);
    }
}

void StepTimeView::appendComparison() {
    m_there->advance();
    const LaneProgress& here = m_progress[cursor()->lane().value];
    QVector<double> x, hereTimes, thereTimes, difference, more, less, zero;
    for (; m_compared.steps < here.steps(); ++m_compared.steps) {
        const TimePair times = timesOf(here, m_compared.steps, *m_there, besideOf(m_compared.steps), cumulated());
        const double delta = times.difference();
        x.append(static_cast<double>(m_compared.steps));
        hereTimes.append(times.here);
        thereTimes.append(times.there);
        difference.append(delta);
        more.append(std::isfinite(delta) ? std::max(delta, 0.0) : 0);
        less.append(std::isfinite(delta) ? std::min(delta, 0.0) : 0);
        zero.append(0);
        for (const double time : {times.here, times.there})
            if (std::isfinite(time)) m_compared.times.push_back(time);
        if (std::isfinite(delta)) m_compared.distances.push_back(std::abs(delta));
    }
    plot()->append(m_compared.here, x, hereTimes);
    plot()->append(m_compared.there, x, thereTimes);
    plot()->append(m_compared.difference, x, difference);
    plot()->append(m_compared.more, x, more);
    plot()->append(m_compared.less, x, less);
    plot()->append(m_compared.zero, x, zero);
    if (!cumulated()) {
        if (m_scaleBox->currentIndex() == 0) plot()->setPanelLimits(0, std::nullopt, endBelowOutliers({m_compared.times}));
        if (const auto end = endBelowOutliers({m_compared.distances})) plot()->setPanelLimits(1, -*end, *end);
    }
    m_compared.provisional = cursor()->reference()->computing();
    plot()->setXRange(0, niceUpper(static_cast<double>(m_compared.steps)));
}

void StepTimeView::showComparison() {
    const Reference& reference = *cursor()->reference();
    PlotOverlayData marks = overlayAtCursor();
    const int step = cursor()->stepOf(cursor()->lane());
    const QString name = laneName(cursor()->lane());
    if (step >= 0 && static_cast<std::size_t>(step) < m_compared.steps) {
        const int beside = besideOf(static_cast<std::size_t>(step));
        const TimePair times = timesOf(m_progress[cursor()->lane().value], static_cast<std::size_t>(step), *m_there, beside, cumulated());
        const auto tell = [&](double time, const QString& who, const QColor& colour) {
            if (!std::isfinite(time)) {
                marks.labels.push_back({0, 0, who, tr("no decode step"), colour});
                return;
            }
            marks.markers.push_back({0, static_cast<double>(step), time, PlotMarker::Glyph::dot, {}, colour});
            marks.labels.push_back({0, time, who, originMark(Origin::measured) + QLatin1Char(' ') + formatDuration(time), colour});
        };
        tell(times.here, name, palette_().here);
        tell(times.there, reference.shortLabel(), palette_().there);
        if (std::isfinite(times.difference())) {
            marks.markers.push_back({1, static_cast<double>(step), times.difference(), PlotMarker::Glyph::dot, {}, palette_().ink1});
            marks.labels.push_back({1, times.difference(), QStringLiteral("Δ"),
                                    originMark(Origin::derived) + QLatin1Char(' ') + signedDuration(times.difference()) +
                                        percentOf(times.difference(), times.there),
                                    palette_().ink1});
        }
    }
    if (!cumulated()) {
        if (m_scaleBox->currentIndex() == 0) noteOutliers(marks, 0, {m_compared.times}, true);
        noteOutliers(marks, 1, {m_compared.distances}, true);
    }
    plot()->setEmphasis({});
    plot()->setOverlay(std::move(marks));
    setSubtitle(tr("lane %1 against %2, aligned by %3").arg(name, reference.label(), Reference::alignmentName(reference.alignment())));
}

QString StepTimeView::comparisonTip(int step) const {
    const Reference& reference = *cursor()->reference();
    if (static_cast<std::size_t>(step) >= m_compared.steps) return {};
    const int beside = besideOf(static_cast<std::size_t>(step));
    if (beside < 0) return tr("step %1: nothing stands beside it in %2").arg(formatCount(static_cast<quint64>(step)), reference.label());
    const LaneProgress& here = m_progress[cursor()->lane().value];
    QStringList lines{tr("step %1 here, step %2 in %3")
                          .arg(formatCount(static_cast<quint64>(step)), formatCount(static_cast<quint64>(beside)), reference.label())};
    const auto line = [](const QString& what, const TimePair& times) {
        return tr("%1: ● %2 here, ● %3 there, ◐ %4")
            .arg(what, formatDuration(times.here), formatDuration(times.there),
                 signedDuration(times.difference()) + percentOf(times.difference(), times.there));
    };
    const TimePair now = timesOf(here, static_cast<std::size_t>(step), *m_there, beside, false);
    if (std::isfinite(now.difference())) lines << line(tr("this step"), now);
    const TimePair sums = timesOf(here, static_cast<std::size_t>(step), *m_there, beside, true);
    if (std::isfinite(sums.difference())) lines << line(tr("all steps so far"), sums);
    return lines.join(QLatin1Char('\n'));
}

QString StepTimeView::comparisonCsv() const {
    const Reference& reference = *cursor()->reference();
    QString text = csvLine({"step", "reference step", "duration ns (measured)", "reference duration ns (measured)", "difference ns (derived)",
                            "decodes in both", "cumulated ns (measured)", "reference cumulated ns (measured)"});
    LaneProgress here(cursor()->recording(), cursor()->lane()), there(reference.recording().get(), reference.lane());
    here.advance();
    there.advance();
    for (std::size_t step = 0; step < here.steps(); ++step) {
        const int beside = reference.alignment() == Alignment::step && step >= there.steps() ? -1 : reference.stepFor(static_cast<int>(step));
        if (beside < 0 || static_cast<std::size_t>(beside) >= there.steps()) continue;
        const StepSums &a = here.at(step), &b = there.at(static_cast<std::size_t>(beside));
        text += csvLine({QString::number(step), QString::number(beside), QString::number(a.durationNs), QString::number(b.durationNs),
                         QString::number(static_cast<qint64>(a.durationNs) - static_cast<qint64>(b.durationNs)),
                         a.decodes() && b.decodes() ? QStringLiteral("1") : QStringLiteral("0"), QString::number(a.totalNs),
                         QString::number(b.totalNs)});
    }
    return text;
}

}  // namespace kvloupe
