// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/tokens_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"

#include <QKeyEvent>
#include <QMouseEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

TokensView::TokensView(Cursor* cursor, QWidget* parent)
    : ScrollingView(QStringLiteral("tokens"), tr("Tokens and block table"), cursor, parent) {}

std::uint32_t TokensView::slotCount() const {
    const auto tokens = static_cast<std::uint32_t>(m_track.tokens().size());
    return std::max(tokens, static_cast<std::uint32_t>(m_table.size()) * m_blockSize);
}

TokensView::Grid TokensView::gridFor(double width) const {
    Grid grid;
    const double scale = unit();
    grid.narrowLabels = width < 420 * scale;
    grid.left = (m_blockSize == 0 ? 44 : grid.narrowLabels ? 60 : 104) * scale;
    grid.top = 22 * scale;
    grid.rowHeight = 26 * scale;
    const double room = std::max(40.0, width - grid.left - 8 * scale);
    const auto fitting = static_cast<std::uint32_t>(std::max(1.0, room / (40 * scale)));
    const std::uint32_t size = m_blockSize == 0 ? 16 : m_blockSize;
    if (size <= fitting) {
        grid.columns = std::max(1u, std::min(fitting, 16u) / size) * size;  // whole blocks side by side
    } else {
        // A block takes several rows: halve while it can be halved, so that rows stay aligned with blocks.
        std::uint32_t columns = size;
        while (columns > fitting && columns % 2 == 0) columns /= 2;
        grid.columns = columns <= fitting ? columns : fitting;
    }
    grid.cellWidth = std::min(room / grid.columns, 84 * scale);
    return grid;
}

QRectF TokensView::cell(const Grid& grid, std::uint32_t position) const {
    // Rows begin at block borders, also where a block's size is no multiple of the columns.
    std::uint32_t row = 0, column = 0;
    if (m_blockSize > grid.columns) {
        const std::uint32_t rowsPerBlock = (m_blockSize + grid.columns - 1) / grid.columns;
        const std::uint32_t offset = position % m_blockSize;
        row = position / m_blockSize * rowsPerBlock + offset / grid.columns;
        column = offset % grid.columns;
    } else {
        row = position / grid.columns;
        column = position % grid.columns;
    }
    return QRectF(grid.left + column * grid.cellWidth, grid.top + row * grid.rowHeight, grid.cellWidth, grid.rowHeight);
}

QRectF TokensView::cellRect(std::uint32_t position) const {
    return cell(gridFor(contentWidth()), position).translated(0, -offset());
}

std::optional<std::uint32_t> TokensView::positionAt(const QPointF& point) const {
    const Grid grid = gridFor(contentWidth());
    if (point.y() < grid.top || point.y() > viewportHeight() || point.x() < grid.left) return {};
    const double x = (point.x() - grid.left) / grid.cellWidth, y = (point.y() + offset() - grid.top) / grid.rowHeight;
    if (x < 0 || y < 0 || x >= grid.columns) return {};
    const auto row = static_cast<std::uint32_t>(y), column = static_cast<std::uint32_t>(x);
    std::uint32_t position = row * grid.columns + column;
    if (m_blockSize > grid.columns) {
        const std::uint32_t rowsPerBlock = (m_blockSize + grid.columns - 1) / grid.columns;
        const std::uint32_t inBlock = row % rowsPerBlock * grid.columns + column;
        if (inBlock >= m_blockSize) return {};
        position = row / rowsPerBlock * m_blockSize + inBlock;
    }
    return position < m_track.tokens().size() ? std::optional(position) : std::nullopt;
}

bool TokensView::hasProbability() const {
    return std::any_of(m_track.tokens().begin(), m_track.tokens().end(),
                       [](const TrackedToken& token) { return token.record && std::isfinite(token.record->probability); });
}

