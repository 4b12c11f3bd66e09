// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/requests_view.h"

#include "engine/record/describe.h"
#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"
#include "views/token_track.h"

#include <algorithm>

namespace kvloupe {

namespace {

constexpr double heading_height = 22, running_height = 62, short_height = 24;

// Value below which `share` of the values lie (nearest rank); values must not be empty.
double quantile(std::vector<double> values, double share) {
    const auto index = std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())));
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index), values.end());
    return values[index];
}

}  // namespace

RequestsView::RequestsView(Cursor* cursor, QWidget* parent)
    : ListView(QStringLiteral("requests"), tr("Requests"), cursor, parent) {}

RequestsView::Entry RequestsView::entryOf(SequenceId sequence, std::size_t step, const RequestTimes& times) const {
    const Recording& recording = *cursor()->recording();
    const LaneRecord& lane = *cursor()->laneRecord();
    const SequenceState& state = cursor()->state()->sequences()[sequence.value];
    Entry entry;
    entry.sequence = sequence;
    entry.request = lane.sequences()[sequence.value].request;
    entry.name = sequenceName(recording, lane, sequence);
    entry.prompt = state.prompt_tokens;
    entry.computed = state.computed_tokens;
    entry.tokens = state.prompt_tokens + times.output_tokens;
    if (entry.request.valid()) entry.limit = state.prompt_tokens + recording.requests()[entry.request.value].max_new_tokens;
    entry.blocks = state.table.size();
    entry.bytes = entry.blocks * lane.info().block_bytes;
    entry.queue_ms = times.queue_ms;
    entry.ttft_ms = times.time_to_first_token_ms;
    if (!times.inter_token_ms.empty()) {
        entry.itl_ms = quantile(times.inter_token_ms, 0.5);
        entry.itl95_ms = quantile(times.inter_token_ms, 0.95);
    }
    entry.reason = QString::fromStdString(times.reason);
    switch (state.status) {
    case SequenceStatus::arrived:
        entry.group = Group::waiting;
        entry.phase = tr("waits");
        break;
    case SequenceStatus::preempted:
        entry.group = Group::waiting;
        entry.phase = tr("preempted");
        break;
    case SequenceStatus::running: {
        entry.group = Group::running;
        const StepWork work = workOf(lane, sequence, step);
        entry.phase = work.count == 0 ? tr("idle") : work.recomputed ? tr("recomputes") : entry.computed <= entry.prompt ? tr("prefill") : tr("decode");
        break;
    }
    default:
        entry.group = Group::finished;
        entry.outcome = times.finish_reason.empty() ? tr("finished") : QString::fromStdString(times.finish_reason);
        break;
    }
    return entry;
}

void RequestsView::refresh() {
    m_entries.clear();
    setSubtitle({});
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane) {
        setCards({});
        setEmpty(tr("Open a model or a scenario to see its requests."));
        return;
    }
    const Recording& recording = *cursor()->recording();
    const LaneState* state = cursor()->state();
    const int step = cursor()->stepOf(cursor()->lane());
    std::vector<Entry> found;
    std::vector<bool> arrived(recording.requests().size(), false);
    if (state && step >= 0) {
        const std::vector<RequestTimes> times = all_request_times(recording, *lane, static_cast<std::size_t>(step));
        for (std::size_t s = 0; s < std::min(state->sequences().size(), times.size()); ++s) {
            found.push_back(entryOf(SequenceId(static_cast<std::uint32_t>(s)), static_cast<std::size_t>(step), times[s]));
            if (found.back().request.value < arrived.size()) arrived[found.back().request.value] = true;
        }
    }
    for (std::size_t r = 0; r < arrived.size(); ++r) {
        if (arrived[r]) continue;
        const RequestInfo& info = recording.requests()[r];
        Entry entry;
        entry.group = Group::later;
        entry.request = RequestId(static_cast<std::uint32_t>(r));
        entry.name = QString::fromStdString(info.id);
        entry.prompt = entry.tokens = static_cast<std::uint32_t>(info.prompt.size());
        entry.phase = tr("step %1").arg(info.arrival_step);
        found.push_back(entry);
    }
    if (found.empty()) {
        setCards({});
        setEmpty(tr("There is no request yet."));
        return;
    }
    setEmpty({});
    std::vector<Card> cards;
    double y = 4 * unit();
    for (const Group group : {Group::running, Group::waiting, Group::later, Group::finished}) {
        const auto count = std::count_if(found.begin(), found.end(), [group](const Entry& entry) { return entry.group == group; });
        if (count == 0) continue;
        Entry heading;
        heading.group = group;
        const QString names[] = {tr("Running"), tr("Waiting"), tr("Arrives later"), tr("Finished")};
        heading.heading = QStringLiteral("%1 %2").arg(names[static_cast<int>(group)]).arg(count);
        m_entries.push_back(heading);
        cards.push_back({y, heading_height * unit(), false});
        y += heading_height * unit();
        for (const Entry& entry : found) {
            if (entry.group != group) continue;
            const double height = (group == Group::running ? running_height : short_height) * unit();
            m_entries.push_back(entry);
            cards.push_back({y, height, entry.sequence.valid()});
            y += height;
        }
    }
    setCards(std::move(cards));
    setSubtitle(tr("lane %1").arg(QString::fromStdString(lane->info().name)));
}

