// SPDX-License-Identifier: GPL-3.0-or-later
//
// The block history's picture: one image of cells, and over it, where there is room, owners, hatches and ids.
#include "views/canvas.h"
#include "views/format.h"
#include "views/history_view.h"
#include "views/picking.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr double detailed_row = 8;   // pixels at 100 %: hatches, dots and split owners from here
constexpr double gap_row = 3.4;      // a line of the panel's colour between rows from here
constexpr double owner_share = 0.78; // of the hue over the panel

// Where a tile's cells come from: its own, or a coarser tile that stands in for it.
struct Source {
    const HistoryTile* tile = nullptr;
    HistoryTileKey key;
    std::uint32_t up = 0, across = 0;  // levels that it is coarser

    std::uint8_t cell(std::uint64_t row, std::uint64_t column) const {  // of the picture's level
        if (!tile) return history_cell::unknown;
        const std::uint64_t r = (row >> up) - std::uint64_t{key.row} * HistoryTile::edge;
        const std::uint64_t c = (column >> across) - std::uint64_t{key.column} * HistoryTile::edge;
        return tile->cells[r * HistoryTile::edge + c];
    }
};

QColor mixed(const QColor& over, const QColor& under, double share) {
    const auto mix = [share](int a, int b) { return qRound(a * share + b * (1 - share)); };
    return QColor(mix(over.red(), under.red()), mix(over.green(), under.green()), mix(over.blue(), under.blue()));
}

QColor cachedColour(const Palette& colours) { return mixed(colours.hatch, colours.free, 0.55); }

QColor ownedColour(const Palette& colours, unsigned owner) { return mixed(colours.owner(owner), colours.panel, owner_share); }

}  // namespace

