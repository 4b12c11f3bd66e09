// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/branch_dialog.h"

#include "engine/record/describe.h"
#include "views/format.h"

#include <QComboBox>
#include <QDialogButtonBox>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QRegularExpression>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QVBoxLayout>

#include <algorithm>

namespace kvloupe {

namespace {

// A token that can be chosen, as the combo box keeps it.
struct ChosenToken {
    QString sequence;
    int token = -1;
};

QVariant keptToken(const QString& sequence, TokenId token) { return QVariantList{sequence, token}; }

ChosenToken tokenOf(const QVariant& kept) {
    const QVariantList both = kept.toList();
    return both.size() == 2 ? ChosenToken{both[0].toString(), both[1].toInt()} : ChosenToken{};
}

QSpinBox* numberField(int most) {
    auto* field = new QSpinBox;
    field->setRange(0, most);
    field->setSpecialValueText(BranchDialog::tr("as it is"));
    field->setGroupSeparatorShown(true);
    return field;
}

}  // namespace

BranchDialog::BranchDialog(std::shared_ptr<const Recording> recording, const Start& start, Try tryOut, QWidget* parent)
    : QDialog(parent), m_recording(std::move(recording)), m_sequence(start.sequence), m_try(std::move(tryOut)), m_lane(new QComboBox),
      m_step(new QSpinBox), m_name(new QLineEdit), m_policy(new QComboBox), m_precision(new QComboBox), m_blockSize(numberField(1 << 20)),
      m_blocks(numberField(10'000'000)), m_token(new QComboBox), m_more(new QLineEdit), m_sentence(new QLabel),
      m_buttons(new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel)) {
    setWindowTitle(tr("Branch: another future beside the old one"));
    for (const auto& each : m_recording->lanes()) m_lane->addItem(QString::fromStdString(each->info().name));
    m_lane->setCurrentIndex(static_cast<int>(start.lane.value));
    m_step->setRange(0, 1'000'000);
    m_step->setValue(start.step);
    m_policy->addItem(tr("as it is"));
    for (const char* policy : {"fcfs", "priority"}) m_policy->addItem(QLatin1String(policy), QLatin1String(policy));
    m_precision->addItem(tr("as it is"));
    for (const char* dtype : {"f32", "f16", "bf16", "fp8_e4m3", "fp8_e5m2", "int8", "int4", "kivi2", "kivi4", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"})
        m_precision->addItem(QLatin1String(dtype), QLatin1String(dtype));
    m_more->setPlaceholderText(QStringLiteral("scheduler.victim=sglang …"));
    m_more->setToolTip(tr("Further keys of a scenario's lane with their values, separated by spaces"));
    m_sentence->setWordWrap(true);
    m_sentence->setMinimumSize(460, 66);
    m_sentence->setAlignment(Qt::AlignLeft | Qt::AlignTop);
    m_buttons->button(QDialogButtonBox::Ok)->setText(tr("Branch"));
    const std::pair<QWidget*, const char*> named[] = {{m_step, "step"}, {m_precision, "precision"}, {m_token, "token"},
                                                      {m_name, "name"}, {m_more, "more"}, {m_sentence, "sentence"}};
    for (const auto& [field, id] : named) field->setObjectName(QLatin1String(id));
    auto* form = new QFormLayout;
    form->addRow(tr("&Lane to continue"), m_lane);
    form->addRow(tr("First step of its &own"), m_step);
    form->addRow(tr("&Name"), m_name);
    form->addRow(tr("Scheduling &policy"), m_policy);
    form->addRow(tr("Ca&che precision"), m_precision);
    form->addRow(tr("Block si&ze, tokens"), m_blockSize);
    form->addRow(tr("&Blocks of the pool"), m_blocks);
    form->addRow(tr("Next &token"), m_token);
    form->addRow(tr("&More settings"), m_more);
    auto* layout = new QVBoxLayout(this);
    layout->addLayout(form);
    layout->addWidget(m_sentence);
    layout->addWidget(m_buttons);
    connect(m_buttons, &QDialogButtonBox::accepted, this, &BranchDialog::accept);
    connect(m_buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    connect(m_lane, &QComboBox::currentIndexChanged, this, [this] {
        m_sequence = SequenceId::none();
        fillHints();
        fillTokens();
        check();
    });
    connect(m_step, &QSpinBox::valueChanged, this, [this] {
        fillTokens();
        check();
    });
    for (QComboBox* box : {m_policy, m_precision, m_token}) connect(box, &QComboBox::currentIndexChanged, this, &BranchDialog::check);
    for (QSpinBox* field : {m_blockSize, m_blocks}) connect(field, &QSpinBox::valueChanged, this, &BranchDialog::check);
    for (QLineEdit* text : {m_name, m_more}) connect(text, &QLineEdit::textChanged, this, &BranchDialog::check);
    fillHints();
    fillTokens();
    check();
    m_step->setFocus();
    m_step->selectAll();
}

const LaneRecord& BranchDialog::lane() const {
    const auto index = static_cast<std::size_t>(std::max(m_lane->currentIndex(), 0));
    return *m_recording->lanes()[index];
}

// What "as it is" is.
void BranchDialog::fillHints() {
    const LaneInfo& info = lane().info();
    const auto asItIs = [](const QString& value) { return value.isEmpty() ? tr("as it is") : tr("as it is: %1").arg(value); };
    m_policy->setItemText(0, asItIs(QString::fromStdString(info.policy.scheduling)));
    m_precision->setItemText(0, asItIs(QString::fromStdString(info.cache_dtype)));
    m_precision->setEnabled(info.layers > 0);
    m_blockSize->setSpecialValueText(asItIs(info.kv_cache ? QString::number(info.block_size) : QString()));
    m_blocks->setSpecialValueText(asItIs(info.kv_cache ? formatCount(info.blocks) : QString()));
    m_name->setPlaceholderText(tr("chosen by itself"));
}

// The tokens that were probable in the branch's first step, of the sequence in focus before the others.
void BranchDialog::fillTokens() {
    const QSignalBlocker quiet(m_token);
    m_token->clear();
    m_token->addItem(tr("as it is sampled"));
    const LaneRecord& from = lane();
    const auto step = static_cast<std::size_t>(m_step->value());
    if (step < from.step_count()) {
        std::vector<TokenRecord> tokens;
        for (std::uint64_t i = from.step(step).tokens.begin; i < from.step(step).tokens.end; ++i)
            if (from.tokens()[i].source != TokenRecord::prompt && from.tokens()[i].alternative_count > 0) tokens.push_back(from.tokens()[i]);
        std::stable_sort(tokens.begin(), tokens.end(),
                         [this](const TokenRecord& a, const TokenRecord& b) { return (a.sequence == m_sequence) > (b.sequence == m_sequence); });
        constexpr std::size_t most = 30;  // sequences
        if (tokens.size() > most) tokens.resize(most);
        for (const TokenRecord& token : tokens) {
            const QString name = QString::fromStdString(sequence_name(*m_recording, from, token.sequence));
            for (std::uint32_t k = 0; k < token.alternative_count; ++k) {
                const Alternative each = from.alternatives()[token.alternatives_begin + k];
                const auto& shown = from.vocabulary().shown;
                const auto at = static_cast<std::size_t>(each.token);
                const QString text = at < shown.size() ? QString::fromStdString(shown[at]) : QString::number(each.token);
                const QString taken = each.token == token.token ? tr(", as recorded") : QString();
                m_token->addItem(tr("%1: “%2”, %3 %%4").arg(name, text, QString::number(100.0 * double(each.probability), 'g', 3), taken),
                                 keptToken(name, each.token));
            }
        }
    }
    m_token->setEnabled(m_token->count() > 1);
}

BranchWish BranchDialog::wish() const {
    BranchWish wish;
    wish.from.of = m_lane->currentText().toStdString();
    wish.from.at_step = static_cast<std::uint32_t>(m_step->value());
    if (const ChosenToken chosen = tokenOf(m_token->currentData()); chosen.token >= 0) {
        wish.from.token = chosen.token;
        wish.from.request = chosen.sequence.toStdString();
    }
    wish.name = m_name->text().trimmed().toStdString();
    const auto set = [&](const char* key, const QString& value) { wish.settings.emplace_back(key, value.toStdString()); };
    if (m_policy->currentIndex() > 0) set("scheduler.policy", m_policy->currentData().toString());
    if (m_precision->currentIndex() > 0) set("cache.dtype", m_precision->currentData().toString());
    if (m_blockSize->value() > 0) set("cache.block_size", QString::number(m_blockSize->value()));
    if (m_blocks->value() > 0) set("cache.blocks", QString::number(m_blocks->value()));
    static const QRegularExpression spaces(QStringLiteral("\\s+"));
    for (const QString& word : m_more->text().split(spaces, Qt::SkipEmptyParts)) {
        const qsizetype equals = word.indexOf(QLatin1Char('='));
        wish.settings.emplace_back(word.left(equals).toStdString(), equals < 0 ? std::string() : word.mid(equals + 1).toStdString());
    }
    return wish;
}

// What it will be, or why it cannot.
void BranchDialog::check() {
    const BranchWish wanted = wish();
    const auto scenario = m_try(wanted);
    m_buttons->button(QDialogButtonBox::Ok)->setEnabled(static_cast<bool>(scenario));
    if (!scenario) {
        m_sentence->setText(QString::fromStdString(scenario.error().message()));
        return;
    }
    const LaneOptions& branch = scenario->lanes.back();
    const auto parent = std::find_if(scenario->lanes.begin(), scenario->lanes.end(),
                                     [&](const LaneOptions& each) { return each.name == wanted.from.of; });
    const QString name = QString::fromStdString(branch.name), of = QString::fromStdString(wanted.from.of);
    const QString step = QString::number(wanted.from.at_step);
    LaneOptions same = branch;
    same.name = parent->name;
    same.branch = parent->branch;
    QString text = same == *parent && !branch.branch->token ? tr("Nothing differs yet: %1 would go on as %2 does.").arg(name, of)
                   : same == *parent ? tr("%1 runs as %2 does until step %3 and takes the chosen token there.").arg(name, of, step)
                   : switches_rules(*parent, branch)
                       ? tr("%1 runs as %2 does until step %3 and switches there: its blocks lie where those of %2 lie.").arg(name, of, step)
                       : tr("%1 has a pool of its own from the start and is given the tokens of %2 until step %3.").arg(name, of, step);
    text += QLatin1Char(' ') + tr("All lanes are computed again up to where they stand, and compared with what was recorded.");
    m_sentence->setText(text);
}

void BranchDialog::accept() {
    check();
    if (m_buttons->button(QDialogButtonBox::Ok)->isEnabled()) QDialog::accept();
}

}  // namespace kvloupe
