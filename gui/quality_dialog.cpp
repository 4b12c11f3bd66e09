// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/quality_dialog.h"

#include <QComboBox>
#include <QDialogButtonBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>

namespace kvloupe {

QualityDialog::QualityDialog(const QStringList& lanes, bool stories, QWidget* parent)
    : QDialog(parent), m_text(new QComboBox), m_file(new QLineEdit), m_browse(new QPushButton(tr("&Browse…"))), m_texts(new QSpinBox),
      m_questions(new QSpinBox), m_reference(new QComboBox), m_sentence(new QLabel), m_stories(stories) {
    setWindowTitle(tr("Measure quality"));
    m_text->addItems({stories ? tr("Stories and questions that come with the program") : tr("Prose that comes with the program"),
                      tr("A text file of your own")});
    m_file->setPlaceholderText(tr("Plain text in UTF-8"));
    m_file->setMinimumWidth(320);
    for (QSpinBox* box : {m_texts, m_questions}) {
        box->setRange(0, 100000);
        box->setSingleStep(16);
        box->setSpecialValueText(tr("all"));
    }
    m_reference->addItems(lanes);
    m_sentence->setWordWrap(true);
    auto* fileRow = new QWidget;  // a widget, so that the label's key leads to it
    fileRow->setFocusProxy(m_file);
    auto* file = new QHBoxLayout(fileRow);
    file->setContentsMargins(0, 0, 0, 0);
    file->addWidget(m_file, 1);
    file->addWidget(m_browse);
    auto* form = new QFormLayout;
    form->addRow(tr("&Text"), m_text);
    form->addRow(tr("&File"), fileRow);
    form->addRow(tr("&Stories"), m_texts);
    form->addRow(tr("&Questions"), m_questions);
    form->addRow(tr("&Compare with lane"), m_reference);
    auto* buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel);
    m_measure = buttons->button(QDialogButtonBox::Ok);
    m_measure->setText(tr("Measure"));
    auto* layout = new QVBoxLayout(this);
    layout->addLayout(form);
    layout->addWidget(m_sentence);
    layout->addWidget(buttons);
    connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    connect(m_text, &QComboBox::currentIndexChanged, this, &QualityDialog::check);
    connect(m_file, &QLineEdit::textChanged, this, &QualityDialog::check);
    connect(m_browse, &QPushButton::clicked, this, [this] {
        const QString path = QFileDialog::getOpenFileName(this, tr("A text to measure on"), {}, tr("Text (*.txt *.md);;All files (*)"));
        if (!path.isEmpty()) setFile(path);
    });
    check();
}

void QualityDialog::setFile(const QString& path) {
    m_text->setCurrentIndex(1);
    m_file->setText(path);
}

void QualityDialog::check() {
    const bool own = m_text->currentIndex() == 1;
    m_file->setEnabled(own);
    m_browse->setEnabled(own);
    m_texts->setEnabled(!own && m_stories);
    m_questions->setEnabled(!own && m_stories);
    const bool there = !own || QFileInfo(m_file->text()).isFile();
    m_measure->setEnabled(there);
    if (!there) m_sentence->setText(m_file->text().isEmpty() ? tr("Choose a file.") : tr("There is no file %1.").arg(m_file->text()));
    else
        m_sentence->setText(tr("Every lane is given the same tokens through its own cache. The session pauses meanwhile; the lanes "
                               "that measure take memory beside it."));
}

QualityChoice QualityDialog::choice() const {
    QualityChoice choice;
    const bool own = m_text->currentIndex() == 1;
    if (own) choice.file = m_file->text();
    choice.reference = m_reference->currentText();
    if (own || !m_stories) return choice;
    choice.texts = unsigned(m_texts->value());
    choice.questions = unsigned(m_questions->value());
    return choice;
}

}  // namespace kvloupe
