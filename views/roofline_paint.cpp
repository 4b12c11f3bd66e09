// SPDX-License-Identifier: GPL-3.0-or-later
//
// Drawing of the roofline.
#include "views/roofline_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/stage_look.h"

#include <QLineF>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr double radius = 4.5;   // of a point, pixels at 100 %

// 0.1, 1, 1,000
QString power(double value) {
    return value < 1 ? QString::number(value, 'g', 3) : formatCount(static_cast<quint64>(std::llround(value)));
}

// Boxes along a line, for what must not lie on it.
void addBoxes(const QLineF& line, double size, std::vector<QRectF>& obstacles) {
    const int count = static_cast<int>(line.length() / size) + 1;
    for (int i = 0; i <= count; ++i) {
        const QPointF at = line.pointAt(static_cast<double>(i) / count);
        obstacles.emplace_back(at.x() - size / 2, at.y() - size / 2, size, size);
    }
}

}  // namespace

void RooflineView::paintContent(QPainter& painter, const QRectF& area) {
    const Canvas canvas(painter, palette_(), font(), unit());
    if (m_points.empty()) return;
    const RooflineFrame frame = frameFor(area);
    std::vector<QRectF> obstacles;
    paintAxes(canvas, frame);
    painter.save();
    painter.setClipRect(frame.plot.adjusted(-1, -1, 1, 1), Qt::IntersectClip);
    paintLines(canvas, frame, obstacles);
    paintLegend(canvas, frame, obstacles);
    const bool onScreen = area == QRectF(rect());
    const QRectF link = m_ceilings.measured() ? QRectF() : measureLink(canvas, frame);
    if (onScreen) m_link = link;
    if (!link.isEmpty()) obstacles.push_back(link.united(QRectF(frame.plot.topLeft(), link.bottomLeft())));
    paintPoints(canvas, frame, obstacles);
    painter.restore();
}

void RooflineView::paintAxes(const Canvas& canvas, const RooflineFrame& frame) const {
    QPainter& painter = canvas.painter();
    const TextStyle ticks{10.5, QFont::Normal, canvas.colours().ink3, false};
    const double line = canvas.lineHeight(ticks);
    for (double at = std::ceil(frame.x.first - 1e-9); at <= frame.x.second + 1e-9; at += 1) {
        const double x = frame.toX(at);
        painter.setPen(QPen(canvas.colours().grid, 1));
        painter.drawLine(QPointF(x, frame.plot.top()), QPointF(x, frame.plot.bottom()));
        const QString text = power(std::pow(10, at));
        const double width = canvas.width(text, ticks);
        // That of the corner stands right of it: left of it begins the other axis.
        const double corner = frame.plot.left() + canvas.u(2);
        const double left = std::clamp(x - width / 2, corner, std::max(corner, frame.below.right() + canvas.u(8) - width));
        canvas.text(QRectF(left, frame.below.top(), width + 1, line), text, ticks, Qt::AlignLeft | Qt::AlignVCenter,
                    Qt::ElideNone);
    }
    const bool tera = frame.y.second > 13;
    const int unitOf = tera ? 12 : 9;
    for (double at = std::ceil(frame.y.first - 1e-9); at <= frame.y.second + 1e-9; at += 1) {
        const double y = frame.toY(at);
        painter.setPen(QPen(canvas.colours().grid, 1));
        painter.drawLine(QPointF(frame.plot.left(), y), QPointF(frame.plot.right(), y));
        const double top = std::min(y - line / 2, frame.plot.bottom() - line + canvas.u(2));
        canvas.text(QRectF(frame.left.left(), top, frame.left.width(), line), power(std::pow(10, at - unitOf)),
                    ticks, Qt::AlignRight | Qt::AlignVCenter, Qt::ElideNone);
    }
    painter.setPen(QPen(canvas.colours().line, 1));
    painter.drawLine(frame.plot.bottomLeft(), frame.plot.bottomRight());
    const TextStyle name{10.5, QFont::Normal, canvas.colours().ink2, false};
    canvas.text(
        QRectF(frame.left.left(), frame.plot.top() - canvas.u(18), frame.left.width() + canvas.u(60), canvas.u(15)),
        tera ? tr("TFLOP/s ◐") : tr("GFLOP/s ◐"), name);
    if (frame.below.height() > 2 * line)
        canvas.text(QRectF(frame.plot.left(), frame.below.top() + line, frame.plot.width(), line),
                    tr("FLOP per byte moved ◐"), name, Qt::AlignCenter);
}

