// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/latent_view.h"

#include "views/canvas.h"
#include "views/csv_line.h"
#include "views/picking.h"

#include <QMouseEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

double largestOf(const BlockPart& part, std::uint32_t head) {
    double largest = 0;
    for (std::uint32_t token = 0; token < part.tokens; ++token)
        for (std::uint32_t channel = 0; channel < part.width; ++channel)
            if (const double value = std::fabs(static_cast<double>(part.stored[part.at(head, token, channel)])); value > largest) largest = value;
    return largest;
}

}  // namespace

LatentView::LatentView(Cursor* cursor, QWidget* parent) : BlockView(QStringLiteral("latent"), tr("Latent"), cursor, parent) {}

QString LatentView::whyNot(const LaneInfo& info) const {
    if (info.latent_rank > 0) return {};
    QStringList others;
    for (const auto& lane : cursor()->recording()->lanes())
        if (lane->info().latent_rank > 0) others << QString::fromStdString(lane->info().name);
    const QString keeps = tr("Lane %1 keeps keys and values of %2 heads, and no latent.").arg(QString::fromStdString(info.name)).arg(info.kv_heads);
    return others.isEmpty() ? keeps + tr(" A model with multi-head latent attention, or one converted to it, keeps one.")
                            : keeps + tr(" Lanes that keep one: %1.").arg(others.join(QStringLiteral(", ")));
}

std::uint32_t LatentView::headCount() const {
    const LaneRecord* lane = cursor()->laneRecord();
    if (values() && values()->expanded_keys.heads > 0) return values()->expanded_keys.heads;
    return lane ? std::max(1u, lane->info().query_heads) : 1;
}

void LatentView::valuesChanged() {
    if (!values()->latent) return setEmpty(whyNot(cursor()->laneRecord()->info()));
    m_shown = shownIn(QRectF(rect()));
    setSubtitle(tr("block %1, layer %2, head %3 of %4 · %5 · %6")
                    .arg(QString::number(values()->question.block.value), QString::number(values()->question.layer), QString::number(kvHead()),
                         QString::number(headCount()), whereText(), QString::fromStdString(text_of(values()->keys.format))));
}

QRectF LatentView::sideIn(const QRectF& area) const {
    const double u = unit();
    if (area.width() < 600 * u) return {};
    return QRectF(area.right() - 206 * u, area.top() + 6 * u, 196 * u, area.height() - 14 * u);
}

// Kept above, stood for below; widths in proportion to the channels, so that one channel is as wide everywhere in a row.
std::vector<LatentView::Shown> LatentView::shownIn(const QRectF& area) const {
    std::vector<Shown> shown;
    if (!values() || !values()->latent) return shown;
    const double u = unit();
    const QRectF side = sideIn(area);
    QRectF room = area.adjusted(72 * u, 6 * u, -10 * u, -8 * u);
    if (!side.isNull()) room.setRight(side.left() - 16 * u);
    const bool expanded = values()->expanded_keys.heads > 0;
    const double rowHeight = (room.height() - (expanded ? 10 * u : 0)) / (expanded ? 2 : 1);
    const double title = 19 * u, legend = 17 * u;
    const double height = std::max(6.0, std::min(rowHeight - title - legend, values()->tokens * 20 * u));
    const std::uint32_t head = kvHead();
    const auto add = [&](const BlockPart& part, const QString& name, const char* key, std::uint32_t of, double left, double width, double top) {
        if (part.width == 0) return;
        Shown each;
        each.title = name;
        each.key = key;
        each.part = &part;
        each.head = of;
        each.map.area = QRectF(left, top, std::max(4.0, width), height);
        each.map.tokens = part.tokens;
        each.map.channels = part.width;
        each.map.limit = largestOf(part, of);
        shown.push_back(std::move(each));
    };
    const auto row = [&](const BlockPart& first, const BlockPart& second, double top, const QString& one, const QString& two, const char* oneKey,
                         const char* twoKey, std::uint32_t of) {
        const double gap = second.width > 0 ? 22 * u : 0;
        const double channel = (room.width() - gap) / std::max(1u, first.width + second.width);
        add(first, one, oneKey, of, room.left(), channel * first.width, top);
        add(second, two, twoKey, of, room.left() + channel * first.width + gap, channel * second.width, top);
    };
    row(values()->keys, values()->values, room.top() + title, tr("Latent, as kept: %1 values").arg(values()->keys.width),
        tr("Rotary key: %1").arg(values()->values.width), "latent", "rotary_key", 0);
    if (!expanded) return shown;
    row(values()->expanded_keys, values()->expanded_values, room.top() + rowHeight + 10 * u + title,
        tr("Key of head %1: %2").arg(head).arg(values()->expanded_keys.width), tr("Value of head %1: %2").arg(head).arg(values()->expanded_values.width),
        "key", "value", head);
    return shown;
}