void TokensView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    const LaneState* state = cursor()->state();
    const SequenceId sequence = cursor()->sequence();
    if (!lane) {
        m_track.clear();
        setEmpty(tr("Open a model or a scenario to see its tokens."));
        setSubtitle({});
        return;
    }
    if (!state || !sequence.valid() || sequence.value >= state->sequences().size()) {
        m_track.clear();
        setEmpty(tr("No sequence has arrived yet. The first step brings its tokens."), tr("Step"), QStringLiteral("step"));
        setSubtitle({});
        return;
    }
    const auto step = static_cast<std::size_t>(cursor()->stepOf(cursor()->lane()));
    m_track.update(*cursor()->recording(), cursor()->lane(), sequence, step);
    m_work = workOf(*lane, sequence, step);
    const SequenceState& now = state->sequences()[sequence.value];
    m_blockSize = lane->info().kv_cache ? state->block_size() : 0;
    m_table = now.table;
    m_written = now.computed_tokens;
    m_owners.clear();
    for (const BlockId block : m_table)
        m_owners.push_back(block.value < state->blocks().size() ? state->blocks()[block.value].owners : 0);
    if (m_track.tokens().empty()) {
        setEmpty(tr("Sequence %1 has no tokens at this step.").arg(sequenceLabel(*cursor()->recording(), *lane, sequence)));
        return;
    }
    setEmpty({});
    QString text = tr("sequence %1 · %2 tokens").arg(sequenceLabel(*cursor()->recording(), *lane, sequence),
                                                     formatCount(m_track.tokens().size()));
    if (m_work.recomputed)
        text += tr(" · no cache: %1 recomputed in this step").arg(formatCount(m_work.count));
    else if (m_work.count > 0)
        text += tr(" · %1 written in this step").arg(formatCount(m_work.count));
    if (!m_table.empty()) text += tr(" · %1 blocks").arg(m_table.size());
    if (m_table.empty() && m_blockSize > 0 && now.status == SequenceStatus::finished)
        text += tr(" · finished, blocks given back");
    setSubtitle(text);
    layOut();
    const auto last = static_cast<std::uint32_t>(m_track.tokens().size() - 1);
    const QRectF lastCell = cell(gridFor(contentWidth()), last);
    ensureVisible(0, lastCell.bottom() + 4);
}

void TokensView::refreshSelection() {
    const Pick& hover = cursor()->hover();
    if (hover.position && hover.sequence == cursor()->sequence() && *hover.position < m_track.tokens().size() &&
        !underMouse()) {
        const QRectF box = cell(gridFor(contentWidth()), *hover.position);
        ensureVisible(box.top() - box.height(), box.bottom() + 2);
    }
    update();
}

void TokensView::layOut() {
    setFixedStrip(isEmptyShown() || height() < 110 * unit() ? 0 : 24 * unit());
    if (m_track.tokens().empty()) return;
    const std::uint32_t count = slotCount();
    setContentHeight(count ? cell(gridFor(contentWidth()), count - 1).bottom() + 4 * unit() : 0);
}

QString TokensView::describe(std::uint32_t position, bool rich) const {
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane || position >= m_track.tokens().size()) return {};
    const VocabularyText& vocabulary = lane->vocabulary();
    const TrackedToken& token = m_track.tokens()[position];
    QStringList parts;
    parts << tr("“%1” · id %2 · position %3")
                 .arg(tokenText(vocabulary, token.token), QString::number(token.token), QString::number(position));
    if (m_blockSize > 0 && position / m_blockSize < m_table.size()) {
        const BlockId block = m_table[position / m_blockSize];
        parts << tr("block %1, slot %2").arg(block.value).arg(position % m_blockSize);
        if (position >= m_written) parts << tr("K and V not written yet");
    }
    if (token.source == TokenRecord::prompt) parts << tr("of the prompt");
    if (token.source == TokenRecord::forced) parts << tr("forced");
    if (token.record && std::isfinite(token.record->probability)) {
        const TokenRecord& record = *token.record;
        parts << tr("%1 probability %2, rank %3")
                     .arg(originMark(Origin::measured), formatPercent(record.probability))
                     .arg(record.rank + 1);
        QStringList others;
        const int limit = rich ? 10 : 4;
        for (int i = 0; i < record.alternative_count && others.size() < limit; ++i) {
            const Alternative& other = lane->alternatives()[record.alternatives_begin + static_cast<unsigned>(i)];
            if (other.token == record.token) continue;
            others << tr("%1 %2").arg(tokenLabel(vocabulary, other.token), formatPercent(other.probability));
        }
        if (!others.isEmpty())
            parts << (rich ? tr("Instead:\n  %1").arg(others.join(QStringLiteral("\n  ")))
                           : tr("instead: %1").arg(others.join(QStringLiteral(", "))));
    }
    return parts.join(rich ? QStringLiteral("\n") : QStringLiteral(" · "));
}

QString TokensView::tipAt(const QPointF& position) const {
    const auto token = positionAt(position);
    return token ? describe(*token, true) : QString();
}

