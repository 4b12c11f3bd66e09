// SPDX-License-Identifier: GPL-3.0-or-later
//
// ListView: cards below one another that can be pointed at, walked through with ↑ and ↓ and chosen with a click or Enter.
#pragma once

#include "views/scrolling_view.h"

#include <vector>

namespace kvloupe {

class ListView : public ScrollingView {
    Q_OBJECT

public:
    using ScrollingView::ScrollingView;

protected:
    struct Card {
        double top = 0, height = 0;
        bool selectable = true;
    };
    // Called from refresh(): heights in order; the view scrolls when they do not fit.
    void setCards(std::vector<Card> cards);
    const std::vector<Card>& cards() const { return m_cards; }
    int cardAt(const QPointF& point) const;          // -1 for none
    int currentCard() const { return m_current; }    // under the pointer or reached by keys, -1 for none

    virtual Pick pickOf(int card) const = 0;
    virtual void choose(int card) = 0;               // click or Enter

    void refreshSelection() override { update(); }
    bool navigates() const override { return true; }
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void leaveEvent(QEvent* event) override;

private:
    std::vector<Card> m_cards;
    int m_current = -1;
};

}  // namespace kvloupe
