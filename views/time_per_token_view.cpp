// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/time_per_token_view.h"

#include "views/csv_line.h"
#include "views/data_sheet.h"
#include "views/format.h"
#include "views/median.h"
#include "views/step_profile.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

QString derived(const QString& text) { return originMark(Origin::derived) + QLatin1Char(' ') + text; }

QString perToken(double ns) {
    return QString::number(ns / 1e3, 'g', 3).replace(QLatin1Char('-'), QChar(0x2212)) + QStringLiteral(" µs");
}

QString signedPercent(double share) {
    const QString text = formatPercent(std::abs(share));
    return (share < 0 ? QString(QChar(0x2212)) : QStringLiteral("+")) + text;
}

double medianTime(std::span<const DecodePoint> points) {
    std::vector<double> times;
    times.reserve(points.size());
    for (const DecodePoint& point : points) times.push_back(point.ns);
    return medianOf(times);
}

bool windowed(const LaneInfo& info) {
    return std::any_of(info.policy.groups.begin(), info.policy.groups.end(),
                       [](const CachePolicy::Group& group) { return group.window > 0 || group.chunk > 0; });
}

}  // namespace

TimePerTokenView::TimePerTokenView(Cursor* cursor, QWidget* parent)
    : View(QStringLiteral("time-per-token"), tr("Time per token"), cursor, parent), m_plot(new Plot(this)) {
    m_plot->setAccessibleName(this->title());
    setEmbedded(m_plot);
    connect(m_plot, &Plot::zoomedByUser, this, &TimePerTokenView::zoomChanged);
    m_plot->setTip([this](double x) { return tipAtContext(x); });
}

void TimePerTokenView::setCeilings(const Ceilings& ceilings) {
    m_ceilings = ceilings;
    if (cursor()->recording()) refresh();
}

QString TimePerTokenView::emptyText(const LaneRecord* lane, int step) const {
    if (!lane) return tr("Nothing is open. Open a model or a scenario.");
    const QString name = QString::fromStdString(lane->info().name);
    if (!computes(lane->info()))
        return tr("Lane %1 has no model: its steps account for blocks, and their time says nothing about a token’s.")
            .arg(name);
    if (!lane->info().kv_cache)
        return tr("Lane %1 keeps no KV cache: each step recomputes the prefix instead of reading keys and values. The "
                  "Length sweep compares the two.")
            .arg(name);
    if (step < 0) return tr("No step recorded yet. The first decode steps draw the first points.");
    if (!m_fit)
        return tr("%1 decode steps up to step %2 of %3: a line needs at least %4, over %5 tokens of context. Run on.")
            .arg(m_shown == 0 ? tr("No") : formatCount(m_shown), formatCount(static_cast<quint64>(step)), name)
            .arg(fewest_decode_steps)
            .arg(least_context_span);
    return {};
}

void TimePerTokenView::readSteps(const LaneRecord& lane) {
    if (m_seen != cursor()->sharedRecording() || m_lane != cursor()->lane()) {
        m_seen = cursor()->sharedRecording();
        m_lane = cursor()->lane();
        m_read = m_readStaged = 0;
        m_points.clear();
        m_attention.clear();
    }
    for (const std::size_t end = lane.step_count(); m_read < end; ++m_read) {
        const StepRecord& step = lane.step(m_read);
        if (step.prefill_tokens == 0 && step.decode_tokens > 0)
            m_points.push_back({static_cast<int>(m_read), step.decode_tokens, step.context_tokens,
                                static_cast<double>(step.duration_ns)});
    }
}

// After readSteps(): a step's counters are there before its stages, which may come later.
void TimePerTokenView::readAttention(const LaneRecord& lane) {
    for (const std::size_t end = lane.staged_steps().size(); m_readStaged < end; ++m_readStaged) {
        const LaneRecord::StageRange& staged = lane.staged_steps()[m_readStaged];
        if (staged.step >= m_read) break;
        const StepRecord& step = lane.step(staged.step);
        if (step.prefill_tokens > 0 || step.decode_tokens == 0) continue;
        double ns = 0;
        for (std::uint64_t i = staged.range.begin; i < staged.range.end; ++i)
            if (lane.stages()[i].kind == StageKind::attention) ns += static_cast<double>(lane.stages()[i].duration_ns);
        m_attention.push_back({static_cast<int>(staged.step), step.decode_tokens, step.context_tokens, ns});
    }
}

