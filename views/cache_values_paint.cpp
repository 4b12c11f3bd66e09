// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/cache_values_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

void CacheValuesView::paintContent(QPainter& painter, const QRectF& area) {
    if (!values() || part().width == 0) return;
    const Canvas canvas(painter, palette_(), textFont(), unit());
    const Places places = placesFor(area);
    paintMaps(canvas, places);
    paintLabels(canvas, places);
    paintMargins(canvas, places);
    paintScales(canvas, places);
    if (!places.heads.empty()) paintBars(canvas, places.headTitle, tr("Relative error by KV head"), places.heads, kvHead());
    if (!places.layers.empty()) paintBars(canvas, places.layerTitle, tr("… by layer, all its heads"), places.layers, values()->question.layer);
    if (!places.side.isNull()) paintSide(canvas, places.side);
}

// Positions and tokens, as many as fit; what is hovered or locked is outlined in all three maps.
void CacheValuesView::paintLabels(const Canvas& canvas, const Places& places) const {
    const TextStyle tick{10.5, QFont::Normal, canvas.colours().ink3, false}, word{10.5, QFont::Normal, canvas.colours().ink2, false};
    const ValueMap& map = places.maps[before];
    const auto every = static_cast<std::uint32_t>(std::max(1.0, std::ceil(canvas.u(12) / std::max(map.cellHeight(), 0.01))));
    const double number = canvas.u(22);
    for (std::uint32_t token = 0; token < map.tokens; token += every) {
        const QRectF row = map.row(token);
        const QRectF line(places.labels.left(), row.center().y() - canvas.u(7), places.labels.width(), canvas.u(14));
        const auto position = positionOf(token);
        canvas.text(QRectF(line.left(), line.top(), number, line.height()), QString::number(position.value_or(token)), tick,
                    Qt::AlignRight | Qt::AlignVCenter, Qt::ElideNone);
        canvas.text(line.adjusted(number + canvas.u(4), 0, 0, 0), BlockView::tokenText(token), word);
    }
    const auto outline = [&](const Pick& pick, double width) {
        if (!pick.position || !values()->first_position || *pick.position < *values()->first_position) return;
        const std::uint32_t token = *pick.position - *values()->first_position;
        if (token >= map.tokens || !meansToken(pick, cursor()->lane(), values()->sequence, *pick.position)) return;
        for (const ValueMap& each : places.maps) canvas.outline(each.row(token), canvas.colours().ink1, width);
    };
    outline(cursor()->hover(), 1);
    outline(cursor()->locked(), 2);
}

void CacheValuesView::paintMaps(const Canvas& canvas, const Places& places) const {
    const TextStyle name{12, QFont::DemiBold};
    const bool known = part().before_known();
    const double worst = places.maps[error].limit;
    const QString titles[] = {tr("Before storing"), tr("As stored"), worst > 0 ? tr("Error, ±%1").arg(formatSmall(worst)) : tr("Error")};
    for (int i = 0; i < 3; ++i) {
        const ValueMap& map = places.maps[i];
        canvas.text(QRectF(map.area.left(), map.area.top() - canvas.u(20), map.area.width(), canvas.u(17)), titles[i], name);
        map.paint(canvas, [this, i](std::uint32_t token, std::uint32_t channel) { return valueAt(static_cast<Map>(i), token, channel); });
        if (i != stored && !known)
            canvas.text(map.area, tr("not known"), {11, QFont::Normal, canvas.colours().ink2, false}, Qt::AlignCenter);
        if (i != error && (i == stored || known))
            map.mark(canvas, [this](std::uint32_t token, std::uint32_t channel) { return m_outliers.marked[std::size_t{token} * part().width + channel]; });
    }
    paintValueScale(canvas, places.legend, m_largest);
    if (m_outliers.count > 0 && places.channelScales.isNull()) {
        const QRectF line(places.maps[stored].area.left(), places.legend.top(), places.maps[stored].area.width(), canvas.u(14));
        canvas.painter().fillRect(QRectF(line.left(), line.center().y() - canvas.u(2), canvas.u(4), canvas.u(4)), canvas.colours().ink1);
        canvas.text(line.adjusted(canvas.u(9), 0, 0, 0), tr("outlier, |x| > 6 × RMS"), {10.5, QFont::Normal, canvas.colours().ink3, false});
    }
}

