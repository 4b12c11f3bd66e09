// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot_pane.h"

#include "views/format.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QToolButton>
#include <QVBoxLayout>

#include <algorithm>
#include <cmath>

namespace kvloupe {

PlotPane::PlotPane(QString id, QString title, Cursor* cursor, QWidget* parent)
    : View(std::move(id), std::move(title), cursor, parent), m_body(new QWidget(this)), m_bar(new QWidget(m_body)) {
    auto* column = new QVBoxLayout(m_body);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    m_barLayout = new QHBoxLayout(m_bar);
    m_barLayout->setContentsMargins(10, 4, 10, 0);
    m_barLayout->setSpacing(6);
    m_barLayout->addStretch(1);
    m_bar->hide();
    m_plot = new Plot(m_body);
    m_plot->setAccessibleName(this->title());
    column->addWidget(m_bar);
    column->addWidget(m_plot, 1);
    m_body->setFocusProxy(m_plot);
    setEmbedded(m_body);
    m_plot->setTip([this](double x) { return tipAtStep(stepAt(x)); });
    connect(m_plot, &Plot::zoomedByUser, this, &PlotPane::zoomChanged);
    connect(m_plot, &Plot::hovered, this, [this](double, int curve) {
        Pick pick;
        if (curve >= 0 && laneOfCurve(curve).valid()) pick.lane = laneOfCurve(curve);
        this->cursor()->setHover(pick);
    });
    connect(m_plot, &Plot::clicked, this, [this](double x, int curve) {
        const int step = stepAt(x);
        if (curve >= 0 && laneOfCurve(curve).valid()) {
            Pick pick;
            pick.lane = laneOfCurve(curve);
            this->cursor()->lock(pick);
        }
        if (step >= 0) this->cursor()->setStep(step);
    });
}

void PlotPane::paintContent(QPainter& painter, const QRectF& area) { m_plot->render(painter, area); }

void PlotPane::fit() { m_plot->fit(); }

int PlotPane::stepAt(double x) const {
    if (!std::isfinite(x)) return -1;
    return static_cast<int>(std::clamp(std::round(x), -1.0, static_cast<double>(cursor()->stepCount() - 1)));
}

QString PlotPane::emptySentence_() const {
    if (!cursor()->recording() || laneCount() == 0) return tr("Nothing is open. Open a model or a scenario.");
    for (const auto& lane : cursor()->recording()->lanes())
        if (lane->step_count() > 0) return {};
    return tr("No step recorded yet. The first step draws the first point.");
}

void PlotPane::rebuild() {
    m_look = nullptr;
    refresh();
}

void PlotPane::refresh() {
    const QString sentence = emptySentence_();
    if (!sentence.isEmpty()) {
        const bool canStep = cursor()->recording() && laneCount() > 0;
        setEmpty(sentence, canStep ? tr("Step") : QString(), canStep ? QStringLiteral("step") : QString());
        setSubtitle({});
        m_seen = nullptr;
        return;
    }
    if (isEmptyShown()) setEmpty({});
    if (m_seen != cursor()->sharedRecording() || m_look != &palette_() || m_scale != unit() || m_font != font()) {
        m_seen = cursor()->sharedRecording();
        m_look = &palette_();
        m_scale = unit();
        m_font = font();
        m_progress.clear();
        for (std::uint32_t i = 0; i < laneCount(); ++i) m_progress.emplace_back(m_seen.get(), LaneId(i));
        m_plot->clear();
        build();
        m_plot->setLook(palette_(), textFont());
        styleControls();
    }
    for (LaneProgress& lane : m_progress) lane.advance();
    appendSteps();
    showCursor();
    m_plot->update_();
}

void PlotPane::refreshSelection() {
    if (isEmptyShown() || !m_seen) return;
    showCursor();
    m_plot->update_();
}

QColor PlotPane::laneColour(LaneId lane) const {
    return palette_().lane(*cursor()->recording(), lane);
}

QString PlotPane::laneName(LaneId lane) const {
    return QString::fromStdString(cursor()->recording()->lane(lane).info().name);
}

bool PlotPane::isPast(LaneId lane) const {
    const int behind = cursor()->step() - cursor()->stepOf(lane);
    // Lanes that step together publish one after another.
    return behind > (cursor()->recording()->phase() == Phase::running ? 1 : 0);
}

QString PlotPane::pastText(LaneId lane) const {
    return isPast(lane) ? tr(" at step %1").arg(formatCount(static_cast<quint64>(std::max(0, cursor()->stepOf(lane))))) : QString();
}

std::size_t PlotPane::laneCount() const { return cursor()->recording() ? cursor()->recording()->lanes().size() : 0; }

double PlotPane::niceUpper(double count) {
    if (count <= 16) return 16;
    const double stride = std::pow(2.0, std::floor(std::log2(count)) - 2);
    return std::ceil(count / stride) * stride;
}

PlotOverlayData PlotPane::overlayAtCursor() const {
    PlotOverlayData marks;
    if (cursor()->step() >= 0) {
        marks.cursor = cursor()->step();
        marks.cursorText = formatCount(static_cast<quint64>(cursor()->step()));
    }
    return marks;
}

QComboBox* PlotPane::addChoice(const QString& name, const QStringList& entries) {
    auto* box = new QComboBox(m_bar);
    box->addItems(entries);
    box->setAccessibleName(name);
    box->setToolTip(name);
    box->setSizeAdjustPolicy(QComboBox::AdjustToContents);
    m_barLayout->insertWidget(m_barLayout->count() - 1, box);
    m_bar->show();
    return box;
}

QToolButton* PlotPane::addToggle(const QString& text, const QString& tip) {
    auto* button = new QToolButton(m_bar);
    button->setText(text);
    button->setToolTip(tip);
    button->setCheckable(true);
    button->setFocusPolicy(Qt::StrongFocus);
    m_barLayout->insertWidget(m_barLayout->count() - 1, button);
    m_bar->show();
    return button;
}

void PlotPane::styleControls() {
    const Palette& colours = palette_();
    m_bar->setFont(textFont(11));
    for (QWidget* child : m_bar->findChildren<QWidget*>(Qt::FindDirectChildrenOnly)) child->setFont(textFont(11));
    QPalette palette = m_body->palette();
    palette.setColor(QPalette::Window, colours.panel);
    m_body->setPalette(palette);
    m_body->setAutoFillBackground(true);
}

}  // namespace kvloupe
