// SPDX-License-Identifier: GPL-3.0-or-later
//
// What happened to blocks, drawn over their history, and the life of one block in words.
#include "engine/record/describe.h"
#include "views/canvas.h"
#include "views/format.h"
#include "views/history_view.h"
#include "views/picking.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr std::size_t few_events = 240;          // forks, copies and preemptions in sight that are drawn
constexpr std::uint64_t events_read = 100000;    // of the steps in sight, per drawing
constexpr std::size_t many_events = 250;         // evictions and hits in sight that are drawn
constexpr double glyph_row = 7, glyph_step = 4;  // pixels at 100 %: evictions and hits are drawn from here

}  // namespace

void HistoryView::paintGlyphs(const Canvas& canvas, const HistoryFrame& frame) {
    std::vector<Glyph> drawn;
    if (!stale()) {
        paintFewEvents(canvas, frame, drawn);
        paintManyEvents(canvas, frame, drawn);
    }
    m_kindsDrawn = 0;
    for (const Glyph& glyph : drawn) m_kindsDrawn |= 1u << static_cast<int>(m_index->lane().events()[glyph.event].kind);
    if (canvas.painter().device() == this) m_glyphs = std::move(drawn);
}

std::span<const HistoryIndex::Mark> HistoryView::marksInSight(const HistoryFrame& frame) const {
    const auto& marks = m_index->marks();
    const auto before = [](const HistoryIndex::Mark& mark, double step) { return mark.step < step; };
    const auto begin = std::lower_bound(marks.begin(), marks.end(), std::floor(frame.axis.begin), before);
    return {begin, std::lower_bound(begin, marks.end(), std::ceil(frame.axis.end), before)};
}

std::size_t HistoryView::marksLeftOut(const HistoryFrame& frame) const {
    const std::size_t count = marksInSight(frame).size();
    return count > few_events ? count : 0;
}

void HistoryView::paintFewEvents(const Canvas& canvas, const HistoryFrame& frame, std::vector<Glyph>& drawn) const {
    if (marksLeftOut(frame) > 0) return;  // the timeline and the event list have them
    const auto marks = marksInSight(frame);
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    for (auto mark = marks.begin(); mark != marks.end(); ++mark) {
        const Event& event = m_index->lane().events()[mark->event];
        const bool now = static_cast<int>(mark->step) == cursor()->step() || cursor()->shown().event == mark->event;
        const QColor& colour = now ? colours.focus : colours.ink1;
        const double x = frame.axis.x(mark->step + 0.5);
        if (event.kind == EventKind::preempt) {
            painter.setPen(QPen(colour, canvas.u(1), Qt::DotLine));
            painter.drawLine(QPointF(x, frame.plot.top()), QPointF(x, frame.plot.bottom()));
            // Above the blocks, because it is about none of them.
            const QPointF place(x, frame.plot.top() + (frame.legend.isEmpty() ? canvas.u(6) : -canvas.u(7)));
            canvas.glyph(event.kind, place, 9, colour);
            drawn.push_back({place, mark->event});
            continue;
        }
        const double y = frame.y(mark->block + 0.5);
        if (event.kind == EventKind::copy_on_write) {
            const double source = frame.y(event.block.value + 0.5);
            const auto inSight = [&frame](double at) { return std::clamp(at, frame.plot.top(), frame.plot.bottom()); };
            const QLineF line(x, inSight(source), x, inSight(y));
            painter.setPen(QPen(colours.panel, canvas.u(3)));
            painter.drawLine(line);
            painter.setPen(QPen(colour, canvas.u(1.4)));
            painter.drawLine(line);
            painter.setBrush(colours.panel);
            if (source == line.y1()) painter.drawEllipse(QPointF(x, source), canvas.u(3), canvas.u(3));
        }
        if (y < frame.plot.top() || y > frame.plot.bottom()) continue;
        painter.setPen(Qt::NoPen);
        painter.setBrush(colours.panel);
        painter.drawEllipse(QPointF(x, y), canvas.u(6), canvas.u(6));
        canvas.glyph(event.kind, QPointF(x, y), 9, colour);
        drawn.push_back({QPointF(x, y), mark->event});
    }
}