void RooflineView::paintLines(const Canvas& canvas, const RooflineFrame& frame, std::vector<QRectF>& obstacles) const {
    QPainter& painter = canvas.painter();
    std::vector<QRectF> names;
    for (const Line& line : lines()) {
        const QColor ink = line.measured ? canvas.colours().ink1 : canvas.colours().ink3;
        painter.setPen(QPen(ink, canvas.u(line.measured ? 2 : 1)));
        const double slope = std::log10(line.slope);
        const double ridge = line.roof > 0 ? std::log10(line.roof / line.slope) : frame.x.second + 1;
        const double end = std::min(ridge, frame.x.second);
        const TextStyle style{10.5, QFont::Normal, ink, false};
        if (end > frame.x.first) {
            const double from = std::max(frame.x.first, frame.y.first - slope);  // where it comes into the plot
            const QLineF rise(frame.toX(from), frame.toY(from + slope), frame.toX(end), frame.toY(end + slope));
            painter.drawLine(rise);
            addBoxes(rise, canvas.u(5), obstacles);
            const double width = canvas.width(line.slopeName, style);
            if (rise.length() > width + canvas.u(24)) {
                const double at = std::clamp(0.42 * rise.length(), canvas.u(12), rise.length() - width - canvas.u(12));
                painter.save();
                painter.translate(rise.pointAt(at / rise.length()));
                painter.rotate(-rise.angle());
                const QRectF words(0, -canvas.u(17), width + 1, canvas.u(14));
                canvas.text(words, line.slopeName, style, Qt::AlignLeft | Qt::AlignVCenter, Qt::ElideNone);
                const QTransform turned = painter.transform();
                painter.restore();
                const QTransform back = turned * painter.transform().inverted();
                addBoxes(back.map(QLineF(QPointF(0, -canvas.u(10)), QPointF(width, -canvas.u(10)))), canvas.u(14), names);
            }
        }
        if (line.roof <= 0 || ridge >= frame.x.second) continue;
        const double y = frame.toY(std::log10(line.roof)), left = frame.toX(std::max(ridge, frame.x.first));
        const QLineF roof(left, y, frame.plot.right(), y);
        painter.drawLine(roof);
        addBoxes(roof, canvas.u(5), obstacles);
        const double width = canvas.width(line.roofName, style);
        for (const double top : {y - canvas.u(16), y + canvas.u(3)}) {
            const QRectF words(frame.plot.right() - width - canvas.u(2), top, width + 1, canvas.u(14));
            if (!frame.plot.contains(words)) continue;
            if (std::any_of(names.begin(), names.end(), [&](const QRectF& other) { return other.intersects(words); }))
                continue;
            canvas.text(words, line.roofName, style, Qt::AlignLeft | Qt::AlignVCenter, Qt::ElideNone);
            names.push_back(words);
            break;
        }
    }
    obstacles.insert(obstacles.end(), names.begin(), names.end());
}

QRectF RooflineView::measureLink(const Canvas& canvas, const RooflineFrame& frame) const {
    TextStyle style{11, QFont::Normal, canvas.colours().ink2, false};
    const QString text = tr("ceilings not measured yet:"), link = tr("measure now");
    const QPointF corner(frame.plot.left() + canvas.u(8), frame.plot.top() + canvas.u(4));
    const double width = canvas.width(text, style), linked = canvas.width(link, style), height = canvas.u(16);
    canvas.text(QRectF(corner, QSizeF(width + 1, height)), text, style, Qt::AlignLeft | Qt::AlignVCenter, Qt::ElideNone);
    style.colour = canvas.colours().accent;
    const QRectF box(corner.x() + width + canvas.u(5), corner.y(), linked + 1, height);
    canvas.text(box, link, style, Qt::AlignLeft | Qt::AlignVCenter, Qt::ElideNone);
    canvas.painter().setPen(QPen(canvas.colours().accent, 1));
    canvas.painter().drawLine(box.bottomLeft(), box.bottomRight());
    return box;
}

