// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/step_timeline_view.h"

#include "views/csv_line.h"
#include "views/format.h"
#include "views/stage_look.h"
#include "views/staged_steps.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace kvloupe {

namespace {

constexpr double least_stage_box = 3;         // pixels: narrower stages are folded
constexpr std::size_t few_layers = 4;   // so many show at once
constexpr double to_the_end = 1e9;      // units behind every stage; finite, so that zoom states compare

}  // namespace

StepTimelineView::StepTimelineView(Cursor* cursor, QWidget* parent)
    : View(QStringLiteral("step-timeline"), tr("Step timeline"), cursor, parent) {}

void StepTimelineView::setCeilings(const Ceilings& ceilings) {
    m_ceilings = ceilings;
    update();
}

void StepTimelineView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    const int step = lane ? cursor()->stepOf(cursor()->lane()) : -1;
    m_profile = lane && step >= 0 ? readProfile(*lane, step) : std::nullopt;
    if (m_stage && (!m_profile || *m_stage >= m_profile->stages.size())) m_stage.reset();
    if (!m_profile) {
        const bool canStep = lane && step < 0;
        setSubtitle({});
        return setEmpty(noStagesText(lane, step), canStep ? tr("Step") : QString(),
                        canStep ? QStringLiteral("step") : QString());
    }
    if (isEmptyShown()) setEmpty({});
    // While steps fly past, the layers in sight stay.
    if (m_centre < 0 || m_centre >= static_cast<int>(m_profile->layers.size()) ||
        cursor()->recording()->phase() != Phase::running) {
        m_centre = static_cast<int>(m_profile->layers.size()) / 2;
        double most = 0;
        for (std::size_t i = 0; i < m_profile->layers.size(); ++i)
            if (m_profile->layers[i].aboveNs > most) {
                most = m_profile->layers[i].aboveNs;
                m_centre = static_cast<int>(i);
            }
    }
    explain();
}

void StepTimelineView::refreshSelection() { explain(); }

void StepTimelineView::explain() {
    if (!m_profile) return;
    const LaneRecord& lane = *cursor()->laneRecord();
    QString text = otherStepText(*m_profile);
    if (text.isEmpty()) text = tr("%1 · one step").arg(QString::fromStdString(lane.info().name));
    const StepTimelineFrame now = frame();
    const std::size_t first = m_profile->stageAt(now.beginNs), last = m_profile->stageAt(now.endNs * (1 - 1e-9));
    const ProfiledLayer* from = nullptr;
    const ProfiledLayer* to = nullptr;
    for (const ProfiledLayer& layer : m_profile->layers) {
        if (layer.end <= first || layer.begin > last) continue;
        if (!from) from = &layer;
        to = &layer;
    }
    const bool whole = now.endNs - now.beginNs > now.wholeNs * (1 - 1e-6);
    if (from && !whole)
        text += from == to ? tr(", then layer %1 · F shows all").arg(from->layer)
                           : tr(", then layers %1–%2 · F shows all").arg(from->layer).arg(to->layer);
    const QString cadence = cadenceText(lane, m_profile->asked);
    for (const QString& more : {cadence, stoppedText(*cursor())})
        if (!more.isEmpty()) text += QStringLiteral(" · ") + more;
    if (cursor()->locked().layer) text += tr(" · layer %1 locked, Esc clears").arg(*cursor()->locked().layer);
    setSubtitle(text);
}

double StepTimelineView::unitsAt(double ns) const {
    const std::size_t at = m_profile->stageAt(ns);
    const auto whole = static_cast<double>(at);
    if (at < m_profile->stages.size()) {
        const ProfiledStage& stage = m_profile->stages[at];
        const double length = stage.endNs() - stage.beginNs;
        return length > 0 ? whole + std::clamp((ns - stage.beginNs) / length, 0.0, 1.0) : whole;
    }
    return m_profile->betweenNs() > 0 ? whole + std::clamp((ns - m_profile->stagesNs) / m_profile->betweenNs(), 0.0, 1.0)
                                      : whole;
}

