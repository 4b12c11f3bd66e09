// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/block_view.h"

#include "views/format.h"
#include "views/picking.h"
#include "views/token_track.h"

#include <QKeyEvent>

#include <algorithm>

namespace kvloupe {

BlockView::BlockView(QString id, QString title, Cursor* cursor, QWidget* parent)
    : View(std::move(id), std::move(title), cursor, parent) {}

void BlockView::setSource(BlockValuesSource* source) {
    if (m_source) m_source->disconnect(this);
    m_source = source;
    if (source) connect(source, &BlockValuesSource::answered, this, &BlockView::takeAnswer);
    if (isVisible()) refresh();
}

std::uint32_t BlockView::layer() const {
    const LaneRecord* lane = cursor()->laneRecord();
    return lane && lane->info().layers > 0 ? std::min(cursor()->layer(), lane->info().layers - 1) : 0;
}

std::uint32_t BlockView::queryHeadsPerHead() const {
    const LaneRecord* lane = cursor()->laneRecord();
    return lane ? std::max(1u, lane->info().query_heads / std::max(1u, headCount())) : 1;
}

std::uint32_t BlockView::kvHead() const { return std::min(cursor()->head() / queryHeadsPerHead(), std::max(1u, headCount()) - 1); }

void BlockView::chooseHead(std::uint32_t layer, std::uint32_t head) { cursor()->setHead(layer, head * queryHeadsPerHead()); }

QString BlockView::emptySentenceFor(const LaneRecord* lane) const {
    if (!lane) return tr("Open a model or a scenario to see what its cache holds.");
    const QString name = QString::fromStdString(lane->info().name);
    if (lane->info().layers == 0) return tr("Lane %1 does no arithmetic: its blocks hold no keys and values.").arg(name);
    if (!lane->info().kv_cache) return tr("Lane %1 keeps no cache: keys and values are made anew in every step.").arg(name);
    if (const QString why = whyNot(lane->info()); !why.isEmpty()) return why;
    if (!m_source) return tr("What a block holds is read from a running engine, and none is behind this picture.");
    if (!m_choice) return tr("The sequence in focus owns no block at this step. Lock a block, or choose another sequence.");
    return {};
}

void BlockView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    m_choice = chosenBlock(*cursor());
    m_lock = cursor()->locked();
    setSubtitle({});
    if (lane && (!cursor()->state() || cursor()->state()->sequences().empty()) && lane->info().layers > 0 && lane->info().kv_cache) {
        m_values.reset();
        return setEmpty(tr("No sequence has arrived yet. The first step fills blocks."), tr("Step"), QStringLiteral("step"));
    }
    if (const QString sentence = emptySentenceFor(lane); !sentence.isEmpty()) {
        m_values.reset();
        return setEmpty(sentence);
    }
    m_source->ask(m_choice->question);
    takeAnswer();
}

void BlockView::refreshSelection() {
    if (cursor()->locked() == m_lock) return update();
    refresh();
}

void BlockView::takeAnswer() {
    if (!m_source || !m_choice) return;
    const auto answer = m_source->answer();
    if (!answer || answer->question != m_choice->question) {
        const bool same = m_values && m_values->question.lane == m_choice->question.lane;
        if (same) return setStale(true);  // the picture of the block before stays until the answer is there
        m_values.reset();
        return setEmpty(tr("Reading block %1 of layer %2…").arg(m_choice->question.block.value).arg(m_choice->question.layer));
    }
    setStale(false);
    if (!answer->problem.empty()) {
        m_values.reset();
        return setEmpty(QString::fromStdString(answer->problem));
    }
    setEmpty({});
    m_values = answer;
    if (cursor()->recording()) m_tokens.follow(cursor()->sharedRecording(), cursor()->lane(), [this] { update(); });
    valuesChanged();
    update();
}

QString BlockView::whereText() const {
    if (!m_values) return {};
    const LaneRecord* lane = cursor()->laneRecord();
    QString text;
    if (m_values->first_position && lane) {
        const std::uint32_t first = *m_values->first_position;
        text = tr("sequence %1, positions %2–%3")
                   .arg(sequenceLabel(*cursor()->recording(), *lane, m_values->sequence)).arg(first).arg(first + m_values->tokens - 1);
        if (m_values->owners > 1) text += tr(" (%1 owners)").arg(m_values->owners);
    } else {
        text = tr("%1 tokens that nobody owns").arg(m_values->tokens);
    }
    const int at = cursor()->stepOf(cursor()->lane());
    const auto step = static_cast<qulonglong>(m_values->step);
    if (at >= 0 && static_cast<std::uint64_t>(at) != m_values->step)
        return text + tr(" · step %1 is not recorded: shown as of step %2").arg(at).arg(step);
    return text + tr(" · as of step %1").arg(step);
}

std::optional<std::uint32_t> BlockView::positionOf(std::uint32_t token) const {
    if (!m_values || !m_values->first_position) return {};
    return *m_values->first_position + token;
}

QString BlockView::tokenText(std::uint32_t token) const {
    const LaneRecord* lane = cursor()->laneRecord();
    const auto position = positionOf(token);
    const auto token_id = lane && position ? m_tokens->token(m_values->sequence, *position) : std::nullopt;
    return token_id ? tokenLabel(lane->vocabulary(), *token_id) : QString();
}

Pick BlockView::pickOf(std::uint32_t token) const {
    Pick pick;
    pick.lane = cursor()->lane();
    pick.block = m_values->question.block;
    pick.layer = m_values->question.layer;
    if (const auto position = positionOf(token)) {
        pick.sequence = m_values->sequence;
        pick.position = position;
    }
    return pick;
}

void BlockView::resizeEvent(QResizeEvent* event) {
    View::resizeEvent(event);
    if (m_values && !isEmptyShown()) valuesChanged();
}

void BlockView::keyPressEvent(QKeyEvent* event) {
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane || isEmptyShown()) return View::keyPressEvent(event);
    const std::uint32_t last = std::max(1u, lane->info().layers) - 1, head = kvHead();
    switch (event->key()) {
    case Qt::Key_Left: return chooseHead(layer(), head > 0 ? head - 1 : 0);
    case Qt::Key_Right: return chooseHead(layer(), std::min(head + 1, std::max(1u, headCount()) - 1));
    case Qt::Key_Up: return chooseHead(layer() > 0 ? layer() - 1 : 0, head);
    case Qt::Key_Down: return chooseHead(std::min(layer() + 1, last), head);
    case Qt::Key_PageUp:
    case Qt::Key_PageDown: {
        const auto next = m_choice ? neighbourBlock(*cursor(), *m_choice, event->key() == Qt::Key_PageUp ? -1 : 1) : std::nullopt;
        if (!next) return;
        Pick pick;
        pick.lane = cursor()->lane();
        pick.block = next;
        pick.sequence = m_choice->sequence;
        return cursor()->lock(pick);
    }
    default: View::keyPressEvent(event);
    }
}

}  // namespace kvloupe
