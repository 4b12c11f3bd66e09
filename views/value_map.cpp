// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/value_map.h"

#include "views/canvas.h"
#include "views/format.h"

#include <QImage>

#include <algorithm>
#include <cmath>

namespace kvloupe {

QColor divergingColour(const Palette& palette, double share) {
    const double depth = std::sqrt(std::clamp(std::fabs(share), 0.0, 1.0));
    const QColor& full = palette.owners[share < 0 ? 0 : 5];
    const auto between = [depth](int from, int to) { return static_cast<int>(std::lround(from + (to - from) * depth)); };
    return QColor(between(palette.panel.red(), full.red()), between(palette.panel.green(), full.green()),
                  between(palette.panel.blue(), full.blue()));
}

void paintValueScale(const Canvas& canvas, const QRectF& area, double limit) {
    const TextStyle tick{10.5, QFont::Normal, canvas.colours().ink3, false};
    const QString right = formatSmall(limit), left = QStringLiteral("−") + right;
    const double words = canvas.width(left, tick) + canvas.u(4);
    const QRectF ramp(area.left() + words, area.center().y() - canvas.u(4), std::max(0.0, std::min(canvas.u(110), area.width() - 2 * words)), canvas.u(8));
    if (ramp.width() < canvas.u(20)) return;
    QImage image(65, 1, QImage::Format_RGB32);
    for (int x = 0; x < 65; ++x) image.setPixel(x, 0, divergingColour(canvas.colours(), (x - 32) / 32.0).rgb());
    canvas.painter().drawImage(ramp, image);
    canvas.painter().setPen(QPen(canvas.colours().line, 1));
    canvas.painter().setBrush(Qt::NoBrush);
    canvas.painter().drawRect(ramp);
    canvas.text(QRectF(area.left(), area.top(), words - canvas.u(4), area.height()), left, tick, Qt::AlignRight | Qt::AlignVCenter, Qt::ElideNone);
    canvas.text(QRectF(ramp.right() + canvas.u(4), area.top(), words, area.height()), right, tick, Qt::AlignLeft | Qt::AlignVCenter, Qt::ElideNone);
}

std::optional<std::pair<std::uint32_t, std::uint32_t>> ValueMap::cellAt(const QPointF& point) const {
    if (tokens == 0 || channels == 0 || !area.contains(point)) return {};
    const auto token = static_cast<std::uint32_t>((point.y() - area.top()) / cellHeight());
    const auto channel = static_cast<std::uint32_t>((point.x() - area.left()) / cellWidth());
    if (token >= tokens || channel >= channels) return {};
    return std::pair(token, channel);
}

QRectF ValueMap::cell(std::uint32_t token, std::uint32_t channel) const {
    return QRectF(area.left() + channel * cellWidth(), area.top() + token * cellHeight(), cellWidth(), cellHeight());
}

QRectF ValueMap::row(std::uint32_t token) const {
    return QRectF(area.left(), area.top() + token * cellHeight(), area.width(), cellHeight());
}

void ValueMap::paint(const Canvas& canvas, const Value& value) const {
    const auto columns = static_cast<int>(std::min<double>(channels, std::max(1.0, std::floor(area.width()))));
    const auto lines = static_cast<int>(std::min<double>(tokens, std::max(1.0, std::floor(area.height()))));
    if (tokens == 0 || channels == 0 || area.width() < 1 || area.height() < 1) return;
    QImage image(columns, lines, QImage::Format_ARGB32);
    image.fill(Qt::transparent);
    bool known = true;
    for (int y = 0; y < lines; ++y) {
        const auto first = static_cast<std::uint32_t>(std::uint64_t{tokens} * static_cast<unsigned>(y) / static_cast<unsigned>(lines));
        const auto end = static_cast<std::uint32_t>(std::uint64_t{tokens} * (static_cast<unsigned>(y) + 1) / static_cast<unsigned>(lines));
        auto* line = reinterpret_cast<QRgb*>(image.scanLine(y));
        for (int x = 0; x < columns; ++x) {
            const auto from = static_cast<std::uint32_t>(std::uint64_t{channels} * static_cast<unsigned>(x) / static_cast<unsigned>(columns));
            const auto to = static_cast<std::uint32_t>(std::uint64_t{channels} * (static_cast<unsigned>(x) + 1) / static_cast<unsigned>(columns));
            double largest = std::nan("");
            for (std::uint32_t token = first; token < end; ++token)
                for (std::uint32_t channel = from; channel < to; ++channel) {
                    const double here = value(token, channel);
                    if (!std::isnan(here) && (std::isnan(largest) || std::fabs(here) > std::fabs(largest))) largest = here;
                }
            if (std::isnan(largest)) known = false;
            else line[x] = divergingColour(canvas.colours(), limit > 0 ? largest / limit : 0).rgb();
        }
    }
    QPainter& painter = canvas.painter();
    if (!known) canvas.hatch(area, canvas.colours().hatch);
    painter.setRenderHint(QPainter::SmoothPixmapTransform, false);
    painter.drawImage(area, image);
    painter.setPen(QPen(canvas.colours().line, 1));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(area);
}

void ValueMap::mark(const Canvas& canvas, const std::function<bool(std::uint32_t, std::uint32_t)>& marked) const {
    const double size = std::clamp(std::min(cellWidth(), cellHeight()) * 0.5, canvas.u(2), canvas.u(5));
    canvas.painter().setPen(Qt::NoPen);
    canvas.painter().setBrush(canvas.colours().ink1);
    for (std::uint32_t token = 0; token < tokens; ++token)
        for (std::uint32_t channel = 0; channel < channels; ++channel)
            if (marked(token, channel)) {
                const QPointF centre = cell(token, channel).center();
                canvas.painter().drawRect(QRectF(centre.x() - size / 2, centre.y() - size / 2, size, size));
            }
}

}  // namespace kvloupe
