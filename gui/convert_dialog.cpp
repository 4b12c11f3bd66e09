// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/convert_dialog.h"

#include "engine/analysis/size_source.h"
#include "engine/model/convert_model.h"
#include "engine/serve/cache_shape.h"
#include "gui/quality_source.h"
#include "views/format.h"

#include <QComboBox>
#include <QDialogButtonBox>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

enum TargetIndex { toGqa, toMqa, toMla };
enum WidthIndex { oneWidth, sharedBudget };

// Bytes of a token in all layers as the lane's cache would keep them.
Result<double> tokenBytes(const ModelConfig& config, const LaneOptions& lane) {
    auto shape = CacheShape::of(config, lane);
    if (!shape) return shape.error();
    double sum = 0;
    for (const LayerInfo& layer : shape->layer_infos(config, true)) sum += layer.bytes_per_token();
    return sum;
}

QString shownBytes(double bytes) {
    const double rounded = std::round(bytes);
    return std::abs(bytes - rounded) < 1e-6 ? formatCount(static_cast<quint64>(rounded)) : QString::number(bytes, 'f', 1);
}

QString precisionsOf(const CacheOptions& cache) {
    const auto shown = [](DType type) { return QString::fromStdString(std::string(name_of(type))); };
    const QString keys = shown(cache.key_dtypes.front()), values = shown(cache.value_dtypes.front());
    if (cache.key_dtypes.size() > 1 || cache.value_dtypes.size() > 1) return ConvertDialog::tr("by layer");
    return keys == values ? keys : QStringLiteral("%1/%2").arg(keys, values);
}

}  // namespace

ConvertDialog::ConvertDialog(std::vector<ConvertSource> sources, std::size_t chosen, QStringList taken, QWidget* parent)
    : QDialog(parent), m_sources(std::move(sources)), m_taken(std::move(taken)), m_source(new QComboBox), m_to(new QComboBox),
      m_heads(new QComboBox), m_widths(new QComboBox), m_by(new QComboBox), m_cache(new QComboBox), m_values(new QSpinBox),
      m_name(new QLineEdit), m_prediction(new QLabel), m_sentence(new QLabel) {
    setWindowTitle(tr("Convert a model"));
    buildFields();
    buildLayout();
    m_source->setCurrentIndex(static_cast<int>(std::min(chosen, m_sources.size() - 1)));
    chooseSource();
}

void ConvertDialog::buildFields() {
    for (const ConvertSource& each : m_sources)
        m_source->addItem(
            tr("%1: %2, %3").arg(QString::fromStdString(each.lane.name), QString::fromStdString(each.config.name),
                                 QString::fromStdString(each.config.attention_variant())));
    m_to->addItem(tr("GQA: means of neighbouring KV heads"));
    m_to->addItem(tr("MQA: the mean of all KV heads"));
    m_to->addItem(tr("MLA: latents of low rank"));
    m_widths->addItem(tr("One width for all layers"));
    m_widths->addItem(tr("A budget that the layers share"));
    m_values->setGroupSeparatorShown(true);
    m_values->setSuffix(tr(" values"));
    m_by->addItem(tr("Energy: squared singular values"));
    m_by->addItem(tr("Sensitivity: measured on a text"));
    m_by->setToolTip(tr("By what values are kept, and by what layers share a budget"));
    m_name->setMaxLength(60);
    m_prediction->setTextFormat(Qt::RichText);
    m_sentence->setWordWrap(true);
    connect(m_source, &QComboBox::currentIndexChanged, this, &ConvertDialog::chooseSource);
    connect(m_widths, &QComboBox::currentIndexChanged, this, &ConvertDialog::chooseWidths);
    for (QComboBox* box : {m_to, m_heads, m_by, m_cache})
        connect(box, &QComboBox::currentIndexChanged, this, &ConvertDialog::check);
    connect(m_values, &QSpinBox::valueChanged, this, &ConvertDialog::check);
    connect(m_name, &QLineEdit::textEdited, this, [this] {
        m_named = true;
        check();
    });
}

