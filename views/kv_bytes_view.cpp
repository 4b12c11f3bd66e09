// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/kv_bytes_view.h"

#include "views/csv_line.h"
#include "views/format.h"

#include "engine/record/figures.h"
#include "engine/record/gpu_table.h"

#include <QComboBox>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr double words_need_height = 230;  // height at 100 % from which the curves have room for all words above them

QString gpuName(const GpuEntry& gpu) {
    const auto text = [](std::string_view part) { return QString::fromUtf8(part.data(), static_cast<qsizetype>(part.size())); };
    return text(gpu.name) + QLatin1Char(' ') + text(gpu.memory);
}

QString signedBytes(std::int64_t bytes) {
    const auto size = static_cast<quint64>(bytes < 0 ? -bytes : bytes);
    const QString sign = bytes < 0 ? QStringLiteral("−") : bytes > 0 ? QStringLiteral("+") : QString();
    return sign + formatBytes(size);
}

// Of one sequence of `tokens` tokens, by the size formula.
double formulaAt(const LaneInfo& info, double tokens) {
    if (!PredictedBytes::windowed(info)) return tokens * static_cast<double>(info.bytes_per_token);
    return static_cast<double>(predicted_sequence_bytes(info, static_cast<std::uint64_t>(std::llround(tokens))));
}

