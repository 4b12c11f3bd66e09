// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/block_tables.h"

#include "engine/record/describe.h"
#include "views/canvas.h"
#include "views/format.h"

#include <QCoreApplication>
#include <QPainterPath>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

namespace kvloupe {

namespace {

constexpr double widest_cell = 122, narrowest_cell = 58;

}  // namespace

void BlockTables::clear() {
    m_rows.clear();
    m_copies.clear();
    m_copySentences.clear();
    m_texts.clear();
    m_recording.reset();
}

void BlockTables::addRows(const Added& from, SequenceId sequence, int depth) {
    const LaneState& state = from.state;
    if (sequence.value < state.sequences().size()) {
        const SequenceState& now = state.sequences()[sequence.value];
        const std::size_t groups = now.group_tables.size() + 1;
        for (std::size_t group = 0; group < groups; ++group) {
            const auto& table = tableOf(now, static_cast<std::uint8_t>(group));
            if (table.empty()) continue;
            Row row;
            row.sequence = sequence;
            row.group = static_cast<std::uint8_t>(group);
            row.depth = depth;
            row.table = table.to_vector();
            row.written = now.computed_tokens;
            row.reused = std::max(from.facts.upTo(sequence, m_step).hit_tokens, inheritedTokens(from.lane, sequence));
            row.work = workOf(from.lane, sequence, m_step);
            for (const BlockId block : table) {
                const bool held = block != null_block_id && block.value < state.blocks().size();
                row.owners.push_back(held ? state.blocks()[block.value].owners : 0);
                row.held += held;
                row.shared += row.owners.back() > 1;
            }
            m_longest = std::max(m_longest, static_cast<std::uint32_t>(table.size()));
            m_rows.push_back(std::move(row));
        }
    }
    // Forks stand below their parent.
    const auto children = from.children.find(sequence.value);
    if (children == from.children.end()) return;
    for (const SequenceId child : children->second)
        if (child.value > sequence.value) addRows(from, child, depth + 1);
}

void BlockTables::update(const Cursor& cursor, const SequenceFacts& facts) {
    m_rows.clear();
    m_copies.clear();
    m_copySentences.clear();
    m_longest = 0;
    if (m_recording != cursor.sharedRecording() || m_lane != cursor.lane()) m_texts.clear();
    m_recording = cursor.sharedRecording();
    const LaneRecord& lane = *cursor.laneRecord();
    const LaneState& state = *cursor.state();
    m_blockSize = state.block_size();
    if (m_blockSize == 0) return;
    const auto step = static_cast<std::size_t>(cursor.stepOf(cursor.lane()));
    m_lane = cursor.lane();
    m_step = step;
    Added from{lane, state, facts, {}};
    // Those that have a table, and whom they were forked from: a recording has many more sequences.
    std::set<std::uint32_t> present;
    for (const std::uint32_t holder : state.holders())
        for (SequenceId s(holder); s.valid() && s.value < lane.sequences().size() && present.insert(s.value).second;)
            s = lane.sequences()[s.value].parent;
    for (const std::uint32_t s : present)
        if (const SequenceId parent = lane.sequences()[s].parent; parent.valid()) from.children[parent.value].push_back(SequenceId(s));
    for (const std::uint32_t s : present)
        if (!lane.sequences()[s].parent.valid()) addRows(from, SequenceId(s), 0);
    for (auto text = m_texts.begin(); text != m_texts.end();) text = present.count(text->first) ? std::next(text) : m_texts.erase(text);
    const LogRange range = lane.step(step).events;
    for (std::uint64_t i = range.begin; i < range.end; ++i) {
        const Event& event = lane.events()[i];
        if (event.kind != EventKind::copy_on_write || !event.block.valid()) continue;
        m_copies.push_back({event.block, BlockId(event.other), event.sequence});
        if (m_copySentences.size() < 8) m_copySentences << QString::fromStdString(describe_event(*cursor.recording(), lane, i));
    }
}

void BlockTables::layOut(double width, double unit) {
    m_unit = unit;
    m_label = std::min(134 * unit, width * 0.28);
    m_head = 20 * unit;
    m_gap = 4 * unit;
    m_rowGap = (m_copies.empty() ? 5 : 16) * unit;  // room for the arrow of a copy
    const double room = std::max(narrowest_cell * unit, width - m_label - 8 * unit);
    const auto most = std::max(1u, static_cast<std::uint32_t>(room / (narrowest_cell * unit)));
    m_columns = std::clamp(m_longest, 1u, most);
    m_cellWidth = std::min(room / m_columns, widest_cell * unit);
    m_rowHeight = 42 * unit;
    // Rows that end before a band have no place in it.
    const std::uint32_t bands = (m_longest + m_columns - 1) / m_columns;
    m_height = 0;
    m_bands.clear();
    for (Row& row : m_rows) row.tops.clear();
    for (std::uint32_t band = 0; band < bands; ++band) {
        Band& there = m_bands.emplace_back();
        there.top = m_height;
        m_height += m_head;
        for (std::size_t row = 0; row < m_rows.size(); ++row) {
            if (m_rows[row].table.size() <= std::size_t{band} * m_columns) continue;
            there.rows.push_back(row);
            m_rows[row].tops.push_back(m_height);
            m_height += m_rowHeight + m_rowGap;
        }
        m_height += 4 * unit;
    }
}

QRectF BlockTables::cell(std::size_t row, std::uint32_t logical) const {
    if (row >= m_rows.size() || logical >= m_rows[row].table.size() || logical / m_columns >= m_rows[row].tops.size()) return {};
    return QRectF(m_label + (logical % m_columns) * m_cellWidth, m_rows[row].tops[logical / m_columns], m_cellWidth - m_gap, m_rowHeight);
}

std::optional<BlockTables::Place> BlockTables::placeAt(const QPointF& point) const {
    if (point.x() < m_label || m_cellWidth <= 0) return {};
    const auto column = static_cast<std::uint32_t>((point.x() - m_label) / m_cellWidth);
    if (column >= m_columns) return {};
    for (std::size_t row = 0; row < m_rows.size(); ++row) {
        for (std::uint32_t logical = column; logical < m_rows[row].table.size(); logical += m_columns) {
            const QRectF box = cell(row, logical);
            if (!box.contains(point)) continue;
            Place place{row, logical, {}};
            if (point.y() > box.bottom() - 11 * m_unit && m_rows[row].table[logical] != null_block_id) {
                const double share = (point.x() - box.left() - 4 * m_unit) / (box.width() - 8 * m_unit);
                if (share >= 0 && share < 1) place.slot = static_cast<std::uint32_t>(share * m_blockSize);
            }
            return place;
        }
    }
    return {};
}

std::optional<std::size_t> BlockTables::rowAt(const QPointF& point) const {
    if (point.x() > m_label) return {};
    for (std::size_t row = 0; row < m_rows.size(); ++row)
        for (std::uint32_t logical = 0; logical < m_rows[row].table.size(); logical += m_columns) {
            const QRectF box = cell(row, logical);
            if (point.y() >= box.top() && point.y() < box.bottom()) return row;
        }
    return {};
}

QString BlockTables::textOf(const Cursor& cursor, const Place& place) const {
    const Row& row = m_rows[place.row];
    const LaneRecord& lane = cursor.recording()->lane(m_lane);
    Text& text = m_texts[row.sequence.value];
    TokenTrack& track = text.track;
    if (text.step != m_step || track.reading()) {
        const std::uint64_t before = track.looked();
        // What the file was read for is at hand afterwards; of chunks each picture takes few, whoever needs them.
        track.updateSome(m_recording, m_lane, row.sequence, m_step, m_allowed);
        m_allowed.records -= std::min(m_allowed.records, track.looked() - before);
        if (track.reading() && m_allowed.chunks != UINT64_MAX) m_allowed.chunks = 0;
        text.step = m_step;
        m_reading |= track.reading();
    }
    std::vector<TokenId> ids;
    const std::size_t begin = std::size_t{place.logical} * m_blockSize;
    for (std::size_t p = begin; p < std::min(begin + m_blockSize, track.tokens().size()); ++p) ids.push_back(track.tokens()[p].token);
    return QString::fromStdString(text_of(lane.vocabulary(), ids)).replace(QLatin1Char('\n'), QChar(0x21B5)).trimmed();
}

QString BlockTables::describe(const Cursor& cursor, const Place& place) const {
    const auto tr = [](const char* text) { return QCoreApplication::translate("kvloupe::BlockTables", text); };
    const Row& row = m_rows[place.row];
    const BlockId block = row.table[place.logical];
    const QString who = sequenceName(*cursor.recording(), *cursor.laneRecord(), row.sequence);
    if (block == null_block_id)
        return tr("%1, logical block %2: the null block, its tokens left the window").arg(who).arg(place.logical);
    const std::uint32_t first = place.logical * m_blockSize;
    const BlockState& stored = cursor.state()->blocks()[block.value];
    QStringList lines{tr("%1, logical block %2: block %3, positions %4–%5")
                          .arg(who, QString::number(place.logical), QString::number(block.value), QString::number(first),
                               QString::number(first + std::max(std::min(stored.filled, m_blockSize), 1u) - 1))};
    if (stored.owners > 1) {
        QStringList names;
        for (const BlockOwner& owner : ownersOf(*cursor.state(), block))
            names << sequenceName(*cursor.recording(), *cursor.laneRecord(), owner.sequence);
        lines << tr("shared by %1").arg(names.join(QStringLiteral(", ")));
    }
    if (row.reused > first)
        lines << tr("%1 %2 of its tokens reused, not computed by %3")
                     .arg(originMark(Origin::measured))
                     .arg(std::min(row.reused - first, m_blockSize))
                     .arg(who);
    lines << QStringLiteral("“%1”").arg(textOf(cursor, place));
    return lines.join(QLatin1Char('\n'));
}

std::optional<QRectF> BlockTables::cellOfBlock(BlockId block, SequenceId preferred) const {
    std::optional<QRectF> found;
    for (std::size_t row = 0; row < m_rows.size(); ++row)
        for (std::uint32_t logical = 0; logical < m_rows[row].table.size(); ++logical)
            if (m_rows[row].table[logical] == block && (!found || m_rows[row].sequence == preferred)) found = cell(row, logical);
    return found;
}

void BlockTables::paintLabel(const Canvas& canvas, const QRectF& box, const Row& row, const Cursor& cursor) const {
    const Palette& colours = canvas.colours();
    if (row.sequence == cursor.sequence()) canvas.painter().fillRect(box, colours.selectedRow);
    const double side = canvas.u(9), indent = canvas.u(std::min(row.depth, 3) * 10);
    QRectF inner = box.adjusted(canvas.u(8) + indent, canvas.u(3), -canvas.u(6), -canvas.u(3));
    if (row.depth > 0) canvas.glyph(EventKind::fork, QPointF(inner.left() - canvas.u(6), inner.top() + inner.height() / 4), 7, colours.ink3);
    const QRectF first(inner.left(), inner.top(), inner.width(), inner.height() / 2);
    canvas.swatch(QRectF(first.left(), first.center().y() - side / 2, side, side), row.sequence.value);
    QString name = sequenceName(*cursor.recording(), *cursor.laneRecord(), row.sequence);
    if (row.group > 0) name += QCoreApplication::translate("kvloupe::BlockTables", ", group %1").arg(row.group);
    canvas.text(first.adjusted(side + canvas.u(5), 0, 0, 0), name, {12, QFont::DemiBold, colours.ink1, false});
    const QRectF second(inner.left(), inner.center().y(), inner.width(), inner.height() / 2);
    const std::size_t null = row.table.size() - row.held;
    const QString blocks = null > 0 ? QCoreApplication::translate("kvloupe::BlockTables", "%1 blocks, %2 null").arg(row.held).arg(null)
                           : row.shared > 0 ? QCoreApplication::translate("kvloupe::BlockTables", "%1 blocks, %2 shared").arg(row.table.size()).arg(row.shared)
                                          : QCoreApplication::translate("kvloupe::BlockTables", "%1 blocks").arg(row.table.size());
    canvas.text(second, blocks, {10.5, QFont::Normal, colours.ink2, false});
}

void BlockTables::paintCell(const Canvas& canvas, const QRectF& box, const Row& row, std::uint32_t logical,
                            const Cursor& cursor) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const BlockId block = row.table[logical];
    const QRectF frame = box.adjusted(0.5, 0.5, -0.5, -0.5);
    if (block == null_block_id) {
        canvas.outline(frame, colours.freeBorder, 1, Qt::DashLine);
        canvas.text(box, QCoreApplication::translate("kvloupe::BlockTables", "null"), {11, QFont::Normal, colours.ink3, false},
                    Qt::AlignCenter);
        return;
    }
    const BlockState& stored = cursor.state()->blocks()[block.value];
    const bool shared = stored.owners > 1;
    const unsigned own = row.sequence.value;
    if (shared) {
        // The same split in every row: it is the same block. Of very many owners as many as can be told apart.
        const auto owners = ownersOf(*cursor.state(), block);
        const std::size_t stripes = std::min(owners.size(), static_cast<std::size_t>(std::max(1.0, box.width() / canvas.u(3))));
        const double width = box.width() / static_cast<double>(std::max<std::size_t>(stripes, 1));
        for (std::size_t i = 0; i < stripes; ++i) {
            const unsigned owner = owners[i * owners.size() / stripes].sequence.value;
            canvas.ownerRect(QRectF(box.left() + static_cast<double>(i) * width, box.top(), width, box.height()), owner,
                             canvas.mix(colours.owner(owner), colours.panel, 0.3));
        }
    } else {
        canvas.ownerRect(box, own, canvas.mix(colours.owner(own), colours.panel, stored.filled == 0 ? 0.1 : 0.3));
    }
    canvas.outline(frame, shared ? colours.ink1 : canvas.ownerBorder(own), shared ? 1.6 : 1,
                   stored.filled == 0 ? Qt::DashLine : Qt::SolidLine);
    const QRectF inner = box.adjusted(canvas.u(5), canvas.u(1), -canvas.u(4), -canvas.u(11));
    const QRectF line1(inner.left(), inner.top(), inner.width(), inner.height() / 2);
    const TextStyle idStyle{12, QFont::Bold, colours.ink1, true}, small{10.5, QFont::Normal, colours.ink1, false};
    canvas.text(line1, QString::number(block.value), idStyle, Qt::AlignLeft | Qt::AlignVCenter, Qt::ElideNone);
    const double idWidth = canvas.width(QString::number(block.value), idStyle) + canvas.u(6);
    const QString right = shared && box.width() < canvas.u(92) ? QStringLiteral("×%1").arg(stored.owners)
                          : shared ? QCoreApplication::translate("kvloupe::BlockTables", "%1 owners").arg(stored.owners)
                          : stored.filled < m_blockSize ? QStringLiteral("%1/%2").arg(stored.filled).arg(m_blockSize) : QString();
    canvas.text(line1.adjusted(idWidth, 0, 0, 0), right, small, Qt::AlignRight | Qt::AlignVCenter);
    const std::size_t index = static_cast<std::size_t>(&row - m_rows.data());
    canvas.text(QRectF(inner.left(), inner.center().y(), inner.width(), inner.height() / 2),
                textOf(cursor, {index, logical, {}}), small);
    // Slots: what it reuses is pale, what the step wrote is strong.
    const QRectF bar(box.left() + canvas.u(4), box.bottom() - canvas.u(9), box.width() - canvas.u(8), canvas.u(6));
    painter.fillRect(bar, canvas.mix(colours.panel, colours.free, 0.6));
    const double width = bar.width() / m_blockSize;
    const double gap = width >= canvas.u(3) ? canvas.u(0.8) : 0;
    for (std::uint32_t slot = 0; slot < m_blockSize; ++slot) {
        const std::uint32_t position = logical * m_blockSize + slot;
        if (position >= row.written) break;
        const bool now = row.work.count > 0 && position >= row.work.first && position < row.work.first + row.work.count;
        const QColor colour = now ? canvas.mix(colours.owner(own), colours.ink1, 0.8)
                              : position < row.reused ? canvas.mix(colours.owner(own), colours.panel, 0.35)
                                                      : colours.owner(own);
        painter.fillRect(QRectF(bar.left() + slot * width, bar.top(), std::max(width - gap, 0.5), bar.height()), colour);
    }
}