// Cells of the plot as pixels of the device, one run per cell and one copy per further line of a row.
void HistoryView::compose(const HistoryFrame& frame, double ratio, QImage& image) {
    const QSize size(std::max(1, qRound(frame.plot.width() * ratio)), std::max(1, qRound(frame.plot.height() * ratio)));
    if (image.size() != size) image = QImage(size, QImage::Format_RGB32);
    const Palette& colours = palette_();
    QRgb lut[256];
    std::fill(std::begin(lut), std::end(lut), colours.panel.rgb());
    lut[history_cell::free] = colours.free.rgb();
    lut[history_cell::cached] = cachedColour(colours).rgb();
    lut[history_cell::shared] = colours.ink1.rgb();
    for (unsigned hue = 0; hue < history_cell::hues; ++hue) lut[history_cell::owned + hue] = ownedColour(colours, hue).rgb();
    const QRgb gap = colours.panel.rgb();

    const std::uint32_t steps = m_stepsKnown, edge = HistoryTile::edge;
    const double perStep = frame.axis.perStep * ratio, perBlock = frame.perBlock * ratio;
    const auto firstColumn = static_cast<std::uint64_t>(std::max(0.0, frame.axis.begin)) >> frame.stepLevel;
    const auto endColumn = static_cast<std::uint64_t>(std::ceil(std::min(frame.axis.end, static_cast<double>(steps)))) / frame.stepsPerCell() + 1;
    const auto firstRow = static_cast<std::uint64_t>(std::max(0.0, frame.firstBlock)) >> frame.blockLevel;
    const double endBlock = std::min(frame.blockAt(frame.plot.bottom()), blockCount());
    const auto endRow = static_cast<std::uint64_t>(std::ceil(endBlock)) / frame.blocksPerCell() + 1;
    const auto xOf = [&](std::uint64_t column) {
        return std::clamp(static_cast<int>(std::lround((static_cast<double>(column << frame.stepLevel) - frame.axis.begin) * perStep)), 0, size.width());
    };
    const auto yOf = [&](std::uint64_t row) {
        return std::clamp(static_cast<int>(std::lround((static_cast<double>(row << frame.blockLevel) - frame.firstBlock) * perBlock)), 0, size.height());
    };
    std::vector<int> edges;
    for (std::uint64_t column = firstColumn; column <= endColumn; ++column) edges.push_back(xOf(column));
    const int lastX = static_cast<int>(std::clamp<double>(std::lround((steps - frame.axis.begin) * perStep), 0, size.width()));

    const auto sourceOf = [&](std::uint32_t row, std::uint32_t column) {
        Source source;
        source.key = {frame.blockLevel, frame.stepLevel, row, column};
        source.tile = m_tiles.find(source.key, steps).tile;
        if (!source.tile) {
            const auto found = m_tiles.coarser(source.key, 30, 30);
            if (found.tile) {
                source.up = found.key.blockLevel - frame.blockLevel;
                source.across = found.key.stepLevel - frame.stepLevel;
                source.tile = found.tile;
                source.key = found.key;
            }
        }
        return source;
    };
    std::vector<Source> sources;  // of one row of tiles
    std::uint64_t sourcesOf = ~std::uint64_t{0};
    int done = 0;
    for (std::uint64_t row = firstRow; row < endRow && done < size.height(); ++row) {
        const int top = yOf(row), bottom = yOf(row + 1);
        for (; done < top; ++done) std::fill_n(reinterpret_cast<QRgb*>(image.scanLine(done)), size.width(), gap);
        if (bottom <= top) continue;
        if (row / edge != sourcesOf) {
            sourcesOf = row / edge;
            sources.clear();
            for (std::uint64_t tile = firstColumn / edge; tile <= endColumn / edge; ++tile)
                sources.push_back(sourceOf(static_cast<std::uint32_t>(row / edge), static_cast<std::uint32_t>(tile)));
        }
        auto* line = reinterpret_cast<QRgb*>(image.scanLine(top));
        int x = 0;
        for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
            const int end = std::min(edges[i + 1], lastX);
            if (end <= x) continue;
            const std::uint64_t column = firstColumn + i;
            const QRgb colour = lut[sources[column / edge - firstColumn / edge].cell(row, column)];
            std::fill_n(line + x, end - x, colour);
            x = end;
        }
        std::fill_n(line + x, size.width() - x, gap);
        const bool line1 = perBlock >= gap_row * ratio && frame.blockLevel == 0;
        for (int y = top + 1; y < bottom; ++y) std::copy_n(line, size.width(), reinterpret_cast<QRgb*>(image.scanLine(y)));
        if (line1) std::fill_n(reinterpret_cast<QRgb*>(image.scanLine(bottom - 1)), size.width(), gap);
        done = bottom;
    }
    for (; done < size.height(); ++done) std::fill_n(reinterpret_cast<QRgb*>(image.scanLine(done)), size.width(), gap);
}

void HistoryView::paintContent(QPainter& painter, const QRectF& area) {
    if (!m_index) return;
    const bool screen = painter.device() == this;
    if (!screen) settle();
    const Canvas canvas(painter, palette_(), font(), unit());
    const HistoryFrame frame = frameFor(area);
    countTiles(frame, !screen);
    const double ratio = screen || painter.device()->devType() == QInternal::Image ? painter.device()->devicePixelRatioF() : 2;
    QImage own;
    QImage& image = screen ? m_image : own;
    compose(frame, ratio, image);
    painter.save();
    painter.setRenderHint(QPainter::SmoothPixmapTransform, false);
    painter.setOpacity(stale() ? 0.6 : 1);
    painter.drawImage(frame.plot, image);
    painter.restore();
    painter.save();
    painter.setClipRect(frame.plot, Qt::IntersectClip);
    if (index()) paintRows(canvas, frame);
    painter.restore();
    paintLabels(canvas, frame);
    paintFoldedEdges(canvas, frame);
    frame.axis.paintTicks(canvas);
    painter.save();
    painter.setClipRect(frame.plot.adjusted(-canvas.u(6), -canvas.u(6), canvas.u(6), canvas.u(2)), Qt::IntersectClip);
    if (index()) paintGlyphs(canvas, frame);
    painter.restore();
    frame.axis.paintFuture(canvas, cursor()->step(), frame.plot);
    paintSelection(canvas, frame);
    frame.axis.paintCursor(canvas, cursor()->step());
    paintLegend(canvas, frame);
    if (index()) paintLife(canvas, frame);
}

