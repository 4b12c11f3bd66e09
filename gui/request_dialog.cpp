// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/request_dialog.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDialogButtonBox>
#include <QDoubleSpinBox>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSpinBox>

#include <algorithm>

namespace kvloupe {

namespace {

QSpinBox* spin(int least, int most, int value, const QString& zero = {}) {
    auto* box = new QSpinBox;
    box->setRange(least, most);
    box->setValue(std::clamp(value, least, most));
    if (!zero.isEmpty()) box->setSpecialValueText(zero);
    return box;
}

QDoubleSpinBox* spin(double least, double most, double value, const QString& first = {}) {
    auto* box = new QDoubleSpinBox;
    box->setRange(least, most);
    box->setSingleStep(0.05);
    box->setValue(value);
    if (!first.isEmpty()) box->setSpecialValueText(first);
    return box;
}

}  // namespace

RequestDialog::RequestDialog(Purpose purpose, const Scenario& start, QWidget* parent)
    : QDialog(parent), m_purpose(purpose), m_start(start), m_prompt(new QPlainTextEdit) {
    const bool session = purpose == Purpose::newSession;
    setWindowTitle(session ? tr("New session") : tr("Add a request"));
    const RequestOptions first = start.requests.empty() ? RequestOptions() : start.requests.front();
    m_prompt->setPlainText(session && first.prompt ? QString::fromStdString(*first.prompt) : QString());
    m_prompt->setTabChangesFocus(true);
    m_prompt->setMinimumSize(460, 110);
    m_newTokens = spin(1, 100000, static_cast<int>(first.max_new_tokens));
    m_temperature = spin(0.0, 5.0, first.temperature, tr("0 (greedy)"));
    m_topK = spin(0, 1000000, static_cast<int>(first.top_k), tr("off"));
    m_topP = spin(0.01, 1.0, first.top_p);
    m_seed = spin(0, 1000000000, static_cast<int>(std::min<std::uint64_t>(start.seed, 1000000000)));

    auto* form = new QFormLayout;
    form->addRow(tr("&Prompt"), m_prompt);
    form->addRow(tr("&New tokens, at most"), m_newTokens);
    form->addRow(tr("&Temperature"), m_temperature);
    form->addRow(tr("Top-&k"), m_topK);
    form->addRow(tr("Top-&p"), m_topP);
    if (session) {
        form->addRow(tr("&Seed"), m_seed);
        static const CacheOptions usual;
        const CacheOptions& cache = start.lanes.empty() ? usual : start.lanes.front().cache;
        m_blockSize = spin(1, 4096, static_cast<int>(cache.block_size));
        m_blockSize->setSuffix(tr(" tokens"));
        m_blocks = spin(0, 10000000, cache.blocks ? static_cast<int>(*cache.blocks) : 0, tr("auto"));
        m_dtype = new QComboBox;
        for (const DTypeFacts& facts : dtype_facts)  // packs of 256 are for weights alone
            if (facts.elements <= 32) m_dtype->addItem(QString::fromStdString(std::string(facts.name)));
        m_dtype->setCurrentText(QString::fromStdString(std::string(name_of(cache.key_dtypes.front()))));
        m_startDtype = m_dtype->currentText();
        form->addRow(tr("&Block size"), m_blockSize);
        form->addRow(tr("Blocks in the &pool"), m_blocks);
        form->addRow(tr("Cache &precision"), m_dtype);
        for (const LaneOptions& lane : start.lanes) {
            if (lane.kv_cache || m_uncachedLimit) continue;
            m_uncachedLimit = spin(0, 1000000, static_cast<int>(lane.uncached_limit), tr("never"));
            m_uncachedLimit->setSuffix(tr(" tokens"));
            form->addRow(tr("&Without a cache, stop at"), m_uncachedLimit);
        }
        auto* lanes = new QHBoxLayout;
        for (const LaneOptions& lane : start.lanes) {
            auto* box = new QCheckBox(QString::fromStdString(lane.name));
            box->setChecked(true);
            connect(box, &QCheckBox::toggled, this, &RequestDialog::checkText);
            lanes->addWidget(box);
            m_lanes << box;
        }
        lanes->addStretch(1);
        form->addRow(tr("Lanes"), lanes);
    } else {
        delete m_seed;
        m_seed = nullptr;
    }
    m_buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel);
    m_buttons->button(QDialogButtonBox::Ok)->setText(session ? tr("Start") : tr("Add"));
    connect(m_buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
    connect(m_buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    connect(m_prompt, &QPlainTextEdit::textChanged, this, &RequestDialog::checkText);
    auto* layout = new QVBoxLayout(this);
    layout->addLayout(form);
    layout->addWidget(m_buttons);
    m_prompt->setFocus();
    checkText();
}

void RequestDialog::checkText() {
    const bool laneChosen = m_lanes.isEmpty() || std::any_of(m_lanes.begin(), m_lanes.end(),
                                                             [](const QCheckBox* box) { return box->isChecked(); });
    m_buttons->button(QDialogButtonBox::Ok)->setEnabled(laneChosen && !m_prompt->toPlainText().isEmpty());
}

RequestOptions RequestDialog::request() const {
    RequestOptions options;
    options.prompt = m_prompt->toPlainText().toStdString();
    options.max_new_tokens = static_cast<std::uint32_t>(m_newTokens->value());
    options.temperature = static_cast<float>(m_temperature->value());
    options.top_k = static_cast<std::uint32_t>(m_topK->value());
    options.top_p = static_cast<float>(m_topP->value());
    return options;
}

Scenario RequestDialog::scenario() const {
    Scenario scenario = m_start;
    scenario.actions.clear();
    RequestOptions first = request();
    first.id = "a";
    scenario.requests = {first};
    scenario.seed = static_cast<std::uint64_t>(m_seed->value());
    std::vector<LaneOptions> lanes;
    for (int i = 0; i < m_lanes.size(); ++i) {
        if (!m_lanes[i]->isChecked()) continue;
        LaneOptions lane = m_start.lanes[static_cast<std::size_t>(i)];
        if (!lane.kv_cache) lane.uncached_limit = static_cast<std::uint32_t>(m_uncachedLimit->value());
        lane.cache.block_size = static_cast<std::uint32_t>(m_blockSize->value());
        lane.cache.blocks = m_blocks->value() == 0
                                ? std::nullopt
                                : std::optional(static_cast<std::uint32_t>(m_blocks->value()));
        if (m_dtype->currentText() != m_startDtype)  // else every lane keeps its own
            lane.cache.key_dtypes = lane.cache.value_dtypes = {*dtype_from_name(m_dtype->currentText().toStdString())};
        lanes.push_back(lane);
    }
    scenario.lanes = lanes;
    return scenario;
}

}  // namespace kvloupe