void RequestsView::paintContent(QPainter& painter, const QRectF& area) {
    const Canvas canvas(painter, palette_(), font(), unit());
    const Palette& colours = canvas.colours();
    const double width = area.width() - (this->width() - contentWidth());
    for (std::size_t i = 0; i < m_entries.size() && i < cards().size(); ++i) {
        const Card& card = cards()[i];
        const QRectF box(area.left(), area.top() + card.top - offset(), width, card.height);
        if (box.bottom() < area.top() || box.top() > area.bottom()) continue;
        const Entry& entry = m_entries[i];
        if (!entry.heading.isEmpty()) {
            canvas.text(box.adjusted(canvas.u(10), canvas.u(2), -canvas.u(10), 0), entry.heading,
                        {11, QFont::DemiBold, colours.ink2, false});
            continue;
        }
        if (entry.sequence.valid() && entry.sequence == cursor()->sequence()) {
            painter.fillRect(box, colours.selectedRow);
            painter.fillRect(QRectF(box.left(), box.top(), canvas.u(3), box.height()), colours.ink1);
        }
        paintEntry(canvas, box, entry);
        if (entry.sequence.valid() && cursor()->hover().sequence == entry.sequence)
            canvas.outline(box.adjusted(1, 1, -1, -1), colours.ink1, 1);
    }
}

void RequestsView::paintEntry(const Canvas& canvas, const QRectF& box, const Entry& entry) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    const bool cached = cursor()->laneRecord()->info().kv_cache;
    const TextStyle small{11, QFont::Normal, colours.ink2, false}, faint{11, QFont::Normal, colours.ink3, false};
    const QRectF inner = box.adjusted(canvas.u(10), canvas.u(3), -canvas.u(10), -canvas.u(3));
    const bool tall = entry.group == Group::running;
    const double line = tall ? canvas.u(16) : inner.height();
    const double side = canvas.u(9);
    const unsigned owner = entry.sequence.valid() ? entry.sequence.value : entry.request.value;
    const QRectF first(inner.left(), inner.top(), inner.width(), line);
    if (entry.group == Group::running || entry.group == Group::waiting) {
        canvas.swatch(QRectF(first.left(), first.center().y() - side / 2, side, side), owner);
    } else {
        canvas.ownerRect(QRectF(first.left(), first.center().y() - side / 2, side, side), owner,
                         canvas.mix(colours.owner(owner), colours.panel, 0.4));
    }
    double x = first.left() + side + canvas.u(6);
    const TextStyle nameStyle{12, tall ? QFont::DemiBold : QFont::Medium, tall ? colours.ink1 : colours.ink2, false};
    const double nameWidth = std::min(canvas.width(entry.name, nameStyle), canvas.u(80));
    canvas.text(QRectF(x, first.top(), nameWidth + 1, line), entry.name, nameStyle);
    x += nameWidth + canvas.u(8);
    const QString sequence = entry.sequence.valid() ? tr("seq %1").arg(entry.sequence.value) : QString();
    canvas.text(QRectF(x, first.top(), canvas.u(46), line), sequence, small);
    x += sequence.isEmpty() ? 0 : canvas.width(sequence, small) + canvas.u(10);
    if (!tall) {
        QString right = tr("%1 tokens").arg(formatCount(entry.tokens));
        if (entry.group == Group::waiting) right = entry.queue_ms ? right : tr("%1 in prompt").arg(formatCount(entry.prompt));
        canvas.text(first, right, small, Qt::AlignRight | Qt::AlignVCenter);
        canvas.text(QRectF(x, first.top(), first.right() - x - canvas.width(right, small) - canvas.u(8), line),
                    entry.group == Group::finished ? entry.outcome : entry.phase,
                    entry.outcome == QLatin1String("rejected") || entry.outcome == QLatin1String("failed")
                        ? TextStyle{11, QFont::Normal, colours.breakpoint, false} : small);
        return;
    }
    double used = 0;
    if (cached) used = canvas.number(first, Origin::derived, formatBytes(entry.bytes), {12});
    canvas.text(QRectF(x, first.top(), first.right() - x - used - canvas.u(6), line), entry.phase, small);
    const QRectF second = first.translated(0, line);
    const QString right = cached ? tr("%1 blocks").arg(formatCount(entry.blocks)) : tr("no blocks");
    canvas.text(second, right, small, Qt::AlignRight | Qt::AlignVCenter);
    canvas.text(second.adjusted(side + canvas.u(6), 0, -canvas.width(right, small) - canvas.u(6), 0),
                tr("%1 prompt + %2 new of %3").arg(formatCount(entry.prompt), formatCount(entry.tokens - entry.prompt),
                                                   formatCount(entry.limit - entry.prompt)), small);
    // Progress: prompt, new tokens, what may still come; what is not computed yet is hatched.
    const QRectF bar(inner.left() + side + canvas.u(6), second.bottom() + canvas.u(3), inner.width() - side - canvas.u(6), canvas.u(4));
    painter.fillRect(bar, colours.grid);
    const double perToken = bar.width() / std::max(entry.limit, 1u);
    painter.fillRect(QRectF(bar.left(), bar.top(), std::min(entry.tokens, entry.limit) * perToken, bar.height()), canvas.ownerPale(owner));
    painter.fillRect(QRectF(bar.left(), bar.top(), std::min(entry.computed, entry.limit) * perToken, bar.height()), colours.owner(owner));
    const double border = bar.left() + entry.prompt * perToken;
    painter.fillRect(QRectF(border - canvas.u(0.75), bar.top() - canvas.u(2), canvas.u(1.5), bar.height() + canvas.u(4)), colours.ink1);
    const QRectF third(inner.left() + side + canvas.u(6), bar.bottom() + canvas.u(2), inner.width() - side - canvas.u(6), canvas.u(14));
    if (!entry.ttft_ms) {
        canvas.text(third, tr("no token yet"), faint);
        return;
    }
    double at = third.left();
    const auto time = [&](const QString& label, double ms) {
        const QString value = formatDuration(ms * 1e6);
        const double need = canvas.width(label, faint) + canvas.width(value, small) + canvas.u(17);
        if (at + need > third.right() + canvas.u(2)) return;
        canvas.text(QRectF(at, third.top(), need, third.height()), label, faint);
        canvas.number(QRectF(at, third.top(), need, third.height()), Origin::measured, value, small);
        at += need + canvas.u(10);
    };
    time(tr("TTFT"), *entry.ttft_ms);
    if (entry.itl_ms) time(tr("ITL"), *entry.itl_ms);
}

