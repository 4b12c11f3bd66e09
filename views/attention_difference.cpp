// SPDX-License-Identifier: GPL-3.0-or-later
//
// Attention of the lane in focus compared with that of another lane.
#include "views/attention_difference.h"

#include "views/attention_view.h"
#include "views/canvas.h"
#include "views/reference.h"

#include <algorithm>
#include <numeric>

namespace kvloupe {

std::vector<ViewChoice> AttentionView::choices() const {
    return cursor()->reference() ? std::vector<ViewChoice>{differenceChoice(m_showDifference)} : std::vector<ViewChoice>{};
}

void AttentionView::setChoice(const QString&, int index) { m_showDifference = index == 1; }

bool AttentionView::updateThere() {
    const Reference& reference = *cursor()->reference();
    const SequenceId same = reference.sequenceFor(cursor()->sequence());
    const int step = reference.step();
    if (!same.valid() || step < 0) return false;
    m_thereStep = static_cast<std::size_t>(step);
    m_thereIndex.update(reference.recording(), reference.lane(), same, [this] {
        refresh();
        update();
    });
    return m_thereIndex.anything(m_thereStep);
}

std::vector<const AttentionRow*> AttentionView::rowsThere(std::uint32_t layer, std::uint32_t head) const {
    const LaneInfo& info = cursor()->reference()->laneRecord().info();
    if (layer >= info.layers || head >= info.query_heads) return {};
    return m_thereIndex.rows(layer, head, m_thereStep);
}

std::optional<float> AttentionView::differenceAt(const AttentionRow& row, std::uint32_t key) const {
    const AttentionRow* there = thereRow(row.position);
    return there ? attentionDifference(m_index, row, m_thereIndex, *there, key) : std::nullopt;
}

QString AttentionView::differenceCsv(const AttentionRow& row, std::uint32_t key) const {
    if (!m_compares) return {};
    const AttentionRow* there = thereRow(row.position);
    if (!there) return QStringLiteral(",,");
    return QStringLiteral(",%1,%2").arg(QString::number(static_cast<double>(m_thereIndex.weight(*there, key)), 'g', 7),
                                        QString::number(static_cast<double>(*differenceAt(row, key)), 'g', 7));
}

DifferenceGrid AttentionView::differenceGrid(const std::vector<const AttentionRow*>& here, const std::vector<const AttentionRow*>& there,
                                             int width, int height) const {
    const int extent = static_cast<int>(here.size());
    if (extent == 0 || there.empty() || width < 1 || height < 1) return {};
    DifferenceGrid grid{std::min(extent, width), std::min(extent, height), {}, 0};
    grid.values.assign(static_cast<std::size_t>(grid.columns) * static_cast<std::size_t>(grid.lines), 0);
    bool any = false;
    for (int y = 0; y < grid.lines; ++y) {
        const auto last = static_cast<std::size_t>((static_cast<qint64>(y) + 1) * extent / grid.lines) - 1;
        const AttentionRow *row = here[last], *other = last < there.size() ? there[last] : nullptr;
        if (!row || !other) continue;
        any = true;
        float* line = &grid.values[static_cast<std::size_t>(y) * static_cast<std::size_t>(grid.columns)];
        for (int x = 0; x < grid.columns; ++x) {
            const auto begin = static_cast<std::uint32_t>(static_cast<qint64>(x) * extent / grid.columns);
            const auto end = static_cast<std::uint32_t>((static_cast<qint64>(x) + 1) * extent / grid.columns);
            for (std::uint32_t key = begin; key < end; ++key)
                if (const auto difference = attentionDifference(m_index, *row, m_thereIndex, *other, key);
                    difference && std::abs(*difference) > std::abs(line[x]))
                    line[x] = *difference;
            grid.largest = std::max(grid.largest, std::abs(line[x]));
        }
    }
    return any ? grid : DifferenceGrid();
}

QImage AttentionView::imageOfDifference(const DifferenceGrid& grid) const {
    if (grid.values.empty()) return {};
    QImage image(grid.columns, grid.lines, QImage::Format_RGB32);
    const float* value = grid.values.data();
    for (int y = 0; y < grid.lines; ++y) {
        auto* line = reinterpret_cast<QRgb*>(image.scanLine(y));
        for (int x = 0; x < grid.columns; ++x) line[x] = differenceShade(palette_(), static_cast<double>(*value++), m_reach).rgb();
    }
    return image;
}

// One scale for all heads, so that they can be compared.
void AttentionView::buildDifferenceImages(int width, int height) {
    const double pixels = devicePixelRatioF();
    std::vector<DifferenceGrid> wall(m_wall.size());
    m_there = rowsThere(cursor()->layer(), cursor()->head());
    const DifferenceGrid head = differenceGrid(m_rows, m_there, width, height);
    float largest = head.largest;
    for (std::uint32_t layer = 0; layer < m_layers; ++layer)
        for (std::uint32_t h = 0; h < m_heads; ++h) {
            if (!m_index.recorded(layer, h, m_step)) continue;
            DifferenceGrid& grid = wall[std::size_t{layer} * m_heads + h];
            grid = differenceGrid(m_index.rows(layer, h, m_step), rowsThere(layer, h), static_cast<int>(m_places.cellWidth * pixels),
                                  static_cast<int>(m_places.cellHeight * pixels));
            largest = std::max(largest, grid.largest);
        }
    m_reach = differenceReach(static_cast<double>(largest));
    m_head = imageOfDifference(head);
    for (std::size_t i = 0; i < wall.size(); ++i) m_wall[i] = imageOfDifference(wall[i]);
}

void AttentionView::paintDifferenceSide(const Canvas& canvas, const QRectF& side, const AttentionRow& row) const {
    const Palette& colours = canvas.colours();
    const double line = canvas.u(19);
    const TextStyle name{11, QFont::Normal, colours.ink1, false};
    canvas.text(QRectF(side.left(), side.top(), side.width(), canvas.u(18)),
                tr("Query %1 “%2”").arg(QString::number(row.position), tokenAt(row.position)), {12, QFont::DemiBold});
    double y = side.top() + canvas.u(22);
    const AttentionRow* there = thereRow(row.position);
    if (!there) {
        canvas.paragraph(QRectF(side.left(), y, side.width(), side.bottom() - y),
                         tr("This row is not recorded in %1.").arg(cursor()->reference()->label()), {11, QFont::Normal, colours.ink2, false});
        return;
    }
    std::vector<std::uint32_t> keys(std::max(row.key_count, there->key_count));
    std::iota(keys.begin(), keys.end(), 0u);
    const auto difference = [&](std::uint32_t key) { return static_cast<double>(differenceAt(row, key).value_or(0)); };
    double moved = 0;  // half of all differences: mass that reads another key
    for (const std::uint32_t key : keys) moved += std::abs(difference(key)) / 2;
    canvas.text(QRectF(side.left(), y, side.width(), line), tr("mass that moved"), {11, QFont::Normal, colours.ink2, false});
    canvas.number(QRectF(side.left(), y, side.width(), line), Origin::derived, QStringLiteral("%1 %").arg(moved * 100, 0, 'f', 2), {11});
    y += line + canvas.u(4);
    canvas.text(QRectF(side.left(), y, side.width(), line), tr("Largest differences"), {12, QFont::DemiBold});
    y += line + canvas.u(2);
    const auto shown = std::min<std::size_t>(keys.size(), static_cast<std::size_t>(std::max(0.0, (side.bottom() - y) / line)));
    std::partial_sort(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(shown), keys.end(),
                      [&](std::uint32_t a, std::uint32_t b) { return std::abs(difference(a)) > std::abs(difference(b)); });
    const double most = shown ? std::max(std::abs(difference(keys[0])), 1e-9) : 1.0;
    const double label = canvas.u(34), words = std::min(canvas.u(52), side.width() * 0.3), value = canvas.u(80);
    if (shown == 0 || difference(keys[0]) == 0)
        canvas.text(QRectF(side.left(), y, side.width(), line), tr("none: both rows are the same"), {11, QFont::Normal, colours.ink2, false});
    const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(most))) + 1, 3, 8);
    for (std::size_t i = 0; i < shown && difference(keys[i]) != 0; ++i, y += line) {
        const double now = difference(keys[i]);
        canvas.text(QRectF(side.left(), y, label - canvas.u(6), line), QString::number(keys[i]), {11, QFont::Normal, colours.ink2, false},
                    Qt::AlignRight | Qt::AlignVCenter, Qt::ElideNone);
        canvas.text(QRectF(side.left() + label, y, words, line), tokenAt(keys[i]), name);
        const double left = side.left() + label + words + canvas.u(4);
        const QRectF track(left, y + line * 0.22, std::max(0.0, side.right() - value - left), line * 0.56);
        const double reach = track.width() / 2 * std::abs(now) / most;
        canvas.painter().fillRect(track, colours.free);
        canvas.painter().fillRect(QRectF(now < 0 ? track.center().x() - reach : track.center().x(), track.top(), reach, track.height()),
                                  now < 0 ? colours.there : colours.here);
        canvas.number(QRectF(side.right() - value, y, value, line), Origin::derived, signedWeight(now, decimals), {11});
    }
}

}  // namespace kvloupe
