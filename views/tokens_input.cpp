// SPDX-License-Identifier: GPL-3.0-or-later
//
// Pointer, keys, choices and CSV of the token strip and of the block tables.
#include "views/tokens_view.h"

#include "views/csv_line.h"
#include "views/format.h"
#include "views/picking.h"

#include <QKeyEvent>
#include <QMouseEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

void TokensView::settle() {
    m_track.settle();
    m_facts.settle();
}

void TokensView::refreshSelection() {
    const Pick& hover = cursor()->hover();
    if (tablesShown()) {
        update();
        return;
    }
    if (hover.position && hover.sequence == cursor()->sequence() && *hover.position < m_track.tokens().size() &&
        !underMouse()) {
        const QRectF box = cell(gridFor(contentWidth()), *hover.position);
        ensureVisible(box.top() - box.height(), box.bottom() + 2);
    }
    update();
}

QString TokensView::csv() const {
    QString csv = QStringLiteral("position,token_id,text,source,block,slot,written,probability_measured,rank\r\n");
    if (tablesShown()) return tablesCsv();
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane) return csv;
    for (std::uint32_t position = 0; position < m_track.tokens().size(); ++position) {
        const TrackedToken& token = m_track.tokens()[position];
        const bool inBlock = m_blockSize > 0 && position / m_blockSize < m_table.size();
        const bool measured = token.record && std::isfinite(token.record->probability);
        const char* source = token.source == TokenRecord::prompt    ? "prompt"
                             : token.source == TokenRecord::sampled ? "sampled"
                                                                    : "forced";
        csv += QStringLiteral("%1,%2,%3,%4,%5,%6,%7,%8,%9\r\n")
                   .arg(QString::number(position), QString::number(token.token),
                        csvField(tokenText(lane->vocabulary(), token.token)), QLatin1String(source),
                        inBlock ? QString::number(m_table[position / m_blockSize].value) : QString(),
                        inBlock ? QString::number(position % m_blockSize) : QString(),
                        position < m_written ? QStringLiteral("yes") : QStringLiteral("no"),
                        measured ? QString::number(token.record->probability, 'g', 6) : QString(),
                        measured ? QString::number(token.record->rank) : QString());
    }
    return csv;
}

QString TokensView::tablesCsv() const {
    QString csv = QStringLiteral("sequence,group,logical,block,owners_measured,written_slots_measured,reused_slots_measured,"
                                 "slots,text\r\n");
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane) return csv;
    m_tables.settle();
    for (std::size_t r = 0; r < m_tables.rows().size(); ++r) {
        const BlockTables::Row& row = m_tables.rows()[r];
        for (std::uint32_t logical = 0; logical < row.table.size(); ++logical) {
            const std::uint32_t begin = logical * m_blockSize;
            const auto within = [&](std::uint32_t count) { return std::clamp(count, begin, begin + m_blockSize) - begin; };
            const BlockId block = row.table[logical];
            const bool null = block == null_block_id;
            csv += csvLine({sequenceLabel(*cursor()->recording(), *lane, row.sequence), QString::number(row.group),
                            QString::number(logical), QString::number(block.value),
                            QString::number(row.owners[logical]),
                            QString::number(null ? 0 : within(row.written)),
                            QString::number(null ? 0 : within(std::min(row.reused, row.written))), QString::number(m_blockSize),
                            null ? QString() : m_tables.textOf(*cursor(), {r, logical, {}})});
        }
    }
    return csv;
}

std::vector<ViewChoice> TokensView::choices() const {
    return {{QStringLiteral("shown"), tr("Show"),
             {tr("automatic"), tr("one sequence"), tr("all tables")},
             static_cast<int>(m_shown)}};
}

void TokensView::setChoice(const QString&, int index) { m_shown = static_cast<Shown>(index); }

bool TokensView::tablesShown() const {
    if (m_shown == Shown::sequence || m_tables.rows().empty()) return false;
    return m_shown == Shown::tables || m_tables.rows().size() > 1;
}

QRectF TokensView::tableCell(std::size_t row, std::uint32_t logical) const {
    return m_tables.cell(row, logical).translated(0, -offset());
}

Pick TokensView::pickAt(const QPointF& point) const {
    if (!tablesShown()) {
        const auto position = positionAt(point);
        return position ? pickToken(*cursor(), cursor()->sequence(), *position) : Pick{};
    }
    if (point.y() > viewportHeight()) return {};
    const QPointF at = point + QPointF(0, offset());
    if (const auto place = m_tables.placeAt(at)) {
        const BlockTables::Row& row = m_tables.rows()[place->row];
        Pick pick = pickBlock(*cursor(), row.table[place->logical], {}, row.sequence);
        pick.sequence = row.sequence;
        if (place->slot && place->logical * m_blockSize + *place->slot < row.written)
            pick.position = place->logical * m_blockSize + *place->slot;
        return pick;
    }
    if (const auto row = m_tables.rowAt(at)) return pickSequence(*cursor(), m_tables.rows()[*row].sequence);
    return {};
}

