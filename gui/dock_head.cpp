// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/dock_head.h"

#include "gui/elided_label.h"
#include "gui/glyph_icon.h"
#include "views/palette.h"
#include "views/view.h"

#include <QActionGroup>
#include <QDockWidget>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenu>
#include <QPainter>
#include <QToolButton>

namespace kvloupe {

DockHead::DockHead(View* view, QDockWidget* dock)
    : QWidget(dock), m_view(view), m_title(new QLabel(view->title(), this)), m_subtitle(new ElidedLabel(this)) {
    auto* layout = new QHBoxLayout(this);
    layout->setContentsMargins(10, 2, 4, 2);
    layout->setSpacing(2);
    QFont bold = m_title->font();
    bold.setWeight(QFont::DemiBold);
    m_title->setFont(bold);
    layout->addWidget(m_title);
    layout->addSpacing(8);
    layout->addWidget(m_subtitle, 1);

    m_choice = new QToolButton(this);  // some choices are there only while lanes are compared
    m_choice->setObjectName(QStringLiteral("dockChoice"));
    m_choice->setPopupMode(QToolButton::InstantPopup);
    m_choice->setFocusPolicy(Qt::TabFocus);
    m_choice->setMenu(new QMenu(m_choice));
    connect(m_choice->menu(), &QMenu::aboutToShow, this, &DockHead::fillChoices);
    connect(view, &View::choiceChanged, this, &DockHead::updateText);
    layout->addWidget(m_choice);
    layout->addSpacing(4);
    QToolButton* exporting = addButton(QStringLiteral("export"), tr("Export %1 (PNG, SVG, PDF, CSV)").arg(view->title()));
    connect(exporting, &QToolButton::clicked, this, [this] { Q_EMIT exportRequested(m_view); });
    QToolButton* copying = addButton(QStringLiteral("copy"), tr("Copy picture and table of %1").arg(view->title()));
    connect(copying, &QToolButton::clicked, this, [this] { Q_EMIT copyRequested(m_view); });
    QToolButton* floating = addButton(QStringLiteral("float"), tr("Float or dock %1").arg(view->title()));
    connect(floating, &QToolButton::clicked, dock, [dock] { dock->setFloating(!dock->isFloating()); });
    QToolButton* closing = addButton(QStringLiteral("close"), tr("Close %1 (the Window menu brings it back)").arg(view->title()));
    connect(closing, &QToolButton::clicked, dock, &QDockWidget::close);

    connect(view, &View::subtitleChanged, this, &DockHead::updateText);
    updateText();
}

QToolButton* DockHead::addButton(const QString& icon, const QString& tip) {
    auto* button = new QToolButton(this);
    button->setObjectName(QStringLiteral("dockButton"));
    button->setIcon(glyphIcon(icon, this));
    button->setIconSize({14, 14});
    button->setToolTip(tip);
    button->setAccessibleName(tip);
    button->setFocusPolicy(Qt::TabFocus);
    layout()->addWidget(button);
    return button;
}

void DockHead::fillChoices() {
    QMenu* menu = m_choice->menu();
    menu->clear();
    for (const ViewChoice& choice : m_view->choices()) {
        menu->addSection(choice.title);
        auto* group = new QActionGroup(menu);
        for (int i = 0; i < choice.names.size(); ++i) {
            QAction* name = menu->addAction(choice.names[i], m_view, [this, key = choice.key, i] { m_view->choose(key, i); });
            name->setCheckable(true);
            name->setChecked(i == choice.current);
            group->addAction(name);
        }
    }
}

void DockHead::updateText() {
    const std::vector<ViewChoice> all = m_view->choices();
    m_choice->setVisible(!all.empty());
    if (!all.empty()) {
        const ViewChoice& choice = all.front();
        const QString now = choice.names[choice.current];
        m_choice->setText(tr("%1 ▾").arg(now.section(QLatin1Char(' '), 0, 1)));
        m_choice->setToolTip(tr("%1: %2 (C)").arg(choice.title, now));
        m_choice->setAccessibleName(m_choice->toolTip());
    }
    m_subtitle->setWholeText(m_view->headText());
}

void DockHead::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    const Palette& colours = Palette::of(this);
    painter.fillRect(rect(), colours.head);
    painter.setPen(colours.line);
    painter.drawLine(rect().bottomLeft(), rect().bottomRight());
}

}  // namespace kvloupe
