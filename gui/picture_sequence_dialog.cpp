// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/picture_sequence_dialog.h"

#include "views/view_factory.h"

#include <QComboBox>
#include <QDialogButtonBox>
#include <QDoubleSpinBox>
#include <QFileDialog>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>

#include <algorithm>

namespace kvloupe {

PictureSequenceDialog::PictureSequenceDialog(const PictureSequence& proposed, std::size_t steps, QWidget* parent)
    : QDialog(parent), m_size(proposed.size), m_view(new QComboBox(this)), m_first(new QSpinBox(this)), m_last(new QSpinBox(this)),
      m_scale(new QDoubleSpinBox(this)), m_folder(new QLineEdit(proposed.folder, this)), m_says(new QLabel(this)) {
    setWindowTitle(tr("Export a picture sequence"));
    for (const ViewDescription& description : viewDescriptions()) m_view->addItem(description.title, description.id);
    m_view->setCurrentIndex(std::max(m_view->findData(proposed.view), 0));
    const int last = static_cast<int>(steps > 0 ? steps - 1 : 0);
    for (QSpinBox* field : {m_first, m_last}) field->setRange(0, last);
    m_first->setValue(static_cast<int>(proposed.first));
    m_last->setValue(static_cast<int>(proposed.last));
    m_scale->setRange(0.5, 8);
    m_scale->setSingleStep(0.5);
    m_scale->setDecimals(1);
    m_scale->setValue(proposed.scale);
    m_scale->setPrefix(QStringLiteral("× "));

    m_folder->setObjectName(QStringLiteral("folder"));

    auto* form = new QFormLayout(this);
    form->addRow(tr("&View"), m_view);
    form->addRow(tr("&First step"), m_first);
    form->addRow(tr("&Last step"), m_last);
    form->addRow(tr("&Scale"), m_scale);
    auto* row = new QHBoxLayout;
    row->addWidget(m_folder);
    auto* choose = new QPushButton(tr("&Choose…"), this);
    row->addWidget(choose);
    auto* folderText = new QLabel(tr("F&older"), this);  // a layout is no buddy
    folderText->setBuddy(m_folder);
    form->addRow(folderText, row);
    m_says->setWordWrap(true);
    form->addRow(m_says);
    auto* buttons = new QDialogButtonBox(QDialogButtonBox::Cancel, this);
    m_write = buttons->addButton(tr("&Write pictures"), QDialogButtonBox::AcceptRole);
    form->addRow(buttons);
    connect(choose, &QPushButton::clicked, this, [this] {
        const QString folder = QFileDialog::getExistingDirectory(this, tr("Folder for the pictures"), m_folder->text());
        if (!folder.isEmpty()) m_folder->setText(folder);
    });
    connect(m_folder, &QLineEdit::textChanged, this, &PictureSequenceDialog::refreshText);
    for (QSpinBox* field : {m_first, m_last}) connect(field, &QSpinBox::valueChanged, this, &PictureSequenceDialog::refreshText);
    connect(m_scale, &QDoubleSpinBox::valueChanged, this, &PictureSequenceDialog::refreshText);
    connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    resize(520, sizeHint().height());
    refreshText();
}

void PictureSequenceDialog::refreshText() {
    const PictureSequence now = sequence();
    const bool good = now.first <= now.last && !now.folder.isEmpty();
    m_write->setEnabled(good);
    if (now.first > now.last) m_says->setText(tr("The last step lies before the first."));
    else if (now.folder.isEmpty()) m_says->setText(tr("Choose the folder that the pictures go into."));
    else
        m_says->setText((now.last == now.first ? tr("%1 picture of %2 × %3 pixels (PNG).")
                                               : tr("%1 pictures of %2 × %3 pixels (PNG), in order by name."))
                            .arg(now.last - now.first + 1)
                            .arg(qRound(now.size.width() * now.scale))
                            .arg(qRound(now.size.height() * now.scale)));
}

PictureSequence PictureSequenceDialog::sequence() const {
    return {m_view->currentData().toString(), static_cast<std::size_t>(m_first->value()), static_cast<std::size_t>(m_last->value()), m_size,
            m_scale->value(), m_folder->text().trimmed()};
}

}  // namespace kvloupe