// RMS errors of channels below the error map, of tokens beside it, each to its own largest.
void CacheValuesView::paintMargins(const Canvas& canvas, const Places& places) const {
    const ValueMap& map = places.maps[error];
    const auto largest = [](const std::vector<ErrorSum>& sums) {
        double most = 0;
        for (const ErrorSum& sum : sums) most = std::max(most, sum.rms());
        return most;
    };
    const TextStyle tick{10.5, QFont::Normal, canvas.colours().ink3, false};
    const double channels = largest(m_errors.channels), tokens = largest(m_errors.tokens);
    const QColor& bar = canvas.colours().attention[3];
    for (std::uint32_t channel = 0; channel < map.channels && channels > 0; ++channel) {
        const double height = places.channelBars.height() * m_errors.channels[channel].rms() / channels;
        canvas.painter().fillRect(QRectF(map.cell(0, channel).left(), places.channelBars.top(), std::max(map.cellWidth() - 0.5, 0.5), height), bar);
    }
    for (std::uint32_t token = 0; token < map.tokens && tokens > 0; ++token) {
        const QRectF row = map.row(token);
        const double width = places.tokenBars.width() * m_errors.tokens[token].rms() / tokens;
        canvas.painter().fillRect(QRectF(places.tokenBars.left(), row.top() + 0.5, width, std::max(row.height() - 1, 0.5)), bar);
    }
    if (channels > 0)
        canvas.text(QRectF(map.area.left(), places.channelBars.bottom(), map.area.width() + canvas.u(40), canvas.u(14)),
                    tr("RMS by channel, up to %1").arg(formatSmall(channels)), tick);
    if (tokens > 0)
        canvas.text(QRectF(places.tokenBars.left(), map.area.top() - canvas.u(17), places.tokenBars.width() + canvas.u(8), canvas.u(14)), tr("RMS"), tick);
}

// A scale is a bar to the largest of its kind; with a minimum the number stands in the tip of the side.
void CacheValuesView::paintScales(const Canvas& canvas, const Places& places) const {
    if (m_scales.per_entry == 0 || m_scales.steps.empty()) return;
    double most = 0;
    for (const double step : m_scales.steps) most = std::max(most, std::fabs(step));
    const TextStyle tick{10.5, QFont::Normal, canvas.colours().ink3, false};
    const QColor& bar = canvas.colours().keysValues;
    const auto share = [&](std::size_t i) { return most > 0 ? std::fabs(m_scales.steps[i]) / most : 0; };
    if (!places.scales.isNull()) {
        const ValueMap& map = places.maps[error];
        canvas.text(QRectF(places.scales.left(), map.area.top() - canvas.u(17), places.scales.width() + canvas.u(6), canvas.u(14)),
                    tr("scale %1").arg(originMark(Origin::derived)), tick);
        const double room = (places.scales.width() - canvas.u(4)) / m_scales.per_entry;
        for (std::uint32_t token = 0; token < map.tokens; ++token)
            for (std::uint32_t i = 0; i < m_scales.per_entry; ++i) {
                const std::size_t at = std::size_t{token} * m_scales.per_entry + i;
                const QRectF row = map.row(token);
                canvas.painter().fillRect(QRectF(places.scales.left() + i * room, row.top() + 0.5, std::max(0.0, (room - 2) * share(at)), std::max(row.height() - 1, 0.5)), bar);
            }
        canvas.text(QRectF(places.scales.left(), map.area.bottom() + canvas.u(2), places.scales.width() + canvas.u(8), canvas.u(14)),
                    QStringLiteral("≤ %1").arg(formatSmall(most)), tick);
    }
    if (places.channelScales.isNull()) return;
    const ValueMap& map = places.maps[stored];
    for (std::uint32_t channel = 0; channel < map.channels; ++channel)
        for (std::uint32_t i = 0; i < m_scales.per_entry; ++i) {
            const std::size_t at = std::size_t{channel} * m_scales.per_entry + i;
            const double width = map.cellWidth() / m_scales.per_entry;
            canvas.painter().fillRect(QRectF(map.cell(0, channel).left() + i * width, places.channelScales.top(), std::max(width - 0.5, 0.5),
                                             places.channelScales.height() * share(at)), bar);
        }
    canvas.text(QRectF(map.area.left(), places.channelScales.bottom(), map.area.width() + canvas.u(10), canvas.u(14)),
                tr("scale %1 of channels, up to %2").arg(originMark(Origin::derived), formatSmall(most)), tick);
}