// Rows below one another that hold the same block in the same column are tied together.
void BlockTables::paintTies(const Canvas& canvas, const Band& band) const {
    const auto first = static_cast<std::uint32_t>(static_cast<std::size_t>(&band - m_bands.data()) * m_columns);
    for (std::uint32_t logical = first; logical < std::min(first + m_columns, m_longest); ++logical) {
        std::unordered_map<std::uint32_t, QRectF> last;
        for (const std::size_t row : band.rows) {
            if (logical >= m_rows[row].table.size() || m_rows[row].owners[logical] < 2) continue;
            const QRectF box = cell(row, logical);
            const auto [before, alone] = last.try_emplace(m_rows[row].table[logical].value, box);
            if (alone) continue;
            const double x = box.left() + canvas.u(10);
            const double top = before->second.bottom(), bottom = box.top();
            if (bottom - top <= m_rowGap + 1)
                canvas.painter().fillRect(QRectF(x, top, canvas.u(6), bottom - top), canvas.colours().ink1);
            else
                canvas.painter().fillRect(QRectF(box.left() - m_gap / 2 - canvas.u(0.75), before->second.center().y(), canvas.u(1.5),
                                                 box.center().y() - before->second.center().y()),
                                          canvas.colours().ink1);
            before->second = box;
        }
    }
}

