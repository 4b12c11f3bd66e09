// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/start_page.h"

#include "gui/environment.h"
#include "gui/glyph_icon.h"

#include <QCommandLinkButton>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QScrollArea>
#include <QStackedLayout>
#include <QVBoxLayout>

namespace kvloupe {

QList<SampleScenario> sampleScenarios() {
    QList<SampleScenario> samples;
    const QDir folder(QString::fromStdString(resource_folder()) + QStringLiteral("/scenarios"));
    for (const QFileInfo& info : folder.entryInfoList({QStringLiteral("*.json")}, QDir::Files, QDir::Name)) {
        QFile file(info.filePath());
        if (!file.open(QIODevice::ReadOnly)) continue;
        const QString comment =
            QJsonDocument::fromJson(file.readAll()).object().value(QStringLiteral("_")).toString();
        // "Title: what to look at."
        const qsizetype colon = comment.indexOf(QLatin1String(": "));
        QString text = colon > 0 ? comment.mid(colon + 2) : comment;
        if (!text.isEmpty()) text[0] = text[0].toUpper();
        samples << SampleScenario{info.absoluteFilePath(), colon > 0 ? comment.left(colon) : info.completeBaseName(),
                                  text};
    }
    return samples;
}

namespace {

QLabel* heading(const QString& text, double factor) {
    auto* label = new QLabel(text);
    QFont font = label->font();
    font.setPointSizeF(font.pointSizeF() * factor);
    font.setWeight(QFont::DemiBold);
    label->setFont(font);
    return label;
}

QCommandLinkButton* offer(const QString& title, const QString& text) {
    auto* button = new QCommandLinkButton(title, text);
    button->setIcon(glyphIcon(QStringLiteral("step"), button));
    button->setIconSize({16, 16});
    return button;
}

void clear(QLayout* layout) {
    while (QLayoutItem* item = layout->takeAt(0)) {
        delete item->widget();
        delete item;
    }
}

}  // namespace

StartPage::StartPage(QWidget* parent) : QWidget(parent), m_stack(new QStackedLayout(this)) {
    m_stack->addWidget(offers());
    m_stack->addWidget(loading());
}

QWidget* StartPage::offers() {
    auto* scroll = new QScrollArea;
    scroll->setWidgetResizable(true);
    scroll->setFrameShape(QFrame::NoFrame);
    auto* page = new QWidget;
    auto* outer = new QHBoxLayout(page);
    outer->addStretch(1);
    auto* column = new QVBoxLayout;
    outer->addLayout(column, 4);
    outer->addStretch(1);
    column->addSpacing(24);
    column->addWidget(heading(tr("Where is the KV cache, who shares it, and what does it cost?"), 1.6));
    column->addWidget(new QLabel(tr("Open a model, or start with one of these. A model file can be dropped here too.")));
    column->addSpacing(10);

    auto* bundled = offer(
        tr("Bundled models"), tr("MHA, GQA, MQA and GQA without a cache, step by step over one prompt"));
    connect(bundled, &QPushButton::clicked, this, &StartPage::bundledRequested);
    column->addWidget(bundled);
    auto* open = offer(tr("Open a model or scenario…"),
                                        tr("A GGUF file, a Hugging Face folder or a scenario (.json)"));
    connect(open, &QPushButton::clicked, this, &StartPage::openRequested);
    column->addWidget(open);

    column->addSpacing(10);
    column->addWidget(heading(tr("Sample scenarios"), 1.15));
    for (const SampleScenario& sample : sampleScenarios()) {
        auto* button = offer(sample.title, sample.comment);
        connect(button, &QPushButton::clicked, this, [this, path = sample.path] { Q_EMIT pathRequested(path); });
        column->addWidget(button);
    }
    m_recentTitle = heading(tr("Recent files"), 1.15);
    column->addSpacing(10);
    column->addWidget(m_recentTitle);
    m_recent = new QVBoxLayout;
    column->addLayout(m_recent);
    column->addStretch(1);
    scroll->setWidget(page);
    return scroll;
}

QWidget* StartPage::loading() {
    auto* page = new QWidget;
    auto* layout = new QVBoxLayout(page);
    m_what = new QLabel;
    m_what->setAlignment(Qt::AlignCenter);
    m_progress = new QProgressBar;
    m_progress->setRange(0, 1000);
    m_progress->setMaximumWidth(420);
    auto* cancel = new QPushButton(tr("Cancel"));
    connect(cancel, &QPushButton::clicked, this, &StartPage::cancelRequested);
    layout->addStretch(1);
    layout->addWidget(m_what, 0, Qt::AlignCenter);
    layout->addWidget(m_progress, 0, Qt::AlignHCenter);
    layout->addWidget(cancel, 0, Qt::AlignCenter);
    layout->addStretch(1);
    return page;
}

void StartPage::setRecentFiles(const QStringList& paths) {
    clear(m_recent);
    m_recentTitle->setVisible(!paths.isEmpty());
    for (const QString& path : paths) {
        auto* button = offer(QFileInfo(path).fileName(), path);
        connect(button, &QPushButton::clicked, this, [this, path] { Q_EMIT pathRequested(path); });
        m_recent->addWidget(button);
    }
}

void StartPage::showLoading(double fraction, const QString& what) {
    m_what->setText(what);
    m_progress->setValue(static_cast<int>(fraction * 1000));
    m_stack->setCurrentIndex(1);
}

void StartPage::showOffers() { m_stack->setCurrentIndex(0); }

}  // namespace kvloupe