void HistoryView::paintInterval(const Canvas& canvas, const QRectF& box, HistoryIndex::Code code, const QRectF& plot) const {
    QPainter& painter = canvas.painter();
    const Palette& colours = canvas.colours();
    const std::vector<SequenceId> owners = m_index->owners(code);
    switch (HistoryIndex::kindOf(code)) {
    case BlockKind::free: return;
    case BlockKind::cached:
        painter.fillRect(box, colours.free);
        canvas.hatch(box & plot, colours.hatch);
        return;
    case BlockKind::owned:
        if (owners.front().value >= history_cell::hues)
            canvas.ownerRect(box & plot, owners.front().value, ownedColour(colours, owners.front().value));
        break;
    case BlockKind::shared: {
        // Split into its owners, one above the other, in an ink border.
        const double height = box.height() / static_cast<double>(owners.size());
        for (std::size_t i = 0; i < owners.size() && height >= 1; ++i)
            painter.fillRect(QRectF(box.left(), box.top() + static_cast<double>(i) * height, box.width(), height),
                             ownedColour(colours, owners[i].value));
        canvas.outline(box.adjusted(0.5, 0.5, -0.5, -0.5), colours.ink1, 1.2);
        break;
    }
    }
    // Who it is, where there is room for a name.
    const QRectF seen = box & plot;
    if (box.height() < canvas.u(13) || seen.width() < canvas.u(22)) return;
    QString text = sequenceName(*m_seen, m_index->lane(), owners.front());
    if (owners.size() > 1) text = tr("%1 owners").arg(owners.size());
    const TextStyle style{10.5, QFont::DemiBold, colours.ink1, false};
    if (canvas.width(text, style) + canvas.u(8) > seen.width()) text = owners.size() > 1 ? QString::number(owners.size()) : QString();
    const double width = canvas.width(text, style) + canvas.u(6);
    if (text.isEmpty() || width > seen.width()) return;
    const QRectF place(seen.left() + canvas.u(2), seen.top() + canvas.u(1), width, seen.height() - canvas.u(2));
    QColor under = colours.panel;
    under.setAlphaF(0.72f);
    painter.fillRect(place, under);
    canvas.text(place, text, style, Qt::AlignCenter, Qt::ElideNone);
}

void HistoryView::paintRows(const Canvas& canvas, const HistoryFrame& frame) const {
    if (frame.folded() || stale()) return;
    const auto first = static_cast<std::uint32_t>(std::max(1.0, std::floor(frame.firstBlock)));
    const auto end = static_cast<std::uint32_t>(std::min(blockCount(), std::ceil(frame.blockAt(frame.plot.bottom()))));
    const auto begin = static_cast<std::uint32_t>(std::max(0.0, std::floor(frame.axis.begin)));
    const auto last = static_cast<std::uint32_t>(std::min<double>(m_index->steps(), std::ceil(frame.axis.end)));
    const bool detailed = frame.perBlock >= canvas.u(detailed_row);
    const Pick& locked = cursor()->locked();
    const bool chosenSequence = locked.sequence && !locked.block && (!locked.lane || *locked.lane == m_lane);
    if (!detailed && !chosenSequence) return;
    for (std::uint32_t block = first; block < end; ++block)
        for (const HistoryIndex::Interval& each : m_index->intervals(block, begin, last)) {
            const QRectF box(QPointF(frame.axis.x(each.begin), frame.y(block)),
                             QPointF(frame.axis.x(each.end), frame.y(block + 1.0) - 1));
            if (detailed) paintInterval(canvas, box, each.code, frame.plot);
            if (!chosenSequence || HistoryIndex::kindOf(each.code) == BlockKind::cached) continue;
            const auto owners = m_index->owners(each.code);
            if (std::find(owners.begin(), owners.end(), *locked.sequence) != owners.end())
                canvas.outline(box.adjusted(0.5, 0.5, -0.5, -0.5), canvas.colours().ink1, 1.4);
        }
}

