// SPDX-License-Identifier: GPL-3.0-or-later
//
// A label that gives up its text, not the window's width; the whole text is its tool tip.
#pragma once

#include <QLabel>
#include <QPainter>

namespace kvloupe {

class ElidedLabel : public QLabel {
public:
    explicit ElidedLabel(QWidget* parent = nullptr) : QLabel(parent) {
        setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
    }

    void setWholeText(const QString& text) {
        setText(text);
        setToolTip(text);
    }

    QSize minimumSizeHint() const override { return {0, QLabel::minimumSizeHint().height()}; }

protected:
    void paintEvent(QPaintEvent*) override {
        QPainter painter(this);
        painter.setPen(palette().color(foregroundRole()));
        painter.drawText(contentsRect(), Qt::AlignVCenter | Qt::AlignLeft,
                         fontMetrics().elidedText(text(), Qt::ElideRight, contentsRect().width()));
    }
};

}  // namespace kvloupe
