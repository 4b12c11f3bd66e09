// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/inspector_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace kvloupe {

namespace {

constexpr double line_height = 19, heading_height = 24, mass_height = 118;

}  // namespace

InspectorView::InspectorView(Cursor* cursor, QWidget* parent)
    : ScrollingView(QStringLiteral("inspector"), tr("Inspector"), cursor, parent) {}

void InspectorView::add(const QString& label, const QString& text, std::optional<Origin> origin) {
    if (!text.isEmpty()) m_rows.push_back({Row::value, label, text, origin, {}});
}

void InspectorView::head(const QString& text, std::optional<unsigned> owner) {
    m_rows.push_back({Row::heading, text, {}, {}, owner});
}

void InspectorView::say(const QString& sentence) {
    if (!sentence.isEmpty()) m_rows.push_back({Row::sentence, {}, sentence, {}, {}});
}

void InspectorView::refresh() {
    m_rows.clear();
    m_mass.clear();
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane || !cursor()->state()) {
        setSubtitle({});
        setContentHeight(0);
        if (lane)
            setEmpty(tr("Nothing was recorded yet."), tr("Step"), QStringLiteral("step"));
        else
            setEmpty(tr("Point at a token, a block or an event to see what is known about it."));
        return;
    }
    setEmpty({});
    const Pick& pick = cursor()->shown();
    const SequenceId sequence = pick.sequence.value_or(cursor()->sequence());
    QString what;
    if (pick.event) {
        what = tr("event");
        describeEvent(*pick.event);
    } else if (pick.position) {
        what = tr("token %1").arg(*pick.position);
        describeToken(sequence, *pick.position);
        if (pick.block) describeBlock(*pick.block);
    } else if (pick.block) {
        what = tr("block %1").arg(pick.block->value);
        describeBlock(*pick.block);
        if (pick.sequence) describeSequence(*pick.sequence);
    } else if (pick.sequence) {
        what = tr("sequence %1").arg(sequenceLabel(*cursor()->recording(), *lane, sequence));
        describeSequence(sequence);
    } else {
        what = tr("step %1").arg(cursor()->stepOf(cursor()->lane()));
        describeStep();
    }
    if (pick.block && pick.sequence) collectMass(*pick.block, sequence);
    setSubtitle(cursor()->locked().empty() ? what : tr("%1 · locked, Esc clears").arg(what));
    layOut();
}

void InspectorView::settle() {
    m_track.settle();
    m_facts.settle();
}

void InspectorView::describeStep() {
    const LaneRecord& lane = *cursor()->laneRecord();
    const StepRecord& step = lane.step(static_cast<std::size_t>(cursor()->stepOf(cursor()->lane())));
    const auto measured = [this](const QString& label, quint64 value) { add(label, formatCount(value), Origin::measured); };
    head(tr("Step %1 of lane %2").arg(QString::number(step.step.value), QString::fromStdString(lane.info().name)));
    add(tr("Duration"), formatDuration(static_cast<double>(step.duration_ns)), Origin::measured);
    measured(tr("Requests running"), step.running);
    measured(tr("Requests waiting"), step.waiting);
    measured(tr("Prefill tokens"), step.prefill_tokens);
    measured(tr("Decode tokens"), step.decode_tokens);
    measured(tr("Tokens computed"), step.computed_tokens);
    // New tokens: what a lane without a cache computes again makes none.
    const std::uint64_t made = step.decode_tokens + (lane.info().kv_cache ? std::uint64_t{step.prefill_tokens} : 0);
    if (step.duration_ns > 0 && made > 0 && lane.info().layers > 0)
        add(tr("Tokens per second"),
            formatAmount(static_cast<double>(made) * 1e9 / static_cast<double>(step.duration_ns), 1),
            Origin::derived);
    if (lane.info().kv_cache) {
        // Counted when its forward pass ended; what the step gave back after that the pool shows as free.
        head(cursor()->state()->used_blocks() == step.used_blocks ? tr("Cache") : tr("Cache, before release"));
        add(tr("Bytes in use"), formatBytes(step.kv_bytes), Origin::measured);
        measured(tr("Blocks in use"), step.used_blocks);
        measured(tr("Blocks free"), step.free_blocks);
        measured(tr("Slots with a token"), step.slots.token);
        add(tr("Slots reserved"), formatCount(step.slots.reserved), Origin::predicted);
        measured(tr("Slots never written"), step.slots.internal);
    } else {
        say(tr("No cache: each step computes the whole prefix again."));
    }
    if (std::isfinite(step.logit_difference))
        add(tr("Largest logit difference"), QString::number(static_cast<double>(step.logit_difference), 'g', 3), Origin::measured);
    say(tr("Point at a token, a block or an event for more; a click locks it."));
}

