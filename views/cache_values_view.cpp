// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/cache_values_view.h"

#include "views/csv_line.h"
#include "views/picking.h"

#include <QMouseEvent>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvloupe {

QString relativeText(double relative) {
    return relative == 0 || relative >= 1e-3 ? formatPercent(relative) : formatSmall(100 * relative) + QStringLiteral(" %");
}

CacheValuesView::CacheValuesView(Cursor* cursor, QWidget* parent)
    : BlockView(QStringLiteral("cache-values"), tr("Cache values"), cursor, parent) {}

const BlockPart& CacheValuesView::part() const { return showsKeys() ? values()->keys : values()->values; }

std::uint32_t CacheValuesView::headCount() const {
    const LaneRecord* lane = cursor()->laneRecord();
    return lane && layer() < lane->info().layer_infos.size() ? std::max(1u, lane->info().layer_infos[layer()].kv_heads) : 1;
}

std::vector<ViewChoice> CacheValuesView::choices() const {
    return {{QStringLiteral("part"), tr("Show"), {tr("Keys"), tr("Values")}, m_part}};
}

void CacheValuesView::setChoice(const QString&, int index) { m_part = index; }

void CacheValuesView::refresh() {
    m_places = {};
    BlockView::refresh();
}

double CacheValuesView::valueAt(Map map, std::uint32_t token, std::uint32_t channel) const {
    const BlockPart& of = part();
    const std::size_t at = of.at(kvHead(), token, channel);
    const double is = static_cast<double>(of.stored[at]);
    if (map == stored) return is;
    const double was = of.before.empty() ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(of.before[at]);
    return map == before ? was : is - was;
}

void CacheValuesView::valuesChanged() {
    const BlockPart& of = part();
    if (of.width == 0) {
        setEmpty(tr("This latent has no rotary key beside it: positions are applied when keys are made. Press C for the latent."));
        return;
    }
    m_errors = errors_of(of, kvHead());
    m_outliers = outliers_of(of, kvHead());
    m_scales = scales_of(*values(), showsKeys() ? KvPart::keys : KvPart::values, kvHead());
    m_largest = 0;
    for (std::uint32_t token = 0; token < of.tokens; ++token)
        for (std::uint32_t channel = 0; channel < of.width; ++channel)
            for (const Map map : {before, stored})
                if (const double value = std::fabs(valueAt(map, token, channel)); value > m_largest) m_largest = value;
    m_places = placesFor(QRectF(rect()));
    const QString what = values()->latent ? (showsKeys() ? tr("latent") : tr("rotary key"))
                                          : (showsKeys() ? tr("keys of KV head %1 of %2") : tr("values of KV head %1 of %2")).arg(kvHead()).arg(of.heads);
    setSubtitle(tr("block %1, layer %2, %3 · %4 · %5")
                    .arg(QString::number(values()->question.block.value), QString::number(values()->question.layer), what, whereText(),
                         QString::fromStdString(text_of(of.format))));
}

QString CacheValuesView::scaleText(std::uint32_t token, std::uint32_t channel) const {
    if (m_scales.axis == StoredScales::Axis::none) return {};
    const std::size_t at = m_scales.index(token, channel);
    if (at >= m_scales.steps.size()) return {};
    const QString step = tr("scale %1 %2").arg(originMark(Origin::derived), QString::number(m_scales.steps[at], 'g', 4));
    return m_scales.minimums.empty() ? step : step + tr(" above %1").arg(QString::number(m_scales.minimums[at], 'g', 4));
}

QString CacheValuesView::lossText() const {
    const BlockPart& of = part();
    if (of.format.dtype == DType::f32 && !of.format.rotate) return tr("Kept in f32: storing loses nothing.");
    if (!values()->before_problem.empty()) return QString::fromStdString(values()->before_problem);
    if (!values()->before_since) return tr("What was there before is not kept.");
    const QString copy = tr("Values before they were stored are kept since step %1, in a copy of %2%3.")
                             .arg(QString::number(*values()->before_since), QString(originMark(Origin::measured)) + QChar::Nbsp, formatBytes(values()->before_bytes));
    if (!of.before_known()) return copy + tr(" These tokens were stored earlier: start over (Ctrl+R) to know all.");
    const BlockErrors& errors = m_errors;
    const auto unknown = std::count_if(errors.tokens.begin(), errors.tokens.end(), [](const ErrorSum& token) { return !token.known(); });
    return unknown > 0 ? copy + tr(" %1 of these tokens were stored earlier.").arg(unknown) : copy;
}

