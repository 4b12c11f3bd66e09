// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/free_runs_view.h"

#include "views/canvas.h"
#include "views/csv_line.h"
#include "views/format.h"

#include <QKeyEvent>
#include <QMouseEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

FreeRunsView::FreeRunsView(Cursor* cursor, QWidget* parent)
    : View(QStringLiteral("free-runs"), tr("Free runs"), cursor, parent) {}

void FreeRunsView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    m_runs = {};
    setSubtitle({});
    if (!lane) {
        setEmpty(tr("Open a model or a scenario to see its free blocks."));
        return;
    }
    const QString name = QString::fromStdString(lane->info().name);
    if (!lane->info().kv_cache || lane->info().blocks < 2) {
        setSubtitle(tr("lane %1").arg(name));
        setEmpty(tr("Lane %1 keeps no KV cache: it has no blocks.").arg(name));
        return;
    }
    const LaneState* state = cursor()->state();
    if (!state) {
        setEmpty(tr("No step has run yet: all blocks are one free run."), tr("Step"), QStringLiteral("step"));
        return;
    }
    m_runs = FreeRuns::of(*state);
    setEmpty(m_runs.blocks == 0 ? tr("Every block is owned: a sequence that needs one must wait or preempt another.") : QString());
    QString text = tr("lane %1 · at step %2").arg(name, formatCount(static_cast<quint64>(cursor()->stepOf(cursor()->lane()))));
    const Frame frame = frameFor(QRectF(rect()));
    if (!frame.bars.empty() && frame.bars.back().shortest != frame.bars.back().longest) text += tr(" · folded: lengths by powers of two");
    setSubtitle(text);
}

QRectF FreeRunsView::Frame::column(std::size_t index) const {
    return QRectF(chart.left() + static_cast<double>(index) * pitch, chart.top(), pitch, chart.height());
}

QRectF FreeRunsView::Frame::bar(std::size_t index) const {
    const double height = chart.height() * (bars[index].plain + bars[index].cached) / most;
    const double gap = pitch > 4 ? std::min(2.0, pitch * 0.2) : 0;
    return QRectF(chart.left() + static_cast<double>(index) * pitch + gap, chart.bottom() - height, std::max(1.0, pitch - 2 * gap), height);
}

FreeRunsView::Frame FreeRunsView::frameFor(const QRectF& area) const {
    Frame frame;
    const double scale = unit();
    frame.labels = 40 * scale;
    QRectF chart = area.adjusted(frame.labels, 24 * scale, -12 * scale, -34 * scale);
    if (area.width() > 400 * scale && area.height() > 110 * scale) {
        const double width = std::min(250 * scale, area.width() * 0.5);
        frame.figures = QRectF(area.right() - width - 10 * scale, area.top() + 8 * scale, width, area.height() - 16 * scale);
        chart.setRight(frame.figures.left() - 16 * scale);
    }
    frame.chart = QRectF(chart.left(), chart.top(), std::max(8.0, chart.width()), std::max(4.0, chart.height()));
    frame.bars = runBars(m_runs, static_cast<std::uint32_t>(std::max(4.0, frame.chart.width() / (5 * scale))));
    for (const RunBar& bar : frame.bars) frame.most = std::max(frame.most, bar.plain + bar.cached);
    // Few bars stay slim and at the left.
    frame.pitch = std::min(frame.chart.width() / std::max<double>(1, static_cast<double>(frame.bars.size())), 36 * scale);
    return frame;
}

QRectF FreeRunsView::barRect(std::size_t index) const {
    const Frame frame = frameFor(QRectF(rect()));
    return index < frame.bars.size() ? frame.bar(index) : QRectF();
}

void FreeRunsView::paintContent(QPainter& painter, const QRectF& area) {
    if (m_runs.runs.empty()) return;
    const Canvas canvas(painter, palette_(), font(), unit());
    const Frame frame = frameFor(area);
    paintAxes(canvas, frame);
    paintBars(canvas, frame);
    if (!frame.figures.isEmpty()) paintFigures(canvas, frame.figures);
}

QString FreeRunsView::lengths(const RunBar& bar) const {
    return bar.shortest == bar.longest ? formatCount(bar.shortest)
                                       : tr("%1–%2").arg(formatCount(bar.shortest), formatCount(std::min(bar.longest, m_runs.largest.length)));
}