void InspectorView::describeToken(SequenceId sequence, std::uint32_t position) {
    const LaneRecord& lane = *cursor()->laneRecord();
    const auto step = static_cast<std::size_t>(cursor()->stepOf(cursor()->lane()));
    m_track.update(cursor()->sharedRecording(), cursor()->lane(), sequence, step, [this] {
        refresh();
        update();
    });
    if (position >= m_track.tokens().size()) {
        say(m_track.reading() ? tr("The tokens of the sequence are being read.")
                              : tr("Position %1 has no token at this step.").arg(position));
        return;
    }
    const TrackedToken& token = m_track.tokens()[position];
    head(tr("Token “%1”").arg(tokenLabel(lane.vocabulary(), token.token)), sequence.value);
    add(tr("Sequence"), sequenceLabel(*cursor()->recording(), lane, sequence));
    add(tr("Position"), QString::number(position));
    add(tr("Token id"), QString::number(token.token));
    const QString sources[] = {tr("prompt"), tr("sampled"), tr("forced")};
    add(tr("Source"), sources[token.source]);
    if (token.record && std::isfinite(token.record->probability)) {
        add(tr("Probability"), formatPercent(static_cast<double>(token.record->probability)), Origin::measured);
        add(tr("Rank by logit"), QString::number(token.record->rank + 1), Origin::measured);
    }
    const SequenceState* state = sequence.value < cursor()->state()->sequences().size()
                                     ? &cursor()->state()->sequences()[sequence.value] : nullptr;
    const std::uint32_t size = cursor()->state()->block_size();
    if (state && lane.info().kv_cache && size > 0 && position / size < state->table.size()) {
        const std::uint32_t block = state->table[position / size].value;
        add(tr("Logical block"), QString::number(position / size));
        add(tr("Slot"), QString::number(std::uint64_t{block} * size + position % size), Origin::derived);
        add(tr("K and V"), position < state->computed_tokens ? tr("written") : tr("not written yet"));
        add(tr("Bytes"), formatBytes(position < state->computed_tokens ? lane.info().bytes_per_token : 0), Origin::derived);
    }
}

void InspectorView::collectMass(BlockId block, SequenceId sequence) {
    const LaneRecord& lane = *cursor()->laneRecord();
    const LaneState& state = *cursor()->state();
    if (!sequence.valid() || sequence.value >= state.sequences().size()) return;
    const auto& table = state.sequences()[sequence.value].table;
    const auto place = std::find(table.begin(), table.end(), block);
    if (place == table.end()) return;
    const auto begin = static_cast<std::uint32_t>(place - table.begin()) * state.block_size();
    const auto step = static_cast<std::size_t>(cursor()->stepOf(cursor()->lane()));
    const NewestRows rows = newestRows(lane, step, cursor()->layer(), std::array{sequence.value});
    for (std::uint32_t head = 0; head < lane.info().query_heads; ++head) {
        const auto row = rows.find({sequence.value, head});
        double mass = std::nan("");
        if (row != rows.end()) {
            mass = 0;
            m_massQuery = row->second->position;
            for (std::uint32_t key = begin; key < std::min(begin + state.block_size(), row->second->key_count); ++key)
                mass += static_cast<double>(lane.attention_weights()[row->second->weights_begin + key]);
        }
        m_mass.push_back(mass);
    }
    if (std::none_of(m_mass.begin(), m_mass.end(), [](double mass) { return std::isfinite(mass); })) m_mass.clear();
}

double InspectorView::heightOf(const Row& row, const Canvas* canvas, double width) const {
    if (row.kind == Row::heading) return heading_height * unit();
    if (row.kind == Row::value) return line_height * unit();
    const QFontMetricsF metrics(canvas ? canvas->font({11.5}) : textFont(11.5));
    return metrics.boundingRect(QRectF(0, 0, width, 4000), Qt::TextWordWrap, row.text).height() + 6 * unit();
}

void InspectorView::layOut() {
    double height = 4 * unit();
    for (const Row& row : m_rows) height += heightOf(row, nullptr, contentWidth() - 20 * unit());
    if (!m_mass.empty()) height += mass_height * unit();
    setContentHeight(height + 4 * unit());
}

