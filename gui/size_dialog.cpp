// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/size_dialog.h"

#include "gui/environment.h"

#include "engine/analysis/size_cases.h"
#include "engine/analysis/size_source.h"
#include "engine/analysis/size_text.h"

#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QDialogButtonBox>
#include <QDoubleSpinBox>
#include <QFileDialog>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QTextBrowser>
#include <QVBoxLayout>

#include <algorithm>

namespace kvloupe {

namespace {

QSpinBox* countField(int most, int value, const QString& suffix, const QString& zero = {}) {
    auto* box = new QSpinBox;
    box->setRange(zero.isEmpty() ? 1 : 0, most);
    box->setValue(value);
    box->setGroupSeparatorShown(true);
    box->setSuffix(suffix);
    if (!zero.isEmpty()) box->setSpecialValueText(zero);
    return box;
}

QComboBox* precisions() {
    auto* box = new QComboBox;
    for (const std::string& name : cache_precision_names()) box->addItem(QString::fromStdString(name));
    box->setCurrentText(QStringLiteral("f16"));
    box->setMaxVisibleItems(box->count());
    return box;
}

QString shown(std::string_view text) { return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size())); }

}  // namespace

SizeDialog::SizeDialog(KnownModels known, const QString& model, QWidget* parent)
    : QDialog(parent), m_known(std::move(known)), m_case(new QComboBox), m_name(new QComboBox), m_keys(precisions()),
      m_values(precisions()), m_gpu(new QComboBox), m_browse(new QPushButton(tr("&File…"))),
      m_context(countField(1000000000, 4096, tr(" tokens"))), m_batch(countField(1000000, 1, {})),
      m_kvHeads(countField(100000, 0, {}, tr("the model's"))), m_tensor(countField(100000, 1, {})),
      m_pipeline(countField(100000, 1, {})),
      m_utilization(new QDoubleSpinBox), m_result(new QTextBrowser), m_copy(new QPushButton(tr("Cop&y"))) {
    setWindowTitle(tr("Size of a KV cache"));
    buildFields();
    buildLayout();
    if (model.isEmpty()) {
        m_case->setCurrentIndex(1);
    } else {
        m_name->setCurrentText(model);
        findModel();
        if (m_model && m_model->config.context_length > 0)
            m_context->setValue(static_cast<int>(std::min<std::uint64_t>(4096, m_model->config.context_length)));
    }
    m_name->setFocus();
}

// A field that loses the focus says that it was edited: while there is someone to hear it.
SizeDialog::~SizeDialog() { hide(); }

void SizeDialog::buildFields() {
    m_case->addItem(tr("Choose…"));
    for (const SizeCase& each : size_cases()) m_case->addItem(shown(each.title));
    m_case->setToolTip(shown(size_cases_remark()));
    m_name->setEditable(true);
    m_name->setInsertPolicy(QComboBox::NoInsert);
    for (const std::string& name : bundled_models())
        m_name->addItem(QStringLiteral("bundled:") + QString::fromStdString(name));
    for (const std::string& name : m_known.names()) m_name->addItem(QString::fromStdString(name));
    m_name->setToolTip(tr("A known model, or the path of a config.json, a GGUF file or a Hugging Face folder"));
    m_name->setMinimumWidth(260);
    m_kvHeads->setToolTip(tr("What the model would cost with other KV heads: as many as query heads is MHA, one is MQA"));
    m_tensor->setToolTip(tr("GPUs that share every layer: they divide the KV heads"));
    m_pipeline->setToolTip(tr("Stages that follow one another: they divide the layers, the first ones get one more"));
    m_gpu->addItem(tr("none"));
    for (const GpuEntry& gpu : gpu_table()) m_gpu->addItem(shown(gpu.name));
    m_utilization->setRange(0.01, 1.0);
    m_utilization->setSingleStep(0.05);
    m_utilization->setValue(0.9);
    m_utilization->setToolTip(tr("Share of the GPU's memory that may be used"));
    connect(m_case, &QComboBox::currentIndexChanged, this, &SizeDialog::showCase);
    connect(m_name, &QComboBox::activated, this, &SizeDialog::findModel);
    connect(m_name->lineEdit(), &QLineEdit::editingFinished, this, &SizeDialog::findModel);
    connect(m_browse, &QPushButton::clicked, this, &SizeDialog::chooseFile);
    for (QComboBox* box : {m_keys, m_values}) connect(box, &QComboBox::currentIndexChanged, this, &SizeDialog::leaveCase);
    for (QSpinBox* box : {m_context, m_batch, m_kvHeads, m_tensor, m_pipeline})
        connect(box, &QSpinBox::valueChanged, this, &SizeDialog::leaveCase);
    connect(m_gpu, &QComboBox::currentIndexChanged, this, &SizeDialog::update);
    connect(m_utilization, &QDoubleSpinBox::valueChanged, this, &SizeDialog::update);
    connect(m_copy, &QPushButton::clicked, this, [this] { QApplication::clipboard()->setText(text()); });
}

