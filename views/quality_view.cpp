// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/quality_view.h"

#include "views/csv_line.h"

#include <QKeyEvent>
#include <QMouseEvent>

#include <algorithm>

namespace kvloupe {

namespace {

const QString measureAction = QStringLiteral("measure-quality");

}  // namespace

QualityView::QualityView(Cursor* cursor, QWidget* parent)
    : ListView(QStringLiteral("quality"), tr("Quality"), cursor, parent) {}

void QualityView::setQuality(std::shared_ptr<const QualityReport> report) {
    m_report = std::move(report);
    refresh();  // hidden too: nothing else tells that it changed
    update();
}

// The head of a dock shows the first two words.
std::vector<ViewChoice> QualityView::choices() const {
    return {{QStringLiteral("show"),
             tr("Show"),
             {tr("What fits"), tr("Perplexity, recall"), tr("Against reference"), tr("By place in the text")},
             static_cast<int>(m_show)}};
}

void QualityView::setChoice(const QString&, int index) {
    m_show = static_cast<Show>(index);
    refresh();
}

const LaneQuality* QualityView::qualityOf(std::uint32_t lane) const {
    return m_report ? m_report->find(cursor()->recording()->lane(LaneId(lane)).info().name) : nullptr;
}

bool QualityView::isReference(std::uint32_t lane) const {
    return m_report && m_report->reference == cursor()->recording()->lane(LaneId(lane)).info().name;
}

QString QualityView::laneName(LaneId lane) const {
    return QString::fromStdString(cursor()->recording()->lane(lane).info().name);
}

QString QualityView::stateOf(std::uint32_t lane) const {
    if (cursor()->recording()->lane(LaneId(lane)).info().weights_id == 0) return tr("no model");
    const LaneQuality* quality = qualityOf(lane);
    const bool running = m_report && m_report->state == QualityReport::State::running;
    if (!quality) return running ? tr("waiting") : tr("not measured");
    if (quality->perplexity.measured()) return {};
    return quality->failure.empty() ? tr("waiting") : tr("failed: %1").arg(QString::fromStdString(quality->failure));
}

void QualityView::refresh() {
    const Recording* recording = cursor()->recording();
    m_distances = QualityChart(QualityChart::Kind::recallByDistance);
    m_positions = QualityChart(QualityChart::Kind::divergenceByPosition);
    const auto nothing = [this](const QString& sentence, const QString& button = {}, const QString& action = {}) {
        setCards({});
        setSubtitle({});
        setEmpty(sentence, button, action);
    };
    if (!recording || recording->lanes().empty())
        return nothing(tr("Nothing is open. Open a model or a scenario to measure what its lanes are worth."));
    const auto& lanes = recording->lanes();
    if (std::none_of(lanes.begin(), lanes.end(), [](const auto& lane) { return lane->info().weights_id != 0; }))
        return nothing(tr("No lane has a model, so there is no quality to measure."));
    if (!m_report)
        return nothing(tr("Not measured yet: perplexity and recall of these lanes on held-out text."),
                       tr("Measure quality…"), measureAction);
    if (isEmptyShown()) setEmpty({});
    int missing = 0;
    for (std::uint32_t i = 0; i < lanes.size(); ++i) {
        const LaneQuality* quality = qualityOf(i);
        if (!quality) {
            missing += lanes[i]->info().weights_id != 0;
            continue;
        }
        m_distances.add(LaneId(i), *quality);
        m_positions.add(LaneId(i), *quality);
    }
    m_distances.finish();
    m_positions.finish();
    const QString text = QString::fromStdString(m_report->text);
    if (m_report->state == QualityReport::State::running)
        setSubtitle(m_report->texts == 0
                        ? tr("measuring on %1 …").arg(text)
                        : tr("measuring: %1 texts read so far, bar: 95 % interval").arg(formatCount(m_report->texts)));
    else
        setSubtitle(tr("measured on %1 · bar: 95 % interval").arg(text) +
                    (missing > 0 ? (missing == 1 ? tr(" · 1 lane not measured") : tr(" · %1 lanes not measured").arg(missing)) : QString()));
    placeRows();
}

void QualityView::layOut() {
    if (m_report && cursor()->recording() && !isEmptyShown()) placeRows();
}

void QualityView::placeRows() {
    const Frame frame = frameFor(QRectF(rect()));
    std::vector<Card> rows;
    for (std::size_t i = 0; i < cursor()->recording()->lanes().size(); ++i)
        rows.push_back({frame.head + static_cast<double>(i) * frame.row, frame.row, true});
    setFixedStrip(frame.axis + frame.foot.height());
    setCards(std::move(rows));
}

std::vector<QualityView::Part> QualityView::candidates() const {
    bool recall = false, compared = false;
    for (const LaneQuality& lane : m_report->lanes) {
        recall = recall || lane.recall_total.right.measured();
        compared = compared || lane.divergence.measured();
    }
    const auto column = [](QualityColumn which) {
        Part part;
        part.column = which;
        return part;
    };
    const auto chart = [](const QualityChart& which) {
        Part part;
        part.chart = &which;
        return part;
    };
    const bool places = m_show == Show::places, reference = m_show == Show::reference, fits = m_show == Show::fitting;
    std::vector<Part> parts;
    if (fits || m_show == Show::totals || (reference && !compared) ||
        (places && m_distances.empty() && m_positions.empty())) {
        parts.push_back(column(QualityColumn::perplexity));
        if (recall) parts.push_back(column(QualityColumn::recall));
    }
    if ((fits || places) && !m_distances.empty()) parts.push_back(chart(m_distances));
    if ((fits || reference) && compared) {
        parts.push_back(column(QualityColumn::ratio));
        parts.push_back(column(QualityColumn::divergence));
    }
    if ((fits || places) && !m_positions.empty()) parts.push_back(chart(m_positions));
    return parts;
}

// The first ones that have room, at least one; what is left over is shared by their least widths.
std::vector<QualityView::Part> QualityView::fitting(double width, double names) const {
    std::vector<Part> parts;
    double used = 0;
    for (const Part& part : candidates()) {
        if (!parts.empty() && names + used + part.wanted() * unit() > width) break;
        used += part.wanted() * unit();
        parts.push_back(part);
    }
    double left = names;
    for (Part& part : parts) {
        const double own = (width - names) * part.wanted() * unit() / used;
        part.area = QRectF(left, 0, own, 0);
        left += own;
    }
    return parts;
}

double QualityView::nameWidth(double width) const {
    const QFontMetricsF metrics(textFont(12, QFont::DemiBold));
    double widest = 0;
    for (const auto& lane : cursor()->recording()->lanes())
        widest = std::max(widest, metrics.horizontalAdvance(QString::fromStdString(lane->info().name)));
    return std::clamp(widest + 38 * unit(), 70 * unit(), std::max(70 * unit(), width * 0.32));
}

QStringList QualityView::partsShown(double width) const {
    QStringList names;
    if (!m_report || !cursor()->recording()) return names;
    for (const Part& part : fitting(width, nameWidth(width)))
        names << (part.chart ? part.chart->caption() : qualityCaption(part.column));
    return names;
}

QString QualityView::tipAt(const QPointF& position) const {
    if (!m_report || !cursor()->recording()) return {};
    if (overLink(position)) return tr("Measures the lanes of this session again, on a text of your choice (M)");
    const Frame frame = frameFor(QRectF(rect()));
    for (const Part& part : frame.parts)
        if (part.chart && part.area.contains(position)) {
            const auto place = part.chart->placeAt(unit(), part.area, position.x());
            return place ? part.chart->tip(*place, [this](LaneId lane) { return laneName(lane); }) : QString();
        }
    const int card = cardAt(position);
    return card < 0 ? QString() : laneTip(static_cast<std::uint32_t>(card));
}

QString QualityView::laneTip(std::uint32_t lane) const {
    QStringList lines{laneName(LaneId(lane))};
    const LaneQuality* quality = qualityOf(lane);
    if (const QString state = stateOf(lane); !state.isEmpty()) lines << state;
    if (!quality || !quality->perplexity.measured()) return lines.join(QLatin1Char('\n'));
    lines << tr("cache: %1").arg(QString::fromStdString(quality->cache));
    lines << tr("perplexity ● %1 over %2 predictions")
                 .arg(qualityInterval(QualityColumn::perplexity, quality->perplexity),
                      formatCount(quality->perplexity.samples));
    if (quality->recall_total.right.measured())
        lines << tr("recall ● %1 of %2 questions")
                     .arg(qualityInterval(QualityColumn::recall, quality->recall_total.right),
                          formatCount(quality->recall_total.right.samples));
    if (isReference(lane)) {
        lines << tr("the others are compared with it");
    } else if (quality->divergence.measured()) {
        const QString reference = QString::fromStdString(m_report->reference);
        lines << tr("perplexity against %1 ◐ %2")
                     .arg(reference, qualityInterval(QualityColumn::ratio, quality->perplexity_ratio));
        lines << tr("KL divergence from %1 ● %2 nats, 99 % of positions below %3, largest %4")
                     .arg(reference, qualityInterval(QualityColumn::divergence, quality->divergence),
                          formatSmall(quality->divergence_p99), formatSmall(quality->divergence_max));
        lines << tr("same most probable token ● %1 of positions")
                     .arg(qualityInterval(QualityColumn::recall, quality->agreement));
        const FirstDifference first = summary_of(quality->first_difference);
        if (first.texts > 0)
            lines << tr("first differing token: %1; never in %2 of %3 texts")
                         .arg(first.median ? tr("median at position %1").arg(formatCount(*first.median))
                                           : tr("in fewer than half of the texts"),
                              formatCount(first.never), formatCount(first.texts));
    }
    return lines.join(QLatin1Char('\n'));
}

Pick QualityView::pickOf(int card) const {
    Pick pick;
    pick.lane = LaneId(static_cast<std::uint32_t>(card));
    return pick;
}

void QualityView::choose(int card) { cursor()->lock(pickOf(card)); }

void QualityView::mouseMoveEvent(QMouseEvent* event) {
    if (overLink(event->position()))
        setCursor(Qt::PointingHandCursor);
    else
        unsetCursor();
    ListView::mouseMoveEvent(event);
}

void QualityView::mousePressEvent(QMouseEvent* event) {
    if (event->button() == Qt::LeftButton && overLink(event->position())) {
        Q_EMIT emptyAction(measureAction);
        return;
    }
    ListView::mousePressEvent(event);
}

void QualityView::keyPressEvent(QKeyEvent* event) {
    if (event->key() == Qt::Key_M && event->modifiers() == Qt::NoModifier && !linkText().isEmpty())
        Q_EMIT emptyAction(measureAction);
    else
        ListView::keyPressEvent(event);
}

QString QualityView::csv() const {
    QString text = QStringLiteral("lane,reference,figure,from,to,value (measured),low (95 %),high (95 %),samples\r\n");
    if (!m_report || !cursor()->recording()) return text;
    for (std::uint32_t i = 0; i < cursor()->recording()->lanes().size(); ++i) {
        const LaneQuality* quality = qualityOf(i);
        if (!quality) continue;
        const auto line = [&](const char* name, const QString& from, const QString& to, const QualityFigure& figure) {
            if (!figure.measured()) return;
            text += csvLine({laneName(LaneId(i)), QString::fromStdString(m_report->reference), QString::fromLatin1(name),
                             from, to, QString::number(figure.value, 'g', 9), QString::number(figure.low, 'g', 9),
                             QString::number(figure.high, 'g', 9), QString::number(figure.samples)});
        };
        line("perplexity", {}, {}, quality->perplexity);
        line("recall, share", {}, {}, quality->recall_total.right);
        line("perplexity ratio", {}, {}, quality->perplexity_ratio);
        line("KL divergence, nats", {}, {}, quality->divergence);
        line("same most probable token, share", {}, {}, quality->agreement);
        for (const RecallFigure& figure : recall_by_distance(*quality)) {
            const QString distance = QString::number(figure.distance);
            line("recall by distance, share", distance, distance, figure.right);
        }
        for (const QualityBlock& block : quality->blocks) {
            const QString first = QString::number(block.first), last = QString::number(block.last);
            line("perplexity by position", first, last, block.perplexity);
            line("KL divergence by position, nats", first, last, block.divergence);
        }
    }
    return text;
}

}  // namespace kvloupe
