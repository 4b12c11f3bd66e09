// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/attention_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"
#include "views/reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvloupe {

void AttentionView::paintContent(QPainter& painter, const QRectF& area) {
    const Canvas canvas(painter, palette_(), font(), unit());
    m_places = placesFor(QRectF(rect()));
    Places places = m_places;
    if (area.topLeft() != QPointF() || area.size() != QSizeF(size())) places = placesFor(area);
    paintWall(canvas, places);
    paintHead(canvas, places);
    paintSide(canvas, places);
}

void AttentionView::paintWall(const Canvas& canvas, const Places& places) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const std::uint32_t perGroup = std::max(1u, m_heads / m_kvHeads);
    const TextStyle caption{11, QFont::Normal, colours.ink2, false};
    for (std::uint32_t group = 0; group < m_kvHeads; ++group) {
        const QRectF first = wallCell(places, 0, group * perGroup);
        const QRectF head(first.left(), places.wall.top() - canvas.u(18), places.cellWidth * perGroup, canvas.u(15));
        const QString full = m_latent ? tr("one latent for all heads") : tr("KV head %1").arg(group);
        const QString brief = m_latent ? tr("latent") : tr("KV %1").arg(group), bare = m_latent ? QString() : QString::number(group);
        const double room = head.width() + places.groupGap;
        canvas.text(head.adjusted(-canvas.u(8), 0, canvas.u(8), 0),
                    canvas.width(full, caption) <= room ? full : canvas.width(brief, caption) <= room ? brief : bare, caption,
                    Qt::AlignHCenter | Qt::AlignVCenter, Qt::ElideNone);
        painter.setPen(QPen(colours.line, 1));
        painter.drawLine(QPointF(head.left() + 1, head.bottom()), QPointF(head.right() - 1, head.bottom()));
    }
    const auto every = std::max(1u, static_cast<std::uint32_t>(std::ceil(canvas.u(13) / places.cellHeight)));
    painter.setRenderHint(QPainter::SmoothPixmapTransform, false);
    for (std::uint32_t layer = 0; layer < m_layers; ++layer) {
        const QRectF line(places.wall.left() - canvas.u(28), places.wall.top() + layer * places.cellHeight, canvas.u(24),
                          places.cellHeight);
        const bool focus = layer == cursor()->layer();
        if (focus || layer % every == 0)
            canvas.text(line, tr("L%1").arg(layer), {11, focus ? QFont::Bold : QFont::Normal, focus ? colours.ink1 : colours.ink2, false},
                        Qt::AlignRight | Qt::AlignVCenter, Qt::ElideNone);
        for (std::uint32_t head = 0; head < m_heads; ++head) {
            const double pad = std::min(canvas.u(1.5), places.cellHeight * 0.1);
            const QRectF cell = wallCell(places, layer, head).adjusted(pad, pad, -pad, -pad);
            const std::size_t index = std::size_t{layer} * m_heads + head;
            if (index < m_wall.size() && !m_wall[index].isNull()) {
                painter.drawImage(cell, m_wall[index]);
                painter.setPen(QPen(colours.line, 1));
                painter.setBrush(Qt::NoBrush);
                painter.drawRect(cell);
            } else {
                canvas.outline(cell, colours.freeBorder, 0.8, Qt::DotLine);
            }
        }
    }
    if (cursor()->layer() < m_layers && cursor()->head() < m_heads)
        canvas.outline(wallCell(places, cursor()->layer(), cursor()->head()), colours.ink1, 2);
}