void FreeRunsView::paintAxes(const Canvas& canvas, const Frame& frame) const {
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    const TextStyle tick{10.5, QFont::Normal, colours.ink3, false}, caption{11, QFont::Normal, colours.ink2, false};
    // Whole numbers of runs only.
    double every = 1;
    while (every * frame.chart.height() / frame.most < canvas.u(18)) every *= every == 1 || std::fmod(std::log10(every), 1) == 0 ? 2 : 2.5;
    every = std::max(1.0, std::round(every));
    for (double at = 0; at <= frame.most; at += every) {
        const double y = frame.chart.bottom() - frame.chart.height() * at / frame.most;
        painter.setPen(QPen(at == 0 ? colours.line : colours.grid, 1));
        painter.drawLine(QPointF(frame.chart.left(), y), QPointF(frame.chart.right(), y));
        canvas.text(QRectF(frame.chart.left() - frame.labels, y - canvas.u(7), frame.labels - canvas.u(6), canvas.u(14)),
                    formatCount(static_cast<quint64>(at)), tick, Qt::AlignRight | Qt::AlignVCenter, Qt::ElideNone);
    }
    const QRectF head(frame.chart.left() - frame.labels + canvas.u(10), frame.chart.top() - canvas.u(21), frame.chart.width() + frame.labels - canvas.u(10), canvas.u(16));
    canvas.text(head, tr("runs"), caption);
    canvas.text(QRectF(frame.chart.left(), frame.chart.bottom() + canvas.u(16), frame.chart.width(), canvas.u(16)),
                frame.chart.width() > canvas.u(150) ? tr("run length in blocks") : tr("blocks"), caption, Qt::AlignRight | Qt::AlignVCenter);
    // Lengths below the bars, as many as fit.
    double free = -1e9;
    for (std::size_t i = 0; i < frame.bars.size(); ++i) {
        const QRectF column = frame.column(i);
        const QString text = frame.bars[i].shortest == frame.bars[i].longest ? formatCount(frame.bars[i].shortest)
                                                                             : tr("≥ %1").arg(formatCount(frame.bars[i].shortest));
        const double width = canvas.width(text, tick);
        const bool round = frame.bars.size() <= 12 || frame.bars[i].shortest != frame.bars[i].longest || frame.bars[i].shortest % 5 == 0 || frame.bars[i].shortest == 1;
        if (!round || column.center().x() - width / 2 < free + canvas.u(4)) continue;
        canvas.text(QRectF(column.center().x() - width, frame.chart.bottom() + canvas.u(2), 2 * width, canvas.u(14)), text, tick, Qt::AlignCenter, Qt::ElideNone);
        free = column.center().x() + width / 2;
    }
    // Legend right above the bars, where both kinds occur.
    if (m_runs.cached == 0 || frame.chart.width() < canvas.u(180)) return;
    double right = frame.chart.right();
    const auto entry = [&](const QString& text, bool hatched) {
        right -= canvas.width(text, caption);
        canvas.text(QRectF(right, head.top(), canvas.width(text, caption) + 2, head.height()), text, caption);
        right -= canvas.u(16);
        const QRectF box(right, head.center().y() - canvas.u(5), canvas.u(10), canvas.u(10));
        painter.fillRect(box, hatched ? colours.free : colours.tokenStates);
        if (hatched) canvas.hatch(box, colours.tokenStates, 3);
        canvas.outline(box, colours.tokenStates, 1);
        right -= canvas.u(12);
    };
    entry(tr("with cached blocks"), true);
    entry(tr("free"), false);
}

bool FreeRunsView::means(const Pick& pick, const RunBar& bar) const {
    if (!pick.block || (pick.lane && *pick.lane != cursor()->lane())) return false;
    const FreeRun* run = m_runs.holding(pick.block->value);
    return run && run->length >= bar.shortest && run->length <= bar.longest;
}

void FreeRunsView::paintBars(const Canvas& canvas, const Frame& frame) const {
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    for (std::size_t i = 0; i < frame.bars.size(); ++i) {
        const RunBar& each = frame.bars[i];
        const QRectF box = frame.bar(i);
        if (each.plain + each.cached == 0) continue;
        const double plain = box.height() * each.plain / (each.plain + each.cached);
        painter.fillRect(QRectF(box.left(), box.bottom() - plain, box.width(), plain), colours.tokenStates);
        const QRectF cached(box.left(), box.top(), box.width(), box.height() - plain);
        if (each.cached > 0) {
            painter.fillRect(cached, colours.free);
            canvas.hatch(cached, colours.tokenStates, 4);
            canvas.outline(cached.adjusted(0.5, 0.5, -0.5, 0), colours.tokenStates, 1);
        }
        if (means(cursor()->hover(), each)) canvas.outline(box.adjusted(-1, -1, 1, 1), colours.ink1, 1);
        if (means(cursor()->locked(), each)) canvas.outline(box.adjusted(-1, -1, 1, 1), colours.ink1, 2);
    }
}