void BlockTables::paintCopies(const Canvas& canvas) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    for (const Copy& copy : m_copies) {
        const auto from = cellOfBlock(copy.source, SequenceId::none()), to = cellOfBlock(copy.destination, copy.writer);
        if (from) canvas.outline(from->adjusted(-1, -1, 1, 1), colours.panel, 2);
        if (from) canvas.outline(from->adjusted(-1, -1, 1, 1), colours.focus, 2, Qt::DashLine);
        if (to) canvas.outline(to->adjusted(-1, -1, 1, 1), colours.focus, 2);
        if (!from || !to) continue;
        const bool down = to->top() >= from->bottom();
        // Beside the middle, so that ids and texts stay readable.
        const double x = canvas.u(26);
        const QPointF a(from->right() - x, down ? from->bottom() : from->top()), b(to->right() - x, down ? to->top() : to->bottom());
        const double head = canvas.u(8), sign = down ? 1 : -1;
        painter.save();
        painter.setPen(QPen(colours.focus, canvas.u(2.2)));
        painter.setBrush(Qt::NoBrush);
        QPainterPath path(QPointF(a.x(), a.y() - sign * canvas.u(6)));
        const QPointF tip(b.x(), b.y() + sign * canvas.u(5)), neck(tip.x(), tip.y() - sign * head);
        path.lineTo(neck);
        painter.drawPath(path);
        painter.setPen(Qt::NoPen);
        painter.setBrush(colours.focus);
        painter.drawPolygon(QPolygonF({tip, QPointF(tip.x() - head * 0.6, neck.y()), QPointF(tip.x() + head * 0.6, neck.y())}));
        painter.restore();
    }
}