void ConvertDialog::buildLayout() {
    auto* form = new QFormLayout;
    form->addRow(tr("&Model of lane"), m_source);
    form->addRow(tr("&To"), m_to);
    form->addRow(tr("KV &heads"), m_heads);
    form->addRow(tr("&Widths"), m_widths);
    form->addRow(tr("&Values"), m_values);
    form->addRow(tr("&By"), m_by);
    form->addRow(tr("&Cache in"), m_cache);
    form->addRow(tr("&Name of the lane"), m_name);
    form->addRow(tr("A token takes"), m_prediction);
    for (const auto& [field, name] :
         {std::pair<QWidget*, const char*>(m_source, "source"), {m_to, "to"}, {m_heads, "heads"}, {m_widths, "widths"},
          {m_values, "values"}, {m_by, "by"}, {m_cache, "cache"}, {m_name, "name"}, {m_prediction, "prediction"},
          {m_sentence, "sentence"}})
        field->setObjectName(QLatin1String(name));
    m_sentence->setMinimumHeight(4 * m_sentence->fontMetrics().lineSpacing());  // so that fields keep their place
    m_sentence->setAlignment(Qt::AlignLeft | Qt::AlignTop);
    auto* buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel);
    m_convert = buttons->button(QDialogButtonBox::Ok);
    m_convert->setText(tr("Convert"));
    connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    auto* layout = new QVBoxLayout(this);
    layout->addLayout(form);
    layout->addWidget(m_sentence);
    layout->addWidget(buttons);
    setMinimumWidth(560);
}

const ConvertSource& ConvertDialog::source() const {
    return m_sources[static_cast<std::size_t>(std::max(0, m_source->currentIndex()))];
}

std::uint32_t ConvertDialog::rank() const {
    const ModelConfig& config = source().config;
    return std::max(1u, std::min(2 * config.kv_heads * config.head_dim, config.hidden));
}

// Numbers of heads that there can be, the largest first; and a latent of half the rank.
void ConvertDialog::chooseSource() {
    m_filling = true;
    const ModelConfig& config = source().config;
    m_heads->clear();
    for (std::uint32_t heads = config.kv_heads / 2; heads > 1; --heads)
        if (config.kv_heads % heads == 0) m_heads->addItem(QString::number(heads));
    m_cache->clear();
    m_cache->addItem(tr("As the lane: %1").arg(precisionsOf(source().lane.cache)));
    for (const std::string& name : cache_precision_names()) m_cache->addItem(QString::fromStdString(name));
    m_to->setCurrentIndex(m_heads->count() > 0 ? toGqa : config.kv_heads > 1 && !config.latent.present() ? toMqa : toMla);
    m_widths->setCurrentIndex(oneWidth);
    m_values->setRange(1, static_cast<int>(rank()));
    m_values->setValue(static_cast<int>(std::max(1u, rank() / 2)));
    m_filling = false;
    check();
}

// A width becomes the same in all layers together, and back.
void ConvertDialog::chooseWidths() {
    if (m_filling) return;
    m_filling = true;
    const int layers = static_cast<int>(source().config.layers), most = static_cast<int>(rank()), now = m_values->value();
    if (m_widths->currentIndex() == sharedBudget) {
        m_values->setRange(layers, most * layers);
        m_values->setValue(now * layers);
    } else {
        m_values->setRange(1, most);
        m_values->setValue(now / layers);
    }
    m_filling = false;
    check();
}

ConvertOptions ConvertDialog::options() const {
    ConvertOptions options;
    switch (m_to->currentIndex()) {
    case toGqa:
        options.to = ConvertOptions::Target::gqa;
        options.kv_heads = m_heads->currentText().toUInt();
        break;
    case toMqa:
        options.to = ConvertOptions::Target::mqa;
        options.kv_heads = 1;
        break;
    default:
        options.to = ConvertOptions::Target::mla;
        (m_widths->currentIndex() == oneWidth ? options.width : options.budget) = static_cast<std::uint32_t>(m_values->value());
        options.by = m_by->currentIndex() == 0 ? ConvertOptions::Measure::energy : ConvertOptions::Measure::sensitivity;
    }
    return options;
}

LaneOptions ConvertDialog::lane() const {
    LaneOptions lane = source().lane;
    lane.name = m_name->text().trimmed().toStdString();
    lane.convert = options();
    lane.kv_cache = true;  // what a conversion saves is in the cache
    lane.uncached_limit = 0;
    if (lane.convert->to == ConvertOptions::Target::mla) {
        lane.latent_absorbed = false;
        if (source().onCard) lane.device = "cpu";
    }
    if (m_cache->currentIndex() > 0) {
        // What a precision leaves to choose was chosen for another one.
        lane.cache.key_dtypes = lane.cache.value_dtypes = {*dtype_from_name(m_cache->currentText().toStdString())};
        lane.cache.scale.reset();
        lane.cache.group.reset();
        lane.cache.residual.reset();
        lane.cache.rotate = false;
    }
    return lane;
}