void SizeDialog::buildLayout() {
    auto* name = new QHBoxLayout;
    name->addWidget(m_name, 1);
    name->addWidget(m_browse);
    auto* nameRow = new QWidget;
    nameRow->setLayout(name);
    name->setContentsMargins(0, 0, 0, 0);
    nameRow->setFocusProxy(m_name);
    auto* left = new QFormLayout;
    left->addRow(tr("&Everyday case"), m_case);
    left->addRow(tr("&Model"), nameRow);
    left->addRow(tr("&Context"), m_context);
    left->addRow(tr("&Sequences"), m_batch);
    left->addRow(tr("KV &heads"), m_kvHeads);
    auto* right = new QFormLayout;
    right->addRow(tr("&Keys in"), m_keys);
    right->addRow(tr("&Values in"), m_values);
    right->addRow(tr("&GPU"), m_gpu);
    right->addRow(tr("&Utilization"), m_utilization);
    right->addRow(tr("&Tensor parallel"), m_tensor);
    right->addRow(tr("&Pipeline stages"), m_pipeline);
    auto* fields = new QHBoxLayout;
    fields->addLayout(left, 3);
    fields->addSpacing(18);
    fields->addLayout(right, 2);
    m_result->setObjectName(QStringLiteral("result"));
    m_result->setAccessibleName(tr("Result"));
    m_result->setTabChangesFocus(true);
    m_result->setOpenLinks(false);
    m_result->setMinimumHeight(230);
    auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
    buttons->addButton(m_copy, QDialogButtonBox::ActionRole);
    buttons->button(QDialogButtonBox::Close)->setText(tr("Close"));  // Alt+C is the context's; Esc closes
    // Enter in a field means that field, not the end of the dialog.
    for (QPushButton* button : {m_copy, m_browse, buttons->button(QDialogButtonBox::Close)}) {
        button->setAutoDefault(false);
        button->setDefault(false);
    }
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    auto* layout = new QVBoxLayout(this);
    layout->addLayout(fields);
    layout->addWidget(m_result, 1);
    layout->addWidget(buttons);
    resize(860, 560);
}

void SizeDialog::showCase(int index) {
    if (index <= 0) return;
    const SizeCase& chosen = size_cases()[static_cast<std::size_t>(index - 1)];
    m_filling = true;
    m_name->setCurrentText(shown(chosen.model));
    m_context->setValue(static_cast<int>(chosen.context));
    m_batch->setValue(static_cast<int>(chosen.batch));
    m_kvHeads->setValue(static_cast<int>(chosen.kv_heads));
    m_keys->setCurrentText(shown(name_of(chosen.dtype)));
    m_values->setCurrentText(shown(name_of(chosen.dtype)));
    m_tensor->setValue(1);
    m_pipeline->setValue(1);
    findModel();
    m_filling = false;
    update();
}