void FreeRunsView::paintFigures(const Canvas& canvas, const QRectF& area) const {
    const LaneInfo& info = cursor()->laneRecord()->info();
    const Palette& colours = canvas.colours();
    const TextStyle name{11.5, QFont::Normal, colours.ink2, false};
    const double line = canvas.u(18);
    double y = area.top();
    const auto row = [&](const QString& label, Origin origin, const QString& value) {
        if (y + line > area.bottom()) return;
        const QRectF place(area.left(), y, area.width(), line);
        const double used = canvas.number(place, origin, value, {11.5});
        canvas.text(place.adjusted(0, 0, -used - canvas.u(8), 0), label, name);
        y += line;
    };
    const std::uint64_t outside = m_runs.blocks - m_runs.largest.length;
    row(tr("Free blocks"), Origin::measured, formatCount(m_runs.blocks));
    row(tr("of them cached"), Origin::measured, formatCount(m_runs.cached));
    row(tr("Free runs"), Origin::measured, formatCount(m_runs.runs.size()));
    row(tr("Largest run"), Origin::measured, tr("%1 blocks").arg(formatCount(m_runs.largest.length)));
    const bool contiguous = info.policy.kind == "contiguous";
    if (!contiguous) row(tr("External, paged"), Origin::measured, formatBytes(0));
    row(contiguous ? tr("Outside the largest run") : tr("External, contiguous"), Origin::derived,
        info.block_bytes > 0 ? formatBytes(outside * info.block_bytes) : tr("%1 blocks").arg(formatCount(outside)));
    const QString tokens = formatCount(std::uint64_t{m_runs.largest.length} * info.block_size);
    y += canvas.u(4);
    if (y + canvas.u(30) <= area.bottom())
        canvas.paragraph(QRectF(area.left(), y, area.width(), area.bottom() - y),
                         contiguous ? tr("A request finds room up to %1 tokens in one piece.").arg(tokens)
                                    : tr("A paged sequence takes any free block. A contiguous one stops at %1 tokens.").arg(tokens),
                         {11, QFont::Normal, colours.ink2, false});
}

int FreeRunsView::barAt(const QPointF& point) const {
    if (isEmptyShown()) return -1;
    const Frame frame = frameFor(QRectF(rect()));
    for (std::size_t i = 0; i < frame.bars.size(); ++i)
        if (frame.bars[i].plain + frame.bars[i].cached > 0 && frame.column(i).contains(point)) return static_cast<int>(i);
    return -1;
}

Pick FreeRunsView::pickOf(const RunBar& bar) const {
    Pick pick;
    pick.lane = cursor()->lane();
    pick.block = BlockId(bar.first);
    return pick;
}

QString FreeRunsView::tipAt(const QPointF& position) const {
    const int at = barAt(position);
    if (at < 0) return {};
    const RunBar bar = frameFor(QRectF(rect())).bars[static_cast<std::size_t>(at)];
    const std::uint32_t count = bar.plain + bar.cached;
    const QString blocks = bar.longest == 1 ? tr("1 block") : tr("%1 blocks").arg(lengths(bar));
    QStringList lines{count == 1 ? tr("%1 1 run of %2").arg(originMark(Origin::measured), blocks)
                                 : tr("%1 %2 runs of %3").arg(originMark(Origin::measured), formatCount(count), blocks)};
    if (bar.cached > 0) lines << tr("%1 %2 of them with cached blocks").arg(originMark(Origin::measured), formatCount(bar.cached));
    lines << tr("the first begins at block %1").arg(formatCount(bar.first));
    return lines.join(QLatin1Char('\n'));
}

void FreeRunsView::mouseMoveEvent(QMouseEvent* event) {
    const int at = barAt(event->position());
    cursor()->setHover(at < 0 ? Pick{} : pickOf(frameFor(QRectF(rect())).bars[static_cast<std::size_t>(at)]));
}

void FreeRunsView::mousePressEvent(QMouseEvent* event) {
    const int at = barAt(event->position());
    if (event->button() == Qt::LeftButton && at >= 0) cursor()->lock(pickOf(frameFor(QRectF(rect())).bars[static_cast<std::size_t>(at)]));
}

void FreeRunsView::keyPressEvent(QKeyEvent* event) {
    const int move = event->key() == Qt::Key_Right ? 1 : event->key() == Qt::Key_Left ? -1 : 0;
    if (event->key() == Qt::Key_Return && cursor()->hover().block) {
        cursor()->lock(cursor()->hover());
        return;
    }
    if (move == 0 || isEmptyShown()) {
        View::keyPressEvent(event);
        return;
    }
    // On to the next bar that is not empty.
    const std::vector<RunBar> bars = frameFor(QRectF(rect())).bars;
    int at = move > 0 ? -1 : static_cast<int>(bars.size());
    for (std::size_t i = 0; i < bars.size(); ++i)
        if (means(cursor()->hover(), bars[i])) at = static_cast<int>(i);
    for (at += move; at >= 0 && at < static_cast<int>(bars.size()); at += move) {
        const RunBar& bar = bars[static_cast<std::size_t>(at)];
        if (bar.plain + bar.cached == 0) continue;
        cursor()->setHover(pickOf(bar));
        return;
    }
}

QString FreeRunsView::csv() const {
    QString text = csvLine({"first block (measured)", "blocks (measured)", "cached blocks (measured)"});
    for (const FreeRun& run : m_runs.runs)
        text += csvLine({QString::number(run.first), QString::number(run.length), QString::number(run.cached)});
    return text;
}

}  // namespace kvloupe