// "MHA to MLA-64": what it is made from and what it becomes.
QString ConvertDialog::freeName() const {
    const ConvertOptions wanted = options();
    QString what = wanted.to == ConvertOptions::Target::gqa ? QStringLiteral("GQA") : QStringLiteral("MQA");
    if (wanted.kv_heads > 1) what += QStringLiteral("-%1").arg(wanted.kv_heads);
    if (wanted.to == ConvertOptions::Target::mla) {
        what = wanted.width > 0 ? QStringLiteral("MLA-%1").arg(wanted.width) : tr("MLA of %1").arg(wanted.budget);
        if (wanted.by == ConvertOptions::Measure::sensitivity) what += tr(", sensitivity");
    }
    const QString name = tr("%1 to %2").arg(QString::fromStdString(source().lane.name), what);
    QString free = name;
    for (int n = 2; m_taken.contains(free); ++n) free = QStringLiteral("%1 (%2)").arg(name).arg(n);
    return free;
}

QString ConvertDialog::note() const {
    const ConvertOptions wanted = options();
    QStringList sentences;
    if (wanted.to != ConvertOptions::Target::mla) {
        sentences << tr("Nothing is trained afterwards: Analyse ▸ Measure quality… says what that costs.");
    } else {
        sentences << tr("Its keys and values are made from the latents in every step.");
        if (source().onCard) sentences << tr("That is computed on the CPU only, so the lane runs there.");
        if (wanted.by == ConvertOptions::Measure::sensitivity) {
            const int passes = wanted.width > 0 ? 1 : 2 * static_cast<int>(source().config.layers) + 2;
            const QString text = source().knowsStories
                                     ? tr("the last %1 stories that come with the program").arg(calibration_stories)
                                     : tr("the prose that comes with the program");
            sentences << (passes == 1 ? tr("The model is measured first, in one pass over %1.").arg(text)
                                      : tr("The model is measured first, in %1 passes over %2.").arg(passes).arg(text));
        }
    }
    sentences << tr("The session starts over with the new lane beside the others.");
    return sentences.join(QLatin1Char(' '));
}

void ConvertDialog::check() {
    if (m_filling) return;
    const bool latents = m_to->currentIndex() == toMla;
    m_heads->setEnabled(m_to->currentIndex() == toGqa && m_heads->count() > 0);
    m_widths->setEnabled(latents);
    m_values->setEnabled(latents);
    m_by->setEnabled(latents);
    if (!m_named) m_name->setText(freeName());
    m_bytes.reset();
    m_problem.clear();
    const auto config = converted_config(source().config, options());
    LaneOptions before = source().lane;
    before.kv_cache = true;
    const Result<double> bytes = config ? tokenBytes(*config, lane()) : config.error();
    const auto now = tokenBytes(source().config, before);
    const bool noHeads = m_to->currentIndex() == toGqa && m_heads->count() == 0 && !source().config.latent.present();
    if (noHeads)
        m_problem = source().config.kv_heads == 1
                        ? tr("The model has one KV head already: choose latents.")
                        : tr("No number between 1 and %1 divides the model's %1 KV heads: choose MQA or latents.")
                              .arg(source().config.kv_heads);
    else if (!bytes) m_problem = QString::fromStdString(bytes.error().message());
    else if (const QString name = m_name->text().trimmed(); name.isEmpty()) m_problem = tr("Give the lane a name.");
    else if (m_taken.contains(name)) m_problem = tr("There is a lane '%1' already.").arg(name);
    if (bytes) m_bytes = *bytes;
    QString text = QStringLiteral("—");
    if (bytes) {
        text = QStringLiteral("%1 <b>%2 B</b>").arg(originMark(Origin::predicted), shownBytes(*bytes));
        if (now && *now > 0) {
            const double change = *bytes / *now - 1;
            QString compared = tr("as much as");
            if (change < -5e-5) compared = tr("%1 less than").arg(formatPercent(-change));
            if (change > 5e-5) compared = tr("%1 more than").arg(formatPercent(change));
            const QString name = QString::fromStdString(source().lane.name).toHtmlEscaped();
            text += tr(", %1 in lane %2 (%3 B)").arg(compared, name, shownBytes(*now));
        }
    }
    m_prediction->setText(text);
    m_sentence->setText(m_problem.isEmpty() ? note() : m_problem);
    m_convert->setEnabled(m_problem.isEmpty());
}

}  // namespace kvloupe
