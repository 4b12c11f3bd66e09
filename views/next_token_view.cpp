// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/next_token_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

// Why the sequence has no sampled token up to the step of `state`.
QString whyNone(const LaneRecord& lane, const LaneState& state, SequenceId sequence) {
    if (lane.info().layers == 0) return NextTokenView::tr("its lane does no arithmetic");
    const SequenceState& stored = state.sequences()[sequence.value];
    switch (stored.status) {
    case SequenceStatus::arrived: return NextTokenView::tr("it waits to be admitted");
    case SequenceStatus::preempted:
    case SequenceStatus::swapped: return NextTokenView::tr("it was preempted and waits");
    case SequenceStatus::finished: return NextTokenView::tr("it has finished");
    case SequenceStatus::rejected: return NextTokenView::tr("it was rejected");
    case SequenceStatus::cancelled: return NextTokenView::tr("it was cancelled");
    case SequenceStatus::failed: return NextTokenView::tr("it has failed");
    case SequenceStatus::running: break;
    }
    return stored.computed_tokens < stored.prompt_tokens ? NextTokenView::tr("its prompt is still being computed")
                                                         : NextTokenView::tr("its tokens so far were given, not sampled");
}

// How the token came to be the sequence's next.
QString wayOf(const Recording& recording, const LaneRecord& lane, const TokenRecord& token) {
    if (token.source == TokenRecord::forced) return NextTokenView::tr("forced");
    const RequestId request = lane.sequences()[token.sequence.value].request;
    if (!request.valid()) return NextTokenView::tr("sampled");
    const RequestInfo& info = recording.requests()[request.value];
    if (info.beam_width > 0) return NextTokenView::tr("beam");
    return info.temperature <= 0 ? NextTokenView::tr("sampled, greedy") : NextTokenView::tr("sampled");
}

}  // namespace

NextTokenView::NextTokenView(Cursor* cursor, QWidget* parent)
    : View(QStringLiteral("next-token"), tr("Next token"), cursor, parent) {}

void NextTokenView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    const LaneState* state = cursor()->state();
    const SequenceId sequence = cursor()->sequence();
    m_record = nullptr;
    setSubtitle({});
    if (!lane) {
        setEmpty(tr("Open a model or a scenario to see what it would say next."));
        return;
    }
    if (!state || !sequence.valid() || sequence.value >= state->sequences().size()) {
        setEmpty(tr("No token was sampled yet."), tr("Step"), QStringLiteral("step"));
        return;
    }
    const auto step = static_cast<std::size_t>(cursor()->stepOf(cursor()->lane()));
    m_track.update(cursor()->sharedRecording(), cursor()->lane(), sequence, step, [this] {
        refresh();
        update();
    });
    const auto usable = [](const TrackedToken& token) { return token.record && token.record->alternative_count > 0; };
    const Pick& lock = cursor()->locked();
    bool chosen = false;
    if (lock.position && lock.sequence == sequence && *lock.position < m_track.tokens().size() &&
        usable(m_track.tokens()[*lock.position])) {
        m_record = m_track.tokens()[*lock.position].record;
        chosen = true;
    } else {
        const auto last = std::find_if(m_track.tokens().rbegin(), m_track.tokens().rend(), usable);
        if (last != m_track.tokens().rend()) m_record = last->record;
    }
    if (m_track.reading()) {
        setEmpty(tr("The tokens of sequence %1 are being read.").arg(sequenceLabel(*cursor()->recording(), *lane, sequence)));
        return;
    }
    if (!m_record) {
        setEmpty(tr("Sequence %1 has not sampled a token up to this step: %2.")
                     .arg(sequenceLabel(*cursor()->recording(), *lane, sequence), whyNone(*lane, *state, sequence)));
        return;
    }
    setEmpty({});
    const QString text = tr("sequence %1 · after position %2 · %3 of %4 tokens")
                             .arg(sequenceLabel(*cursor()->recording(), *lane, sequence),
                                  QString::number(m_record->position ? m_record->position - 1 : 0),
                                  QString::number(m_record->alternative_count), formatCount(lane->info().vocabulary));
    setSubtitle(chosen ? text + tr(" · the locked token") : text);
}

QString NextTokenView::takenBy() const {
    return m_record ? wayOf(*cursor()->recording(), *cursor()->laneRecord(), *m_record) : QString();
}

