// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/breakpoint_dialog.h"

#include <QComboBox>
#include <QDialogButtonBox>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QSpinBox>

namespace kvloupe {

namespace {

QString sentence(const Breakpoint& breakpoint) {
    QStringList parts;
    if (breakpoint.on)
        parts << BreakpointDialog::tr("on %1").arg(QString::fromUtf8(name_of(*breakpoint.on).data(),
                                                     static_cast<qsizetype>(name_of(*breakpoint.on).size())));
    if (breakpoint.request) parts << BreakpointDialog::tr("request %1").arg(QString::fromStdString(*breakpoint.request));
    if (breakpoint.lane) parts << BreakpointDialog::tr("lane %1").arg(QString::fromStdString(*breakpoint.lane));
    if (breakpoint.step) parts << BreakpointDialog::tr("step %1").arg(*breakpoint.step);
    if (breakpoint.block) parts << BreakpointDialog::tr("block %1").arg(*breakpoint.block);
    if (breakpoint.token) parts << BreakpointDialog::tr("token id %1").arg(*breakpoint.token);
    if (breakpoint.used_blocks) parts << BreakpointDialog::tr("%1 blocks in use").arg(*breakpoint.used_blocks);
    return parts.join(BreakpointDialog::tr(" and "));
}

QSpinBox* optionalNumber() {
    auto* box = new QSpinBox;
    box->setRange(-1, 1000000000);
    box->setValue(-1);
    box->setSpecialValueText(BreakpointDialog::tr("any"));
    return box;
}

}  // namespace

BreakpointDialog::BreakpointDialog(std::vector<Breakpoint> breakpoints, QWidget* parent)
    : QDialog(parent), m_breakpoints(std::move(breakpoints)), m_list(new QListWidget), m_event(new QComboBox),
      m_request(new QLineEdit), m_step(optionalNumber()), m_block(optionalNumber()), m_used(optionalNumber()) {
    setWindowTitle(tr("Breakpoints"));
    m_event->addItem(tr("any event"));
    for (const EventKind kind : {EventKind::arrive, EventKind::admit, EventKind::refuse, EventKind::reject,
                                 EventKind::allocate, EventKind::free, EventKind::prefill, EventKind::decode,
                                 EventKind::finish})
        m_event->addItem(QString::fromUtf8(name_of(kind).data(), static_cast<qsizetype>(name_of(kind).size())),
                         static_cast<int>(kind));
    m_request->setPlaceholderText(tr("any"));
    auto* form = new QFormLayout;
    form->addRow(tr("&Event"), m_event);
    form->addRow(tr("&Request"), m_request);
    form->addRow(tr("&Step"), m_step);
    form->addRow(tr("&Block"), m_block);
    form->addRow(tr("Blocks in &use"), m_used);
    auto* add = new QPushButton(tr("&Add"));
    auto* remove = new QPushButton(tr("Re&move"));
    connect(add, &QPushButton::clicked, this, &BreakpointDialog::add);
    connect(remove, &QPushButton::clicked, this, &BreakpointDialog::remove);
    auto* buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel);
    connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);

    auto* line = new QHBoxLayout;
    line->addStretch(1);
    line->addWidget(add);
    line->addWidget(remove);
    auto* layout = new QVBoxLayout(this);
    layout->addWidget(m_list);
    layout->addLayout(form);
    layout->addLayout(line);
    layout->addWidget(buttons);
    fill();
}

void BreakpointDialog::add() {
    Breakpoint added;
    if (m_event->currentIndex() > 0) added.on = static_cast<EventKind>(m_event->currentData().toInt());
    if (!m_request->text().isEmpty()) added.request = m_request->text().toStdString();
    const auto number = [](const QSpinBox* box) {
        return box->value() < 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(box->value()));
    };
    added.step = number(m_step);
    added.block = number(m_block);
    added.used_blocks = number(m_used);
    if (sentence(added).isEmpty()) return;  // "any" in every field would stop at everything
    m_breakpoints.push_back(added);
    fill();
}

void BreakpointDialog::remove() {
    const int row = m_list->currentRow();
    if (row < 0) return;
    m_breakpoints.erase(m_breakpoints.begin() + row);
    fill();
}

void BreakpointDialog::fill() {
    m_list->clear();
    for (const Breakpoint& each : m_breakpoints) m_list->addItem(sentence(each));
}

}  // namespace kvloupe