QString RequestsView::tipAt(const QPointF& position) const {
    const int card = cardAt(position);
    if (card < 0 || card >= static_cast<int>(m_entries.size())) return {};
    const Entry& entry = m_entries[static_cast<std::size_t>(card)];
    QStringList lines{tr("Request %1: %2 prompt tokens, %3 in all").arg(entry.name, formatCount(entry.prompt), formatCount(entry.tokens))};
    const QString mark = originMark(Origin::measured);
    if (entry.queue_ms) lines << tr("%1 queue time %2").arg(mark, formatDuration(*entry.queue_ms * 1e6));
    if (entry.ttft_ms) lines << tr("%1 time to first token %2").arg(mark, formatDuration(*entry.ttft_ms * 1e6));
    if (entry.itl_ms)
        lines << tr("%1 inter-token latency: median %2, 95th percentile %3")
                     .arg(mark, formatDuration(*entry.itl_ms * 1e6), formatDuration(*entry.itl95_ms * 1e6));
    if (!entry.reason.isEmpty()) lines << entry.reason;
    return lines.join(QLatin1Char('\n'));
}

Pick RequestsView::pickOf(int card) const {
    const Entry& entry = m_entries[static_cast<std::size_t>(card)];
    return entry.sequence.valid() ? pickSequence(*cursor(), entry.sequence) : Pick{};
}

void RequestsView::choose(int card) {
    const Pick pick = pickOf(card);
    if (!pick.empty()) cursor()->lock(pick);
}

QString RequestsView::csv() const {
    QString csv = QStringLiteral("request,sequence,state,prompt_tokens,tokens,computed_tokens,blocks,kv_bytes_derived,"
                                 "queue_ms_measured,ttft_ms_measured,itl_p50_ms_measured,itl_p95_ms_measured,reason\r\n");
    const auto optional = [](const std::optional<double>& value) { return value ? QString::number(*value, 'g', 8) : QString(); };
    for (const Entry& entry : m_entries) {
        if (!entry.heading.isEmpty()) continue;
        const QStringList fields{csvField(entry.name), entry.sequence.valid() ? QString::number(entry.sequence.value) : QString(),
                                 csvField(entry.group == Group::finished ? entry.outcome : entry.phase),
                                 QString::number(entry.prompt), QString::number(entry.tokens), QString::number(entry.computed),
                                 QString::number(entry.blocks), QString::number(entry.bytes), optional(entry.queue_ms),
                                 optional(entry.ttft_ms), optional(entry.itl_ms), optional(entry.itl95_ms), csvField(entry.reason)};
        csv += fields.join(QLatin1Char(',')) + QStringLiteral("\r\n");
    }
    return csv;
}

}  // namespace kvloupe
