// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/kv_bytes_view.h"

#include "views/csv_line.h"
#include "views/format.h"

#include "engine/record/gpu_table.h"

#include <QComboBox>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

QString gpuName(const GpuEntry& gpu) {
    const auto text = [](std::string_view part) { return QString::fromUtf8(part.data(), static_cast<qsizetype>(part.size())); };
    return text(gpu.name) + QLatin1Char(' ') + text(gpu.memory);
}

QString signedBytes(std::int64_t bytes) {
    const auto size = static_cast<quint64>(bytes < 0 ? -bytes : bytes);
    const QString sign = bytes < 0 ? QStringLiteral("−") : bytes > 0 ? QStringLiteral("+") : QString();
    return sign + formatBytes(size);
}

}  // namespace

KvBytesView::KvBytesView(Cursor* cursor, QWidget* parent)
    : PlotPane(QStringLiteral("kv-bytes"), tr("KV bytes"), cursor, parent) {
    m_scaleBox = addChoice(tr("Scale of the bytes"), {tr("Linear"), tr("Logarithmic")});
    m_axisBox = addChoice(tr("Horizontal axis"), {tr("By step"), tr("By tokens")});
    QStringList gpus{tr("No GPU")};
    for (const GpuEntry& gpu : gpu_table()) gpus.append(gpuName(gpu));
    m_gpuBox = addChoice(tr("Memory of a GPU, by data sheet"), gpus);
    connect(m_scaleBox, &QComboBox::activated, this, [this] { rebuild(); });
    connect(m_axisBox, &QComboBox::activated, this, [this] { rebuild(); });
    connect(m_gpuBox, &QComboBox::activated, this, [this](int index) { setGpu(index - 1); });
}

void KvBytesView::setLogarithmic(bool logarithmic) {
    m_scaleBox->setCurrentIndex(logarithmic ? 1 : 0);
    rebuild();
}

void KvBytesView::setAgainstTokens(bool tokens) {
    m_axisBox->setCurrentIndex(tokens ? 1 : 0);
    rebuild();
}

void KvBytesView::setGpu(int gpu) {
    m_gpuBox->setCurrentIndex(gpu + 1);
    // Gigabytes above kilobytes: only a logarithmic axis shows both, and only tokens reach the line.
    if (gpu >= 0) {
        m_scaleBox->setCurrentIndex(1);
        m_axisBox->setCurrentIndex(1);
    }
    rebuild();
}

KvBytesView::Bytes KvBytesView::bytesOf(const LaneRecord& lane, std::size_t step) {
    const StepRecord& record = lane.step(step);
    Bytes bytes;
    bytes.tokens = record.slots.token;
    bytes.measured = record.kv_bytes;
    bytes.predicted = lane.info().kv_cache ? lane.info().bytes_per_token * bytes.tokens : 0;
    bytes.residual = static_cast<std::int64_t>(bytes.measured) - static_cast<std::int64_t>(bytes.predicted);
    return bytes;
}

double KvBytesView::capacity(std::size_t lane) const {
    const int gpu = m_gpuBox->currentIndex() - 1;
    const LaneInfo& info = cursor()->recording()->lanes()[lane]->info();
    if (gpu < 0 || !info.kv_cache || info.bytes_per_token == 0) return 0;
    return std::floor(static_cast<double>(gpu_table()[static_cast<std::size_t>(gpu)].memory_bytes) /
                      static_cast<double>(info.bytes_per_token));
}

void KvBytesView::build() {
    const bool tokens = m_axisBox->currentIndex() == 1;
    const bool logarithmic = m_scaleBox->currentIndex() == 1;
    m_lanes.assign(laneCount(), {});
    plot()->addPanel({{}, PlotNumbers::bytes, logarithmic, 1});
    plot()->setXAxis(tokens ? tr("tokens in the cache") : tr("step"), PlotNumbers::count, tokens && logarithmic);
    for (std::uint32_t i = 0; i < laneCount(); ++i) {
        PlotCurve curve;
        curve.colour = laneColour(LaneId(i));
        curve.dashed = true;
        m_lanes[i].predicted = plot()->addCurve(curve);
    }
    for (std::uint32_t i = 0; i < laneCount(); ++i) {
        PlotCurve curve;
        curve.colour = laneColour(LaneId(i));
        curve.shape = PlotCurve::Shape::stairs;
        m_lanes[i].measured = plot()->addCurve(curve);
    }
}

