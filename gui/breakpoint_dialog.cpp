// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/breakpoint_dialog.h"

#include "views/event_names.h"

#include <QComboBox>
#include <QDialogButtonBox>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>

#include <algorithm>

namespace kvloupe {

namespace {

QSpinBox* optionalNumber() {
    auto* box = new QSpinBox;
    box->setRange(-1, 1000000000);
    box->setValue(-1);
    box->setSpecialValueText(BreakpointDialog::tr("any"));
    return box;
}

}  // namespace

QString BreakpointDialog::sentence(const Breakpoint& breakpoint) {
    QStringList parts;
    if (breakpoint.on) parts << tr("on %1").arg(kindLabel(*breakpoint.on));
    if (breakpoint.request) parts << tr("request %1").arg(QString::fromStdString(*breakpoint.request));
    if (breakpoint.lane) parts << tr("lane %1").arg(QString::fromStdString(*breakpoint.lane));
    if (breakpoint.step) parts << tr("step %1").arg(*breakpoint.step);
    if (breakpoint.block) parts << tr("block %1").arg(*breakpoint.block);
    if (breakpoint.token) parts << tr("token id %1").arg(*breakpoint.token);
    if (breakpoint.used_blocks) parts << tr("%1 blocks in use").arg(*breakpoint.used_blocks);
    return parts.join(tr(" and "));
}

BreakpointDialog::BreakpointDialog(std::vector<Breakpoint> breakpoints, const QStringList& lanes, QWidget* parent)
    : QDialog(parent), m_breakpoints(std::move(breakpoints)), m_list(new QListWidget), m_add(new QPushButton(tr("&Add"))),
      m_remove(new QPushButton(tr("Re&move"))), m_event(new QComboBox), m_lane(new QComboBox), m_request(new QLineEdit),
      m_step(optionalNumber()), m_block(optionalNumber()), m_token(optionalNumber()), m_used(optionalNumber()),
      m_problem(new QLabel) {
    setWindowTitle(tr("Breakpoints"));
    m_event->addItem(tr("any event"));
    for (int i = 0; i < event_kind_count; ++i) {
        const EventKind kind = kindsByTelling()[i];
        m_event->addItem(kindLabel(kind), static_cast<int>(kind));
    }
    m_event->setMaxVisibleItems(event_kind_count + 1);
    m_lane->addItem(tr("any"));
    m_lane->addItems(lanes);
    m_request->setPlaceholderText(tr("any"));
    m_used->setToolTip(tr("Stops as soon as this many blocks are in use"));
    auto* form = new QFormLayout;
    form->addRow(tr("&Event"), m_event);
    form->addRow(tr("&Request"), m_request);
    form->addRow(tr("&Lane"), m_lane);
    form->addRow(tr("&Step"), m_step);
    form->addRow(tr("&Block"), m_block);
    form->addRow(tr("&Token id"), m_token);
    form->addRow(tr("Blocks in &use"), m_used);
    connect(m_add, &QPushButton::clicked, this, &BreakpointDialog::add);
    connect(m_remove, &QPushButton::clicked, this, &BreakpointDialog::remove);
    connect(m_list, &QListWidget::currentRowChanged, this, &BreakpointDialog::check);
    connect(m_event, &QComboBox::currentIndexChanged, this, &BreakpointDialog::check);
    connect(m_lane, &QComboBox::currentIndexChanged, this, &BreakpointDialog::check);
    connect(m_request, &QLineEdit::textChanged, this, &BreakpointDialog::check);
    for (QSpinBox* box : {m_step, m_block, m_token, m_used})
        connect(box, &QSpinBox::valueChanged, this, &BreakpointDialog::check);
    auto* buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel);
    connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);

    auto* line = new QHBoxLayout;
    line->addStretch(1);
    line->addWidget(m_add);
    line->addWidget(m_remove);
    auto* hint = new QLabel(tr("The run stops at the first step in which all that is given holds, and says why."));
    hint->setWordWrap(true);
    auto* layout = new QVBoxLayout(this);
    layout->addWidget(hint);
    layout->addWidget(m_list);
    layout->addLayout(form);
    m_problem->setWordWrap(true);
    layout->addWidget(m_problem);
    layout->addLayout(line);
    layout->addWidget(buttons);
    fill();
}

void BreakpointDialog::setRequests(const QStringList& requests) {
    m_requests = requests;
    check();
}

void BreakpointDialog::propose(const Breakpoint& breakpoint) {
    m_event->setCurrentIndex(breakpoint.on ? std::max(0, m_event->findData(static_cast<int>(*breakpoint.on))) : 0);
    m_request->setText(breakpoint.request ? QString::fromStdString(*breakpoint.request) : QString());
    m_lane->setCurrentIndex(breakpoint.lane ? std::max(0, m_lane->findText(QString::fromStdString(*breakpoint.lane))) : 0);
    const auto number = [](QSpinBox* box, const std::optional<std::uint32_t>& value) {
        box->setValue(value ? static_cast<int>(*value) : -1);
    };
    number(m_step, breakpoint.step);
    number(m_block, breakpoint.block);
    number(m_used, breakpoint.used_blocks);
    m_token->setValue(breakpoint.token ? static_cast<int>(*breakpoint.token) : -1);
}

Breakpoint BreakpointDialog::fields() const {
    Breakpoint given;
    if (m_event->currentIndex() > 0) given.on = static_cast<EventKind>(m_event->currentData().toInt());
    if (!m_request->text().trimmed().isEmpty()) given.request = m_request->text().trimmed().toStdString();
    if (m_lane->currentIndex() > 0) given.lane = m_lane->currentText().toStdString();
    const auto number = [](const QSpinBox* box) {
        return box->value() < 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(box->value()));
    };
    given.step = number(m_step);
    given.block = number(m_block);
    if (const auto token = number(m_token)) given.token = static_cast<TokenId>(*token);
    given.used_blocks = number(m_used);
    return given;
}

// "Any" in every field, or a lane alone, would stop at every step.
void BreakpointDialog::check() {
    Breakpoint given = fields();
    given.lane.reset();
    const QString request = m_request->text().trimmed();
    const bool unknown = !request.isEmpty() && m_requests && !m_requests->contains(request);
    m_problem->setText(unknown ? tr("There is no request “%1”. A breakpoint on a request holds for all its sequences.").arg(request)
                               : QString());
    m_add->setEnabled(!unknown && !sentence(given).isEmpty());
    m_remove->setEnabled(m_list->currentRow() >= 0);
}

void BreakpointDialog::add() {
    if (!m_add->isEnabled()) return;
    m_breakpoints.push_back(fields());
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
    check();
}

}  // namespace kvloupe