void AttentionView::paintHead(const Canvas& canvas, const Places& places) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const std::uint32_t perGroup = std::max(1u, m_heads / m_kvHeads);
    QRectF caption = places.head;
    if (places.side.width() >= canvas.u(96)) caption.setRight(places.side.left() - canvas.u(6));
    const auto missing = [this](std::uint32_t query) { return !m_rows[query] || (m_compares && !thereRow(query)); };
    const QString reads = m_latent ? tr("the latent") : tr("KV head %1").arg(cursor()->head() / perGroup);
    canvas.text(caption, tr("Layer %1, head %2, %3").arg(cursor()->layer()).arg(cursor()->head()).arg(reads),
                {12, QFont::DemiBold});
    if (m_extent == 0) {
        canvas.text(places.link, tr("Not recorded. Watch layer %1").arg(cursor()->layer()),
                    {12, QFont::Normal, colours.accent, false});
        return;
    }
    const QRectF& plot = places.plot;
    painter.setRenderHint(QPainter::SmoothPixmapTransform, false);
    painter.drawImage(plot, m_head);
    const double pitch = plot.width() / m_extent;
    paintValues(canvas, plot);
    // Rows that were not recorded: hatched, so that white means "no weight".
    for (std::uint32_t begin = 0; begin < m_extent;) {
        if (!missing(begin)) { ++begin; continue; }
        const bool here = !m_rows[begin];
        std::uint32_t end = begin;
        while (end < m_extent && missing(end) && !m_rows[end] == here) ++end;
        const QRectF gap(plot.left(), plot.top() + begin * pitch, plot.width(), (end - begin) * pitch);
        canvas.hatch(gap, colours.grid, 6);
        if (gap.height() > canvas.u(16))
            canvas.text(gap,
                        here ? tr("rows %1–%2 not recorded").arg(begin).arg(end - 1)
                             : tr("rows %1–%2 not recorded in %3").arg(begin).arg(end - 1).arg(cursor()->reference()->label()),
                        {10.5, QFont::Normal, colours.ink3, false},
                        Qt::AlignCenter);
        begin = end;
    }
    // Block borders, with the physical ids above; every n-th where they would touch.
    const std::uint32_t group = groupSize();
    const double blockWidth = pitch * group;
    const TextStyle idStyle{10.5, QFont::Normal, colours.ink2, !m_table.empty()};
    const auto nameOf = [&](std::uint32_t block) {
        return block < m_table.size() ? QString::number(m_table[block].value) : QString::number(block * group);
    };
    // The query's number stands where ticks would; they leave it the room.
    const AttentionRow* query = queryRow();
    const double queryHeight = std::max(pitch, canvas.u(3));
    const double queryTop = query ? std::min(plot.top() + query->position * pitch, plot.bottom() - queryHeight) : 0;
    double widest = canvas.u(14);
    for (std::uint32_t block = 0; block * group < m_extent; ++block) widest = std::max(widest, canvas.width(nameOf(block), idStyle));
    const auto labelEvery = std::max(1u, static_cast<std::uint32_t>(std::ceil((widest + canvas.u(6)) / blockWidth)));
    QColor border = colours.ink2;
    border.setAlphaF(blockWidth > canvas.u(8) ? 0.55f : 0.2f);
    double labelled = plot.left();  // where the label before ends
    for (std::uint32_t block = 0; block * group < m_extent; ++block) {
        const double at = block * blockWidth;
        if (block > 0 && blockWidth > canvas.u(3)) {
            painter.setPen(QPen(border, 1));
            painter.drawLine(QPointF(plot.left() + at, plot.top()), QPointF(plot.left() + at, plot.bottom()));
            painter.drawLine(QPointF(plot.left(), plot.top() + at), QPointF(plot.right(), plot.top() + at));
        }
        if (block % labelEvery != 0) continue;
        // Whole ids: one that has no room at the right end moves left, or goes where its neighbour stands.
        const double need = canvas.width(nameOf(block), idStyle) + 2;
        const double width = std::max(labelEvery == 1 ? blockWidth : need, need);
        const double left = std::min(plot.left() + at, plot.right() + canvas.u(8) - width);
        if (left >= labelled) {
            canvas.text(QRectF(left, plot.top() - canvas.u(16), width, canvas.u(14)), nameOf(block), idStyle,
                        Qt::AlignHCenter | Qt::AlignVCenter, Qt::ElideNone);
            labelled = left + need + canvas.u(3);
        }
        const QRectF tick(plot.left() - canvas.u(34), plot.top() + at - canvas.u(1), canvas.u(30), canvas.u(13));
        if (query && std::abs(tick.center().y() - queryTop - queryHeight / 2) < canvas.u(13)) continue;
        canvas.text(tick, QString::number(block * group), {10.5, QFont::Normal, colours.ink3, false}, Qt::AlignRight | Qt::AlignVCenter,
                    Qt::ElideNone);
    }
    painter.setPen(QPen(colours.line, 1));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(plot);
    if (query) {
        canvas.outline(QRectF(plot.left(), queryTop, plot.width(), queryHeight), colours.ink1, 1.5);
        const QRectF label(plot.left() - canvas.u(34), queryTop + queryHeight / 2 - canvas.u(7), canvas.u(30), canvas.u(14));
        canvas.text(label, QString::number(query->position), {10.5, QFont::Bold}, Qt::AlignRight | Qt::AlignVCenter, Qt::ElideNone);
    }
    const auto column = [&](const Pick& pick, double width) {
        if (!pick.position || *pick.position >= m_extent || (pick.sequence && *pick.sequence != cursor()->sequence())) return;
        canvas.outline(QRectF(plot.left() + *pick.position * pitch, plot.top(), std::max(pitch, canvas.u(2)), plot.height()),
                       colours.ink1, width);
    };
    column(cursor()->hover(), 1);
    paintScale(canvas, plot);
}