void TokensView::paintLabels(const Canvas& canvas, const Grid& grid, const QRectF& row, std::uint32_t first) const {
    const Palette& colours = canvas.colours();
    if (m_blockSize == 0) {
        canvas.text(QRectF(row.left() + canvas.u(8), row.top(), grid.left - canvas.u(16), row.height()),
                    QString::number(first), {11, QFont::Normal, colours.ink3, false}, Qt::AlignRight | Qt::AlignVCenter);
        return;
    }
    if (first % m_blockSize != 0 && m_blockSize >= grid.columns) return;
    const std::uint32_t logical = first / m_blockSize;
    const std::uint32_t blocksPerRow = std::max(1u, grid.columns / m_blockSize);
    const double half = grid.left / 2;
    canvas.text(QRectF(row.left() + canvas.u(4), row.top(), half - canvas.u(10), row.height()), QString::number(logical),
                {11, QFont::Normal, colours.ink2, false}, Qt::AlignRight | Qt::AlignVCenter);
    QString physical = logical < m_table.size() ? QString::number(m_table[logical].value) : QStringLiteral("–");
    if (blocksPerRow > 1 && logical + 1 < m_table.size()) physical += QStringLiteral("…");
    canvas.text(QRectF(row.left() + half, row.top(), half - canvas.u(10), row.height()), physical,
                {11, QFont::Bold, colours.ink1, true}, Qt::AlignRight | Qt::AlignVCenter);
}

void TokensView::paintCell(const Canvas& canvas, const QRectF& box, std::uint32_t position) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const QRectF inner = box.adjusted(canvas.u(1), canvas.u(1.5), -canvas.u(1), -canvas.u(1.5));
    const std::uint32_t owner = cursor()->sequence().value;
    const std::uint32_t logical = m_blockSize ? position / m_blockSize : 0;
    if (position >= m_track.tokens().size()) {
        canvas.outline(inner, colours.freeBorder, 0.8, Qt::DotLine);  // an unused slot of a block the sequence holds
        return;
    }
    const TrackedToken& token = m_track.tokens()[position];
    const bool computedNow = position >= m_work.first && position < m_work.first + m_work.count;
    const bool written = position < m_written && (m_blockSize == 0 || logical < m_table.size());
    const bool givenBack = m_blockSize > 0 && m_table.empty();
    const bool shared = logical < m_owners.size() && m_owners[logical] > 1;
    if (computedNow) {
        canvas.ownerRect(inner, owner, canvas.ownerFill(owner));
    } else if (written) {
        // Neighbouring blocks differ in shade, so that a block is seen as a block.
        canvas.ownerRect(inner, owner, canvas.mix(colours.owner(owner), colours.panel, logical % 2 ? 0.24 : 0.14));
    } else {
        painter.fillRect(inner, colours.panel);
        canvas.outline(inner, givenBack ? colours.freeBorder : canvas.ownerBorder(owner), 1, Qt::DashLine);
    }
    if (shared) painter.fillRect(QRectF(inner.left(), inner.bottom() - canvas.u(3), inner.width(), canvas.u(3)), colours.ink1);
    const bool sampled = token.source != TokenRecord::prompt;
    const double textWidth = inner.width() - canvas.u(4);
    canvas.text(QRectF(inner.left() + canvas.u(2), inner.top(), textWidth, inner.height() - canvas.u(2)),
                tokenLabel(cursor()->laneRecord()->vocabulary(), token.token),
                {textWidth < canvas.u(26) ? 10.5 : 11.5, sampled ? QFont::Medium : QFont::Normal, colours.ink1, false},
                Qt::AlignHCenter | Qt::AlignVCenter);
    if (token.record && std::isfinite(token.record->probability)) {
        const QRectF track(inner.left() + canvas.u(2), inner.bottom() - canvas.u(3), inner.width() - canvas.u(4), canvas.u(2));
        painter.fillRect(track, canvas.mix(colours.ink1, colours.panel, 0.12));
        painter.fillRect(QRectF(track.left(), track.top(), track.width() * std::clamp(token.record->probability, 0.f, 1.f),
                                track.height()),
                         canvas.ownerBorder(owner));
    }
}

void TokensView::paintDetail(const Canvas& canvas, const QRectF& strip) const {
    const Palette& colours = canvas.colours();
    canvas.painter().fillRect(strip, colours.head);
    canvas.painter().setPen(QPen(colours.line, 1));
    canvas.painter().drawLine(strip.topLeft(), strip.topRight());
    const Pick& pick = cursor()->shown();
    QString text;
    if (pick.position && (!pick.sequence || *pick.sequence == cursor()->sequence()))
        text = describe(*pick.position, false);
    if (text.isEmpty())
        text = hasProbability() ? tr("Point at a token for its id, slot, probability and alternatives. "
                                     "The bar below a sampled token is its probability.")
                                : tr("Point at a token for its id, block and slot.");
    canvas.text(strip.adjusted(canvas.u(10), 0, -canvas.u(10), 0), text, {11, QFont::Normal, colours.ink2, false});
}