void HistoryView::paintLabels(const Canvas& canvas, const HistoryFrame& frame) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    double every = 1;
    while (every * frame.perBlock < canvas.u(16)) every *= 2;
    const TextStyle style{10.5, QFont::Normal, colours.ink3, true};
    const double end = std::min(blockCount(), frame.blockAt(frame.plot.bottom()));
    for (double block = std::ceil(frame.firstBlock / every) * every; block < end; block += every) {
        const double y = frame.y(block) + std::min(frame.perBlock, canvas.u(16)) / 2;
        if (y < frame.plot.top() - 1 || y > frame.plot.bottom() + 1) continue;
        painter.setPen(QPen(colours.ink3, 1));
        painter.drawLine(QPointF(frame.plot.left() - canvas.u(4), y), QPointF(frame.plot.left() - canvas.u(1), y));
        const QString text = block == 0 && frame.labels.width() > canvas.u(60) ? tr("0, null") : formatCount(static_cast<quint64>(block));
        canvas.text(QRectF(frame.labels.left(), y - canvas.u(7), frame.labels.width(), canvas.u(14)), text, style,
                    Qt::AlignRight | Qt::AlignVCenter, Qt::ElideNone);
    }
    if (frame.labels.width() < canvas.u(70) || frame.plot.height() < canvas.u(120)) return;
    painter.save();
    painter.translate(frame.labels.left() + canvas.u(8), frame.plot.center().y());
    painter.rotate(-90);
    canvas.text(QRectF(-frame.plot.height() / 2, -canvas.u(8), frame.plot.height(), canvas.u(16)), tr("physical block"),
                {11, QFont::Normal, colours.ink2, false}, Qt::AlignCenter);
    painter.restore();
}

// A zig-zag along the edge of an axis that is folded.
void HistoryView::paintFoldedEdges(const Canvas& canvas, const HistoryFrame& frame) const {
    QPainter& painter = canvas.painter();
    painter.setPen(QPen(canvas.colours().ink3, canvas.u(1)));
    painter.setBrush(Qt::NoBrush);
    const double tooth = canvas.u(4);
    QPolygonF right, left;
    for (double y = frame.plot.top(); y <= frame.plot.bottom(); y += tooth)
        left << QPointF(frame.plot.left() - canvas.u(1) - (left.size() % 2 ? tooth / 2 : 0), y);
    for (double x = frame.plot.left(); x <= frame.plot.right(); x += tooth)
        right << QPointF(x, frame.plot.bottom() + (right.size() % 2 ? tooth / 2 : 0));
    if (frame.blockLevel > 0) painter.drawPolyline(left);
    if (frame.stepLevel > 0) painter.drawPolyline(right);
}