void CacheValuesView::paintBars(const Canvas& canvas, const QRectF& title, const QString& text, const std::vector<Bar>& bars, std::uint32_t chosen) const {
    canvas.text(title, text, {11, QFont::DemiBold});
    double most = 0;
    for (const Bar& bar : bars) most = std::max(most, bar.known && std::isfinite(bar.relative) ? bar.relative : 0);
    const TextStyle tick{10.5, QFont::Normal, canvas.colours().ink3, false};
    const double line = canvas.u(13);
    // Numbers stand below every so many bars that they do not touch.
    const auto every = static_cast<std::uint32_t>(std::max(1.0, std::ceil(canvas.u(18) / bars.front().area.width())));
    for (const Bar& bar : bars) {
        const QRectF track(bar.area.left() + 1, bar.area.top() + line, std::max(1.0, bar.area.width() - 3), std::max(1.0, bar.area.height() - 2 * line));
        canvas.painter().fillRect(track, canvas.colours().free);
        if (bar.known && most > 0) {
            const double height = track.height() * std::min(1.0, bar.relative / most);
            canvas.painter().fillRect(QRectF(track.left(), track.bottom() - height, track.width(), height), canvas.colours().attention[3]);
        }
        if (bar.index == chosen) canvas.outline(track, canvas.colours().ink1, 1.5);
        if (bar.area.width() >= canvas.u(36))
            canvas.text(QRectF(bar.area.left(), bar.area.top(), bar.area.width(), line), bar.known ? relativeText(bar.relative) : QStringLiteral("–"), tick,
                        Qt::AlignHCenter | Qt::AlignVCenter, Qt::ElideNone);
        if (bar.index % every == 0)
            canvas.text(QRectF(bar.area.center().x() - canvas.u(12), bar.area.bottom() - line, canvas.u(24), line), QString::number(bar.index), tick,
                        Qt::AlignHCenter | Qt::AlignVCenter, Qt::ElideNone);
    }
}

void CacheValuesView::paintSide(const Canvas& canvas, const QRectF& side) const {
    const ErrorSum& head = m_errors.heads[kvHead()];
    double y = side.top();
    const double line = canvas.u(18);
    const TextStyle name{11, QFont::Normal, canvas.colours().ink2, false};
    const auto fact = [&](const QString& what, Origin origin, const QString& number) {
        if (y + line > side.bottom()) return;
        canvas.text(QRectF(side.left(), y, side.width() * 0.6, line), what, name);
        canvas.number(QRectF(side.left(), y, side.width(), line), origin, number, {11});
        y += line;
    };
    const auto words = [&](const QString& text) {
        if (y + 3 * line > side.bottom()) return;  // a torn paragraph is worse than none
        y += canvas.paragraph(QRectF(side.left(), y, side.width(), side.bottom() - y), text, name) + canvas.u(6);
    };
    canvas.text(QRectF(side.left(), y, side.width(), line), tr("This head"), {12, QFont::DemiBold});
    y += line;
    if (head.known()) {
        fact(tr("largest error"), Origin::derived, formatSmall(head.largest));
        fact(tr("RMS error"), Origin::derived, formatSmall(head.rms()));
        fact(tr("relative"), Origin::derived, relativeText(head.relative()));
    }
    fact(tr("largest |x|"), Origin::measured, formatSmall(m_largest));
    fact(tr("outliers"), Origin::derived, QStringLiteral("%1 / %2").arg(m_outliers.count).arg(m_outliers.marked.size()));
    fact(tr("6 × RMS"), Origin::derived, formatSmall(m_outliers.limit));
    y += canvas.u(8);
    canvas.text(QRectF(side.left(), y, side.width(), line), tr("Scale"), {12, QFont::DemiBold});
    y += line;
    words(QString::fromStdString(m_scales.rule));
    if (part().format.rotate) words(tr("Rows are turned by a Hadamard matrix before they are stored, and turned back here."));
    if (y + 4 * line > side.bottom()) return;
    canvas.text(QRectF(side.left(), y, side.width(), line), tr("Before storing"), {12, QFont::DemiBold});
    y += line;
    words(lossText());
    if (values()->in_page) words(tr("The newest tokens are still in f16: KIVI quantises them when its residual is full."));
}

}  // namespace kvloupe