void KvBytesView::appendSteps() {
    const bool tokens = m_axisBox->currentIndex() == 1;
    const bool logarithmic = m_scaleBox->currentIndex() == 1;
    double upper = 0;
    for (std::size_t i = 0; i < m_lanes.size(); ++i) {
        Lane& own = m_lanes[i];
        const LaneRecord& lane = *cursor()->recording()->lanes()[i];
        const std::size_t count = m_progress[i].steps();
        QVector<double> x, measured, predicted;
        for (; own.steps < count; ++own.steps) {
            const Bytes bytes = bytesOf(lane, own.steps);
            own.mostTokens = std::max(own.mostTokens, bytes.tokens);
            x.append(tokens ? static_cast<double>(bytes.tokens) : static_cast<double>(own.steps));
            measured.append(static_cast<double>(bytes.measured));
            predicted.append(static_cast<double>(bytes.predicted));
        }
        if (lane.info().kv_cache || !tokens) plot()->append(own.measured, x, measured);
        if (!tokens) plot()->append(own.predicted, x, predicted);
        upper = std::max(upper, tokens ? std::max(static_cast<double>(own.mostTokens), capacity(i) * 1.2)
                                       : static_cast<double>(count));
    }
    const bool far = tokens && m_gpuBox->currentIndex() > 0;
    const double right = far ? upper * 4 : niceUpper(upper);
    plot()->setXRange(tokens && logarithmic ? 1 : 0, right);
    if (tokens) {
        // A straight line through the origin; two points draw it, on either kind of axes.
        for (std::size_t i = 0; i < m_lanes.size(); ++i) {
            const LaneInfo& info = cursor()->recording()->lanes()[i]->info();
            if (!info.kv_cache) continue;
            const double left = logarithmic ? 1 : 0, perToken = static_cast<double>(info.bytes_per_token);
            plot()->replace(m_lanes[i].predicted, {left, right}, {left * perToken, right * perToken});
        }
    }
    const int gpu = m_gpuBox->currentIndex() - 1;
    std::optional<double> top;
    if (gpu >= 0) top = static_cast<double>(gpu_table()[static_cast<std::size_t>(gpu)].memory_bytes) * (logarithmic ? 4 : 1.1);
    plot()->setPanelLimits(0, std::nullopt, top);
}

void KvBytesView::showCursor() {
    const bool tokens = m_axisBox->currentIndex() == 1;
    PlotOverlayData marks = overlayAtCursor();
    if (tokens) {
        // The cursor stands at the tokens of the lane in focus.
        const int step = cursor()->stepOf(cursor()->lane());
        marks.cursor.reset();
        if (step >= 0) {
            const auto at = bytesOf(*cursor()->laneRecord(), static_cast<std::size_t>(step));
            marks.cursor = static_cast<double>(at.tokens);
            marks.cursorText = formatCount(at.tokens);
        }
    }
    std::vector<int> emphasis;
    QStringList full;
    for (std::uint32_t i = 0; i < m_lanes.size(); ++i) {
        const LaneId id(i);
        const int step = cursor()->stepOf(id);
        if (step < 0 || static_cast<std::size_t>(step) >= m_lanes[i].steps) continue;
        const LaneRecord& lane = cursor()->recording()->lane(id);
        const Bytes bytes = bytesOf(lane, static_cast<std::size_t>(step));
        const double x = tokens ? static_cast<double>(bytes.tokens) : step;
        const double y = static_cast<double>(bytes.measured);
        if (lane.info().kv_cache) marks.markers.push_back({0, x, y, PlotMarker::Glyph::dot, {}, laneColour(id)});
        const double cross = capacity(i);
        // Against tokens the curves end at the right edge; in front of a GPU's line they all end in the same place.
        const bool atEdge = tokens && lane.info().kv_cache && m_gpuBox->currentIndex() == 0;
        const double labelAt = atEdge ? static_cast<double>(lane.info().bytes_per_token) * plot()->xRange().second : y;
        marks.labels.push_back({0, labelAt, laneName(id),
                               lane.info().kv_cache ? originMark(Origin::derived) + QLatin1Char(' ') + signedBytes(bytes.residual)
                                                    : tr("stores nothing"),
                               laneColour(id)});
        if (cross > 0) {
            if (tokens)
                marks.markers.push_back({0, cross, cross * static_cast<double>(lane.info().bytes_per_token),
                                        PlotMarker::Glyph::ring, {}, laneColour(id)});
            full.append(tr("%1: %2 tokens").arg(laneName(id), formatCount(static_cast<quint64>(cross))));
        }
        if (cursor()->shown().lane == id) emphasis.insert(emphasis.end(), {m_lanes[i].measured, m_lanes[i].predicted});
    }
    const int gpu = m_gpuBox->currentIndex() - 1;
    if (gpu >= 0) {
        const GpuEntry& memory = gpu_table()[static_cast<std::size_t>(gpu)];
        marks.levels.push_back({0, static_cast<double>(memory.memory_bytes),
                               tr("%1, by data sheet: %2").arg(gpuName(memory), formatBytes(memory.memory_bytes)),
                               palette_().ink2});
        marks.notes.push_back({0, tr("○ full with keys and values alone:"), PlotNote::Sample::none, {}});
        for (const QString& lane : full) marks.notes.push_back({0, lane, PlotNote::Sample::none, {}});
    }
    marks.notes.push_back({0, tr("● measured: bytes of allocated blocks"), PlotNote::Sample::solid, palette_().ink1});
    marks.notes.push_back({0, tr("○ predicted: bytes per token × tokens"), PlotNote::Sample::dashed, palette_().ink1});
    marks.notes.push_back({0, tr("◐ residual, right: slots in blocks that hold no token yet"), PlotNote::Sample::none, {}});
    plot()->setEmphasis(emphasis);
    plot()->setOverlay(std::move(marks));

    const LaneRecord* lane = cursor()->laneRecord();
    const int step = cursor()->stepOf(cursor()->lane());
    if (lane && step >= 0)
        setSubtitle(tr("step %1 · %2 tokens in the cache of %3 · block %4")
                        .arg(formatCount(static_cast<quint64>(step)),
                             formatCount(lane->step(static_cast<std::size_t>(step)).slots.token),
                             laneName(cursor()->lane()))
                        .arg(lane->info().block_size));
}