void RooflineView::paintLegend(const Canvas& canvas, const RooflineFrame& frame, std::vector<QRectF>& obstacles) const {
    const LaneRecord* lane = cursor()->laneRecord();
    const TextStyle style{11, QFont::Normal, canvas.colours().ink2, false};
    QStringList rows;
    const auto row = [&](const QString& phase, int step) {
        const StepRecord& record = lane->step(static_cast<std::size_t>(step));
        const quint64 tokens = record.computed_tokens;
        rows << (tokens == 1 ? tr("%1, 1 token, step %2").arg(phase, formatCount(static_cast<quint64>(step)))
                             : tr("%1, %2 tokens, step %3")
                                   .arg(phase, formatCount(tokens), formatCount(static_cast<quint64>(step))));
    };
    if (m_decodeStep) row(tr("decode"), *m_decodeStep);
    if (m_prefillStep) row(lane->info().kv_cache ? tr("prefill") : tr("prefix recomputed"), *m_prefillStep);
    double width = 0;
    for (const QString& text : rows) width = std::max(width, canvas.width(text, style));
    const double height = canvas.u(16) * static_cast<double>(rows.size());
    // In the corner that covers least: below the roof on the right where it can.
    const QSizeF size(width + canvas.u(20), height);
    const double left = frame.plot.left() + canvas.u(6), right = frame.plot.right() - size.width() - canvas.u(6);
    const double top = frame.plot.top() + canvas.u(24), bottom = frame.plot.bottom() - height - canvas.u(6);
    QRectF box;
    std::size_t fewest = m_points.size() + obstacles.size() + 1;
    for (const QPointF& corner : {QPointF(right, bottom), QPointF(left, bottom), QPointF(left, top)}) {
        const QRectF place(corner, size);
        std::size_t covered = 0;
        for (const RooflinePoint& point : m_points)
            if (place.adjusted(-6, -6, 6, 6).contains(frame.place(point))) ++covered;
        for (const QRectF& other : obstacles)
            if (other.intersects(place)) ++covered;
        if (covered >= fewest) continue;
        fewest = covered;
        box = place;
    }
    if (box.left() < frame.plot.left() || frame.plot.height() < canvas.u(110)) return;
    obstacles.push_back(box);
    for (int i = 0; i < rows.size(); ++i) {
        const double y = box.top() + canvas.u(16) * (i + 0.5);
        canvas.painter().setPen(QPen(canvas.colours().ink2, canvas.u(1.6)));
        canvas.painter().setBrush(m_decodeStep && i == 0 ? QBrush(canvas.colours().ink2)
                                                         : QBrush(canvas.colours().panel));
        canvas.painter().drawEllipse(QPointF(box.left() + canvas.u(5), y), canvas.u(4), canvas.u(4));
        canvas.text(QRectF(box.left() + canvas.u(15), y - canvas.u(8), width + canvas.u(4), canvas.u(16)), rows[i], style,
                    Qt::AlignLeft | Qt::AlignVCenter, Qt::ElideNone);
    }
}

// "86–92 % of the read bandwidth" of decode stages that one ceiling bounds; else "".
QString RooflineView::shareText(const std::vector<std::size_t>& members) const {
    const RooflinePoint& first = m_points[members.front()];
    if (!first.decode || (first.bound.limit != StageLimit::memory && first.bound.limit != StageLimit::compute)) return {};
    double least = first.bound.share, most = least;
    for (const std::size_t i : members) {
        if (m_points[i].bound.limit != first.bound.limit) return {};
        least = std::min(least, m_points[i].bound.share);
        most = std::max(most, m_points[i].bound.share);
    }
    const QString of = first.bound.limit == StageLimit::memory ? tr("of the read bandwidth") : tr("of the matrix rate");
    const QString low = QString::number(least * 100, 'f', 0), high = QString::number(most * 100, 'f', 0);
    return low == high ? tr("%1 % %2").arg(low, of) : tr("%1–%2 % %3").arg(low, high, of);
}

