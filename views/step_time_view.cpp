// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/step_time_view.h"

#include "views/csv_line.h"
#include "views/format.h"

#include <QComboBox>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvloupe {

namespace {

constexpr double three_panels_need = 260;  // height at 100 % that three panels and the switches need

constexpr double no_point = std::numeric_limits<double>::quiet_NaN();

QString measured(const QString& text) { return originMark(Origin::measured) + QLatin1Char(' ') + text; }

bool comparable(const LaneProgress& uncached, const LaneProgress& cached, std::size_t step) {
    if (step >= uncached.steps() || step >= cached.steps()) return false;
    const std::uint32_t sequences = cached.at(step).sequences;
    return sequences > 0 && uncached.at(step).sequences == sequences;
}

}  // namespace

StepTimeView::StepTimeView(Cursor* cursor, QWidget* parent)
    : PlotPane(QStringLiteral("step-time"), tr("Decode time per step"), cursor, parent) {
    m_sumBox = addChoice(tr("Per step or summed"), {tr("Per step"), tr("Cumulated")});
    m_scaleBox = addChoice(tr("Scale of the times and tokens"), {tr("Linear"), tr("Logarithmic")});
    m_lanesBox = addChoice(tr("Lanes whose times are shown"), {tr("All lanes"), tr("Cached and uncached")});
    connect(m_lanesBox, &QComboBox::activated, this, [this](int index) { setPairsAlone(index == 1); });
    connect(m_sumBox, &QComboBox::activated, this, [this] { rebuild(); });
    connect(m_scaleBox, &QComboBox::activated, this, [this] { rebuild(); });
}

bool StepTimeView::cumulated() const { return m_sumBox->currentIndex() == 1; }

void StepTimeView::setCumulated(bool cumulated) {
    m_sumBox->setCurrentIndex(cumulated ? 1 : 0);
    rebuild();
}

void StepTimeView::setLogarithmic(bool logarithmic) {
    m_scaleBox->setCurrentIndex(logarithmic ? 1 : 0);
    rebuild();
}

void StepTimeView::setPairsAlone(bool alone) {
    m_lanesChosen = true;
    m_lanesBox->setCurrentIndex(alone ? 1 : 0);
    rebuild();
}

bool StepTimeView::pairsAlone() const { return m_lanesBox->currentIndex() == 1 && !m_pairs.empty(); }

bool StepTimeView::isLow() const { return height() < three_panels_need * unit(); }

void StepTimeView::resizeEvent(QResizeEvent* event) {
    PlotPane::resizeEvent(event);
    if (cursor()->recording() && !isEmptyShown() && isLow() != m_low) rebuild();
}

bool StepTimeView::isShown(LaneId lane) const {
    return !pairsAlone() || std::any_of(m_pairs.begin(), m_pairs.end(), [lane](const Pair& pair) {
        return pair.uncached == lane || pair.cached == lane;
    });
}

std::optional<double> StepTimeView::speedUp(const LaneProgress& uncached, const LaneProgress& cached, std::size_t step) {
    if (!comparable(uncached, cached, step) || !cached.at(step).decodes() || !uncached.at(step).decodes())
        return std::nullopt;
    if (cached.at(step).durationNs == 0) return std::nullopt;
    return static_cast<double>(uncached.at(step).durationNs) / static_cast<double>(cached.at(step).durationNs);
}

double StepTimeView::speedUpAt(std::size_t pair, std::size_t step) const {
    if (cumulated()) return step < m_ratios[pair].cumulated.size() ? m_ratios[pair].cumulated[step] : no_point;
    return speedUp(m_progress[m_pairs[pair].uncached.value], m_progress[m_pairs[pair].cached.value], step)
        .value_or(no_point);
}

