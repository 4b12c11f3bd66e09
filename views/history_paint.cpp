// SPDX-License-Identifier: GPL-3.0-or-later
//
// The block history's picture: one image of cells, and over it, where there is room, owners, hatches and ids.
#include "views/canvas.h"
#include "views/folded_edge.h"
#include "views/format.h"
#include "views/history_view.h"
#include "views/picking.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace kvloupe {

namespace {

constexpr double detailed_row = 8;   // pixels at 100 %: hatches, dots and split owners from here
constexpr double gap_row = 3.4;      // a line of the panel's colour between rows from here
constexpr double owner_share = 0.78; // of the hue over the panel
constexpr std::size_t most_boxes = 1500, most_names = 250;  // stretches of life in sight that are drawn one by one, and named

// Where a tile's cells come from: its own, or a coarser tile that stands in for it.
struct Source {
    const HistoryTile* tile = nullptr;
    HistoryTileKey key;
    std::uint32_t up = 0, across = 0;  // levels that it is coarser

    // Cells of a row of the picture's level; the first is that of the tile's own column `key.column * edge`.
    const std::uint8_t* row(std::uint64_t at) const {
        return tile->cells.data() + ((at >> up) - std::uint64_t{key.row} * HistoryTile::edge) * HistoryTile::edge;
    }
};

QColor blended(const QColor& over, const QColor& under, double share) {
    const auto mix = [share](int a, int b) { return qRound(a * share + b * (1 - share)); };
    return QColor(mix(over.red(), under.red()), mix(over.green(), under.green()), mix(over.blue(), under.blue()));
}

QColor cachedColour(const Palette& colours) { return blended(colours.hatch, colours.free, 0.55); }

QColor ownedColour(const Palette& colours, unsigned owner) { return blended(colours.owner(owner), colours.panel, owner_share); }

}  // namespace

bool HistoryView::Composed::operator==(const Composed& other) const {
    return size == other.size && colours == other.colours && steps == other.steps && tiles == other.tiles &&
           firstBlock == other.firstBlock && perBlock == other.perBlock && begin == other.begin && perStep == other.perStep &&
           ratio == other.ratio;
}

