// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/sweep_view.h"

#include "views/csv_line.h"
#include "views/format.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QVBoxLayout>

#include <cmath>
#include <limits>

namespace kvloupe {

namespace {

constexpr double ns_per_ms = 1e6;

QString milliseconds(double value) {
    return std::isfinite(value) ? QString::number(value, 'g', 9) : QString();
}

}  // namespace

SweepView::SweepView(Cursor* cursor, QWidget* parent)
    : View(QStringLiteral("sweep"), tr("Length sweep"), cursor, parent), m_body(new QWidget(this)) {
    auto* column = new QVBoxLayout(m_body);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    auto* row = new QHBoxLayout;
    row->setContentsMargins(10, 4, 10, 0);
    row->setSpacing(6);
    m_scaleBox = new QComboBox(m_body);
    m_scaleBox->addItems({tr("Linear"), tr("Logarithmic")});
    m_scaleBox->setAccessibleName(tr("Scale of the times"));
    m_scaleBox->setToolTip(tr("Scale of the times"));
    m_start = new QPushButton(tr("Measure again"), m_body);
    m_cancel = new QPushButton(tr("Cancel"), m_body);
    m_bar = new QProgressBar(m_body);
    m_bar->setRange(0, 1000);
    m_bar->setTextVisible(false);
    m_bar->setMaximumWidth(120);
    m_label = new QLabel(m_body);
    m_label->setMinimumWidth(20);
    m_label->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    row->addWidget(m_scaleBox);
    row->addWidget(m_start);
    row->addWidget(m_bar);
    row->addWidget(m_label, 1);
    row->addWidget(m_cancel);
    m_plot = new Plot(m_body);
    m_plot->setAccessibleName(this->title());
    column->addLayout(row);
    column->addWidget(m_plot, 1);
    m_body->setFocusProxy(m_plot);
    setEmbedded(m_body);
    connect(m_plot, &Plot::zoomedByUser, this, &SweepView::zoomChanged);
    m_plot->setTip([this](double x) { return tipAtIndex(static_cast<int>(std::lround(x))); });
    connect(m_scaleBox, &QComboBox::activated, this, [this] { refresh(); });
    connect(m_start, &QPushButton::clicked, this, &SweepView::startRequested);
    connect(m_cancel, &QPushButton::clicked, this, &SweepView::cancelRequested);
    connect(this, &View::emptyAction, this, [this](const QString& action) {
        if (action == QStringLiteral("sweep")) Q_EMIT startRequested();
    });
    refresh();
}

void SweepView::setResult(const SweepResult& result) {
    m_result = result;
    refresh();
}

void SweepView::setProgress(double fraction, const QString& text) {
    m_fraction = fraction;
    m_progressText = text;
    refresh();
}

void SweepView::setSubject(const QString& subject) {
    m_subject = subject;
    refresh();
}

void SweepView::setLogarithmic(bool logarithmic) {
    m_scaleBox->setCurrentIndex(logarithmic ? 1 : 0);
    refresh();
}

std::optional<double> SweepView::speedUp(const SweepResult& result, std::size_t index) {
    if (index >= result.cached_ms.size() || index >= result.uncached_ms.size()) return std::nullopt;
    if (!(result.cached_ms[index] > 0) || !(result.uncached_ms[index] > 0)) return std::nullopt;
    return result.uncached_ms[index] / result.cached_ms[index];
}

void SweepView::refresh() {
    const bool running = m_fraction >= 0;
    if (m_result.cached_ms.empty() && m_result.uncached_ms.empty() && !running) {
        setEmpty(tr("No lengths measured yet. The sweep generates 10 to 500 tokens with and without a cache and times both."),
                 tr("Measure"), QStringLiteral("sweep"));
        setSubtitle({});
        return;
    }
    if (isEmptyShown()) setEmpty({});
    m_start->setVisible(!running);
    m_cancel->setVisible(running);
    m_bar->setVisible(running);
    m_bar->setValue(static_cast<int>(std::lround(std::max(0.0, m_fraction) * 1000)));
    m_label->setText(m_progressText);
    m_label->setToolTip(m_progressText);
    for (QWidget* child : std::initializer_list<QWidget*>{m_scaleBox, m_start, m_cancel, m_label}) child->setFont(textFont(11));
    QPalette colours = m_body->palette();
    colours.setColor(QPalette::Window, palette_().panel);
    m_body->setPalette(colours);
    m_body->setAutoFillBackground(true);
    draw();
}

void SweepView::draw() {
    const Palette& colours = palette_();
    const bool logarithmic = m_scaleBox->currentIndex() == 1;
    const QColor cached = colours.lanes[1], uncached = colours.lanes[5];
    m_plot->clear();
    m_plot->addPanel({tr("time to generate"), PlotNumbers::duration, logarithmic, 3});
    m_plot->addPanel({tr("speed-up ◐"), PlotNumbers::factor, false, 2});
    QStringList names;
    for (const int length : m_result.lengths) names.append(formatCount(static_cast<quint64>(std::max(0, length))));
    m_plot->setXCategories(names);
    m_plot->setXAxis(tr("new tokens"), PlotNumbers::count);
    PlotCurve bars;
    bars.shape = PlotCurve::Shape::bars;
    bars.colour = cached;
    bars.barOffset = -0.2;
    const int cachedBars = m_plot->addCurve(bars);
    bars.colour = uncached;
    bars.barOffset = 0.2;
    const int uncachedBars = m_plot->addCurve(bars);
    PlotCurve line;
    line.panel = 1;
    line.colour = colours.ink1;
    const int ratio = m_plot->addCurve(line);
    line.shape = PlotCurve::Shape::dots;
    const int ratioDots = m_plot->addCurve(line);
    PlotOverlayData marks;
    QVector<double> x, y;
    for (std::size_t i = 0; i < m_result.lengths.size(); ++i) {
        const auto at = static_cast<double>(i);
        if (i < m_result.cached_ms.size()) m_plot->append(cachedBars, {at}, {m_result.cached_ms[i] * ns_per_ms});
        if (i < m_result.uncached_ms.size()) m_plot->append(uncachedBars, {at}, {m_result.uncached_ms[i] * ns_per_ms});
        if (const auto value = speedUp(m_result, i)) {
            x.append(at);
            y.append(*value);
        }
    }
    m_plot->append(ratio, x, y);
    m_plot->append(ratioDots, x, y);
    m_plot->setXRange(-0.6, std::max(1.0, static_cast<double>(m_result.lengths.size())) - 0.4);
    marks.notes.push_back({0, tr("● with a KV cache"), PlotNote::Sample::fill, cached});
    marks.notes.push_back({0, tr("● without, recomputing the prefix"), PlotNote::Sample::fill, uncached});
    if (!y.isEmpty())
        marks.labels.push_back({1, y.last(), QStringLiteral("%1×").arg(y.last(), 0, 'f', 1), {}, colours.ink1});
    if (!m_result.cached_ms.empty())
        marks.labels.push_back({0, m_result.cached_ms.back() * ns_per_ms, tr("cached"),
                                originMark(Origin::measured) + QLatin1Char(' ') + formatDuration(m_result.cached_ms.back() * ns_per_ms), cached});
    if (!m_result.uncached_ms.empty())
        marks.labels.push_back({0, m_result.uncached_ms.back() * ns_per_ms, tr("uncached"),
                                originMark(Origin::measured) + QLatin1Char(' ') + formatDuration(m_result.uncached_ms.back() * ns_per_ms), uncached});
    m_plot->setLook(colours, textFont());
    m_plot->setOverlay(std::move(marks));
    m_plot->update_();
    const QString runs = m_result.repeats > 0 ? tr("median of %n run(s)", nullptr, m_result.repeats) : QString();
    setSubtitle(m_subject.isEmpty() ? runs : runs.isEmpty() ? m_subject : tr("%1 · %2").arg(m_subject, runs));
}

QString SweepView::tipAtIndex(int index) const {
    if (index < 0 || static_cast<std::size_t>(index) >= m_result.lengths.size()) return {};
    const auto i = static_cast<std::size_t>(index);
    QStringList lines{tr("%n new token(s)", nullptr, m_result.lengths[i])};
    if (i < m_result.cached_ms.size()) lines.append(tr("cached ● %1").arg(formatDuration(m_result.cached_ms[i] * ns_per_ms)));
    if (i < m_result.uncached_ms.size())
        lines.append(tr("uncached ● %1").arg(formatDuration(m_result.uncached_ms[i] * ns_per_ms)));
    if (const auto value = speedUp(m_result, i)) lines.append(tr("speed-up ◐ %1×").arg(*value, 0, 'f', 2));
    return lines.join(QLatin1Char('\n'));
}

void SweepView::paintContent(QPainter& painter, const QRectF& area) { m_plot->render(painter, area); }

QString SweepView::csv() const {
    QString text = csvLine({"new tokens", "cached ms (measured)", "uncached ms (measured)", "speed-up (derived)", "repeats"});
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    for (std::size_t i = 0; i < m_result.lengths.size(); ++i) {
        const auto ratio = speedUp(m_result, i);
        text += csvLine({QString::number(m_result.lengths[i]),
                         milliseconds(i < m_result.cached_ms.size() ? m_result.cached_ms[i] : none),
                         milliseconds(i < m_result.uncached_ms.size() ? m_result.uncached_ms[i] : none),
                         ratio ? QString::number(*ratio, 'g', 9) : QString(), QString::number(m_result.repeats)});
    }
    return text;
}

}  // namespace kvloupe