void HistoryView::paintSelection(const Canvas& canvas, const HistoryFrame& frame) const {
    const auto mark = [&](const Pick& pick, double width) {
        if (!pick.block || (pick.lane && *pick.lane != m_lane)) return;
        const double top = frame.y(pick.block->value), height = std::max(frame.perBlock, canvas.u(3));
        if (top + height < frame.plot.top() || top > frame.plot.bottom()) return;
        const QColor& ink = canvas.colours().ink1;
        canvas.outline(QRectF(frame.plot.left() - width / 2, top - width / 2, frame.plot.width() + width, height + width), ink, width);
        const TextStyle style{11, QFont::DemiBold, ink, true};
        const QString text = QString::number(pick.block->value);
        const double wide = std::max(canvas.u(28), canvas.width(text, style) + canvas.u(10));
        const double y = std::clamp(top + height / 2, frame.plot.top() + canvas.u(4), frame.plot.bottom() - canvas.u(4));
        const QRectF flag(frame.plot.left() - canvas.u(4) - wide, y - canvas.u(8), wide, canvas.u(16));
        canvas.painter().setPen(QPen(ink, width));
        canvas.painter().setBrush(canvas.colours().panel);
        canvas.painter().drawRoundedRect(flag, canvas.u(2), canvas.u(2));
        canvas.text(flag, text, style, Qt::AlignCenter, Qt::ElideNone);
    };
    mark(cursor()->hover(), 1);
    mark(cursor()->locked(), 2);
}

void HistoryView::paintLegend(const Canvas& canvas, const HistoryFrame& frame) const {
    if (frame.legend.isEmpty()) return;
    const Palette& colours = canvas.colours();
    const TextStyle style{11, QFont::Normal, colours.ink2, false};
    double right = frame.legend.right();
    const double side = canvas.u(10), middle = frame.legend.center().y();
    // From the right end inwards; what does not fit is left out.
    const auto entry = [&](const QString& text, const auto& swatch) {
        const double need = side + canvas.u(6) + canvas.width(text, style) + canvas.u(14);
        if (right - need < frame.legend.left()) return false;
        right -= need;
        swatch(QRectF(right, middle - side / 2, side, side));
        canvas.text(QRectF(right + side + canvas.u(6), frame.legend.top(), need, frame.legend.height()), text, style);
        return true;
    };
    const auto glyph = [&](EventKind kind, const QString& text) {
        entry(text, [&](const QRectF& box) { canvas.glyph(kind, box.center(), 9, colours.ink2); });
    };
    entry(tr("free"), [&](const QRectF& box) {
        canvas.painter().fillRect(box, colours.free);
        canvas.outline(box, colours.freeBorder, 1);
    });
    entry(tr("free but cached"), [&](const QRectF& box) {
        canvas.painter().fillRect(box, frame.perBlock >= canvas.u(detailed_row) && !frame.folded() ? colours.free : cachedColour(colours));
        if (frame.perBlock >= canvas.u(detailed_row) && !frame.folded()) canvas.hatch(box, colours.hatch, 3);
        canvas.outline(box, colours.freeBorder, 1);
    });
    entry(tr("shared"), [&](const QRectF& box) { canvas.painter().fillRect(box, colours.ink1); });
    const std::size_t sequences = m_seen && cursor()->laneRecord() ? cursor()->laneRecord()->sequences().size() : 0;
    if (sequences > history_cell::hues) {
        entry(tr("in use, hue = owner"), [&](const QRectF& box) { canvas.painter().fillRect(box, ownedColour(colours, cursor()->sequence().valid() ? cursor()->sequence().value : 0)); });
    } else {
        for (std::size_t i = sequences; i-- > 0;) {
            const SequenceId owner(static_cast<std::uint32_t>(i));
            if (!entry(sequenceName(*m_seen, *cursor()->laneRecord(), owner), [&](const QRectF& box) { canvas.swatch(box, owner.value); })) break;
        }
    }
    bool forks = false, copies = false, preempts = false;
    if (index())
        for (std::size_t i = 0; i < m_index->marks().size() && i < 4096; ++i) {
            const EventKind kind = m_index->lane().events()[m_index->marks()[i].event].kind;
            forks = forks || kind == EventKind::fork;
            copies = copies || kind == EventKind::copy_on_write;
            preempts = preempts || kind == EventKind::preempt;
        }
    if (preempts) glyph(EventKind::preempt, tr("preemption"));
    if (copies) glyph(EventKind::copy_on_write, tr("copy-on-write"));
    if (forks) glyph(EventKind::fork, tr("fork"));
}

}  // namespace kvloupe