// Cells of the plot as pixels of the device: one run per stretch of equal cells, one copy per further line of a row.
void HistoryView::compose(const HistoryFrame& frame, double ratio, QImage& image) {
    const QSize size(std::max(1, qRound(frame.plot.width() * ratio)), std::max(1, qRound(frame.plot.height() * ratio)));
    if (image.size() != size) image = QImage(size, QImage::Format_RGB32);
    const Palette& colours = palette_();
    QRgb lut[256];
    std::fill(std::begin(lut), std::end(lut), colours.panel.rgb());
    const bool detailed = !frame.folded() && frame.perBlock >= detailed_row * unit();
    lut[history_cell::free] = colours.free.rgb();
    lut[history_cell::cached] = detailed ? colours.free.rgb() : cachedColour(colours).rgb();
    lut[history_cell::shared] = colours.ink1.rgb();
    for (unsigned hue = 0; hue < history_cell::hues; ++hue) lut[history_cell::owned + hue] = ownedColour(colours, hue).rgb();
    const QRgb gap = colours.panel.rgb(), hatch = colours.hatch.rgb();
    const int period = std::max(3, qRound(5 * unit() * ratio));

    const std::uint32_t steps = m_stepsKnown, edge = HistoryTile::edge;
    const double perStep = frame.axis.perStep * ratio, perBlock = frame.perBlock * ratio;
    const auto firstColumn = static_cast<std::uint64_t>(std::max(0.0, frame.axis.begin)) >> frame.stepLevel;
    const auto endColumn = static_cast<std::uint64_t>(std::ceil(std::min(frame.axis.end, static_cast<double>(steps)))) / frame.stepsPerCell() + 1;
    const auto firstRow = static_cast<std::uint64_t>(std::max(0.0, frame.firstBlock)) >> frame.blockLevel;
    const double endBlock = std::min(frame.blockAt(frame.plot.bottom()), blockCount());
    const auto endRow = static_cast<std::uint64_t>(std::ceil(endBlock)) / frame.blocksPerCell() + 1;
    const auto pixel = [](double at, int most) { return static_cast<int>(std::clamp<double>(std::round(at), 0, most)); };
    const int lastX = pixel((steps - frame.axis.begin) * perStep, size.width());
    std::vector<int> edges;  // right edges of columns
    for (std::uint64_t column = firstColumn; column < endColumn; ++column)
        edges.push_back(std::min(lastX, pixel((static_cast<double>((column + 1) << frame.stepLevel) - frame.axis.begin) * perStep, size.width())));
    const auto yOf = [&](std::uint64_t row) {
        return pixel((static_cast<double>(row << frame.blockLevel) - frame.firstBlock) * perBlock, size.height());
    };
    const auto sourceOf = [&](std::uint64_t row, std::uint64_t column) {
        Source source;
        source.key = {frame.blockLevel, frame.stepLevel, static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(column)};
        source.tile = m_tiles.find(source.key, steps).tile;
        if (source.tile) return source;
        const auto found = m_tiles.coarser(source.key, 30, 30);
        if (!found.tile) return source;
        source.up = found.key.blockLevel - frame.blockLevel;
        source.across = found.key.stepLevel - frame.stepLevel;
        source.tile = found.tile;
        source.key = found.key;
        return source;
    };
    std::vector<Source> sources;  // of one row of tiles
    std::uint64_t sourcesOf = ~std::uint64_t{0};
    std::vector<std::pair<int, int>> cached;  // pixels of one row that are hatched
    const auto lineOf = [&image](int y) { return reinterpret_cast<QRgb*>(image.scanLine(y)); };
    int done = 0;
    for (std::uint64_t row = firstRow; row < endRow && done < size.height(); ++row) {
        const int top = yOf(row), bottom = yOf(row + 1);
        for (; done < top; ++done) std::fill_n(lineOf(done), size.width(), gap);
        if (bottom <= top) continue;
        if (row / edge != sourcesOf) {
            sourcesOf = row / edge;
            sources.clear();
            for (std::uint64_t tile = firstColumn / edge; tile <= (endColumn - 1) / edge; ++tile) sources.push_back(sourceOf(row / edge, tile));
        }
        QRgb* line = lineOf(top);
        cached.clear();
        int from = 0, x = 0;
        std::uint8_t run = history_cell::unknown;
        const auto flush = [&] {
            if (x > from) std::fill_n(line + from, x - from, lut[run]);
            if (detailed && run == history_cell::cached && x > from) cached.emplace_back(from, x);
            from = x;
        };
        std::uint64_t column = firstColumn;
        for (const Source& source : sources) {
            const std::uint64_t end = std::min(endColumn, (column / edge + 1) * edge);
            const std::uint8_t* cells = source.tile ? source.row(row) : nullptr;
            const std::uint64_t base = std::uint64_t{source.key.column} * edge;
            for (; column < end; ++column) {
                const std::uint8_t cell = cells ? cells[(column >> source.across) - base] : history_cell::unknown;
                if (cell != run) {
                    flush();
                    run = cell;
                }
                x = std::max(x, edges[column - firstColumn]);
            }
        }
        flush();
        std::fill_n(line + x, size.width() - x, gap);
        for (int y = top + 1; y < bottom; ++y) std::copy_n(line, size.width(), lineOf(y));
        for (const auto& [left, right] : cached)
            for (int y = top; y < bottom; ++y)
                for (int at = left + (period - (left + y) % period) % period; at < right; at += period) lineOf(y)[at] = hatch;
        if (perBlock >= gap_row * ratio && frame.blockLevel == 0) std::fill_n(lineOf(bottom - 1), size.width(), gap);
        done = bottom;
    }
    for (; done < size.height(); ++done) std::fill_n(lineOf(done), size.width(), gap);
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
    const Composed now{frame.plot.size(), ratio, &palette_(), m_stepsKnown, m_tiles.version(), frame.firstBlock, frame.perBlock,
                       frame.axis.begin, frame.axis.perStep};
    if (!screen || !(now == m_composed)) compose(frame, ratio, image);
    if (screen) m_composed = now;
    painter.save();
    painter.setRenderHint(QPainter::SmoothPixmapTransform, false);
    painter.drawImage(frame.plot, image);
    painter.restore();
    painter.save();
    painter.setClipRect(frame.plot, Qt::IntersectClip);
    if (index()) paintRows(canvas, frame);
    painter.restore();
    paintLabels(canvas, frame);
    if (frame.blockLevel > 0) paintFoldedEdge(canvas, frame.plot.topLeft(), frame.plot.bottomLeft());
    if (frame.stepLevel > 0) paintFoldedEdge(canvas, frame.plot.bottomLeft(), frame.plot.bottomRight());
    frame.axis.paintTicks(canvas, cursor()->step());
    painter.save();
    painter.setClipRect(frame.plot.adjusted(-canvas.u(6), -canvas.u(14), canvas.u(6), canvas.u(2)), Qt::IntersectClip);
    if (index()) paintGlyphs(canvas, frame);
    painter.restore();
    frame.axis.paintFuture(canvas, cursor()->step(), frame.plot.adjusted(0, frame.legend.isEmpty() ? 0 : -canvas.u(14), 0, 0));
    paintSelection(canvas, frame);
    frame.axis.paintCursor(canvas, cursor()->step());
    paintLegend(canvas, frame);
    if (index()) paintLife(canvas, frame);
}