// Lengths between which the formula is straight: where windows fill; those of chunks, which rise and fall, densely.
QVector<double> bends(const LaneInfo& info, double left, double right) {
    QVector<double> lengths{left, right};
    bool chunks = false;
    for (const LayerInfo& layer : info.layer_infos) {
        chunks = chunks || layer.chunk > 0;
        if (layer.window > 0) lengths.append(static_cast<double>(layer.window) + layer.sinks);
    }
    constexpr int dense = 400;
    for (int i = 1; chunks && i < dense; ++i) lengths.append(std::round(left + (right - left) * i / dense));
    // On a logarithmic axis a line that does not go through the origin is no straight one.
    for (double length = std::max(left, 1.0); length < right; length *= 1.25) lengths.append(std::round(length));
    lengths.erase(std::remove_if(lengths.begin(), lengths.end(), [=](double x) { return x < left || x > right; }), lengths.end());
    std::sort(lengths.begin(), lengths.end());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
    return lengths;
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

KvBytesView::Bytes KvBytesView::bytesOf(const PredictedBytes& lane, std::size_t step) {
    Bytes bytes;
    bytes.tokens = lane.at(step).tokens;
    bytes.measured = lane.record().step(step).kv_bytes;
    bytes.predicted = lane.at(step).bytes;
    bytes.residual = lane.residual(step);
    return bytes;
}

double KvBytesView::capacity(std::size_t lane) const {
    const int gpu = m_gpuBox->currentIndex() - 1;
    if (gpu < 0) return 0;
    return static_cast<double>(PredictedBytes::tokensThatFill(cursor()->recording()->lanes()[lane]->info(),
                                                              gpu_table()[static_cast<std::size_t>(gpu)].memory_bytes));
}

void KvBytesView::build() {
    const bool tokens = m_axisBox->currentIndex() == 1;
    const bool logarithmic = m_scaleBox->currentIndex() == 1;
    m_lanes.assign(laneCount(), {});
    m_predictions.clear();
    for (std::uint32_t i = 0; i < laneCount(); ++i) m_predictions.emplace_back(cursor()->recording(), LaneId(i));
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
        m_predictions[i].advance();
        const std::size_t count = m_predictions[i].steps();
        QVector<double> x, measured, predicted;
        for (; own.steps < count; ++own.steps) {
            const Bytes bytes = bytesOf(m_predictions[i], own.steps);
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
        for (std::size_t i = 0; i < m_lanes.size(); ++i) {
            const LaneInfo& info = cursor()->recording()->lanes()[i]->info();
            if (!info.kv_cache) continue;
            const double left = logarithmic ? 1 : 0;
            QVector<double> x{left, right}, y;  // a straight line through the origin: two points, on either kind of axes
            if (PredictedBytes::windowed(info)) x = bends(info, left, right);
            for (const double at : x) y.append(formulaAt(info, at));
            plot()->replace(m_lanes[i].predicted, x, y);
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
        if (step >= 0 && static_cast<std::size_t>(step) < m_predictions[cursor()->lane().value].steps()) {
            const auto at = bytesOf(m_predictions[cursor()->lane().value], static_cast<std::size_t>(step));
            marks.cursor = static_cast<double>(at.tokens);
            marks.cursorText = formatCount(at.tokens);
        }
    }
    std::vector<int> emphasis;
    QStringList full;
    bool windows = false, slotsAlone = true;
    for (std::uint32_t i = 0; i < m_lanes.size(); ++i) {
        const LaneId id(i);
        const int step = cursor()->stepOf(id);
        if (step < 0 || static_cast<std::size_t>(step) >= m_lanes[i].steps) continue;
        const LaneRecord& lane = cursor()->recording()->lane(id);
        const Bytes bytes = bytesOf(m_predictions[i], static_cast<std::size_t>(step));
        const double x = tokens ? static_cast<double>(bytes.tokens) : step;
        const double y = static_cast<double>(bytes.measured);
        if (lane.info().kv_cache) marks.markers.push_back({0, x, y, PlotMarker::Glyph::dot, {}, laneColour(id)});
        const double cross = capacity(i);
        // Against tokens the curves end at the right edge; in front of a GPU's line they all end in the same place.
        const bool atEdge = tokens && lane.info().kv_cache && m_gpuBox->currentIndex() == 0;
        const double labelAt = atEdge ? formulaAt(lane.info(), plot()->xRange().second) : y;
        windows = windows || PredictedBytes::windowed(lane.info());
        slotsAlone = slotsAlone && PredictedBytes::onlySlotsAreUnpredicted(lane.info());
        marks.labels.push_back({0, labelAt, laneName(id),
                               lane.info().kv_cache ? originMark(Origin::derived) + QLatin1Char(' ') + signedBytes(bytes.residual)
                                                    : tr("stores nothing"),
                               laneColour(id)});
        if (cross > 0) {
            if (tokens)
                marks.markers.push_back({0, cross, formulaAt(lane.info(), cross), PlotMarker::Glyph::ring, {}, laneColour(id)});
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
    marks.notes.push_back({0, windows ? tr("○ predicted: bytes per token × tokens in sight") : tr("○ predicted: bytes per token × tokens"),
                           PlotNote::Sample::dashed, palette_().ink1});
    if (height() >= words_need_height * unit())
        marks.notes.push_back({0, slotsAlone ? tr("◐ residual, right: slots in blocks that hold no token yet")
                                             : tr("◐ residual, right: what the formula does not count; the tip says what"),
                               PlotNote::Sample::none, {}});
    plot()->setEmphasis(emphasis);
    plot()->setOverlay(std::move(marks));

    const LaneRecord* lane = cursor()->laneRecord();
    const int step = cursor()->stepOf(cursor()->lane());
    if (!lane || step < 0) return;
    if (!lane->info().kv_cache || static_cast<std::size_t>(step) >= m_predictions[cursor()->lane().value].steps())
        setSubtitle(tr("step %1 · %2 stores nothing").arg(formatCount(static_cast<quint64>(step)), laneName(cursor()->lane())));
    else
        setSubtitle(tr("step %1 · %2 tokens in the cache of %3 · block %4")
                        .arg(formatCount(static_cast<quint64>(step)),
                             formatCount(m_predictions[cursor()->lane().value].at(static_cast<std::size_t>(step)).tokens),
                             laneName(cursor()->lane()))
                        .arg(lane->info().block_size));
}

int KvBytesView::stepAt(double x) const {
    if (m_axisBox->currentIndex() == 0) return PlotPane::stepAt(x);
    // First step of the lane in focus that held so many tokens.
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane || !std::isfinite(x)) return -1;
    const PredictedBytes& prediction = m_predictions[cursor()->lane().value];
    const std::size_t count = prediction.steps();
    for (std::size_t step = 0; step < count; ++step)
        if (static_cast<double>(prediction.at(step).tokens) >= std::round(x)) return static_cast<int>(step);
    return static_cast<int>(count) - 1;
}

QString KvBytesView::tipAtStep(int step) const {
    if (step < 0) return {};
    QStringList lines{tr("step %1").arg(formatCount(static_cast<quint64>(step)))};
    for (std::uint32_t i = 0; i < m_lanes.size(); ++i) {
        if (static_cast<std::size_t>(step) >= m_lanes[i].steps) continue;
        if (!cursor()->recording()->lane(LaneId(i)).info().kv_cache) continue;
        const Bytes bytes = bytesOf(m_predictions[i], static_cast<std::size_t>(step));
        lines.append(tr("%1: ● %2 for %3 tokens, ○ %4, ◐ residual %5")
                         .arg(laneName(LaneId(i)), formatBytes(bytes.measured), formatCount(bytes.tokens),
                              formatBytes(bytes.predicted), signedBytes(bytes.residual)));
    }
    const LaneId focus = cursor()->shown().lane.value_or(cursor()->lane());
    if (focus.value < m_lanes.size() && static_cast<std::size_t>(step) < m_lanes[focus.value].steps)
        if (const std::string why = m_predictions[focus.value].whyResidual(static_cast<std::size_t>(step)); !why.empty())
            lines.append(tr("residual of %1: %2").arg(laneName(focus), QString::fromStdString(why)));
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
    for (std::uint32_t i = 0; i < laneCount(); ++i) {
        PredictedBytes lane(cursor()->recording(), LaneId(i));
        lane.advance();
        for (std::size_t step = 0; step < lane.steps(); ++step) {
            const Bytes bytes = bytesOf(lane, step);
            text += csvLine({QString::number(step), laneName(LaneId(i)), QString::number(bytes.tokens),
                             QString::number(lane.record().step(step).used_blocks), QString::number(bytes.measured),
                             QString::number(bytes.predicted), QString::number(bytes.residual)});
        }
    }
    return text;
}

}  // namespace kvloupe