void StepTimeView::build() {
    const bool logarithmic = m_scaleBox->currentIndex() == 1;
    const Recording& recording = *cursor()->recording();
    m_lanes.assign(laneCount(), {});
    m_pairs.clear();
    m_tokenLane = LaneId();
    m_tokenTwin = LaneId();
    m_tokenSteps = m_twinSteps = 0;
    m_low = isLow();
    m_lanesBox->setVisible(!compares());
    if (compares()) return buildComparison();
    for (std::uint32_t i = 0; i < laneCount(); ++i) {
        if (const auto twin = cachedTwin(recording, LaneId(i))) m_pairs.push_back({LaneId(i), *twin});
        if (!m_tokenLane.valid() && recording.lane(LaneId(i)).info().kv_cache) m_tokenLane = LaneId(i);
    }
    if (!m_pairs.empty()) {
        m_tokenLane = m_pairs.front().cached;
        m_tokenTwin = m_pairs.front().uncached;
    }
    m_ratios.assign(m_pairs.size(), {});
    m_shownTimes.assign(laneCount(), {});
    m_shownRatios.assign(m_pairs.size(), {});
    if (!m_lanesChosen) m_lanesBox->setCurrentIndex(!m_pairs.empty() && laneCount() > 4 ? 1 : 0);
    m_lanesBox->setEnabled(!m_pairs.empty());

    plot()->addPanel({cumulated() ? tr("time of all steps so far, prompt included") : tr("time of a decode step"),
                      PlotNumbers::duration, logarithmic, 4});
    m_ratioPanel = m_pairs.empty() ? -1 : plot()->addPanel({tr("speed-up"), PlotNumbers::factor, false, 3});
    m_tokenPanel = m_tokenLane.valid() && !m_low
                       ? plot()->addPanel({cumulated() ? tr("tokens computed so far") : tr("tokens computed in the step"),
                                           PlotNumbers::count, logarithmic, 3})
                       : -1;
    plot()->setXAxis(tr("step"), PlotNumbers::count);
    for (std::uint32_t i = 0; i < laneCount(); ++i) {
        if (!isShown(LaneId(i))) continue;
        PlotCurve curve;
        curve.colour = laneColour(LaneId(i));
        m_lanes[i].time = plot()->addCurve(curve);
        curve.shape = PlotCurve::Shape::squares;
        curve.fits = false;
        if (!cumulated()) m_lanes[i].prompt = plot()->addCurve(curve);
    }
    for (std::size_t p = 0; p < m_pairs.size(); ++p) {
        PlotCurve curve;
        curve.panel = m_ratioPanel;
        curve.colour = m_pairs.size() == 1 ? palette_().ink1 : laneColour(m_pairs[p].cached);
        m_ratios[p].curve = plot()->addCurve(curve);
    }
    m_reused = m_naive = m_recomputed = -1;
    if (m_tokenPanel < 0) return;
    PlotCurve curve;
    curve.panel = m_tokenPanel;
    curve.colour = laneColour(m_tokenLane);
    m_reused = plot()->addCurve(curve);
    curve.colour = m_tokenTwin.valid() ? laneColour(m_tokenTwin) : palette_().ink2;
    m_recomputed = m_tokenTwin.valid() ? plot()->addCurve(curve) : -1;
    curve.dashed = true;
    m_naive = plot()->addCurve(curve);
    QColor pale = laneColour(m_tokenLane);
    pale.setAlphaF(0.16f);
    plot()->fillBetween(m_naive, m_reused, pale);
}

void StepTimeView::appendSteps() {
    if (compares()) return appendComparison();
    std::size_t longest = 0;
    for (std::size_t i = 0; i < m_lanes.size(); ++i) {
        Lane& own = m_lanes[i];
        const LaneProgress& lane = m_progress[i];
        QVector<double> x, time, promptX, prompt;
        for (; own.steps < lane.steps(); ++own.steps) {
            const StepSums& sums = lane.at(own.steps);
            x.append(static_cast<double>(own.steps));
            const auto duration = static_cast<double>(sums.durationNs);
            time.append(cumulated() ? static_cast<double>(sums.totalNs) : sums.decodes() ? duration : no_point);
            if (isShown(LaneId(static_cast<std::uint32_t>(i))) && sums.decodes()) m_shownTimes[i].push_back(duration);
            if (cumulated() || !sums.prompt) continue;
            promptX.append(static_cast<double>(own.steps));
            prompt.append(duration);
        }
        if (own.time >= 0) plot()->append(own.time, x, time);
        if (own.prompt >= 0) plot()->append(own.prompt, promptX, prompt);
        longest = std::max(longest, own.steps);
    }
    for (std::size_t p = 0; p < m_pairs.size(); ++p) {
        const LaneProgress& uncached = m_progress[m_pairs[p].uncached.value];
        const LaneProgress& cached = m_progress[m_pairs[p].cached.value];
        Ratio& own = m_ratios[p];
        QVector<double> x, y;
        for (; own.steps < std::min(uncached.steps(), cached.steps()); ++own.steps) {
            if (comparable(uncached, cached, own.steps)) {
                own.uncachedNs += static_cast<double>(uncached.at(own.steps).durationNs);
                own.cachedNs += static_cast<double>(cached.at(own.steps).durationNs);
            }
            own.cumulated.push_back(own.cachedNs > 0 ? own.uncachedNs / own.cachedNs : no_point);
            x.append(static_cast<double>(own.steps));
            y.append(speedUpAt(p, own.steps));
            if (std::isfinite(y.back())) m_shownRatios[p].push_back(y.back());
        }
        plot()->append(own.curve, x, y);
    }
    appendTokens();
    limitAxes();
    plot()->setXRange(0, niceUpper(static_cast<double>(longest)));
}