int KvBytesView::stepAt(double x) const {
    if (m_axisBox->currentIndex() == 0) return PlotPane::stepAt(x);
    // First step of the lane in focus that held so many tokens.
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane || !std::isfinite(x)) return -1;
    const std::size_t count = std::min(m_progress[cursor()->lane().value].steps(), lane->step_count());
    for (std::size_t step = 0; step < count; ++step)
        if (static_cast<double>(lane->step(step).slots.token) >= std::round(x)) return static_cast<int>(step);
    return static_cast<int>(count) - 1;
}

QString KvBytesView::tipAtStep(int step) const {
    if (step < 0) return {};
    QStringList lines{tr("step %1").arg(formatCount(static_cast<quint64>(step)))};
    for (std::uint32_t i = 0; i < m_lanes.size(); ++i) {
        if (static_cast<std::size_t>(step) >= m_lanes[i].steps) continue;
        const Bytes bytes = bytesOf(cursor()->recording()->lane(LaneId(i)), static_cast<std::size_t>(step));
        lines.append(tr("%1: ● %2 for %3 tokens, ○ %4, ◐ residual %5")
                         .arg(laneName(LaneId(i)), formatBytes(bytes.measured), formatCount(bytes.tokens),
                              formatBytes(bytes.predicted), signedBytes(bytes.residual)));
    }
    return lines.join(QLatin1Char('\n'));
}

LaneId KvBytesView::laneOfCurve(int curve) const {
    for (std::uint32_t i = 0; i < m_lanes.size(); ++i)
        if (m_lanes[i].measured == curve || m_lanes[i].predicted == curve) return LaneId(i);
    return {};
}

QString KvBytesView::csv() const {
    QString text = QStringLiteral("step,lane,tokens in the cache (measured),blocks (measured),KV bytes (measured),"
                                  "KV bytes (predicted),residual bytes (derived)\r\n");
    if (!cursor()->recording()) return text;
    for (const auto& lane : cursor()->recording()->lanes()) {
        const QString name = QString::fromStdString(lane->info().name);
        const std::size_t count = lane->step_count();
        for (std::size_t step = 0; step < count; ++step) {
            const Bytes bytes = bytesOf(*lane, step);
            text += csvLine({QString::number(step), name, QString::number(bytes.tokens),
                             QString::number(lane->step(step).used_blocks), QString::number(bytes.measured),
                             QString::number(bytes.predicted), QString::number(bytes.residual)});
        }
    }
    return text;
}

}  // namespace kvloupe
