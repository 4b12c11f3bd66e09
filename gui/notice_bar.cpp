// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/notice_bar.h"

#include "gui/glyph_icon.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QToolButton>

namespace kvloupe {

NoticeBar::NoticeBar(QWidget* parent) : QFrame(parent), m_text(new QLabel(this)), m_action(new QPushButton(this)) {
    setFrameShape(QFrame::StyledPanel);
    auto* layout = new QHBoxLayout(this);
    layout->setContentsMargins(10, 4, 6, 4);
    m_text->setWordWrap(true);
    m_text->setTextInteractionFlags(Qt::TextSelectableByMouse);
    layout->addWidget(m_text, 1);
    layout->addWidget(m_action);
    auto* close = new QToolButton(this);
    close->setObjectName(QStringLiteral("dockButton"));
    close->setIcon(glyphIcon(QStringLiteral("close"), this));
    close->setAccessibleName(tr("Close this message"));
    close->setToolTip(close->accessibleName());
    layout->addWidget(close);
    connect(close, &QToolButton::clicked, this, &NoticeBar::dismiss);
    connect(m_action, &QPushButton::clicked, this, [this] {
        const bool passing = m_passingOnTop;
        dismiss();
        if (passing) Q_EMIT passingActed();
        else Q_EMIT acted();
    });
    hide();
}

void NoticeBar::show(const QString& sentence, const QString& action) {
    const Message message{sentence, action};
    if (message == m_standing) return;  // said again, it is nothing new
    m_standing = message;
    m_passingOnTop = false;
    refresh();
}

void NoticeBar::showPassing(const QString& sentence, const QString& action) {
    m_passing = {sentence, action};
    m_passingOnTop = true;
    refresh();
}

void NoticeBar::clear() {
    m_standing = {};
    m_passingOnTop = !m_passing.sentence.isEmpty();
    refresh();
}

void NoticeBar::dismiss() {
    top() = {};
    m_passingOnTop = !m_passing.sentence.isEmpty();
    refresh();
}

void NoticeBar::refresh() {
    m_text->setText(top().sentence);
    m_action->setText(top().action);
    m_action->setVisible(!top().action.isEmpty());
    setVisible(!top().sentence.isEmpty());
}

QString NoticeBar::sentence() const { return m_passingOnTop ? m_passing.sentence : m_standing.sentence; }

}  // namespace kvloupe