// The colour scale: square root, so that 0.01 is still seen.
void AttentionView::paintScale(const Canvas& canvas, const QRectF& plot) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    std::vector<double> stops{0, 0.01, 0.1, 0.3, 1};
    if (m_compares) {
        if (plot.width() < canvas.u(150)) {  // no room for a scale: its two ends
            const double side = canvas.u(14), y = plot.bottom() + canvas.u(5);
            painter.fillRect(QRectF(plot.left(), y, side, canvas.u(9)), colours.difference.front());
            painter.fillRect(QRectF(plot.left() + side, y, side, canvas.u(9)), colours.difference.back());
            canvas.text(QRectF(plot.left() + 2 * side + canvas.u(4), y - canvas.u(3), canvas.u(70), canvas.u(14)),
                        QStringLiteral("±%1").arg(m_reach), {10.5, QFont::Normal, colours.ink3, false});
            return;
        }
        const bool wide = plot.width() > canvas.u(230);
        stops = wide ? std::vector<double>{-m_reach, -m_reach / 10, 0, m_reach / 10, m_reach} : std::vector<double>{-m_reach, 0, m_reach};
    }
    const double swatch = canvas.u(14), y = plot.bottom() + canvas.u(5);
    const TextStyle tick{10.5, QFont::Normal, colours.ink3, false};
    double x = plot.left();
    for (const double weight : stops) {
        const QString text = m_compares ? signedWeight(weight, -1) : QString::number(weight);
        if (x + swatch + canvas.width(text, tick) + canvas.u(12) > plot.right() + canvas.u(16)) break;
        const QRectF box(x, y, swatch, canvas.u(9));
        painter.fillRect(box, m_compares ? differenceShade(colours, weight, m_reach) : colours.attentionColour(std::sqrt(weight)));
        painter.setPen(QPen(colours.line, 1));
        painter.drawRect(box);
        canvas.text(QRectF(x + swatch + canvas.u(3), y - canvas.u(3), canvas.u(40), canvas.u(14)), text, tick);
        x += swatch + canvas.width(text, tick) + canvas.u(12);
    }
}

void AttentionView::paintValues(const Canvas& canvas, const QRectF& plot) const {
    const double pitch = plot.width() / m_extent;
    if (pitch < canvas.u(22)) return;
    for (const AttentionRow* row : m_rows) {
        if (!row) continue;
        for (std::uint32_t key = 0; key < row->key_count; ++key) {
            const double weight = static_cast<double>(m_index.weight(*row, key));
            const auto difference = m_compares ? differenceAt(*row, key) : std::nullopt;
            if (m_compares && !difference) continue;
            const QColor under = difference ? differenceShade(canvas.colours(), static_cast<double>(*difference), m_reach)
                                            : canvas.colours().attentionColour(std::sqrt(weight));
            QString text = difference ? signedWeight(static_cast<double>(*difference), 2) : QString::number(weight, 'f', 2);
            if (const qsizetype zero = text.indexOf(QLatin1String("0.")); zero == 0 || zero == 1) text.remove(zero, 1);
            canvas.text(QRectF(plot.left() + key * pitch, plot.top() + row->position * pitch, pitch, pitch), text,
                        {10.5, QFont::Normal, under.lightness() < 140 ? QColor(Qt::white) : QColor(0x1B, 0x23, 0x30), false},
                        Qt::AlignCenter, Qt::ElideNone);
        }
    }
}