double StepTimelineView::nsOf(double units) const {
    const auto count = static_cast<double>(m_profile->stages.size());
    units = std::max(0.0, units);
    if (units >= count) return m_profile->stagesNs + std::min(1.0, units - count) * m_profile->betweenNs();
    const ProfiledStage& stage = m_profile->stages[static_cast<std::size_t>(units)];
    return stage.beginNs + (units - std::floor(units)) * (stage.endNs() - stage.beginNs);
}

// All of a small model; of others the layer that stands out most, or else the one in the middle, between its neighbours.
StepTimelineView::Units StepTimelineView::automaticRange() const {
    const auto& layers = m_profile->layers;
    if (layers.size() <= few_layers) return {0, to_the_end};
    int centre = m_centre;
    if (cursor()->locked().layer)
        for (std::size_t i = 0; i < layers.size(); ++i)
            if (layers[i].layer == *cursor()->locked().layer) centre = static_cast<int>(i);
    centre = std::clamp(centre, 1, static_cast<int>(layers.size()) - 2);
    const ProfiledLayer& first = layers[static_cast<std::size_t>(centre - 1)];
    const ProfiledLayer& last = layers[static_cast<std::size_t>(centre + 1)];
    return {static_cast<double>(first.begin), static_cast<double>(last.end)};
}

void StepTimelineView::fit() {
    if (m_range && m_range->second >= to_the_end) m_range.reset();
    else m_range = Units{0, to_the_end};
    explain();
    update();
}

QVariant StepTimelineView::zoomState() const {
    return m_range ? QVariant(QPointF(m_range->first, m_range->second)) : QVariant();
}

void StepTimelineView::setZoomState(const QVariant& state) {
    m_range.reset();
    if (state.isValid()) m_range = Units{state.toPointF().x(), state.toPointF().y()};
    explain();
    update();
}

void StepTimelineView::zoomAt(double factor, double pivotNs, double shiftNs) {
    if (!m_profile) return;
    const StepTimelineFrame now = frame();
    const double whole = m_profile->wholeNs(), width = now.endNs - now.beginNs;
    const double wanted = std::clamp(width * factor, std::min(whole, 200.0), whole);
    const double share = (pivotNs - now.beginNs) / width;
    const double begin = std::clamp(pivotNs - share * wanted + shiftNs, 0.0, whole - wanted);
    m_range = wanted >= whole * (1 - 1e-9) ? Units{0, to_the_end}
                                           : Units{unitsAt(begin), unitsAt(begin + wanted)};
    explain();
    update();
}

StepTimelineFrame StepTimelineView::frameFor(const QRectF& area) const {
    StepTimelineFrame frame;
    const double scale = unit();
    const double left = area.left() + 14 * scale, width = std::max(8.0, area.width() - 28 * scale);
    double room = area.height() - 8 * scale, y = area.top() + 4 * scale;
    const auto takes = [&](double height) {
        const QRectF part(left, y, width, height * scale);
        y += height * scale;
        return part;
    };
    // What is left out first stands last in this order.
    room -= (16 + 24) * scale;
    const auto fits = [&](double height) {
        if (room < height * scale) return false;
        room -= height * scale;
        return true;
    };
    const bool heads = fits(18), title = fits(19), ticks = fits(15), bars = fits(28), caption = bars && fits(15);
    const bool fan = fits(12);
    const double boxes = 24 + std::clamp(room / scale * (bars ? 0.35 : 1), 0.0, 22.0);
    room -= (boxes - 24) * scale;
    if (title) frame.title = takes(19);
    frame.strip = takes(16);
    if (ticks) frame.ticks = takes(15);
    if (fan) frame.fan = takes(12);
    if (heads) frame.heads = takes(18);
    frame.boxes = takes(boxes);
    if (bars) frame.bars = takes(28 + std::clamp(room / scale, 0.0, 90.0));
    if (caption) frame.caption = takes(15);
    if (!m_profile) return frame;
    frame.wholeNs = std::max(1.0, m_profile->wholeNs());
    const Units range = m_range ? *m_range : automaticRange();
    frame.beginNs = nsOf(range.first);
    frame.endNs = std::max(frame.beginNs + 1, nsOf(range.second));
    return frame;
}