CacheValuesView::Places CacheValuesView::placesFor(const QRectF& area) const {
    Places places;
    if (!values() || part().width == 0) return places;
    const double u = unit(), gap = 14 * u;
    QRectF room = area.adjusted(10 * u, 6 * u, -10 * u, -8 * u);
    if (room.width() > 640 * u) {
        places.side = QRectF(room.right() - 196 * u, room.top(), 196 * u, room.height());
        room.setRight(places.side.left() - 16 * u);
    }
    const bool tokenScales = m_scales.axis == StoredScales::Axis::token && room.width() > 380 * u;
    const bool channelScales = m_scales.axis == StoredScales::Axis::channel;
    const double labels = 62 * u, bars = 44 * u, scales = tokenScales ? 56 * u : 0;
    const bool below = room.height() > 250 * u;
    const double bottom = 16 * u + 40 * u + (below ? 76 * u : 0), top = 20 * u;
    places.labels = QRectF(room.left(), room.top() + top, labels - 6 * u, 0);
    const double width = std::max(12.0, (room.width() - labels - 2 * gap - bars - scales) / 3);
    const double height = std::max(8.0, std::min(room.height() - top - bottom, part().tokens * 20 * u));
    for (int i = 0; i < 3; ++i) {
        ValueMap& map = places.maps[i];
        map.area = QRectF(room.left() + labels + i * (width + gap), room.top() + top, width, height);
        map.tokens = part().tokens;
        map.channels = part().width;
        map.limit = i == error ? m_errors.heads[kvHead()].largest : m_largest;
    }
    places.labels.setHeight(height);
    const QRectF& last = places.maps[error].area;
    places.tokenBars = QRectF(last.right() + 5 * u, last.top(), bars - 9 * u, height);
    if (tokenScales) places.scales = QRectF(places.tokenBars.right() + 6 * u, last.top(), scales, height);
    places.channelBars = QRectF(last.left(), last.bottom() + 4 * u, width, 34 * u);
    if (channelScales) places.channelScales = QRectF(places.maps[stored].area.left(), last.bottom() + 4 * u, width, 34 * u);
    places.legend = QRectF(places.maps[before].area.left(), last.bottom() + 4 * u, width, 14 * u);
    if (!below) return places;
    const QRectF strip(room.left(), places.channelBars.bottom() + 20 * u, room.width(), room.bottom() - places.channelBars.bottom() - 20 * u);
    const double half = (strip.width() - 24 * u) / 2;
    places.headTitle = QRectF(strip.left(), strip.top(), half, 16 * u);
    places.layerTitle = QRectF(strip.left() + half + 24 * u, strip.top(), half, 16 * u);
    const double barHeight = std::min(64 * u, strip.height() - 18 * u);
    if (barHeight < 20 * u) return places;
    places.heads = barsIn(QRectF(places.headTitle.left(), strip.top() + 18 * u, half, barHeight), true);
    places.layers = barsIn(QRectF(places.layerTitle.left(), strip.top() + 18 * u, half, barHeight), false);
    return places;
}

std::vector<CacheValuesView::Bar> CacheValuesView::barsIn(const QRectF& area, bool ofHeads) const {
    std::vector<Bar> bars;
    if (ofHeads)
        for (std::uint32_t head = 0; head < m_errors.heads.size(); ++head)
            bars.push_back({{}, head, m_errors.heads[head].relative(), m_errors.heads[head].known()});
    else
        for (const LayerErrors& layer : values()->layers) {
            const ErrorSum& sum = showsKeys() ? layer.keys : layer.values;
            bars.push_back({{}, layer.layer, sum.relative(), sum.known()});
        }
    const double width = bars.empty() ? 0 : std::min(56 * unit(), area.width() / static_cast<double>(bars.size()));
    for (std::size_t i = 0; i < bars.size(); ++i) bars[i].area = QRectF(area.left() + static_cast<double>(i) * width, area.top(), width, area.height());
    return bars;
}