// What the pointer is on.
QString TokensView::tableDetail() const {
    const Pick& pick = cursor()->shown();
    if (pick.block && pick.sequence)
        for (std::size_t r = 0; r < m_tables.rows().size(); ++r) {
            const BlockTables::Row& row = m_tables.rows()[r];
            if (row.sequence != *pick.sequence) continue;
            for (std::uint32_t logical = 0; logical < row.table.size(); ++logical)
                if (row.table[logical] == *pick.block && *pick.block != null_block_id)
                    return m_tables.describe(*cursor(), {r, logical, {}}).replace(QLatin1Char('\n'), QStringLiteral(" · "));
        }
    return tr("A column is a logical block; tied cells are the same physical block. Point at a cell for its tokens.");
}

void TokensView::mouseMoveEvent(QMouseEvent* event) { cursor()->setHover(pickAt(event->position())); }

void TokensView::mousePressEvent(QMouseEvent* event) {
    const Pick pick = pickAt(event->position());
    if (event->button() == Qt::LeftButton && !pick.empty()) cursor()->lock(pick);
}

void TokensView::moveInTables(int columns, int rows) {
    const Pick& pick = cursor()->hover().block ? cursor()->hover() : cursor()->locked();
    std::size_t row = 0;
    std::uint32_t logical = 0;
    bool found = false;
    for (std::size_t r = 0; r < m_tables.rows().size() && !found; ++r)
        for (std::uint32_t l = 0; l < m_tables.rows()[r].table.size() && !found; ++l)
            if (pick.block && m_tables.rows()[r].table[l] == *pick.block &&
                (!pick.sequence || m_tables.rows()[r].sequence == *pick.sequence)) {
                row = r;
                logical = l;
                found = true;
            }
    if (found) {
        const auto last = static_cast<std::int64_t>(m_tables.rows().size()) - 1;
        row = static_cast<std::size_t>(std::clamp<std::int64_t>(static_cast<std::int64_t>(row) + rows, 0, last));
        const auto end = static_cast<std::int64_t>(m_tables.rows()[row].table.size()) - 1;
        logical = static_cast<std::uint32_t>(std::clamp<std::int64_t>(static_cast<std::int64_t>(logical) + columns, 0, end));
    }
    const QRectF box = m_tables.cell(row, logical);
    ensureVisible(box.top() - 20 * unit(), box.bottom() + 4);
    Pick next = pickBlock(*cursor(), m_tables.rows()[row].table[logical], {}, m_tables.rows()[row].sequence);
    next.sequence = m_tables.rows()[row].sequence;
    cursor()->setHover(next);
}

void TokensView::keyPressEvent(QKeyEvent* event) {
    const int count = static_cast<int>(m_track.tokens().size());
    const Pick& pick = cursor()->hover().position ? cursor()->hover() : cursor()->locked();
    const int columns = static_cast<int>(gridFor(contentWidth()).columns);
    int move = 0;
    switch (event->key()) {
    case Qt::Key_Left: move = -1; break;
    case Qt::Key_Right: move = 1; break;
    case Qt::Key_Up: move = -columns; break;
    case Qt::Key_Down: move = columns; break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
        if (cursor()->hover().position || (tablesShown() && !cursor()->hover().empty())) cursor()->lock(cursor()->hover());
        return;
    default: ScrollingView::keyPressEvent(event); return;
    }
    if (count == 0) return;
    if (tablesShown()) {
        const bool across = event->key() == Qt::Key_Left || event->key() == Qt::Key_Right;
        const int direction = move > 0 ? 1 : -1;
        moveInTables(across ? direction : 0, across ? 0 : direction);
        return;
    }
    const int from = pick.position ? static_cast<int>(*pick.position) : move > 0 ? -move : count;
    const int to = std::clamp(from + move, 0, count - 1);
    const QRectF box = cell(gridFor(contentWidth()), static_cast<std::uint32_t>(to));
    ensureVisible(box.top() - gridFor(contentWidth()).top, box.bottom() + 4);
    cursor()->setHover(pickToken(*cursor(), cursor()->sequence(), static_cast<std::uint32_t>(to)));
}

}  // namespace kvloupe