void HistoryView::paintManyEvents(const Canvas& canvas, const HistoryFrame& frame, std::vector<Glyph>& drawn) const {
    if (frame.folded() || frame.perBlock < canvas.u(glyph_row) || frame.axis.perStep < canvas.u(glyph_step)) return;
    const LaneRecord& lane = m_index->lane();
    const auto first = static_cast<std::uint32_t>(std::max(0.0, std::floor(frame.axis.begin)));
    const auto end = static_cast<std::uint32_t>(std::min<double>(m_index->steps(), std::ceil(frame.axis.end)));
    if (first >= end || lane.step(end - std::size_t{1}).events.end - lane.step(first).events.begin > events_read) return;
    struct Found {
        QPointF at;
        std::uint32_t step = 0;
        std::uint64_t event = 0;
    };
    std::vector<Found> found;
    for (std::uint32_t step = first; step < end; ++step) {
        const LogRange range = lane.step(step).events;
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
            const Event& event = lane.events()[i];
            if (event.kind != EventKind::evict && event.kind != EventKind::prefix_hit) continue;
            if (event.kind == EventKind::evict && event.cause == Cause::requested) continue;  // drawn already
            const QPointF at(frame.axis.x(step + 0.5), frame.y(event.block.value + 0.5));
            if (at.y() < frame.plot.top() || at.y() > frame.plot.bottom()) continue;
            found.push_back({at, step, i});
            if (found.size() > many_events) return;
        }
    }
    const double size = std::min(9.0, frame.perBlock / unit() * 0.7);
    for (const Found& each : found) {
        const bool now = static_cast<int>(each.step) == cursor()->step() || cursor()->shown().event == each.event;
        canvas.glyph(lane.events()[each.event].kind, each.at, size, now ? canvas.colours().focus : canvas.colours().ink1);
        drawn.push_back({each.at, each.event});
    }
}

QString HistoryView::describe(HistoryIndex::Code code) const {
    const std::vector<SequenceId> owners = m_index->owners(code);
    const auto name = [this](SequenceId id) { return sequenceLabel(*m_seen, m_index->lane(), id); };
    switch (HistoryIndex::kindOf(code)) {
    case BlockKind::free: return tr("free");
    case BlockKind::cached: return owners.empty() ? tr("free but cached") : tr("free but cached, content of sequence %1").arg(name(owners.front()));
    case BlockKind::owned: return tr("sequence %1").arg(name(owners.front()));
    case BlockKind::shared: break;
    }
    QStringList names;
    for (std::size_t i = 0; i < owners.size() && i < 6; ++i) names << name(owners[i]);
    if (owners.size() > 6) names << QStringLiteral("…");
    return tr("shared by %1: %2").arg(owners.size()).arg(names.join(QStringLiteral(", ")));
}

// The stretches of a block's life up to the one that holds the step, at most three.
QStringList HistoryView::lifeAround(std::uint32_t block, std::uint32_t step) const {
    const std::vector<HistoryIndex::Interval> life = m_index->intervals(block, 0, m_index->steps());
    const auto now = std::find_if(life.begin(), life.end(), [step](const auto& each) { return step < each.end; });
    QStringList lines;
    if (now == life.end()) return lines;
    for (auto each = now - std::min<std::ptrdiff_t>(2, now - life.begin()); each != now + 1; ++each) {
        const bool goesOn = each->end == m_index->steps();
        lines << (each->end - each->begin == 1 ? tr("step %1: %2").arg(QString::number(each->begin), describe(each->code))
                  : goesOn ? tr("from step %1: %2").arg(QString::number(each->begin), describe(each->code))
                           : tr("steps %1–%2: %3").arg(QString::number(each->begin), QString::number(each->end - 1), describe(each->code)));
    }
    return lines;
}