void InspectorView::paintContent(QPainter& painter, const QRectF& area) {
    const Canvas canvas(painter, palette_(), font(), unit());
    const Palette& colours = canvas.colours();
    const double width = area.width() - (this->width() - contentWidth());
    double y = area.top() + canvas.u(4) - offset();
    bool first = true;
    for (const Row& row : m_rows) {
        const QRectF box(area.left() + canvas.u(10), y, width - canvas.u(20), heightOf(row, &canvas, width - canvas.u(20)));
        y += box.height();
        if (row.kind == Row::heading) {
            if (!first) {
                painter.setPen(QPen(colours.grid, 1));
                painter.drawLine(QPointF(area.left(), box.top() + canvas.u(2)), QPointF(area.left() + width, box.top() + canvas.u(2)));
            }
            const double side = canvas.u(9);
            if (row.owner) canvas.swatch(QRectF(box.left(), box.center().y() - side / 2 + canvas.u(1), side, side), *row.owner);
            canvas.text(box.adjusted(row.owner ? side + canvas.u(6) : 0, canvas.u(2), 0, 0), row.label, {12, QFont::DemiBold});
        } else if (row.kind == Row::sentence) {
            canvas.paragraph(box.adjusted(0, canvas.u(2), 0, canvas.u(4)), row.text, {11.5, QFont::Normal, colours.ink2, false});
        } else {
            const TextStyle style{11.5};
            double used = canvas.width(row.text, style);
            if (row.origin)
                used = canvas.number(box, *row.origin, row.text, style);
            else
                canvas.text(box.adjusted(box.width() * 0.36, 0, 0, 0), row.text, style, Qt::AlignRight | Qt::AlignVCenter);
            canvas.text(box.adjusted(0, 0, -std::min(used, box.width() * 0.62) - canvas.u(8), 0), row.label,
                        {11.5, QFont::Normal, colours.ink2, false});
        }
        first = false;
    }
    if (!m_mass.empty()) paintMass(canvas, QRectF(area.left() + canvas.u(10), y + canvas.u(4), width - canvas.u(20), canvas.u(mass_height - 8)));
}

void InspectorView::paintMass(const Canvas& canvas, const QRectF& area) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const LaneInfo& info = cursor()->laneRecord()->info();
    const TextStyle small{10.5, QFont::Normal, colours.ink2, false};
    canvas.text(QRectF(area.left(), area.top(), area.width(), canvas.u(16)), tr("Attention mass on this block, %"), {11.5, QFont::DemiBold});
    canvas.originMark(QPointF(area.right() - canvas.u(4), area.top() + canvas.u(8)), Origin::derived);
    canvas.text(QRectF(area.left(), area.top() + canvas.u(15), area.width(), canvas.u(15)),
                tr("layer %1, query %2, by query head").arg(cursor()->layer()).arg(m_massQuery), small);
    const double pitch = area.width() / static_cast<double>(m_mass.size()), base = area.bottom() - canvas.u(28);
    const double top = area.top() + canvas.u(46), gap = std::min(canvas.u(4), pitch * 0.2);
    const std::uint32_t perGroup = std::max(1u, info.query_heads / std::max(1u, info.kv_heads));
    for (std::size_t head = 0; head < m_mass.size(); ++head) {
        const QRectF track(area.left() + static_cast<double>(head) * pitch + gap / 2, top, pitch - gap, base - top);
        painter.fillRect(track, colours.free);
        const bool focus = head == cursor()->head();
        const double mass = m_mass[head];
        if (std::isfinite(mass)) {
            const double height = track.height() * std::clamp(mass, 0.0, 1.0);
            painter.fillRect(QRectF(track.left(), base - height, track.width(), height),
                             focus ? colours.attention[4] : canvas.mix(colours.attention[3], colours.panel, 0.75));
            if (pitch >= canvas.u(16))
                canvas.text(QRectF(track.left() - gap, base - height - canvas.u(13), pitch + gap, canvas.u(12)),
                            QString::number(mass * 100, 'f', 0), small, Qt::AlignCenter, Qt::ElideNone);
        }
        if (pitch >= canvas.u(12))
            canvas.text(QRectF(track.left(), base, track.width(), canvas.u(14)), QString::number(head),
                        {10.5, focus ? QFont::Bold : QFont::Normal, focus ? colours.ink1 : colours.ink2, false}, Qt::AlignCenter, Qt::ElideNone);
        if (head % perGroup == 0) {
            const QRectF group(track.left(), base + canvas.u(14), pitch * perGroup - gap, canvas.u(13));
            painter.setPen(QPen(colours.line, 1));
            painter.drawLine(group.topLeft(), group.topRight());
            const QString name = tr("KV %1").arg(head / perGroup);
            if (canvas.width(name, small) <= group.width() + gap) canvas.text(group, name, small, Qt::AlignCenter, Qt::ElideNone);
        }
    }
}

QString InspectorView::csv() const {
    QString csv = QStringLiteral("section,name,value,origin\r\n");
    QString section;
    for (const Row& row : m_rows) {
        if (row.kind == Row::heading) section = row.label;
        if (row.kind != Row::value) continue;
        csv += QStringLiteral("%1,%2,%3,%4\r\n").arg(csvField(section), csvField(row.label), csvField(row.text),
                                                       row.origin ? originName(*row.origin) : QString());
    }
    for (std::size_t head = 0; head < m_mass.size(); ++head)
        csv += QStringLiteral("%1,%2,%3,%4\r\n").arg(csvField(tr("Attention mass on the block")), tr("query head %1").arg(head),
                                                       QString::number(m_mass[head], 'g', 6), originName(Origin::derived));
    return csv;
}

}  // namespace kvloupe