std::optional<double> StepTimeView::endBelowOutliers(const std::vector<std::vector<double>>& curves) {
    double usual = 0, greatest = 0;
    for (const std::vector<double>& curve : curves) {
        if (curve.empty()) continue;
        std::vector<double> sorted = curve;
        const auto rank = static_cast<std::ptrdiff_t>(0.95 * static_cast<double>(sorted.size() - 1));
        std::nth_element(sorted.begin(), sorted.begin() + rank, sorted.end());
        usual = std::max(usual, sorted[static_cast<std::size_t>(rank)]);
        greatest = std::max(greatest, *std::max_element(sorted.begin() + rank, sorted.end()));
    }
    constexpr double head = 1.6, tower = 2.5;
    if (greatest <= tower * head * usual) return std::nullopt;
    return head * usual;
}

void StepTimeView::limitAxes() {
    if (cumulated()) return;
    if (m_scaleBox->currentIndex() == 0) plot()->setPanelLimits(0, std::nullopt, endBelowOutliers(m_shownTimes));
    if (m_ratioPanel >= 0) plot()->setPanelLimits(m_ratioPanel, std::nullopt, endBelowOutliers(m_shownRatios));
}

void StepTimeView::noteOutliers(PlotOverlayData& marks, int panel, const std::vector<std::vector<double>>& curves, bool duration) const {
    const auto end = endBelowOutliers(curves);
    if (!end) return;
    std::uint64_t above = 0;
    double greatest = 0;
    for (const std::vector<double>& curve : curves)
        for (const double value : curve) {
            above += value > *end;
            greatest = std::max(greatest, value);
        }
    const QString most = duration ? formatDuration(greatest) : QStringLiteral("%1×").arg(greatest, 0, 'f', 0);
    marks.notes.push_back({panel, above == 1 ? tr("↑ ● 1 step above the axis: %1").arg(most)
                                             : tr("↑ ● %1 steps above the axis, up to %2").arg(formatCount(above), most),
                           PlotNote::Sample::none, {}});
}

void StepTimeView::appendTokens() {
    if (m_tokenPanel < 0) return;
    // Per step: the growth of the sums.
    const auto at = [this](const LaneProgress& lane, std::size_t step, std::uint64_t StepSums::*sum) {
        const std::uint64_t now = lane.at(step).*sum;
        const std::uint64_t before = step > 0 && !cumulated() ? lane.at(step - 1).*sum : 0;
        return static_cast<double>(now - before);
    };
    const LaneProgress& cached = m_progress[m_tokenLane.value];
    QVector<double> x, reused, naive;
    for (; m_tokenSteps < cached.steps(); ++m_tokenSteps) {
        x.append(static_cast<double>(m_tokenSteps));
        reused.append(at(cached, m_tokenSteps, &StepSums::computed));
        naive.append(at(cached, m_tokenSteps, &StepSums::naive));
    }
    plot()->append(m_reused, x, reused);
    plot()->append(m_naive, x, naive);
    if (m_recomputed < 0) return;
    const LaneProgress& uncached = m_progress[m_tokenTwin.value];
    QVector<double> twinX, recomputed;
    for (; m_twinSteps < uncached.steps(); ++m_twinSteps) {
        twinX.append(static_cast<double>(m_twinSteps));
        recomputed.append(at(uncached, m_twinSteps, &StepSums::computed));
    }
    plot()->append(m_recomputed, twinX, recomputed);
}

