// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/list_view.h"

#include <QKeyEvent>
#include <QMouseEvent>

namespace kvloupe {

void ListView::setCards(std::vector<Card> cards) {
    m_cards = std::move(cards);
    if (m_current >= static_cast<int>(m_cards.size())) m_current = -1;
    setContentHeight(m_cards.empty() ? 0 : m_cards.back().top + m_cards.back().height);
}

int ListView::cardAt(const QPointF& point) const {
    const double y = point.y() + offset();
    for (std::size_t i = 0; i < m_cards.size(); ++i)
        if (m_cards[i].selectable && y >= m_cards[i].top && y < m_cards[i].top + m_cards[i].height) return static_cast<int>(i);
    return -1;
}

void ListView::mouseMoveEvent(QMouseEvent* event) {
    m_current = isEmptyShown() ? -1 : cardAt(event->position());
    cursor()->setHover(m_current >= 0 ? pickOf(m_current) : Pick{});
    update();
}

void ListView::mousePressEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || isEmptyShown()) return;
    m_current = cardAt(event->position());
    if (m_current >= 0) choose(m_current);
}

void ListView::leaveEvent(QEvent* event) {
    m_current = -1;
    ScrollingView::leaveEvent(event);
}

void ListView::keyPressEvent(QKeyEvent* event) {
    const int key = event->key();
    if ((key == Qt::Key_Return || key == Qt::Key_Enter) && m_current >= 0) {
        choose(m_current);
        return;
    }
    if (key != Qt::Key_Up && key != Qt::Key_Down) {
        ScrollingView::keyPressEvent(event);
        return;
    }
    const int count = static_cast<int>(m_cards.size()), step = key == Qt::Key_Down ? 1 : -1;
    int next = m_current < 0 && step < 0 ? count : m_current;
    for (next += step; next >= 0 && next < count; next += step) {
        if (!m_cards[static_cast<std::size_t>(next)].selectable) continue;
        m_current = next;
        const Card& card = m_cards[static_cast<std::size_t>(next)];
        ensureVisible(card.top, card.top + card.height);
        cursor()->setHover(pickOf(next));
        update();
        return;
    }
}

}  // namespace kvloupe
