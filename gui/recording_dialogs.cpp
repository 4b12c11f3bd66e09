// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/recording_dialogs.h"

#include <QDialogButtonBox>
#include <QDir>
#include <QFileDialog>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>

#include <algorithm>

namespace kvloupe {

namespace {

QDialogButtonBox* okAndCancel(QDialog* dialog, const QString& ok) {
    auto* buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel, dialog);
    buttons->button(QDialogButtonBox::Ok)->setText(ok);
    QObject::connect(buttons, &QDialogButtonBox::accepted, dialog, &QDialog::accept);
    QObject::connect(buttons, &QDialogButtonBox::rejected, dialog, &QDialog::reject);
    return buttons;
}

QLabel* explanation(QDialog* dialog, const QString& text) {
    auto* label = new QLabel(text, dialog);
    label->setWordWrap(true);
    label->setMinimumWidth(380);
    return label;
}

}  // namespace

StepRangeDialog::StepRangeDialog(int steps, int first, int last, QWidget* parent)
    : QDialog(parent), m_first(new QSpinBox(this)), m_last(new QSpinBox(this)) {
    setWindowTitle(tr("Save a range of steps"));
    for (QSpinBox* each : {m_first, m_last}) {
        each->setRange(0, std::max(0, steps - 1));
        each->setGroupSeparatorShown(true);
    }
    m_first->setObjectName(QStringLiteral("first"));
    m_last->setObjectName(QStringLiteral("last"));
    m_first->setValue(first);
    m_last->setValue(last);
    connect(m_first, &QSpinBox::valueChanged, m_last, &QSpinBox::setMinimum);
    m_last->setMinimum(m_first->value());
    auto* all = new QPushButton(tr("All steps"), this);
    connect(all, &QPushButton::clicked, this, [this] {
        m_first->setValue(0);
        m_last->setValue(m_last->maximum());
    });
    auto* form = new QFormLayout;
    form->addRow(tr("&First step"), m_first);
    form->addRow(tr("&Last step"), m_last);
    form->addRow(QString(), all);
    auto* column = new QVBoxLayout(this);
    column->addWidget(explanation(this, tr("The new recording begins with the state before the first step: blocks, tables and "
                                           "sequences are all there.")));
    column->addLayout(form);
    column->addWidget(okAndCancel(this, tr("Save…")));
}

SavedSteps StepRangeDialog::steps() const {
    return {static_cast<std::size_t>(m_first->value()), static_cast<std::size_t>(m_last->value()) + 1};
}

FlightDialog::FlightDialog(const FlightSettings& settings, QWidget* parent)
    : QDialog(parent), m_minutes(new QSpinBox(this)), m_folder(new QLineEdit(this)) {
    setWindowTitle(tr("Flight recorder"));
    m_minutes->setObjectName(QStringLiteral("minutes"));
    m_minutes->setRange(0, 24 * 60);
    m_minutes->setSuffix(tr(" minutes"));
    m_minutes->setSpecialValueText(tr("off"));
    m_minutes->setValue(settings.minutes);
    m_folder->setObjectName(QStringLiteral("folder"));
    m_folder->setText(QDir::toNativeSeparators(settings.folder));
    m_folder->setPlaceholderText(tr("a folder"));
    auto* browse = new QPushButton(tr("Choose…"), this);
    connect(browse, &QPushButton::clicked, this, [this] {
        const QString folder = QFileDialog::getExistingDirectory(this, tr("Folder for the flight recorder's files"), m_folder->text());
        if (!folder.isEmpty()) m_folder->setText(QDir::toNativeSeparators(folder));
    });
    auto* place = new QHBoxLayout;
    place->addWidget(m_folder, 1);
    place->addWidget(browse);
    auto* form = new QFormLayout;
    form->addRow(tr("Keep the last"), m_minutes);
    auto* folderText = new QLabel(tr("&In"), this);  // a layout is no buddy
    folderText->setBuddy(m_folder);
    form->addRow(folderText, place);
    auto* buttons = okAndCancel(this, tr("Apply"));
    const auto check = [this, buttons] {
        buttons->button(QDialogButtonBox::Ok)->setEnabled(m_minutes->value() == 0 || !m_folder->text().trimmed().isEmpty());
    };
    connect(m_minutes, &QSpinBox::valueChanged, this, check);
    connect(m_folder, &QLineEdit::textChanged, this, check);
    check();
    auto* column = new QVBoxLayout(this);
    column->addWidget(explanation(this, tr("When a breakpoint pauses a session, or the session fails, its last minutes are saved "
                                           "as a recording.")));
    column->addLayout(form);
    column->addWidget(buttons);
}

FlightSettings FlightDialog::settings() const {
    return {m_minutes->value(), QDir::fromNativeSeparators(m_folder->text().trimmed())};
}

}  // namespace kvloupe