QString CacheValuesView::tipAt(const QPointF& position) const {
    if (!values() || isEmptyShown()) return {};
    for (const bool ofHeads : {true, false})
        for (const Bar& bar : ofHeads ? m_places.heads : m_places.layers)
            if (bar.area.contains(position))
                return (ofHeads ? tr("KV head %1: relative error %2") : tr("layer %1: relative error %2"))
                    .arg(QString::number(bar.index), bar.known ? originMark(Origin::derived) + QLatin1Char(' ') + relativeText(bar.relative) : tr("not known"));
    for (int i = 0; i < 3; ++i) {
        const auto cell = m_places.maps[i].cellAt(position);
        if (!cell) continue;
        const auto number = [&](Map map, Origin origin) {
            const double value = valueAt(map, cell->first, cell->second);
            return std::isnan(value) ? tr("not known") : originMark(origin) + QLatin1Char(' ') + QString::number(value, 'g', 5);
        };
        const auto at = positionOf(cell->first);
        QString tip = at ? tr("position %1 “%2”, channel %3").arg(QString::number(*at), BlockView::tokenText(cell->first), QString::number(cell->second))
                         : tr("slot %1, channel %2").arg(cell->first).arg(cell->second);
        tip += tr("\nbefore: %1\nas stored: %2\nerror: %3")
                   .arg(number(before, Origin::measured), number(stored, Origin::measured), number(error, Origin::derived));
        if (const QString scale = scaleText(cell->first, cell->second); !scale.isEmpty()) tip += QLatin1Char('\n') + scale;
        if (m_outliers.marked[std::size_t{cell->first} * part().width + cell->second]) tip += tr("\noutlier: beyond 6 × RMS of the head");
        return tip;
    }
    return {};
}

void CacheValuesView::mouseMoveEvent(QMouseEvent* event) {
    View::mouseMoveEvent(event);
    if (!values() || isEmptyShown()) return;
    for (const ValueMap& map : m_places.maps)
        if (const auto cell = map.cellAt(event->position())) return cursor()->setHover(pickOf(cell->first));
    cursor()->setHover({});
}

void CacheValuesView::mousePressEvent(QMouseEvent* event) {
    View::mousePressEvent(event);
    if (!values() || isEmptyShown() || event->button() != Qt::LeftButton) return;
    for (const Bar& bar : m_places.heads)
        if (bar.area.contains(event->position())) return chooseHead(layer(), bar.index);
    for (const Bar& bar : m_places.layers)
        if (bar.area.contains(event->position())) return chooseHead(bar.index, kvHead());
    for (const ValueMap& map : m_places.maps)
        if (const auto cell = map.cellAt(event->position())) return cursor()->lock(pickOf(cell->first));
}

QString CacheValuesView::csv() const {
    QString csv = QStringLiteral("lane,block,layer,part,head,position,channel,before_measured,stored_measured,error_derived,outlier,scale_derived,minimum_derived\r\n");
    if (!values() || isEmptyShown()) return csv;
    const auto field = [](double value) { return std::isnan(value) ? QString() : QString::number(value, 'g', 9); };
    const QString lane = QString::fromStdString(cursor()->laneRecord()->info().name);
    for (std::uint32_t token = 0; token < part().tokens; ++token)
        for (std::uint32_t channel = 0; channel < part().width; ++channel) {
            const auto at = positionOf(token);
            const std::size_t group = m_scales.axis == StoredScales::Axis::none ? m_scales.steps.size() : m_scales.index(token, channel);
            csv += csvLine({lane, QString::number(values()->question.block.value), QString::number(values()->question.layer),
                            showsKeys() ? QStringLiteral("keys") : QStringLiteral("values"), QString::number(kvHead()),
                            at ? QString::number(*at) : QString(), QString::number(channel), field(valueAt(before, token, channel)),
                            field(valueAt(stored, token, channel)), field(valueAt(error, token, channel)),
                            m_outliers.marked[std::size_t{token} * part().width + channel] ? QStringLiteral("1") : QStringLiteral("0"),
                            group < m_scales.steps.size() ? field(m_scales.steps[group]) : QString(),
                            group < m_scales.minimums.size() ? field(m_scales.minimums[group]) : QString()});
        }
    return csv;
}

}  // namespace kvloupe