void TimePerTokenView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    const int step = lane ? cursor()->stepOf(cursor()->lane()) : -1;
    m_fit.reset();
    m_prediction.reset();
    m_attentionGrowth.reset();
    m_doubt = FitDoubt::none;
    m_dots.clear();
    m_shown = 0;
    if (lane && lane->info().kv_cache) {
        readSteps(*lane);
        readAttention(*lane);
        const auto upToCursor = [step](const std::vector<DecodePoint>& of) {
            const auto end = std::upper_bound(of.begin(), of.end(), step,
                                              [](int at, const DecodePoint& point) { return at < point.step; });
            return static_cast<std::size_t>(end - of.begin());
        };
        m_shown = upToCursor(m_points);
        m_dots = contextBins(points(), context_ranges);
        m_fit = fitDecode(m_dots);
        if (m_fit) {
            m_medianNs = medianTime(points());
            m_attentionGrowth = attentionGrowthOf(*m_fit, {m_attention.data(), upToCursor(m_attention)});
            m_doubt = doubtOf(*m_fit, m_attentionGrowth);
        }
        if (m_fit && m_doubt == FitDoubt::none)
            m_prediction = predictDecode(*m_fit, static_cast<double>(lane->info().weight_bytes),
                                         static_cast<double>(lane->info().bytes_per_token), m_ceilings.read_bandwidth);
    }
    setSubtitle({});
    const QString sentence = emptyText(lane, step);
    if (!sentence.isEmpty()) {
        const bool canStep = lane && step < 0;
        return setEmpty(sentence, canStep ? tr("Step") : QString(), canStep ? QStringLiteral("step") : QString());
    }
    if (isEmptyShown()) setEmpty({});
    draw(*lane, step);
    const auto [least, most] =
        std::minmax_element(m_points.begin(), m_points.begin() + static_cast<std::ptrdiff_t>(m_shown),
                            [](const DecodePoint& a, const DecodePoint& b) { return a.sequences < b.sequences; });
    const QString sequences = most->sequences == 1 ? tr("one sequence")
                              : least->sequences == most->sequences
                                  ? tr("%1 sequences").arg(most->sequences)
                                  : tr("%1–%2 sequences").arg(least->sequences).arg(most->sequences);
    setSubtitle(
        tr("%1 · %2 decode steps, %3").arg(QString::fromStdString(lane->info().name), formatCount(m_shown), sequences));
}

void TimePerTokenView::draw(const LaneRecord& lane, int step) {
    const Palette& colours = palette_();
    const QVariant kept = m_plot->zoomState();
    m_plot->clear();
    m_plot->addPanel({tr("time of a decode step"), PlotNumbers::duration, false, 1});
    const bool batched = std::any_of(m_points.begin(), m_points.begin() + static_cast<std::ptrdiff_t>(m_shown),
                                     [](const DecodePoint& point) { return point.sequences > 1; });
    m_plot->setXAxis(batched ? tr("tokens of context, summed over sequences") : tr("tokens of context"),
                     PlotNumbers::count);
    PlotCurve line;
    line.colour = colours.line;
    line.fits = false;
    const int floor = m_plot->addCurve(line), fixed = m_plot->addCurve(line);
    line.colour = colours.ink2;
    const int fitted = m_plot->addCurve(line);
    line.colour = colours.ink1;
    line.dashed = true;
    const int predicted = m_plot->addCurve(line);
    PlotCurve dots;
    dots.colour = colours.ink1;
    dots.shape = PlotCurve::Shape::dots;
    const int measured = m_plot->addCurve(dots);
    if (m_doubt == FitDoubt::none) drawFit(floor, fixed, fitted, predicted);
    else m_plot->replace(fitted, {m_fit->least, m_fit->most}, {m_medianNs, m_medianNs});
    QVector<double> x, y;
    std::vector<double> heights;
    for (const ContextBin& dot : m_dots) {
        x.append(dot.context);
        y.append(dot.ns);
        heights.push_back(dot.ns);
    }
    m_plot->replace(measured, x, y);
    // Steps that something interrupted must not flatten all others: what lies above the picture is counted.
    const double highest = *std::max_element(heights.begin(), heights.end());
    m_top = highestLine() * 1.15 + 6 * m_fit->residualNs;
    if (highest < m_top * 1.5) m_top = std::max(m_top, highest * 1.08);
    const auto above = std::count_if(heights.begin(), heights.end(), [this](double ns) { return ns > m_top; });
    m_above = static_cast<std::size_t>(above);
    m_plot->setPanelLimits(0, 0, m_top);
    m_plot->setXRange(0, m_fit->most);
    m_plot->setLook(colours, textFont());
    addMarks(lane, step);
    if (kept.isValid()) m_plot->setZoomState(kept);
    m_plot->update_();
}