void LatentView::paintContent(QPainter& painter, const QRectF& area) {
    const Canvas canvas(painter, palette_(), textFont(), unit());
    const std::vector<Shown> shown = shownIn(area);
    if (shown.empty()) return;
    const TextStyle tick{10.5, QFont::Normal, canvas.colours().ink3, false}, word{10.5, QFont::Normal, canvas.colours().ink2, false};
    double labelled = -1;
    for (const Shown& each : shown) {
        const QRectF& map = each.map.area;
        canvas.text(QRectF(map.left(), map.top() - canvas.u(19), map.width() + canvas.u(20), canvas.u(17)), each.title, {12, QFont::DemiBold});
        each.map.paint(canvas, [&each](std::uint32_t token, std::uint32_t channel) {
            return static_cast<double>(each.part->stored[each.part->at(each.head, token, channel)]);
        });
        paintValueScale(canvas, QRectF(map.left(), map.bottom() + canvas.u(3), map.width(), canvas.u(13)), each.map.limit);
        for (const auto& [pick, width] : {std::pair(cursor()->hover(), 1.0), std::pair(cursor()->locked(), 2.0)}) {
            if (!pick.position || !values()->first_position || *pick.position < *values()->first_position) continue;
            const std::uint32_t token = *pick.position - *values()->first_position;
            if (token < each.map.tokens && meansToken(pick, cursor()->lane(), values()->sequence, *pick.position))
                canvas.outline(each.map.row(token), canvas.colours().ink1, width);
        }
        if (map.top() == labelled) continue;  // one column of positions for each row of maps
        labelled = map.top();
        const auto every = static_cast<std::uint32_t>(std::max(1.0, std::ceil(canvas.u(12) / std::max(each.map.cellHeight(), 0.01))));
        for (std::uint32_t token = 0; token < each.map.tokens; token += every) {
            const double y = each.map.row(token).center().y() - canvas.u(7);
            canvas.text(QRectF(area.left() + canvas.u(8), y, canvas.u(24), canvas.u(14)), QString::number(positionOf(token).value_or(token)), tick,
                        Qt::AlignRight | Qt::AlignVCenter, Qt::ElideNone);
            canvas.text(QRectF(area.left() + canvas.u(36), y, canvas.u(34), canvas.u(14)), BlockView::tokenText(token), word);
        }
    }
    if (const QRectF side = sideIn(area); !side.isNull()) paintSide(canvas, side);
}

