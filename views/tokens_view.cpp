// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/tokens_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QTimer>

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
    const auto again = [this] {
        refresh();
        update();
    };
    m_track.update(cursor()->sharedRecording(), cursor()->lane(), sequence, step, again);
    m_work = workOf(*lane, sequence, step);
    const SequenceState& now = state->sequences()[sequence.value];
    m_blockSize = lane->info().kv_cache ? state->block_size() : 0;
    m_table = now.table;
    m_written = now.computed_tokens;
    m_owners.clear();
    for (const BlockId block : m_table)
        m_owners.push_back(block.value < state->blocks().size() ? state->blocks()[block.value].owners : 0);
    m_facts.update(cursor()->sharedRecording(), cursor()->lane(), again);
    m_reused = m_blockSize == 0 ? 0 : std::max(m_facts.upTo(sequence, step).hit_tokens, inheritedTokens(*lane, sequence));
    if (m_blockSize > 0)
        m_tables.update(*cursor(), m_facts);
    else
        m_tables.clear();
    if (m_track.tokens().empty() && m_track.reading()) {
        setEmpty(tr("The tokens of sequence %1 are being read.").arg(sequenceLabel(*cursor()->recording(), *lane, sequence)));
        return;
    }
    if (m_track.tokens().empty()) {
        setEmpty(tr("Sequence %1 has no tokens at this step.").arg(sequenceLabel(*cursor()->recording(), *lane, sequence)));
        return;
    }
    setEmpty({});
    explain();
    layOut();
    if (tablesShown()) return;
    const auto last = static_cast<std::uint32_t>(m_track.tokens().size() - 1);
    const QRectF lastCell = cell(gridFor(contentWidth()), last);
    ensureVisible(0, lastCell.bottom() + 4);
}

void TokensView::explain() {
    if (tablesShown()) {
        std::uint32_t shared = 0;
        std::size_t sequences = 0;
        for (const BlockTables::Row& row : m_tables.rows()) sequences += row.group == 0;
        for (const BlockState& block : cursor()->state()->blocks()) shared += block.owners > 1;
        setSubtitle(shared > 0 ? tr("block tables of %1 sequences · %2 shared blocks").arg(sequences).arg(shared)
                               : tr("block tables of %1 sequences").arg(sequences));
        return;
    }
    const LaneRecord* lane = cursor()->laneRecord();
    const SequenceId sequence = cursor()->sequence();
    const SequenceState& now = cursor()->state()->sequences()[sequence.value];
    QString text = tr("sequence %1 · %2 tokens").arg(sequenceLabel(*cursor()->recording(), *lane, sequence),
                                                     formatCount(m_track.tokens().size()));
    if (m_work.recomputed)
        text += tr(" · no cache: %1 recomputed in this step").arg(formatCount(m_work.count));
    else if (m_work.count > 0)
        text += tr(" · %1 written in this step").arg(formatCount(m_work.count));
    if (m_reused > 0) text += tr(" · first %1 reused (pale)").arg(formatCount(m_reused));
    if (!m_table.empty()) text += (m_table.size() == 1 ? tr(" · %1 block") : tr(" · %1 blocks")).arg(m_table.size());
    if (m_table.empty() && m_blockSize > 0 && now.status == SequenceStatus::finished)
        text += tr(" · finished, blocks given back");
    if (m_track.reading()) text += tr(" · reading tokens");
    setSubtitle(text);
}

double TokensView::stripHeight() const {
    if (isEmptyShown() || height() < 110 * unit()) return 0;
    return (tablesShown() && !m_tables.copies().isEmpty() && height() >= 170 * unit() ? 46 : 24) * unit();
}

void TokensView::layOut() {
    setFixedStrip(stripHeight());
    if (m_track.tokens().empty()) return;
    if (tablesShown()) {
        m_tables.layOut(contentWidth(), unit());
        setContentHeight(m_tables.height() + 4 * unit());
        return;
    }
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
    if (tablesShown()) {
        const auto place = m_tables.placeAt(position + QPointF(0, offset()));
        return place ? m_tables.describe(*cursor(), *place) : QString();
    }
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
        const bool reused = position < m_reused;
        canvas.ownerRect(inner, owner, canvas.mix(colours.owner(owner), colours.panel,
                                                  (logical % 2 ? 0.24 : 0.14) * (reused ? 0.35 : m_reused > 0 ? 1.4 : 1)));
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
    if (tablesShown()) text = tableDetail();
    else if (pick.position && (!pick.sequence || *pick.sequence == cursor()->sequence()))
        text = describe(*pick.position, false);
    QRectF line(strip.left() + canvas.u(10), strip.bottom() - canvas.u(23), strip.width() - canvas.u(20), canvas.u(22));
    if (tablesShown() && !m_tables.copies().isEmpty()) {
        const QRectF first(line.left(), strip.top(), line.width(), canvas.u(23));
        canvas.painter().fillRect(first.adjusted(-canvas.u(10), 1, canvas.u(10), 0), colours.focusWash);
        canvas.glyph(EventKind::copy_on_write, QPointF(first.left() + canvas.u(4), first.center().y()), 9, colours.focus);
        canvas.text(first.adjusted(canvas.u(14), 0, 0, 0), m_tables.copies().join(QStringLiteral("; ")), {12, QFont::Normal, colours.ink1, false});
        if (strip.height() < canvas.u(40)) return;  // a low view has one line
    }
    if (text.isEmpty())
        text = hasProbability() ? tr("Point at a token for its id, slot, probability and alternatives. "
                                     "The bar below a sampled token is its probability.")
                                : tr("Point at a token for its id, block and slot.");
    canvas.text(line, text, {11, QFont::Normal, colours.ink2, false});
}

void TokensView::paintContent(QPainter& painter, const QRectF& area) {
    const Canvas canvas(painter, palette_(), font(), unit());
    const double strip = stripHeight();
    const QRectF view(area.left(), area.top(), area.width(), area.height() - strip);
    if (tablesShown()) {
        const bool screen = painter.device() == this;
        if (screen) m_tables.allowReading();
        else m_tables.settle();
        m_tables.paint(canvas, view, offset(), *cursor());
        if (screen && m_tables.reading()) QTimer::singleShot(0, this, [this] { update(); });
    } else {
        paintTokens(canvas, area, view);
    }
    if (strip > 0) paintDetail(canvas, QRectF(area.left(), area.bottom() - strip, area.width(), strip));
}

void TokensView::paintTokens(const Canvas& canvas, const QRectF& area, const QRectF& view) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const Grid grid = gridFor(contentWidth());
    const std::uint32_t count = slotCount();
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
}

}  // namespace kvloupe