void TimePerTokenView::drawFit(int floor, int fixed, int fitted, int predicted) {
    const Palette& colours = palette_();
    const auto pale = [](QColor colour) {
        colour.setAlphaF(0.32f);
        return colour;
    };
    const QVector<double> ends{0, m_fit->most};
    m_plot->replace(floor, ends, {0, 0});
    m_plot->replace(fixed, ends, {m_fit->fixedNs, m_fit->fixedNs});
    m_plot->replace(fitted, ends, {m_fit->at(0), m_fit->at(m_fit->most)});
    m_plot->fillBetween(fixed, floor, pale(colours.weights));
    if (m_fit->nsPerToken > 0) m_plot->fillBetween(fitted, fixed, pale(colours.keysValues));
    if (m_prediction)
        m_plot->replace(predicted, {m_fit->least, m_fit->most},
                        {m_prediction->at(m_fit->least), m_prediction->at(m_fit->most)});
}

double TimePerTokenView::highestLine() const {
    if (m_doubt != FitDoubt::none) {  // nearly all dots: which of them are the exception is not known
        std::vector<double> times;
        for (const ContextBin& dot : m_dots) times.push_back(dot.ns);
        const auto high = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) * 95 / 100);
        std::nth_element(times.begin(), high, times.end());
        return std::max(m_medianNs, *high);
    }
    return std::max({m_fit->at(0), m_fit->at(m_fit->most), m_prediction ? m_prediction->at(m_fit->most) : 0.0});
}

QString TimePerTokenView::doubtText() const {
    const QString r2 = QString::number(m_fit->r2, 'f', 2).replace(QLatin1Char('-'), QChar(0x2212));
    const double span = m_fit->most - m_fit->least;
    switch (m_doubt) {
    case FitDoubt::scattered: return tr("no reliable slope: R² %1, the times do not follow the context").arg(r2);
    case FitDoubt::falling: return tr("no reliable slope: R² %1, the times fall as the context grows").arg(r2);
    case FitDoubt::belowZero:
        return tr("no reliable slope: R² %1, the fixed part would be ◐ %2")
            .arg(r2, QChar(0x2212) + formatDuration(-m_fit->fixedNs));
    case FitDoubt::aboveAttention:
        return tr("no reliable slope: R² %1, steps grow by ◐ %2, attention by ◐ %3")
            .arg(r2, formatDuration(m_fit->nsPerToken * span), formatDuration(std::max(0.0, *m_attentionGrowth)));
    case FitDoubt::none: break;
    }
    return {};
}

QString TimePerTokenView::fitText() const {
    return tr("fit: R² %1, residual %2")
        .arg(QString::number(m_fit->r2, 'f', 3).replace(QLatin1Char('-'), QChar(0x2212)),
             formatDuration(m_fit->residualNs));
}

void TimePerTokenView::resizeEvent(QResizeEvent* event) {
    View::resizeEvent(event);
    // How many words there are depends on the height, and the room for the curve on them.
    if (m_fit && !isEmptyShown() && cursor()->laneRecord())
        draw(*cursor()->laneRecord(), cursor()->stepOf(cursor()->lane()));
}

void TimePerTokenView::addFitMarks(const LaneInfo& info, PlotOverlayData& marks, bool high) const {
    const Palette& colours = palette_();
    const double here = m_fit->at(m_fit->most);
    QString slope = tr("keys and values %1 per token").arg(derived(perToken(m_fit->nsPerToken)));
    if (m_fit->nsPerToken > 0)
        slope += tr(" of context = %1")
                     .arg(formatBandwidth(static_cast<double>(info.bytes_per_token) / m_fit->nsPerToken * 1e9));
    marks.notes.push_back({0, slope, PlotNote::Sample::fill, colours.keysValues});
    if (high) {
        marks.notes.push_back(
            {0,
             tr("weights %1 and fixed %2").arg(formatBytes(info.weight_bytes), derived(formatDuration(m_fit->fixedNs))),
             PlotNote::Sample::fill, colours.weights});
        marks.notes.push_back({0, fitText(), PlotNote::Sample::solid, colours.ink2});
    }
    marks.labels.push_back({0, here, originMark(Origin::derived), tr("fit %1").arg(formatDuration(here)), colours.ink1});
    if (!m_prediction) {
        marks.notes.push_back(
            {0, tr("no prediction: “Measure ceilings” in Stages"), PlotNote::Sample::none, colours.ink2});
        return;
    }
    const double there = m_prediction->at(m_fit->most);
    marks.notes.push_back(
        {0,
         tr("○ predicted: bytes ÷ %1 + %2 fixed")
             .arg(formatBandwidth(m_prediction->bytesPerSecond), formatDuration(m_prediction->fixedNs)),
         PlotNote::Sample::dashed, colours.ink1});
    if (there > 0)
        marks.notes.push_back({0,
                               tr("at %1 tokens: fit against prediction %2")
                                   .arg(formatCount(static_cast<quint64>(std::llround(m_fit->most))),
                                        signedPercent(here / there - 1)),
                               PlotNote::Sample::none, colours.ink2});
    marks.labels.push_back({0, there, originMark(Origin::predicted), formatDuration(there), colours.ink2});
}