void LatentView::paintSide(const Canvas& canvas, const QRectF& side) const {
    const LaneInfo& info = cursor()->laneRecord()->info();
    const double line = canvas.u(18);
    double y = side.top();
    const TextStyle name{11, QFont::Normal, canvas.colours().ink2, false};
    const auto head = [&](const QString& text) {
        if (y + line > side.bottom()) return;
        canvas.text(QRectF(side.left(), y, side.width(), line), text, {12, QFont::DemiBold});
        y += line;
    };
    const auto fact = [&](const QString& what, const QString& number) {
        if (y + line > side.bottom()) return;
        canvas.text(QRectF(side.left(), y, side.width() * 0.62, line), what, name);
        canvas.number(QRectF(side.left(), y, side.width(), line), Origin::derived, number, {11});
        y += line;
    };
    const std::uint64_t kept = values()->keys.width + values()->values.width;
    const BlockPart &keys = values()->expanded_keys, &rows = values()->expanded_values;
    const std::uint64_t stoodFor = std::uint64_t{keys.heads} * (keys.width + rows.width);
    head(tr("Of a token in this layer"));
    fact(tr("values kept"), formatCount(kept));
    const std::uint32_t at = values()->question.layer;
    if (at < info.layer_infos.size()) fact(tr("bytes kept"), QString::number(info.layer_infos[at].bytes_per_token(), 'g', 6) + QStringLiteral(" B"));
    if (stoodFor > 0) {
        fact(tr("heads"), formatCount(keys.heads));
        fact(tr("values stood for"), formatCount(stoodFor));
        fact(tr("÷ kept"), QString::number(static_cast<double>(stoodFor) / static_cast<double>(std::max<std::uint64_t>(1, kept)), 'f', 1));
    }
    y += canvas.u(8);
    const QString form = QString::fromStdString(info.latent_form);
    QString words = form == QLatin1String("expanded")
                        ? tr("This lane makes the keys and values of all heads anew in every step.")
                        : tr("This lane attends over the latents themselves: keys and values of its heads are never in memory. They are made here to be looked at.");
    if (!info.conversion.empty()) words += tr(" The model was converted %1.").arg(QString::fromStdString(info.conversion));
    if (!values()->expansion_problem.empty()) words = QString::fromStdString(values()->expansion_problem);
    if (y + line < side.bottom()) canvas.paragraph(QRectF(side.left(), y, side.width(), side.bottom() - y), words, name);
}

std::optional<std::pair<const LatentView::Shown*, std::pair<std::uint32_t, std::uint32_t>>> LatentView::at(const QPointF& point) const {
    if (!values() || isEmptyShown()) return {};
    for (const Shown& each : m_shown)
        if (const auto cell = each.map.cellAt(point)) return std::pair(&each, *cell);
    return {};
}

QString LatentView::tipAt(const QPointF& position) const {
    const auto found = at(position);
    if (!found) return {};
    const Shown& shown = *found->first;
    const std::uint32_t token = found->second.first, channel = found->second.second;
    const bool kept = shown.part == &values()->keys || shown.part == &values()->values;
    return tr("%1\nposition %2 “%3”, channel %4: %5 %6")
        .arg(shown.title, QString::number(positionOf(token).value_or(token)), BlockView::tokenText(token), QString::number(channel),
             originMark(kept ? Origin::measured : Origin::derived),
             QString::number(static_cast<double>(shown.part->stored[shown.part->at(shown.head, token, channel)]), 'g', 5));
}

void LatentView::mouseMoveEvent(QMouseEvent* event) {
    View::mouseMoveEvent(event);
    const auto found = at(event->position());
    cursor()->setHover(found ? pickOf(found->second.first) : Pick{});
}

void LatentView::mousePressEvent(QMouseEvent* event) {
    View::mousePressEvent(event);
    if (const auto found = at(event->position()); found && event->button() == Qt::LeftButton) cursor()->lock(pickOf(found->second.first));
}

QString LatentView::csv() const {
    QString csv = QStringLiteral("lane,block,layer,what,head,position,channel,value,origin\r\n");
    if (!values() || isEmptyShown()) return csv;
    const QString lane = QString::fromStdString(cursor()->laneRecord()->info().name);
    for (const Shown& each : shownIn(QRectF(rect()))) {
        const bool kept = each.part == &values()->keys || each.part == &values()->values;
        for (std::uint32_t token = 0; token < each.part->tokens; ++token)
            for (std::uint32_t channel = 0; channel < each.part->width; ++channel)
                csv += csvLine({lane, QString::number(values()->question.block.value), QString::number(values()->question.layer),
                                QString::fromLatin1(each.key), QString::number(each.head),
                                positionOf(token) ? QString::number(*positionOf(token)) : QString(), QString::number(channel),
                                QString::number(static_cast<double>(each.part->stored[each.part->at(each.head, token, channel)]), 'g', 9),
                                kept ? QStringLiteral("measured") : QStringLiteral("derived")});
    }
    return csv;
}

}  // namespace kvloupe