void StepTimeView::labelTimes(PlotOverlayData& marks, std::vector<int>& emphasis) const {
    bool prompts = false;
    for (std::uint32_t i = 0; i < m_lanes.size(); ++i) {
        const LaneId id(i);
        const int step = cursor()->stepOf(id);
        if (!isShown(id) || step < 0 || static_cast<std::size_t>(step) >= m_lanes[i].steps) continue;
        const StepSums& sums = m_progress[i].at(static_cast<std::size_t>(step));
        const double time = static_cast<double>(cumulated() ? sums.totalNs : sums.durationNs);
        const bool prompt = !cumulated() && sums.prompt;
        if (sums.sequences > 0 || cumulated()) {
            marks.markers.push_back({0, static_cast<double>(step), time,
                                     prompt ? PlotMarker::Glyph::square : PlotMarker::Glyph::dot, {}, laneColour(id)});
            marks.labels.push_back({0, time, laneName(id), measured(formatDuration(time)) + pastText(id), labelColour(id)});
        } else {
            marks.labels.push_back({0, 0, laneName(id), tr("idle") + pastText(id), labelColour(id)});
        }
        prompts = prompts || (m_lanes[i].prompt >= 0 && plot()->pointCount(m_lanes[i].prompt) > 0);
        if (cursor()->shown().lane == id) emphasis.insert(emphasis.end(), {m_lanes[i].time, m_lanes[i].prompt});
    }
    if (!cumulated()) {
        if (m_scaleBox->currentIndex() == 0) noteOutliers(marks, 0, m_shownTimes, true);
        if (m_ratioPanel >= 0) noteOutliers(marks, m_ratioPanel, m_shownRatios, false);
    }
    if (prompts && !m_low)
        marks.notes.push_back({0, tr("step that computes prompt tokens, where it fits the axis"),
                               PlotNote::Sample::square, palette_().ink2});
    for (std::size_t p = 0; p < m_pairs.size(); ++p) {
        const int step = std::min(cursor()->stepOf(m_pairs[p].uncached), cursor()->stepOf(m_pairs[p].cached));
        const double ratio = step >= 0 ? speedUpAt(p, static_cast<std::size_t>(step)) : no_point;
        const QString name = m_pairs.size() == 1 ? tr("speed-up") : laneName(m_pairs[p].cached);
        if (!std::isfinite(ratio)) {
            marks.labels.push_back({m_ratioPanel, 0, name, tr("none in this step"), palette_().ink1});
            continue;
        }
        const LaneId shorter = isPast(m_pairs[p].uncached) ? m_pairs[p].uncached : m_pairs[p].cached;
        marks.markers.push_back({m_ratioPanel, static_cast<double>(step), ratio, PlotMarker::Glyph::dot, {}, palette_().ink1});
        marks.labels.push_back({m_ratioPanel, ratio, name,
                                originMark(Origin::derived) + QStringLiteral(" %1×").arg(formatAmount(ratio, 1)) + pastText(shorter),
                                isPast(shorter) ? palette_().ink3 : palette_().ink1});
    }
}

void StepTimeView::labelTokens(PlotOverlayData& marks) const {
    if (m_tokenPanel < 0) return;
    const int step = cursor()->stepOf(m_tokenLane);
    if (step < 0 || static_cast<std::size_t>(step) >= m_tokenSteps) return;
    const double naive = plot()->valueAt(m_naive, step).value_or(0), computed = plot()->valueAt(m_reused, step).value_or(0);
    const auto count = [](double value) { return formatCount(static_cast<quint64>(value)); };
    marks.labels.push_back({m_tokenPanel, naive, tr("no cache"), originMark(Origin::predicted) + QLatin1Char(' ') + count(naive),
                            m_tokenTwin.valid() ? laneColour(m_tokenTwin) : palette_().ink2});
    marks.labels.push_back({m_tokenPanel, computed, laneName(m_tokenLane), measured(count(computed)), laneColour(m_tokenLane)});
    if (m_tokenTwin.valid()) {
        const int twin = cursor()->stepOf(m_tokenTwin);
        if (twin >= 0 && static_cast<std::size_t>(twin) < m_twinSteps) {
            const double recomputed = plot()->valueAt(m_recomputed, twin).value_or(0);
            marks.labels.push_back({m_tokenPanel, recomputed, laneName(m_tokenTwin), measured(count(recomputed)) + pastText(m_tokenTwin),
                                    labelColour(m_tokenTwin)});
        }
    }
    marks.notes.push_back({m_tokenPanel, cumulated() ? tr("○ T(T+1)/2 without, ● T with a cache")
                                                     : tr("○ T without, ● 1 with a cache"),
                           PlotNote::Sample::dashed, palette_().ink2});
    QColor pale = laneColour(m_tokenLane);
    pale.setAlphaF(0.3f);
    marks.notes.push_back({m_tokenPanel, tr("◐ reused: %1").arg(count(std::max(0.0, naive - computed))),
                           PlotNote::Sample::fill, pale});
}