void AttentionView::paintSide(const Canvas& canvas, const Places& places) const {
    const AttentionRow* row = queryRow();
    QRectF side = places.side;
    if (!row || side.width() < canvas.u(96)) return;
    if (m_compares) return paintDifferenceSide(canvas, side, *row);
    const Palette& colours = canvas.colours();
    const double line = canvas.u(19);
    const QColor bar = colours.attention[4];
    const TextStyle name{11, QFont::Normal, colours.ink1, false}, mono{11, QFont::Bold, colours.ink1, true};
    canvas.text(QRectF(side.left(), side.top(), side.width(), canvas.u(18)),
                tr("Query %1 “%2” reads").arg(QString::number(row->position), tokenAt(row->position)), {12, QFont::DemiBold});
    double y = side.top() + canvas.u(24);

    // Mass per block, in the order of the table; when they do not fit, those with most of it.
    const std::uint32_t group = groupSize(), blocks = (row->key_count + group - 1) / group;
    std::vector<double> mass(blocks, 0.0);
    for (std::uint32_t key = 0; key < row->key_count; ++key) mass[key / group] += static_cast<double>(m_index.weight(*row, key));
    const double room = side.bottom() - y;
    const auto lines = static_cast<std::size_t>(std::max(0.0, room / line));
    const std::size_t massLines = std::min<std::size_t>(blocks, lines > 9 ? lines - 8 : lines / 2);
    std::vector<std::uint32_t> order(blocks);
    std::iota(order.begin(), order.end(), 0u);
    if (massLines < blocks) {
        std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(massLines), order.end(),
                          [&](std::uint32_t a, std::uint32_t b) { return mass[a] > mass[b]; });
        order.resize(massLines);
        std::sort(order.begin(), order.end());
    }
    // A block by its physical id; one that has none by the keys it holds.
    const auto nameOf = [&](std::uint32_t block) {
        if (block < m_table.size()) return QString::number(m_table[block].value);
        const std::uint32_t last = std::min((block + 1) * group, row->key_count) - 1;
        return last == block * group ? QString::number(last) : QStringLiteral("%1–%2").arg(block * group).arg(last);
    };
    double label = canvas.u(34);
    const auto styleOf = [&](std::uint32_t block) { return block < m_table.size() ? mono : name; };
    for (const std::uint32_t block : order) label = std::max(label, canvas.width(nameOf(block), styleOf(block)) + canvas.u(6));
    const double value = canvas.u(58);
    const auto bars = [&](double weight, double most, double left) {
        const QRectF track(left, y + line * 0.22, std::max(0.0, side.right() - value - left), line * 0.56);
        canvas.painter().fillRect(track, colours.free);
        canvas.painter().fillRect(QRectF(track.left(), track.top(), track.width() * std::clamp(weight / most, 0.0, 1.0), track.height()), bar);
        return QRectF(side.right() - value, y, value, line);
    };
    for (const std::uint32_t block : order) {
        canvas.text(QRectF(side.left(), y, label - canvas.u(4), line), nameOf(block), styleOf(block),
                    Qt::AlignRight | Qt::AlignVCenter, Qt::ElideNone);
        canvas.number(bars(mass[block], 1.0, side.left() + label), Origin::derived, formatPercent(mass[block]), {11});
        y += line;
    }
    if (massLines < blocks) {
        canvas.text(QRectF(side.left(), y, side.width(), line), tr("the other %1: less each").arg(blocks - massLines),
                    {10.5, QFont::Normal, colours.ink3, false});
        y += line;
    }
    y += canvas.u(8);
    if (y + 2 * line > side.bottom()) return;
    canvas.text(QRectF(side.left(), y, side.width(), line), tr("Largest keys"), {12, QFont::DemiBold});
    y += line + canvas.u(2);
    std::vector<std::uint32_t> keys(row->key_count);
    std::iota(keys.begin(), keys.end(), 0u);
    const auto shown = std::min<std::size_t>(keys.size(), static_cast<std::size_t>(std::max(0.0, (side.bottom() - y) / line)));
    std::partial_sort(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(shown), keys.end(), [&](std::uint32_t a, std::uint32_t b) {
        return m_index.weight(*row, a) > m_index.weight(*row, b);
    });
    const double most = shown ? static_cast<double>(m_index.weight(*row, keys[0])) : 1.0;
    const double words = std::min(canvas.u(52), side.width() * 0.3);
    for (std::size_t i = 0; i < shown; ++i, y += line) {
        const double weight = static_cast<double>(m_index.weight(*row, keys[i]));
        canvas.text(QRectF(side.left(), y, label - canvas.u(6), line), QString::number(keys[i]),
                    {11, QFont::Normal, colours.ink2, false}, Qt::AlignRight | Qt::AlignVCenter, Qt::ElideNone);
        canvas.text(QRectF(side.left() + label, y, words, line), tokenAt(keys[i]), name);
        canvas.number(bars(weight, std::max(most, 1e-9), side.left() + label + words + canvas.u(4)), Origin::measured,
                      QString::number(weight, 'f', 3), {11});
        if (meansToken(cursor()->hover(), cursor()->lane(), cursor()->sequence(), keys[i]))
            canvas.outline(QRectF(side.left(), y, side.width(), line), colours.ink1, 1);
    }
}

}  // namespace kvloupe