void TokensView::paintContent(QPainter& painter, const QRectF& area) {
    const Canvas canvas(painter, palette_(), font(), unit());
    const Palette& colours = canvas.colours();
    const Grid grid = gridFor(contentWidth());
    const std::uint32_t count = slotCount();
    const double strip = height() < 110 * unit() ? 0 : canvas.u(24);
    const QRectF view(area.left(), area.top(), area.width(), area.height() - strip);
    painter.save();
    painter.setClipRect(QRectF(view.left(), view.top() + grid.top, view.width(), view.height() - grid.top), Qt::IntersectClip);
    painter.translate(area.left(), area.top() - offset());
    const double top = offset(), bottom = offset() + view.height();
    double lastRow = -1;
    for (std::uint32_t position = 0; position < count; ++position) {
        const QRectF box = cell(grid, position);
        if (box.bottom() < top) continue;
        if (box.top() > bottom) break;
        if (box.top() != lastRow) {
            lastRow = box.top();
            paintLabels(canvas, grid, QRectF(0, box.top(), grid.left, box.height()), position);
        }
        paintCell(canvas, box, position);
    }
    const LaneId lane = cursor()->lane();
    const auto mark = [&](const Pick& pick, double width) {
        if (pick.position && *pick.position < m_track.tokens().size() &&
            meansToken(pick, lane, cursor()->sequence(), *pick.position)) {
            canvas.outline(cell(grid, *pick.position).adjusted(1, 1, -1, -1), colours.ink1, width);
        } else if (pick.block && !pick.position && m_blockSize > 0) {
            for (std::size_t logical = 0; logical < m_table.size(); ++logical) {
                if (!meansBlock(pick, lane, m_table[logical])) continue;
                const auto first = static_cast<std::uint32_t>(logical) * m_blockSize;
                const QRectF box = cell(grid, first).united(cell(grid, first + m_blockSize - 1));
                canvas.outline(box.adjusted(0, 0.5, 0, -0.5), colours.ink1, width);
            }
        }
    };
    mark(cursor()->hover(), 1);
    mark(cursor()->locked(), 2);
    painter.restore();

    // Column heads: slots of the block.
    painter.fillRect(QRectF(area.left(), area.top(), area.width(), grid.top), colours.panel);
    const TextStyle caption{11, QFont::Normal, colours.ink2, false};
    if (m_blockSize == 0) {
        canvas.text(QRectF(area.left() + canvas.u(4), area.top(), grid.left, grid.top), tr("token"), caption);
    } else {
        const double half = grid.left / 2;
        canvas.text(QRectF(area.left() + canvas.u(2), area.top(), half, grid.top),
                    grid.narrowLabels ? tr("log.") : tr("logical"), caption, Qt::AlignHCenter | Qt::AlignVCenter);
        canvas.text(QRectF(area.left() + half - canvas.u(2), area.top(), half, grid.top),
                    grid.narrowLabels ? tr("ph.") : tr("physical"), caption, Qt::AlignHCenter | Qt::AlignVCenter);
    }
    for (std::uint32_t column = 0; column < grid.columns; ++column)
        canvas.text(QRectF(area.left() + grid.left + column * grid.cellWidth, area.top(), grid.cellWidth, grid.top),
                    QString::number(m_blockSize && m_blockSize < grid.columns ? column % m_blockSize : column), caption,
                    Qt::AlignHCenter | Qt::AlignVCenter);
    if (strip > 0) paintDetail(canvas, QRectF(area.left(), area.bottom() - strip, area.width(), strip));
}

QString TokensView::csv() const {
    QString csv = QStringLiteral("position,token_id,text,source,block,slot,written,probability_measured,rank\r\n");
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

void TokensView::mouseMoveEvent(QMouseEvent* event) {
    const auto position = positionAt(event->position());
    cursor()->setHover(position ? pickToken(*cursor(), cursor()->sequence(), *position) : Pick{});
}

void TokensView::mousePressEvent(QMouseEvent* event) {
    const auto position = positionAt(event->position());
    if (event->button() == Qt::LeftButton && position)
        cursor()->lock(pickToken(*cursor(), cursor()->sequence(), *position));
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
        if (cursor()->hover().position) cursor()->lock(cursor()->hover());
        return;
    default: ScrollingView::keyPressEvent(event); return;
    }
    if (count == 0) return;
    const int from = pick.position ? static_cast<int>(*pick.position) : move > 0 ? -move : count;
    const int to = std::clamp(from + move, 0, count - 1);
    const QRectF box = cell(gridFor(contentWidth()), static_cast<std::uint32_t>(to));
    ensureVisible(box.top() - gridFor(contentWidth()).top, box.bottom() + 4);
    cursor()->setHover(pickToken(*cursor(), cursor()->sequence(), static_cast<std::uint32_t>(to)));
}

}  // namespace kvloupe