void BlockTables::paint(const Canvas& canvas, const QRectF& area, double offset, const Cursor& cursor) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    painter.save();
    painter.setClipRect(area, Qt::IntersectClip);
    painter.translate(area.left(), area.top() - offset);
    const TextStyle caption{11, QFont::Normal, colours.ink2, false};
    const double bottom = offset + area.height();
    const auto first = std::partition_point(m_bands.begin(), m_bands.end(),
                                            [&](const Band& band) { return band.top <= offset; });  // below the upper edge
    for (auto band = first == m_bands.begin() ? first : std::prev(first); band != m_bands.end() && band->top <= bottom; ++band) {
        const auto from = static_cast<std::uint32_t>((band - m_bands.begin()) * m_columns);
        for (const std::size_t row : band->rows) {
            const double top = m_rows[row].tops[from / m_columns];
            if (top + m_rowHeight < offset || top > bottom) continue;
            paintLabel(canvas, QRectF(0, top, m_label - canvas.u(4), m_rowHeight), m_rows[row], cursor);
            for (std::uint32_t logical = from; logical < std::min<std::size_t>(from + m_columns, m_rows[row].table.size()); ++logical)
                paintCell(canvas, cell(row, logical), m_rows[row], logical, cursor);
        }
        canvas.text(QRectF(canvas.u(8), band->top, m_label - canvas.u(14), m_head),
                    QCoreApplication::translate("kvloupe::BlockTables", "logical block"), caption, Qt::AlignRight | Qt::AlignVCenter);
        for (std::uint32_t logical = from; logical < std::min(from + m_columns, m_longest); ++logical)
            canvas.text(QRectF(m_label + (logical % m_columns) * m_cellWidth, band->top, m_cellWidth - m_gap, m_head),
                        QString::number(logical), caption, Qt::AlignHCenter | Qt::AlignVCenter);
        paintTies(canvas, *band);
    }
    paintCopies(canvas);
    const auto mark = [&](const Pick& pick, double width) {
        if (!pick.block) return;
        for (std::size_t row = 0; row < m_rows.size(); ++row)
            for (std::uint32_t logical = 0; logical < m_rows[row].table.size(); ++logical)
                if (*pick.block != null_block_id && meansBlock(pick, cursor.lane(), m_rows[row].table[logical]))
                    canvas.outline(cell(row, logical).adjusted(-1, -1, 1, 1), colours.ink1, width);
    };
    mark(cursor.hover(), 1);
    mark(cursor.locked(), 2);
    painter.restore();
}

}  // namespace kvloupe