void NextTokenView::paintContent(QPainter& painter, const QRectF& area) {
    if (!m_record) return;
    const Canvas canvas(painter, palette_(), font(), unit());
    const Palette& colours = canvas.colours();
    const LaneRecord& lane = *cursor()->laneRecord();
    const QRectF room = area.adjusted(canvas.u(12), canvas.u(6), -canvas.u(12), -canvas.u(6));
    const int count = m_record->alternative_count;
    const double line = std::min(canvas.u(24), std::max(canvas.u(15), room.height() / std::max(count, 1)));
    const int fitting = std::min(count, static_cast<int>(room.height() / line));
    const double words = std::min(canvas.u(96), room.width() * 0.26), value = canvas.u(66);
    const double rankWidth = canvas.u(20);
    float most = 0;
    for (int i = 0; i < count; ++i)
        most = std::max(most, lane.alternatives()[m_record->alternatives_begin + static_cast<unsigned>(i)].probability);
    bool sampledSeen = false;
    for (int i = 0; i < fitting; ++i) {
        const Alternative& option = lane.alternatives()[m_record->alternatives_begin + static_cast<unsigned>(i)];
        const bool sampled = !sampledSeen && option.token == m_record->token;
        sampledSeen |= sampled;
        const double y = room.top() + i * line;
        canvas.text(QRectF(room.left(), y, rankWidth - canvas.u(4), line), QString::number(i + 1),
                    {10.5, QFont::Normal, colours.ink3, false}, Qt::AlignRight | Qt::AlignVCenter);
        canvas.text(QRectF(room.left() + rankWidth, y, words, line), tokenLabel(lane.vocabulary(), option.token),
                    {12, sampled ? QFont::DemiBold : QFont::Normal}, Qt::AlignRight | Qt::AlignVCenter);
        const QRectF track(room.left() + rankWidth + words + canvas.u(10), y + line * 0.18,
                           room.width() - rankWidth - words - value - canvas.u(14), line * 0.64);
        if (track.width() > 0) {
            painter.fillRect(track, colours.free);
            const double width = track.width() * static_cast<double>(option.probability / std::max(most, 1e-6f));
            painter.fillRect(QRectF(track.left(), track.top(), width, track.height()),
                             sampled ? colours.attention[4] : canvas.mix(colours.attention[3], colours.panel, 0.75));
            if (sampled) {
                const QString how = takenBy();
                const TextStyle note{11, QFont::Normal, colours.ink2, false};
                const double need = canvas.width(how, note) + canvas.u(12);
                if (track.width() - width > need)
                    canvas.text(QRectF(track.left() + width + canvas.u(6), y, need, line), how, note);
                else if (width > need)
                    canvas.text(QRectF(track.left() + width - need, y, need - canvas.u(6), line), how,
                                {11, QFont::Normal, colours.panel, false}, Qt::AlignRight | Qt::AlignVCenter);
            }
        }
        canvas.number(QRectF(room.right() - value, y, value, line), Origin::measured, formatPercent(option.probability), {12});
    }
    if (!sampledSeen) {
        const QString text = tr("%1 was taken (%5): “%2”, rank %3, %4")
                                 .arg(originMark(Origin::measured), tokenLabel(lane.vocabulary(), m_record->token),
                                      QString::number(m_record->rank + 1), formatPercent(m_record->probability), takenBy());
        const QRectF last(room.left(), room.bottom() - canvas.u(16), room.width(), canvas.u(16));
        painter.fillRect(last, colours.panel);
        canvas.text(last, text, {11, QFont::DemiBold});
    }
}

QString NextTokenView::csv() const {
    QString csv = QStringLiteral("rank,token_id,text,probability_measured,logit_measured,taken\r\n");
    if (!m_record) return csv;
    const LaneRecord& lane = *cursor()->laneRecord();
    for (int i = 0; i < m_record->alternative_count; ++i) {
        const Alternative& option = lane.alternatives()[m_record->alternatives_begin + static_cast<unsigned>(i)];
        csv += QStringLiteral("%1,%2,%3,%4,%5,%6\r\n")
                   .arg(QString::number(i + 1), QString::number(option.token), csvField(tokenText(lane.vocabulary(), option.token)),
                        QString::number(static_cast<double>(option.probability), 'g', 7),
                        QString::number(static_cast<double>(option.logit), 'g', 7),
                        option.token == m_record->token ? QStringLiteral("yes") : QStringLiteral("no"));
    }
    return csv;
}

}  // namespace kvloupe