void HistoryView::paintLife(const Canvas& canvas, const HistoryFrame& frame) const {
    const Pick& locked = cursor()->locked();
    const int step = cursor()->stepOf(cursor()->lane());
    if (!locked.block || (locked.lane && *locked.lane != m_lane) || *locked.block == null_block_id || step < 0 ||
        frame.plot.width() < canvas.u(360) || frame.plot.height() < canvas.u(140) || locked.block->value >= m_index->blocks())
        return;
    const Palette& colours = canvas.colours();
    const QStringList lines = lifeAround(locked.block->value, static_cast<std::uint32_t>(step));
    const TextStyle title{12, QFont::DemiBold, colours.ink1, false}, body{11, QFont::Normal, colours.ink1, false};
    double width = canvas.width(tr("Block %1, locked").arg(locked.block->value), title);
    for (const QString& line : lines) width = std::max(width, canvas.width(line, body));
    width = std::min(width + canvas.u(20), frame.plot.width() - canvas.u(16));
    const double height = canvas.u(26) + canvas.u(16) * static_cast<double>(lines.size());
    // Below the row, or above it; left of the cursor, or right of it.
    const double row = frame.y(locked.block->value), x = frame.axis.x(step + 0.5);
    double top = row + frame.perBlock + canvas.u(8);
    if (top + height > frame.plot.bottom()) top = std::max(frame.plot.top(), row - height - canvas.u(8));
    double left = x - width - canvas.u(8);
    if (left < frame.plot.left()) left = std::min(x + canvas.u(8), frame.plot.right() - width);
    const QRectF box(std::max(left, frame.plot.left()), std::min(top, frame.plot.bottom() - height), width, height);
    canvas.painter().setPen(QPen(colours.ink2, 1));
    canvas.painter().setBrush(colours.panel);
    canvas.painter().drawRoundedRect(box, canvas.u(4), canvas.u(4));
    QRectF line(box.left() + canvas.u(10), box.top() + canvas.u(4), width - canvas.u(20), canvas.u(17));
    canvas.text(line, tr("Block %1, locked").arg(locked.block->value), title);
    for (const QString& each : lines) {
        line.translate(0, canvas.u(16));
        canvas.text(line, each, body);
    }
}

QString HistoryView::tipAt(const QPointF& position) const {
    if (!index()) return {};
    const HistoryFrame now = frame();
    for (const Glyph& glyph : m_glyphs)
        if (QLineF(glyph.centre, position).length() < 7 * unit())
            return QString::fromStdString(describe_event(*m_seen, m_index->lane(), glyph.event));
    if (!now.plot.contains(position)) return {};
    const auto block = blockUnder(now, position.y());
    const double at = now.axis.stepAt(position.x());
    if (!block || at < 0 || at >= m_index->steps()) return {};
    const auto step = static_cast<std::uint32_t>(at);
    if (!now.folded()) {
        if (*block == null_block_id.value) return tr("Block 0 is the null block: a placeholder, never written.");
        return tr("Block %1, step %2").arg(formatCount(*block), formatCount(step)) + QLatin1Char('\n') +
               lifeAround(*block, step).join(QLatin1Char('\n'));
    }
    const std::uint32_t firstBlock = *block >> now.blockLevel << now.blockLevel, firstStep = step >> now.stepLevel << now.stepLevel;
    const HistoryCount count = countCell(*m_index, firstBlock, firstBlock + now.blocksPerCell(), firstStep, firstStep + now.stepsPerCell());
    if (count.total == 0) return {};
    std::uint64_t inUse = 0;
    for (std::uint8_t hue = 0; hue < history_cell::hues; ++hue) inUse += count.kinds[history_cell::owned + hue];
    const auto share = [&](const QString& name, std::uint64_t part) {
        return tr("%1 %2 %3").arg(originMark(Origin::derived), formatPercent(static_cast<double>(part) / static_cast<double>(count.total)), name);
    };
    QStringList lines{tr("Blocks %1–%2, steps %3–%4, folded into one cell")
                          .arg(formatCount(firstBlock), formatCount(std::min(firstBlock + now.blocksPerCell(), m_index->blocks()) - 1),
                               formatCount(firstStep), formatCount(std::min(firstStep + now.stepsPerCell(), m_index->steps()) - 1))};
    lines << share(tr("in use by one owner"), inUse) << share(tr("shared"), count.kinds[history_cell::shared])
          << share(tr("free but cached"), count.kinds[history_cell::cached]) << share(tr("free"), count.kinds[history_cell::free]);
    return lines.join(QLatin1Char('\n'));
}

}  // namespace kvloupe