void StepTimeView::showCursor() {
    if (compares()) return showComparison();
    PlotOverlayData marks = overlayAtCursor();
    std::vector<int> emphasis;
    labelTimes(marks, emphasis);
    labelTokens(marks);
    if (m_pairs.empty()) marks.footer = tr("No uncached lane with the same weights: no speed-up.");
    else if (m_low) marks.footer = tr("higher, it also shows the tokens computed");
    plot()->setEmphasis(emphasis);
    plot()->setOverlay(std::move(marks));
    QStringList shown;
    for (const Pair& pair : m_pairs) shown.append(tr("%1 against %2").arg(laneName(pair.uncached), laneName(pair.cached)));
    const QString what = shown.isEmpty() ? tr("no uncached lane to compare with") : shown.join(QStringLiteral(", "));
    setSubtitle(cumulated() ? tr("cumulated · %1").arg(what) : what);
}

QString StepTimeView::tipAtStep(int step) const {
    if (step < 0) return {};
    if (compares()) return comparisonTip(step);
    QStringList lines{tr("step %1").arg(formatCount(static_cast<quint64>(step)))};
    for (std::uint32_t i = 0; i < m_lanes.size(); ++i) {
        if (static_cast<std::size_t>(step) >= m_lanes[i].steps) continue;
        const StepSums& sums = m_progress[i].at(static_cast<std::size_t>(step));
        const std::uint64_t before = step > 0 ? m_progress[i].at(static_cast<std::size_t>(step) - 1).computed : 0;
        lines.append(tr("%1: ● %2, ● %3 tokens computed; so far ● %4, ● %5 tokens, ○ %6 without a cache")
                         .arg(laneName(LaneId(i)), formatDuration(static_cast<double>(sums.durationNs)),
                              formatCount(sums.computed - before), formatDuration(static_cast<double>(sums.totalNs)),
                              formatCount(sums.computed), formatCount(sums.naive)));
    }
    for (std::size_t p = 0; p < m_pairs.size(); ++p) {
        const double ratio = speedUpAt(p, static_cast<std::size_t>(step));
        if (std::isfinite(ratio)) lines.append(tr("speed-up ◐ %1×").arg(ratio, 0, 'f', 2));
    }
    return lines.join(QLatin1Char('\n'));
}

LaneId StepTimeView::laneOfCurve(int curve) const {
    if (compares()) return curve >= 0 && curve == m_compared.here ? cursor()->lane() : LaneId();
    for (std::uint32_t i = 0; i < m_lanes.size(); ++i)
        if (curve >= 0 && (m_lanes[i].time == curve || m_lanes[i].prompt == curve)) return LaneId(i);
    if (curve >= 0 && curve == m_reused) return m_tokenLane;
    if (curve >= 0 && curve == m_recomputed) return m_tokenTwin;
    return {};
}

QString StepTimeView::csv() const {
    QString text = csvLine({"step", "lane", "duration ns (measured)", "cumulated ns (measured)", "computes prompt tokens",
                            "tokens computed (measured)", "cumulated tokens computed (measured)",
                            "cumulated tokens without a cache (predicted)", "speed-up over this lane's uncached twin (derived)"});
    if (!cursor()->recording()) return text;
    if (compares()) return comparisonCsv();
    std::vector<LaneProgress> lanes;
    for (std::uint32_t i = 0; i < laneCount(); ++i) {
        lanes.emplace_back(cursor()->recording(), LaneId(i));
        lanes.back().advance();
    }
    for (std::uint32_t i = 0; i < laneCount(); ++i) {
        std::optional<LaneId> twin;
        for (std::uint32_t j = 0; j < laneCount() && !twin; ++j)
            if (cachedTwin(*cursor()->recording(), LaneId(j)) == LaneId(i)) twin = LaneId(j);
        for (std::size_t step = 0; step < lanes[i].steps(); ++step) {
            const StepSums& sums = lanes[i].at(step);
            const std::uint64_t before = step > 0 ? lanes[i].at(step - 1).computed : 0;
            const auto ratio = twin ? speedUp(lanes[twin->value], lanes[i], step) : std::nullopt;
            text += csvLine({QString::number(step), laneName(LaneId(i)), QString::number(sums.durationNs),
                             QString::number(sums.totalNs), sums.prompt ? QStringLiteral("1") : QStringLiteral("0"),
                             QString::number(sums.computed - before), QString::number(sums.computed),
                             QString::number(sums.naive), ratio ? QString::number(*ratio, 'g', 9) : QString()});
        }
    }
    return text;
}

}  // namespace kvloupe
