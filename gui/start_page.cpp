// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/start_page.h"

#include "gui/environment.h"
#include "gui/glyph_icon.h"

#include <QCommandLinkButton>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QGridLayout>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QScrollArea>
#include <QStackedLayout>
#include <QVBoxLayout>

namespace kvloupe {

QList<SampleScenario> sampleScenarios(const QString& group) {
    QList<SampleScenario> samples;
    const QDir folder(QString::fromStdString(resource_folder()) + QStringLiteral("/scenarios/") + group);
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
                                        tr("A GGUF file, a Hugging Face folder, a scenario (.json), a recording (.kvt) or a memory snapshot (.pickle)"));
    connect(open, &QPushButton::clicked, this, &StartPage::openRequested);
    column->addWidget(open);

    column->addSpacing(10);
    column->addWidget(heading(tr("Sample scenarios"), 1.15));
    column->addLayout(samples(sampleScenarios()));
    column->addSpacing(10);
    column->addWidget(heading(tr("Faults to play"), 1.15));
    column->addWidget(new QLabel(tr("Each runs to the step in which it goes wrong and shows the cause.")));
    column->addLayout(samples(sampleScenarios(QStringLiteral("faults"))));
    m_recentTitle = heading(tr("Recent files"), 1.15);
    column->addSpacing(10);
    column->addWidget(m_recentTitle);
    m_recent = new QVBoxLayout;
    column->addLayout(m_recent);
    column->addStretch(1);
    scroll->setWidget(page);
    return scroll;
}

// Two columns, each sample a button with its paragraph.
QGridLayout* StartPage::samples(const QList<SampleScenario>& samples) {
    auto* grid = new QGridLayout;
    grid->setColumnStretch(0, 1);
    grid->setColumnStretch(1, 1);
    for (qsizetype i = 0; i < samples.size(); ++i) {
        auto* button = offer(samples[i].title, samples[i].comment);
        connect(button, &QPushButton::clicked, this, [this, path = samples[i].path] { Q_EMIT pathRequested(path); });
        grid->addWidget(button, int(i / 2), int(i % 2), Qt::AlignTop);
    }
    return grid;
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