// Stretches of blocks' lives that are in use, one by one: a dot pattern where hues repeat, shared ones split into their
// owners, names where there is room.
class HistoryView::Stretches {
public:
    Stretches(const HistoryView& view, const Canvas& canvas, const HistoryFrame& frame)
        : m_view(view), m_canvas(canvas), m_plot(frame.plot), m_perStep(frame.axis.perStep), m_font(canvas.font({10.5, QFont::DemiBold})), m_metrics(m_font) {
        const int side = std::max(6, qRound(canvas.u(10)));
        QImage dots(side, side, QImage::Format_ARGB32_Premultiplied);
        dots.fill(Qt::transparent);
        QPainter painter(&dots);
        painter.setRenderHint(QPainter::Antialiasing);
        painter.setPen(Qt::NoPen);
        QColor ink = canvas.colours().ink1;
        ink.setAlphaF(0.55f);
        painter.setBrush(ink);
        for (const double at : {0.25, 0.75}) painter.drawEllipse(QPointF(side * at, side * at), canvas.u(1), canvas.u(1));
        m_dots = QBrush(dots);
    }

    void paint(const QRectF& box, HistoryIndex::Code code) {
        QPainter& painter = m_canvas.painter();
        const std::vector<SequenceId> owners = m_view.m_index->owners(code);
        if (owners.size() == 1 && Palette::repeats(owners.front().value)) painter.fillRect(box & m_plot, m_dots);
        if (owners.size() < 2) return;
        const double height = box.height() / static_cast<double>(owners.size());
        for (std::size_t i = 0; i < owners.size() && height >= 1; ++i)
            painter.fillRect(QRectF(box.left(), box.top() + static_cast<double>(i) * height, box.width(), height),
                             ownedColour(m_canvas.colours(), owners[i].value));
        painter.setPen(QPen(m_canvas.colours().ink1, m_canvas.u(1.2)));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(box.adjusted(0.5, 0.5, -0.5, -0.5));
    }

