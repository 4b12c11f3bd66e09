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
    connect(close, &QToolButton::clicked, this, &QWidget::hide);
    connect(m_action, &QPushButton::clicked, this, [this] {
        hide();
        Q_EMIT acted();
    });
    hide();
}

void NoticeBar::show(const QString& sentence, const QString& action) {
    m_text->setText(sentence);
    m_action->setText(action);
    m_action->setVisible(!action.isEmpty());
    setVisible(true);
}

bool NoticeBar::hasAction() const { return !isHidden() && !m_action->isHidden(); }

QString NoticeBar::sentence() const { return isHidden() ? QString() : m_text->text(); }

}  // namespace kvloupe