void TimePerTokenView::addMarks(const LaneRecord& lane, int step) {
    const Palette& colours = palette_();
    const LaneInfo& info = lane.info();
    PlotOverlayData marks;
    const bool high = m_plot->height() > 230 * unit();  // else the words would leave no room for the curve
    if (high)
        marks.notes.push_back(
            {0, m_dots.size() < m_shown ? tr("● measured, median of the steps at a context") : tr("● measured"),
             PlotNote::Sample::none, colours.ink1});
    if (m_doubt == FitDoubt::none) {
        addFitMarks(info, marks, high);
    } else {
        marks.notes.push_back({0, doubtText(), PlotNote::Sample::none, colours.ink2});
        marks.notes.push_back({0, tr("median of the steps ● %1").arg(formatDuration(m_medianNs)), PlotNote::Sample::solid,
                               colours.ink2});
    }
    if (m_above > 0)
        marks.notes.push_back(
            {0, m_above == 1 ? tr("1 dot lies above the picture") : tr("%1 dots lie above the picture").arg(m_above),
             PlotNote::Sample::none, colours.ink2});
    if (windowed(info))
        marks.notes.push_back(
            {0, tr("a window bounds what a step reads: not a line"), PlotNote::Sample::none, colours.ink2});
    if (m_shown > 0 && m_points[m_shown - 1].step == step && m_points[m_shown - 1].ns <= m_top) {
        const DecodePoint& now = m_points[m_shown - 1];
        const bool named = now.context < 0.7 * m_fit->most;  // beside the ring; else there is no room to its right
        if (!named && high)
            marks.notes.push_back({0, tr("ring: this step ● %1").arg(formatDuration(now.ns)), PlotNote::Sample::none, colours.ink2});
        marks.markers.push_back(
            {0, static_cast<double>(now.context), now.ns, PlotMarker::Glyph::ring,
             named ? tr("this step %1").arg(formatDuration(now.ns)) : QString(), colours.ink1});
    }
    m_plot->setOverlay(std::move(marks));
}

QString TimePerTokenView::tipAtContext(double context) const {
    if (m_dots.empty() || !m_fit || !std::isfinite(context)) return {};
    const auto nearest =
        std::min_element(m_dots.begin(), m_dots.end(), [context](const ContextBin& a, const ContextBin& b) {
            return std::abs(a.context - context) < std::abs(b.context - context);
        });
    const double at = nearest->context, fitted = m_fit->at(at);
    QStringList lines{tr("context of %1 tokens").arg(formatCount(static_cast<quint64>(std::llround(at))))};
    const QString measured = originMark(Origin::measured) + QLatin1Char(' ') + formatDuration(nearest->ns);
    lines << (nearest->steps == 1 ? tr("%1 in one step").arg(measured)
                                  : tr("%1, median of %2 steps").arg(measured, formatCount(nearest->steps)));
    if (m_doubt != FitDoubt::none) {
        lines << doubtText()
              << tr("A slope is claimed where R² is at least 0.5, slope and fixed part are not negative, and, where stages\n"
                    "are measured, steps grow by at most twice what their attention grows by.");
        return lines.join(QLatin1Char('\n'));
    }
    lines << tr("%1, here %2").arg(fitText(), derived(formatDuration(fitted)));
    if (m_prediction) {
        const double value = m_prediction->at(at);
        lines << tr("predicted %1 %2").arg(originMark(Origin::predicted), formatDuration(value));
        if (value > 0)
            lines << tr("against the prediction: measured %1, fit %2")
                         .arg(signedPercent(nearest->ns / value - 1), signedPercent(fitted / value - 1));
    }
    return lines.join(QLatin1Char('\n'));
}

void TimePerTokenView::paintContent(QPainter& painter, const QRectF& area) { m_plot->render(painter, area); }

QString TimePerTokenView::csv() const {
    QString text = csvLine(
        {"step", "sequences", "context tokens", "time ns (measured)", "fit ns (derived)", "predicted ns (predicted)"});
    for (const DecodePoint& point : points())
        text += csvLine({QString::number(point.step), QString::number(point.sequences), QString::number(point.context),
                         QString::number(point.ns, 'f', 0),
                         m_fit && m_doubt == FitDoubt::none ? QString::number(m_fit->at(point.context), 'f', 0) : QString(),
                         m_prediction ? QString::number(m_prediction->at(point.context), 'f', 0) : QString()});
    return text;
}

}  // namespace kvloupe
