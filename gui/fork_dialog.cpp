// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/fork_dialog.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDialogButtonBox>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>

#include <algorithm>

namespace kvloupe {

std::string freeName(const std::vector<std::string>& taken) {
    for (int n = 0;; ++n) {
        const std::string name = n < 26 ? std::string(1, static_cast<char>('a' + n)) : "f" + std::to_string(n + 1);
        if (std::find(taken.begin(), taken.end(), name) == taken.end()) return name;
    }
}

ForkDialog::ForkDialog(std::vector<ForkParent> parents, const std::string& chosen, std::optional<std::uint32_t> position,
                       std::vector<std::string> taken, std::uint32_t blockSize, QWidget* parent)
    : QDialog(parent), m_parents(std::move(parents)), m_taken(std::move(taken)), m_blockSize(blockSize),
      m_parent(new QComboBox), m_name(new QLineEdit(QString::fromStdString(freeName(m_taken)))),
      m_atEnd(new QCheckBox(tr("at its &end"))), m_position(new QSpinBox), m_prompt(new QPlainTextEdit),
      m_newTokens(new QSpinBox), m_sentence(new QLabel),
      m_buttons(new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel)) {
    setWindowTitle(tr("Fork a sequence"));
    for (const ForkParent& each : m_parents) m_parent->addItem(QString::fromStdString(each.name));
    m_parent->setCurrentText(QString::fromStdString(chosen));
    m_atEnd->setChecked(!position);
    m_position->setRange(1, 1);
    m_prompt->setTabChangesFocus(true);
    m_prompt->setMinimumSize(420, 70);
    m_prompt->setPlaceholderText(tr("Nothing: it goes on as its parent would"));
    m_newTokens->setRange(0, 100000);
    m_newTokens->setSpecialValueText(tr("as its parent"));
    m_sentence->setWordWrap(true);
    m_buttons->button(QDialogButtonBox::Ok)->setText(tr("Fork"));
    auto* form = new QFormLayout;
    form->addRow(tr("&Parent"), m_parent);
    form->addRow(tr("&Name"), m_name);
    form->addRow(tr("Where"), m_atEnd);
    form->addRow(tr("P&osition"), m_position);
    form->addRow(tr("&Text to append"), m_prompt);
    form->addRow(tr("Ne&w tokens, at most"), m_newTokens);
    auto* layout = new QVBoxLayout(this);
    layout->addLayout(form);
    layout->addWidget(m_sentence);
    layout->addWidget(m_buttons);
    connect(m_buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
    connect(m_buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    connect(m_parent, &QComboBox::currentIndexChanged, this, &ForkDialog::check);
    connect(m_name, &QLineEdit::textChanged, this, &ForkDialog::check);
    connect(m_atEnd, &QCheckBox::toggled, this, &ForkDialog::check);
    connect(m_position, &QSpinBox::valueChanged, this, &ForkDialog::check);
    check();
    if (position) m_position->setValue(static_cast<int>(*position));
    m_name->setFocus();
    m_name->selectAll();
}

void ForkDialog::check() {
    const int index = m_parent->currentIndex();
    const std::uint32_t tokens = index < 0 ? 0 : m_parents[static_cast<std::size_t>(index)].tokens;
    m_position->setEnabled(!m_atEnd->isChecked());
    m_position->setMaximum(std::max(1, static_cast<int>(tokens)));
    if (m_atEnd->isChecked()) m_position->setValue(m_position->maximum());
    const std::string name = m_name->text().trimmed().toStdString();
    const bool taken = std::find(m_taken.begin(), m_taken.end(), name) != m_taken.end();
    m_buttons->button(QDialogButtonBox::Ok)->setEnabled(tokens > 0 && !name.empty() && !taken);
    if (m_parents.empty()) {
        m_sentence->setText(tr("No sequence is running: only a running sequence can be forked."));
    } else if (taken) {
        m_sentence->setText(tr("There is a request or sequence “%1” already. Choose another name.").arg(m_name->text().trimmed()));
    } else if (m_blockSize == 0) {
        m_sentence->setText(tr("This lane keeps no KV cache: nothing is shared."));
    } else {
        const auto position = static_cast<std::uint32_t>(m_position->value());
        const std::uint32_t blocks = (position + m_blockSize - 1) / m_blockSize;
        m_sentence->setText(position % m_blockSize == 0
                                ? (blocks == 1 ? tr("%1 full block will be shared; nothing is copied.")
                                               : tr("%1 full blocks will be shared; nothing is copied."))
                                      .arg(blocks)
                                : blocks == 1
                                ? tr("1 block will be shared, with %1 of %2 slots: whoever writes into it first while the other "
                                     "owns it copies it.")
                                      .arg(position % m_blockSize)
                                      .arg(m_blockSize)
                                : tr("%1 blocks will be shared, the last with %2 of %3 slots: whoever writes into it first while "
                                     "the other owns it copies it.")
                                      .arg(blocks)
                                      .arg(position % m_blockSize)
                                      .arg(m_blockSize));
    }
}

ForkChoice ForkDialog::choice() const {
    ForkChoice choice;
    choice.parent = m_parent->currentText().toStdString();
    choice.name = m_name->text().trimmed().toStdString();
    if (!m_atEnd->isChecked()) choice.position = static_cast<std::uint32_t>(m_position->value());
    if (!m_prompt->toPlainText().isEmpty()) choice.prompt = m_prompt->toPlainText().toStdString();
    if (m_newTokens->value() > 0) choice.max_new_tokens = static_cast<std::uint32_t>(m_newTokens->value());
    return choice;
}

}  // namespace kvloupe