    void name(const QRectF& box, HistoryIndex::Code code) {
        const QRectF seen = box & m_plot;
        if (box.height() < m_canvas.u(13) || seen.width() < m_canvas.u(16)) return;
        const std::vector<SequenceId> owners = m_view.m_index->owners(code);
        QString text = owners.size() > 1 ? tr("%1 owners").arg(owners.size())
                                         : sequenceName(*m_view.m_seen, m_view.m_index->lane(), owners.front());
        const double room = seen.width() - m_canvas.u(10);
        if (owners.size() > 1 && m_metrics.horizontalAdvance(text) > room) text = QString::number(owners.size());
        const double width = m_metrics.horizontalAdvance(text);
        if (text.isEmpty() || width > room) return;
        // Beside the middle of the first step, where an eviction or a hit stands.
        const double before = seen.left() + m_canvas.u(2), glyph = box.left() + m_perStep / 2, after = glyph + m_canvas.u(7);
        double left = before;
        if (seen.left() == box.left() && before + width + m_canvas.u(6) > glyph - m_canvas.u(7)) left = after;
        if (left + width + m_canvas.u(6) > seen.right()) return;
        const QRectF place(left, seen.top() + m_canvas.u(1), width + m_canvas.u(6), seen.height() - m_canvas.u(2));
        QPainter& painter = m_canvas.painter();
        QColor under = m_canvas.colours().panel;
        under.setAlphaF(0.72f);
        painter.fillRect(place, under);
        painter.setFont(m_font);
        painter.setPen(m_canvas.colours().ink1);
        painter.drawText(place, Qt::AlignCenter | Qt::TextSingleLine | Qt::TextDontClip, text);
    }

private:
    const HistoryView& m_view;
    const Canvas& m_canvas;
    QRectF m_plot;
    double m_perStep;
    QFont m_font;
    QFontMetricsF m_metrics;
    QBrush m_dots;
};

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
    std::vector<std::pair<QRectF, HistoryIndex::Code>> boxes;
    for (std::uint32_t block = first; block < end; ++block)
        for (const HistoryIndex::Interval& each : m_index->intervals(block, begin, last))
            if (HistoryIndex::kindOf(each.code) == BlockKind::owned || HistoryIndex::kindOf(each.code) == BlockKind::shared)
                boxes.emplace_back(QRectF(QPointF(frame.axis.x(each.begin), frame.y(block)),
                                          QPointF(frame.axis.x(each.end), frame.y(block + 1.0) - 1)), each.code);
    if (boxes.size() > most_boxes) return;  // the image alone: they are too small to be told apart
    Stretches stretches(*this, canvas, frame);
    canvas.painter().setRenderHint(QPainter::Antialiasing, false);
    for (const auto& [box, code] : boxes) {
        if (detailed) stretches.paint(box, code);
        if (!chosenSequence) continue;
        const auto owners = m_index->owners(code);
        if (std::find(owners.begin(), owners.end(), *locked.sequence) != owners.end())
            canvas.outline(box.adjusted(0.5, 0.5, -0.5, -0.5), canvas.colours().ink1, 1.4);
    }
    if (detailed && boxes.size() <= most_names)
        for (const auto& [box, code] : boxes) stretches.name(box, code);
    canvas.painter().setRenderHint(QPainter::Antialiasing);
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
    const double side = canvas.u(10);
    struct Entry {
        QString text;
        std::function<void(const QRectF&)> swatch;
    };
    std::vector<Entry> entries;
    const std::size_t sequences = cursor()->laneRecord()->sequences().size();
    if (sequences > history_cell::hues) {
        entries.push_back({tr("in use, hue = owner"), [&](const QRectF& box) {
            const unsigned owner = cursor()->sequence().valid() ? cursor()->sequence().value : 0;
            canvas.painter().fillRect(box, ownedColour(colours, owner));
        }});
    } else {
        for (std::uint32_t i = 0; i < sequences; ++i)
            entries.push_back({sequenceName(*m_seen, *cursor()->laneRecord(), SequenceId(i)), [&, i](const QRectF& box) { canvas.swatch(box, i); }});
    }
    const bool detailed = frame.perBlock >= canvas.u(detailed_row) && !frame.folded();
    entries.push_back({tr("shared"), [&](const QRectF& box) {
        canvas.painter().fillRect(box, detailed ? ownedColour(colours, 0) : colours.ink1);
        if (!detailed) return;
        canvas.painter().fillRect(QRectF(box.left(), box.center().y(), box.width(), box.height() / 2), ownedColour(colours, 1));
        canvas.outline(box, colours.ink1, 1.2);
    }});
    entries.push_back({tr("free but cached"), [&](const QRectF& box) {
        canvas.painter().fillRect(box, detailed ? colours.free : cachedColour(colours));
        if (detailed) canvas.hatch(box, colours.hatch, 3);
        canvas.outline(box, colours.freeBorder, 1);
    }});
    entries.push_back({tr("free"), [&](const QRectF& box) {
        canvas.painter().fillRect(box, colours.free);
        canvas.outline(box, colours.freeBorder, 1);
    }});
    const QString names[] = {tr("fork"), tr("copy-on-write"), tr("preemption"), tr("eviction"), tr("prefix hit")};
    const EventKind kinds[] = {EventKind::fork, EventKind::copy_on_write, EventKind::preempt, EventKind::evict, EventKind::prefix_hit};
    for (std::size_t i = 0; i < std::size(kinds); ++i)
        if (m_kindsDrawn & (1u << static_cast<int>(kinds[i])))
            entries.push_back({names[i], [&, i](const QRectF& box) { canvas.glyph(kinds[i], box.center(), 9, colours.ink2); }});
    // At the right end; where not all fit, the last ones are left out.
    const double gap = canvas.u(14);
    const auto widthOf = [&](const Entry& entry) { return side + canvas.u(6) + canvas.width(entry.text, style) + gap; };
    double width = -gap;
    std::size_t count = 0;
    while (count < entries.size() && width + widthOf(entries[count]) <= frame.legend.width()) width += widthOf(entries[count++]);
    double x = frame.legend.right() - width;
    for (std::size_t i = 0; i < count; ++i) {
        entries[i].swatch(QRectF(x, frame.legend.center().y() - side / 2, side, side));
        canvas.text(QRectF(x + side + canvas.u(6), frame.legend.top(), widthOf(entries[i]), frame.legend.height()), entries[i].text, style);
        x += widthOf(entries[i]);
    }
}

}  // namespace kvloupe
