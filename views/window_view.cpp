// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/window_view.h"

#include "views/csv_line.h"
#include "views/picking.h"

#include <QCoreApplication>
#include <QKeyEvent>
#include <QMouseEvent>

#include <algorithm>

namespace kvloupe {

QString nameOf(SlotUse use) {
    switch (use) {
    case SlotUse::seen: return QCoreApplication::translate("kvloupe::views", "seen");
    case SlotUse::sink: return QCoreApplication::translate("kvloupe::views", "sink");
    case SlotUse::kept: return QCoreApplication::translate("kvloupe::views", "kept but masked");
    case SlotUse::given_up: return QCoreApplication::translate("kvloupe::views", "given up");
    case SlotUse::unwritten: return QCoreApplication::translate("kvloupe::views", "not yet written");
    }
    return {};
}

WindowView::WindowView(Cursor* cursor, QWidget* parent) : ScrollingView(QStringLiteral("window"), tr("Window"), cursor, parent) {}

void WindowView::refresh() {
    m_rows.clear();
    setSubtitle({});
    const LaneRecord* lane = cursor()->laneRecord();
    const LaneState* state = cursor()->state();
    if (!lane) return setEmpty(tr("Open a model or a scenario to see which keys its layers keep."));
    const QString name = QString::fromStdString(lane->info().name);
    if (!lane->info().kv_cache) return setEmpty(tr("Lane %1 keeps no cache, so there is nothing that a window could give up.").arg(name));
    if (!state || state->sequences().empty())
        return setEmpty(tr("No sequence has arrived yet. The first step fills blocks."), tr("Step"), QStringLiteral("step"));
    m_sequence = cursor()->sequence();
    m_blockSize = std::max(1u, state->block_size());
    m_rows = windowRows(lane->info(), *state, m_sequence);
    if (m_rows.empty()) return setEmpty(tr("The sequence in focus owns no block at this step."));
    setEmpty({});
    const bool windowed = std::any_of(m_rows.begin(), m_rows.end(), [](const WindowRow& row) { return !row.span.full(); });
    QString text = tr("sequence %1, %2 tokens · %3 · %4")
                       .arg(sequenceLabel(*cursor()->recording(), *lane, m_sequence), formatCount(m_rows.front().tokens),
                            windowed ? tr("windows by layer") : tr("every layer sees all tokens"),
                            lane->info().policy.positions == "rank" ? tr("keys stored by absolute position, sinks read by rank in the cache")
                                                                     : tr("positions absolute"));
    if (lane->info().window_is_foreign) text += tr(" · the model was not trained with this window");
    setSubtitle(text);
    layOut();
}

double WindowView::rowHeight() const { return 80 * unit(); }

void WindowView::layOut() {
    setFixedStrip(24 * unit());
    setContentHeight(24 * unit() + rowHeight() * static_cast<double>(m_rows.size()) + 24 * unit());
}

std::uint32_t WindowView::slots() const {
    std::size_t slots = 1;
    for (const WindowRow& row : m_rows) slots = std::max(slots, row.table.size() * m_blockSize);
    return static_cast<std::uint32_t>(slots);
}

QRectF WindowView::stripOf(std::size_t row, const QRectF& area) const {
    const double u = unit(), left = area.width() > 420 * u ? 150 * u : 12 * u;
    return QRectF(area.left() + left, area.top() + 24 * u + rowHeight() * static_cast<double>(row) + 18 * u - offset(),
                  std::max(20.0, area.width() - left - 16 * u), 22 * u);
}

bool WindowView::folded(const QRectF& strip) const { return strip.width() * m_blockSize / slots() < 3; }

std::optional<WindowView::Hit> WindowView::hitAt(const QPointF& point) const {
    if (isEmptyShown() || point.y() > viewportHeight()) return {};
    for (std::size_t row = 0; row < m_rows.size(); ++row) {
        const QRectF strip = stripOf(row, QRectF(0, 0, contentWidth(), height()));
        if (!strip.contains(point)) continue;
        const auto position = static_cast<std::uint32_t>((point.x() - strip.left()) / strip.width() * slots());
        if (position < m_rows[row].table.size() * m_blockSize) return Hit{row, position};
    }
    return {};
}

Pick WindowView::pickOf(const Hit& hit) const {
    const WindowRow& row = m_rows[hit.row];
    Pick pick;
    pick.lane = cursor()->lane();
    pick.sequence = m_sequence;
    if (hit.position < row.tokens) pick.position = hit.position;
    const BlockId block = row.table[hit.position / m_blockSize];
    if (block != null_block_id) pick.block = block;
    if (!row.layers.empty()) pick.layer = row.layers.front();
    return pick;
}

QString WindowView::layersText(const WindowRow& row) const {
    if (row.layers.empty()) return tr("all layers");
    // Runs of neighbours: "0, 2–4".
    QStringList parts;
    for (std::size_t i = 0; i < row.layers.size();) {
        std::size_t end = i + 1;
        while (end < row.layers.size() && row.layers[end] == row.layers[end - 1] + 1) ++end;
        parts << (end - i > 2 ? QStringLiteral("%1–%2").arg(row.layers[i]).arg(row.layers[end - 1]) : QString::number(row.layers[i]));
        i = end - i > 2 ? end : i + 1;
    }
    return (row.layers.size() == 1 ? tr("Layer %1") : tr("Layers %1")).arg(parts.join(QStringLiteral(", ")));
}

QString WindowView::ruleText(const WindowRow& row) const {
    if (row.span.chunk > 0) return tr("chunk of %1").arg(row.span.chunk);
    if (row.span.window == 0) return tr("sees all");
    return row.span.sinks > 0 ? tr("window %1, %2 sinks").arg(row.span.window).arg(row.span.sinks) : tr("window %1").arg(row.span.window);
}

QString WindowView::factsText(const WindowRow& row) const {
    const QString mark = originMark(Origin::derived);
    if (row.tokens == 0) return tr("no token yet");
    QString text = tr("sees %1 %2 of %3 · holds %1 %4 blocks")
                       .arg(mark, formatCount(row.seen.count()), formatCount(row.tokens), formatCount(row.blocks_held()));
    if (const std::uint32_t masked = row.count(SlotUse::kept)) text += tr(" · %1 kept tokens masked").arg(formatCount(masked));
    if (const std::uint32_t blocks = row.blocks_given_up())
        text += tr(" · gave up %1 blocks, %2 tokens").arg(formatCount(blocks), formatCount(row.count(SlotUse::given_up)));
    if (const std::uint32_t dropped = row.span.dropped(row.tokens - 1)) text += tr(" · sinks are read %1 positions further on").arg(formatCount(dropped));
    return text;
}

QString WindowView::tipAt(const QPointF& position) const {
    const auto hit = hitAt(position);
    if (!hit) return {};
    const WindowRow& row = m_rows[hit->row];
    const BlockId block = row.table[hit->position / m_blockSize];
    SlotUse use = SlotUse::unwritten;
    for (const SlotRun& run : row.runs)
        if (hit->position >= run.first && hit->position < run.end) use = run.use;
    QString tip = tr("%1, %2\nposition %3: %4")
                      .arg(layersText(row), ruleText(row), QString::number(hit->position), nameOf(use));
    tip += block == null_block_id ? tr("\nthe table points at the null block") : tr("\nblock %1, slot %2").arg(block.value).arg(hit->position % m_blockSize);
    if (use == SlotUse::sink && row.span.rank)
        tip += tr("\nread as position %1").arg(hit->position + row.span.dropped(row.tokens - 1));
    return tip;
}

void WindowView::mouseMoveEvent(QMouseEvent* event) {
    View::mouseMoveEvent(event);
    const auto hit = hitAt(event->position());
    cursor()->setHover(hit ? pickOf(*hit) : Pick{});
}

void WindowView::mousePressEvent(QMouseEvent* event) {
    View::mousePressEvent(event);
    if (event->button() != Qt::LeftButton) return;
    if (const auto hit = hitAt(event->position())) cursor()->lock(pickOf(*hit));
}

// ← → go from block to block, ↑ ↓ from group to group.
void WindowView::keyPressEvent(QKeyEvent* event) {
    const bool arrow = event->key() == Qt::Key_Left || event->key() == Qt::Key_Right || event->key() == Qt::Key_Up || event->key() == Qt::Key_Down;
    if (!arrow || isEmptyShown()) return View::keyPressEvent(event);
    Hit at;
    for (std::size_t row = 0; row < m_rows.size(); ++row)
        if (std::find(m_rows[row].layers.begin(), m_rows[row].layers.end(), cursor()->layer()) != m_rows[row].layers.end()) at.row = row;
    const bool locked = cursor()->locked().position.has_value();
    at.position = cursor()->locked().position.value_or(0) / m_blockSize * m_blockSize;
    if (locked && event->key() == Qt::Key_Left) at.position -= std::min(at.position, m_blockSize);
    if (locked && event->key() == Qt::Key_Right) at.position += m_blockSize;
    if (locked && event->key() == Qt::Key_Up && at.row > 0) --at.row;
    if (locked && event->key() == Qt::Key_Down && at.row + 1 < m_rows.size()) ++at.row;
    if (at.position >= m_rows[at.row].tokens) return;
    const double top = 24 * unit() + rowHeight() * static_cast<double>(at.row);
    ensureVisible(top, top + rowHeight());
    cursor()->lock(pickOf(at));
}

QString WindowView::csv() const {
    QString csv = QStringLiteral("lane,sequence,group,layers,window,sinks,chunk,first_position,end_position,use,first_block\r\n");
    if (isEmptyShown()) return csv;
    const LaneRecord* lane = cursor()->laneRecord();
    for (const WindowRow& row : m_rows)
        for (const SlotRun& run : row.runs) {
            const BlockId block = row.table[run.first / m_blockSize];
            QStringList layers;
            for (const std::uint32_t layer : row.layers) layers << QString::number(layer);
            csv += csvLine({QString::fromStdString(lane->info().name), sequenceName(*cursor()->recording(), *lane, m_sequence), QString::number(row.group),
                            layers.join(QLatin1Char(' ')), QString::number(row.span.window), QString::number(row.span.sinks), QString::number(row.span.chunk),
                            QString::number(run.first), QString::number(run.end), nameOf(run.use), QString::number(block.value)});
        }
    return csv;
}

}  // namespace kvloupe