void SizeDialog::chooseFile() {
    const QString path = QFileDialog::getOpenFileName(this, tr("A model's config.json or GGUF file"), {},
                                                      tr("Models (*.gguf *.json);;All files (*)"));
    if (path.isEmpty()) return;
    m_name->setCurrentText(path);
    findModel();
}

// Files are read once per name, not at every change of a number.
void SizeDialog::findModel() {
    const QString typed = m_name->currentText().trimmed();
    if (typed == m_modelText) return;
    m_modelText = typed;
    m_model.reset();
    const auto path = resolve_model(typed.toStdString());
    Result<SizedModel> found = path ? find_sized_model(*path, m_known) : Result<SizedModel>(path.error());
    if (found) m_model = std::move(*found);
    else m_modelProblem = QString::fromStdString(found.error().message());
    leaveCase();
}

// A field that was changed by hand is no longer the everyday case's.
void SizeDialog::leaveCase() {
    if (m_filling) return;
    m_case->setCurrentIndex(0);
    update();
}

SizeRequest SizeDialog::request() const {
    SizeRequest request;
    request.context = static_cast<std::uint64_t>(m_context->value());
    request.batch = static_cast<std::uint64_t>(m_batch->value());
    request.parallel = {static_cast<std::uint32_t>(m_tensor->value()), static_cast<std::uint32_t>(m_pipeline->value())};
    if (m_kvHeads->value() > 0) request.kv_heads = static_cast<std::uint32_t>(m_kvHeads->value());
    request.utilization = m_utilization->value();
    request.precision = {*cache_precision_named(m_keys->currentText().toStdString()),
                         *cache_precision_named(m_values->currentText().toStdString())};
    if (m_gpu->currentIndex() > 0) request.gpu = find_gpu(m_gpu->currentText().toStdString());
    return request;
}

void SizeDialog::update() {
    if (m_filling) return;
    m_report.reset();
    m_problem = m_model ? QString() : m_modelProblem;
    m_utilization->setEnabled(m_gpu->currentIndex() > 0);
    if (m_model) {
        auto report = size_report(*m_model, request());
        if (report) m_report = std::move(*report);
        else m_problem = QString::fromStdString(report.error().message());
    }
    m_copy->setEnabled(m_report.has_value());
    showResult();
}

void SizeDialog::showResult() {
    if (!m_report) {
        m_result->setPlainText(m_problem);
        return;
    }
    const QString muted = palette().color(QPalette::PlaceholderText).name();
    QString html = QStringLiteral("<table cellpadding='3' cellspacing='0'>");
    bool first = true;
    for (const SizeLine& line : size_lines(*m_report)) {
        const QString label = shown(line.label).toHtmlEscaped(), text = shown(line.text).toHtmlEscaped();
        const bool result =
            line.label == "KV of a sequence" || line.label == "KV of the batch" || line.label == "Fit" || first;
        html += QStringLiteral("<tr><td style='color:%1; white-space:pre; padding-right:12px'>%2</td><td>%3</td></tr>")
                    .arg(first ? palette().color(QPalette::Text).name() : muted,
                         first ? QStringLiteral("<b>%1</b>").arg(label) : label,
                         result ? QStringLiteral("<b>%1</b>").arg(text) : text);
        first = false;
    }
    html += QStringLiteral("</table><p style='color:%1'>%2</p>")
                .arg(muted, tr("○ predicted from the shape; nothing was measured").toHtmlEscaped());
    if (m_case->currentIndex() > 0)
        html += QStringLiteral("<p style='color:%1'>%2</p>").arg(muted, shown(size_cases_remark()).toHtmlEscaped());
    m_result->setHtml(html);
}

QString SizeDialog::text() const {
    if (!m_report) return {};
    QString all;
    for (const SizeLine& line : size_lines(*m_report))
        all += shown(line.label) + QLatin1Char('\t') + shown(line.text) + QLatin1Char('\n');
    return all;
}

}  // namespace kvloupe