void RooflineView::paintPoints(const Canvas& canvas, const RooflineFrame& frame,
                               const std::vector<QRectF>& obstacles) const {
    QPainter& painter = canvas.painter();
    // Points of both phases mark their places; those that share a phase and a place share a tag.
    std::vector<QRectF> anchors;
    std::vector<std::vector<std::size_t>> tagged;
    for (const bool decode : {true, false}) {
        std::vector<std::size_t> of;
        std::vector<QPointF> places;
        for (std::size_t i = 0; i < m_points.size(); ++i) {
            const QPointF place = frame.place(m_points[i]);
            if (m_points[i].decode != decode || !frame.plot.adjusted(-2, -2, 2, 2).contains(place)) continue;
            of.push_back(i);
            places.push_back(place);
        }
        for (const auto& cluster : rooflineClusters(places, canvas.u(11))) {
            QRectF anchor;
            std::vector<std::size_t> members;
            for (const std::size_t k : cluster) {
                const double r = canvas.u(radius + 1);
                anchor = anchor.united(QRectF(places[k] - QPointF(r, r), QSizeF(2 * r, 2 * r)));
                members.push_back(of[k]);
            }
            // The stages that take most time come first: they name the tag where room is short.
            std::sort(members.begin(), members.end(), [this](std::size_t a, std::size_t b) {
                return m_points[a].work.duration_ns > m_points[b].work.duration_ns;
            });
            anchors.push_back(anchor);
            tagged.push_back(std::move(members));
        }
    }
    const TextStyle bold{11, QFont::DemiBold, {}, false}, hollow{11, QFont::Normal, {}, false};
    const TextStyle detail{10.5, QFont::Normal, canvas.colours().ink2, false};
    struct Words {
        QString name, detail;
    };
    std::vector<std::vector<QSizeF>> sizes;
    std::vector<std::vector<Words>> words;
    for (const auto& members : tagged) {
        const TextStyle& style = m_points[members.front()].decode ? bold : hollow;
        const QString share = shareText(members);
        std::vector<Words> variants;
        for (const std::size_t count : {std::size_t{4}, std::size_t{2}, std::size_t{1}}) {
            if (count > 1 && count / 2 >= members.size()) continue;  // names no more than the next variant does
            QStringList names;
            for (std::size_t i = 0; i < std::min(count, members.size()); ++i)
                names << stageName(m_points[members[i]].kind);
            QString name = names.join(QStringLiteral(", "));
            if (members.size() > count) name += tr(" and %1 more").arg(members.size() - count);
            if (!share.isEmpty()) variants.push_back({name, share});
            if (share.isEmpty() || count == 1) variants.push_back({name, {}});
        }
        std::vector<QSizeF> offered;
        for (const Words& variant : variants)
            offered.emplace_back(std::max(canvas.width(variant.name, style), canvas.width(variant.detail, detail)) + 2,
                                 canvas.u(variant.detail.isEmpty() ? 14 : 27));
        words.push_back(std::move(variants));
        sizes.push_back(std::move(offered));
    }
    const std::vector<RooflineTag> tags = placeTags(anchors, sizes, frame.plot, obstacles);
    painter.setPen(QPen(canvas.colours().hatch, 1));
    for (std::size_t i = 0; i < tags.size(); ++i) {  // a line to tags that stand further away
        const QRectF& box = tags[i].box;
        if (box.isEmpty()) continue;
        const QPointF from = anchors[i].center();
        const QPointF to(std::clamp(from.x(), box.left(), box.right()), std::clamp(from.y(), box.top(), box.bottom()));
        if (QLineF(from, to).length() > canvas.u(12)) painter.drawLine(from, to);
    }
    for (std::size_t i = 0; i < m_points.size(); ++i) {
        const RooflinePoint& point = m_points[i];
        const QColor colour = colourOf(point.kind, canvas.colours());
        painter.setPen(QPen(point.decode ? canvas.colours().panel : colour, canvas.u(point.decode ? 1 : 2)));
        painter.setBrush(point.decode ? QBrush(colour) : QBrush(Qt::NoBrush));  // a ring around what it covers
        const double size = canvas.u(point.decode ? radius : radius + 0.7);
        painter.drawEllipse(frame.place(point), size, size);
        if (m_hovered != i) continue;
        painter.setPen(QPen(canvas.colours().ink1, canvas.u(1.2)));
        painter.setBrush(Qt::NoBrush);
        painter.drawEllipse(frame.place(point), canvas.u(radius + 3), canvas.u(radius + 3));
    }
    for (std::size_t i = 0; i < tags.size(); ++i) {
        const QRectF& box = tags[i].box;
        if (box.isEmpty()) continue;
        const Words& shown = words[i][tags[i].variant];
        const Qt::Alignment left = Qt::AlignLeft | Qt::AlignVCenter;
        canvas.text(QRectF(box.topLeft(), QSizeF(box.width(), canvas.u(14))), shown.name,
                    m_points[tagged[i].front()].decode ? bold : hollow, left, Qt::ElideNone);
        if (!shown.detail.isEmpty())
            canvas.text(QRectF(box.left(), box.top() + canvas.u(13), box.width(), canvas.u(14)), shown.detail, detail,
                        left, Qt::ElideNone);
    }
}

}  // namespace kvloupe