std::vector<StepTimelineView::Run> StepTimelineView::runs(double beginNs, double endNs, double leastNs) const {
    std::vector<Run> found;
    std::array<std::uint64_t, stage_kind_count> times{};  // of the run at hand, per kind
    Run run;
    const auto close = [&] {
        if (run.end == run.begin) return;
        std::uint64_t most = 0;
        for (std::size_t i = run.begin; i < run.end; ++i) {
            std::uint64_t& time = times[static_cast<std::size_t>(m_profile->stages[i].record.kind)];
            if (time >= most && time > 0) {
                most = time;
                run.kind = m_profile->stages[i].record.kind;
            }
            time = 0;
        }
        if (most == 0) run.kind = m_profile->stages[run.begin].record.kind;
        found.push_back(run);
    };
    for (std::size_t i = m_profile->stageAt(beginNs);
         i < m_profile->stages.size() && m_profile->stages[i].beginNs < endNs; ++i) {
        const StageRecord& stage = m_profile->stages[i].record;
        const bool wide = static_cast<double>(stage.duration_ns) >= leastNs;
        const bool open = run.end > run.begin;
        if (!open || wide || static_cast<double>(run.work.duration_ns) >= leastNs) {
            close();
            run = Run{i, i, {}, stage.kind};
        }
        run.end = i + 1;
        run.work.duration_ns += stage.duration_ns;
        run.work.bytes += stage.bytes;
        run.work.flops += stage.flops;
        times[static_cast<std::size_t>(stage.kind)] += stage.duration_ns;
    }
    close();
    return found;
}

std::size_t StepTimelineView::folded(const StepTimelineFrame& frame) const {
    if (!m_profile) return 0;
    const double leastNs = least_stage_box * (frame.endNs - frame.beginNs) / frame.boxes.width();
    std::size_t count = 0;
    for (std::size_t i = m_profile->stageAt(frame.beginNs);
         i < m_profile->stages.size() && m_profile->stages[i].beginNs < frame.endNs; ++i)
        if (static_cast<double>(m_profile->stages[i].record.duration_ns) < leastNs) ++count;
    return count;
}

QString StepTimelineView::csv() const {
    QString text =
        csvLine({"step", "layer", "stage", "begin ns (derived)", "time ns (measured)", "bytes moved (derived)",
                 "FLOPs (derived)", "bytes per second (derived)", "bound by (derived)", "outlier layer (derived)"});
    if (!m_profile) return text;
    const QString step = QString::number(m_profile->step);
    for (std::size_t i = 0; i < m_profile->stages.size(); ++i) {
        const ProfiledStage& stage = m_profile->stages[i];
        const StageBound bound = bound_of(stage.work(), m_ceilings);
        const ProfiledLayer* layer = m_profile->layerOf(i);
        text += csvLine({step, layer ? QString::number(layer->layer) : QString(), stageName(stage.record.kind),
                         QString::number(stage.beginNs, 'f', 0), QString::number(stage.record.duration_ns),
                         QString::number(stage.record.bytes), QString::number(stage.record.flops),
                         QString::number(bound.bytes_per_second, 'g', 9), limitName(bound.limit),
                         layer && layer->outlier ? outlierText(*layer) : QString()});
    }
    text += csvLine({step,
                     {},
                     QStringLiteral("between stages: step less sum (derived)"),
                     QString::number(m_profile->stagesNs, 'f', 0),
                     QString::number(m_profile->stepNs() - m_profile->stagesNs, 'f', 0),
                     {},
                     {},
                     {},
                     {},
                     {}});
    return text;
}

}  // namespace kvloupe
