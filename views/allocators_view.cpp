// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/allocators_view.h"

#include "views/canvas.h"
#include "views/csv_line.h"
#include "views/format.h"
#include "views/slot_colours.h"

#include <QFontMetricsF>
#include <QKeyEvent>
#include <QMouseEvent>

#include <algorithm>

namespace kvloupe {

AllocatorsView::AllocatorsView(Cursor* cursor, QWidget* parent)
    : ScrollingView(QStringLiteral("allocators"), tr("Allocators"), cursor, parent) {
    connect(&m_history, &SlotHistory::recounted, this, [this] {
        gather();
        update();
    });
}

void AllocatorsView::refresh() {
    m_history.update(cursor()->sharedRecording());
    m_rows.clear();
    setSubtitle({});
    const Recording* recording = cursor()->recording();
    if (!recording || recording->lanes().empty()) {
        setEmpty(tr("Open a model or a scenario to compare how its lanes use their memory."));
        return;
    }
    if (std::none_of(recording->lanes().begin(), recording->lanes().end(), [](const auto& lane) { return lane->info().kv_cache; })) {
        setEmpty(tr("No lane keeps a KV cache: there is no memory to allocate."));
        return;
    }
    if (cursor()->step() < 0) {
        setEmpty(tr("No step has run yet."), tr("Step"), QStringLiteral("step"));
        return;
    }
    setEmpty({});
    gather();
    layOut();
}

void AllocatorsView::gather() {
    m_rows.clear();
    const Recording* recording = cursor()->recording();
    if (isEmptyShown() || !m_history.holds(recording)) return;
    for (std::uint32_t i = 0; i < recording->lanes().size(); ++i) {
        const LaneId id(i);
        const int step = cursor()->stepOf(id);
        if (poolOf(id) == 0 || step < 0) continue;
        const SlotSeries& series = m_history.lane(id);
        const auto at = std::min(static_cast<std::size_t>(step), series.steps() - 1);
        const StepRecord& record = recording->lane(id).step(at);
        Row row;
        row.lane = id;
        row.step = static_cast<int>(at);
        row.now = series.at(at);
        const SlotSums sums = series.sum(0, at + 1);
        for (std::size_t kind = 0; kind < sums.size(); ++kind)
            row.mean[kind] = static_cast<double>(sums[kind]) / static_cast<double>(series.pool()) / static_cast<double>(at + 1);
        row.wasted = series.wastedSoFar(at);
        row.predicted = series.recountedSteps() <= at;
        row.running = record.running;
        row.peakRunning = series.peakRunning(at);
        row.waiting = record.waiting;
        row.rejected = series.rejected(at);
        row.ended = step < cursor()->step();
        m_rows.push_back(row);
    }
    const std::size_t requests = recording->requests().size();
    QString text = tr("at step %1 · %2 on the same %3")
                       .arg(formatCount(static_cast<quint64>(cursor()->step())),
                            m_rows.size() == 1 ? tr("1 lane") : tr("%1 lanes").arg(m_rows.size()),
                            requests == 1 ? tr("request") : tr("%1 requests").arg(formatCount(requests)));
    if (m_history.computing()) text += tr(" · recounting reserved slots");
    setSubtitle(text);
}

AllocatorsView::Columns AllocatorsView::columnsFor(double width) const {
    Columns columns;
    const double scale = unit();
    columns.wide = width > 520 * scale;
    columns.head = 36 * scale;
    columns.row = (columns.wide ? 40 : 58) * scale;
    if (columns.wide) {
        // Names and rules whole, unless they would take a third of the width.
        const QFontMetricsF name(textFont(12, QFont::DemiBold)), small(textFont(11));
        double widest = 0;
        for (const Row& row : m_rows)
            widest = std::max({widest, name.horizontalAdvance(nameOf(row.lane)), small.horizontalAdvance(policyOf(row.lane))});
        columns.name = std::clamp(widest + 16 * scale, 100 * scale, width * 0.34);
    }
    columns.figures = columns.wide ? std::clamp(width * 0.32, 190 * scale, 230 * scale) : 0;
    return columns;
}

void AllocatorsView::layOut() {
    const Columns columns = columnsFor(contentWidth());
    setContentHeight(columns.head + columns.row * static_cast<double>(m_rows.size()) + 8 * unit());
}

QRectF AllocatorsView::rowRect(std::size_t index) const {
    const Columns columns = columnsFor(contentWidth());
    return QRectF(0, columns.head + columns.row * static_cast<double>(index) - offset(), contentWidth(), columns.row);
}

QString AllocatorsView::nameOf(LaneId lane) const { return QString::fromStdString(cursor()->recording()->lane(lane).info().name); }

QString AllocatorsView::policyOf(LaneId lane) const {
    const LaneInfo& info = cursor()->recording()->lane(lane).info();
    if (info.policy.kind == "contiguous") return tr("contiguous, %1").arg(QString::fromStdString(info.policy.reserve));
    QString text = tr("%1 × %2 slots").arg(formatCount(info.blocks - 1u)).arg(info.block_size);
    if (info.policy.kind == "paged") text = tr("paged, ") + text;
    return text;
}

QString AllocatorsView::requestsOf(const Row& row) const {
    QStringList parts{tr("peak %1 running").arg(formatCount(row.peakRunning))};
    if (row.waiting > 0) parts << tr("%1 wait").arg(formatCount(row.waiting));
    if (row.rejected > 0) parts << tr("%1 rejected").arg(formatCount(row.rejected));
    return originMark(Origin::measured) + QLatin1Char(' ') + parts.join(QStringLiteral(" · "));
}

void AllocatorsView::paintContent(QPainter& painter, const QRectF& area) {
    if (m_rows.empty()) return;
    const bool screen = painter.device() == this;
    if (!screen && m_history.computing()) {
        m_history.settle();
        gather();
    }
    const Canvas canvas(painter, palette_(), font(), unit());
    const double width = screen ? contentWidth() : area.width();
    const Columns columns = columnsFor(width);
    for (std::size_t i = 0; i < m_rows.size(); ++i) {
        const QRectF place(area.left(), area.top() + columns.head + columns.row * static_cast<double>(i) - offset(), width, columns.row);
        if (place.bottom() < area.top() || place.top() > area.bottom()) continue;
        paintRow(canvas, place, columns, m_rows[i]);
    }
    painter.fillRect(QRectF(area.left(), area.top(), width, columns.head), canvas.colours().panel);
    paintHead(canvas, QRectF(area.left(), area.top(), width, columns.head), columns);
}

void AllocatorsView::paintHead(const Canvas& canvas, const QRectF& area, const Columns& columns) const {
    const TextStyle style{11, QFont::Normal, canvas.colours().ink2, false};
    const double margin = canvas.u(10);
    slotLegend(canvas, QRectF(area.left() + margin, area.top() + canvas.u(2), area.width() - 2 * margin, canvas.u(16)));
    const QRectF line(area.left() + margin + columns.name, area.top() + canvas.u(18), area.width() - 2 * margin - columns.name, canvas.u(16));
    const QRectF above = line.adjusted(0, 0, -columns.figures, 0);
    const QString whole = tr("share of the pool at the cursor; below, mean so far"), brief = tr("share of the pool; below, mean");
    canvas.text(above, canvas.width(whole, style) <= above.width() ? whole : brief, style);
    if (columns.wide) canvas.text(line, tr("wasted of what is held, mean"), style, Qt::AlignRight | Qt::AlignVCenter);
}

void AllocatorsView::paintBar(const Canvas& canvas, const QRectF& area, const std::array<double, slot_kind_count>& shares, bool labels) const {
    const Palette& colours = canvas.colours();
    double x = area.left();
    for (std::size_t i = 0; i < shares.size(); ++i) {
        const auto kind = static_cast<SlotKind>(i);
        const QRectF part(x, area.top(), area.width() * shares[i], area.height());
        x = part.right();
        if (part.width() <= 0) continue;
        canvas.painter().fillRect(part, slotColour(colours, kind));
        if (kind == SlotKind::cached) canvas.hatch(part, colours.hatch);
        const TextStyle style{10.5, QFont::Medium, {}, false};
        const QString text = formatPercent(shares[i]);
        if (!labels || kind == SlotKind::free || canvas.width(text, style) + canvas.u(6) > part.width()) continue;
        TextStyle own = style;
        // Ink or the panel's colour, whichever is further from the fill.
        const int ground = slotColour(colours, kind).lightness();
        own.colour = std::abs(ground - colours.ink1.lightness()) > std::abs(ground - colours.panel.lightness()) ? colours.ink1 : colours.panel;
        if (kind == SlotKind::cached)
            canvas.painter().fillRect(QRectF(part.center().x() - canvas.width(text, style) / 2 - 2, part.top() + 1, canvas.width(text, style) + 4, part.height() - 2), colours.free);
        canvas.text(part, text, own, Qt::AlignCenter, Qt::ElideNone);
    }
    canvas.painter().setPen(QPen(colours.freeBorder, 1));
    canvas.painter().setBrush(Qt::NoBrush);
    canvas.painter().drawRect(area.adjusted(0.5, 0.5, -0.5, -0.5));
}

void AllocatorsView::paintRow(const Canvas& canvas, const QRectF& area, const Columns& columns, const Row& row) const {
    const Palette& colours = canvas.colours();
    const double margin = canvas.u(10);
    const bool focus = row.lane == cursor()->lane();
    if (focus) canvas.painter().fillRect(area.adjusted(canvas.u(4), 0, -canvas.u(4), -canvas.u(2)), colours.selectedRow);
    const TextStyle title{12, focus ? QFont::DemiBold : QFont::Normal, colours.ink1, false}, small{11, QFont::Normal, colours.ink2, false};
    const auto pool = static_cast<double>(poolOf(row.lane));
    std::array<double, slot_kind_count> now{};
    const SlotSums sums = sumsOf(row.now);
    for (std::size_t kind = 0; kind < sums.size(); ++kind) now[kind] = static_cast<double>(sums[kind]) / pool;
    const QString wasted = row.wasted ? formatPercent(*row.wasted) : tr("nothing held");
    const Origin origin = row.predicted ? Origin::predicted : Origin::derived;
    const QString policy = row.ended ? tr("ended at step %1").arg(formatCount(static_cast<quint64>(row.step))) : policyOf(row.lane);
    const QRectF inner = area.adjusted(margin, canvas.u(3), -margin, -canvas.u(5));
    QRectF bars;
    if (columns.wide) {
        const QRectF name(inner.left(), inner.top(), columns.name - canvas.u(10), canvas.u(16));
        canvas.text(name, nameOf(row.lane), title);
        canvas.text(name.translated(0, canvas.u(16)), policy, small);
        bars = QRectF(inner.left() + columns.name, inner.top() + canvas.u(1), inner.width() - columns.name - columns.figures, inner.height());
        const QRectF figures(inner.right() - columns.figures + canvas.u(12), inner.top(), columns.figures - canvas.u(12), canvas.u(16));
        canvas.number(figures, origin, wasted, {12, QFont::DemiBold});
        canvas.text(figures.translated(0, canvas.u(16)), requestsOf(row), small, Qt::AlignRight | Qt::AlignVCenter);
    } else {
        const QRectF line(inner.left(), inner.top(), inner.width(), canvas.u(16));
        const double used = canvas.number(line, origin, tr("%1 wasted").arg(wasted), {12, QFont::DemiBold});
        const QString name = nameOf(row.lane);
        canvas.text(line.adjusted(0, 0, -used - canvas.u(8), 0), name, title);
        canvas.text(line.adjusted(canvas.width(name, title) + canvas.u(8), 0, -used - canvas.u(8), 0), requestsOf(row), small);
        bars = QRectF(inner.left(), inner.top() + canvas.u(18), inner.width(), inner.height() - canvas.u(18));
    }
    paintBar(canvas, QRectF(bars.left(), bars.top(), bars.width(), canvas.u(17)), now, true);
    paintBar(canvas, QRectF(bars.left(), bars.top() + canvas.u(20), bars.width(), canvas.u(9)), row.mean, false);
    const auto mark = [&](const Pick& pick, double width) {
        if (pick.lane && *pick.lane == row.lane) canvas.outline(area.adjusted(canvas.u(4), 0, -canvas.u(4), -canvas.u(2)), colours.ink1, width);
    };
    if (cursor()->hover().lane && !cursor()->hover().block) mark(cursor()->hover(), 1);
    if (cursor()->locked().lane && !cursor()->locked().block && !cursor()->locked().sequence) mark(cursor()->locked(), 2);
}

int AllocatorsView::rowAt(const QPointF& point) const {
    for (std::size_t i = 0; i < m_rows.size(); ++i)
        if (rowRect(i).contains(point) && point.y() >= columnsFor(contentWidth()).head) return static_cast<int>(i);
    return -1;
}

QString AllocatorsView::tipAt(const QPointF& position) const {
    const int at = rowAt(position);
    if (at < 0) return {};
    const Row& row = m_rows[static_cast<std::size_t>(at)];
    QStringList lines{tr("%1, %2").arg(nameOf(row.lane), policyOf(row.lane))};
    const SlotSums now = sumsOf(row.now);
    for (std::size_t i = 0; i < now.size(); ++i) {
        const auto kind = static_cast<SlotKind>(i);
        const bool may = kind == SlotKind::reserved || kind == SlotKind::internal;
        lines << tr("%1: %2 %3 slots, %4 %5 on average")
                     .arg(slotName(kind), originMark(!may ? Origin::measured : row.predicted ? Origin::predicted : Origin::derived),
                          formatCount(now[i]), originMark(row.predicted && may ? Origin::predicted : Origin::derived), formatPercent(row.mean[i]));
    }
    lines << tr("wasted: (reserved + internal + external) ÷ (that + tokens), mean over the steps in which a request waited,")
          << tr("over all steps if none did");
    return lines.join(QLatin1Char('\n'));
}

void AllocatorsView::mouseMoveEvent(QMouseEvent* event) {
    const int at = rowAt(event->position());
    Pick pick;
    if (at >= 0) pick.lane = m_rows[static_cast<std::size_t>(at)].lane;
    cursor()->setHover(pick);
}

void AllocatorsView::mousePressEvent(QMouseEvent* event) {
    const int at = rowAt(event->position());
    if (event->button() != Qt::LeftButton || at < 0) return;
    Pick pick;
    pick.lane = m_rows[static_cast<std::size_t>(at)].lane;
    cursor()->lock(pick);
}

void AllocatorsView::keyPressEvent(QKeyEvent* event) {
    const int move = event->key() == Qt::Key_Down ? 1 : event->key() == Qt::Key_Up ? -1 : 0;
    const bool enter = event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter;
    if ((move == 0 && !enter) || m_rows.empty()) {
        View::keyPressEvent(event);
        return;
    }
    const Pick& hover = cursor()->hover();
    const LaneId from = hover.lane && !hover.block ? *hover.lane : cursor()->lane();
    Pick pick;
    pick.lane = from;
    if (enter) {
        cursor()->lock(pick);
        return;
    }
    const auto place = std::find_if(m_rows.begin(), m_rows.end(), [from](const Row& row) { return row.lane == from; });
    const auto at = std::clamp<std::ptrdiff_t>((place == m_rows.end() ? 0 : place - m_rows.begin()) + move, 0, std::ssize(m_rows) - 1);
    pick.lane = m_rows[static_cast<std::size_t>(at)].lane;
    cursor()->setHover(pick);
    const QRectF row = rowRect(static_cast<std::size_t>(at));
    ensureVisible(row.top() + offset(), row.bottom() + offset());
}

QString AllocatorsView::csv() const {
    QStringList head{"lane", "step"};
    for (int i = 0; i < slot_kind_count; ++i) head << tr("%1 slots").arg(slotName(static_cast<SlotKind>(i)));
    for (int i = 0; i < slot_kind_count; ++i) head << tr("mean share of the pool, %1 (derived)").arg(slotName(static_cast<SlotKind>(i)));
    head << "origin of reserved and internal" << "wasted percent, mean (derived)" << "peak running (measured)" << "waiting (measured)"
         << "rejected (measured)";
    QString text = csvLine(head);
    for (const Row& row : m_rows) {
        QStringList fields{nameOf(row.lane), QString::number(row.step)};
        for (const std::uint64_t count : sumsOf(row.now)) fields << QString::number(count);
        for (const double share : row.mean) fields << QString::number(share, 'g', 9);
        fields << originName(row.predicted ? Origin::predicted : Origin::derived)
               << (row.wasted ? QString::number(100 * *row.wasted, 'g', 12) : QString()) << QString::number(row.peakRunning)
               << QString::number(row.waiting) << QString::number(row.rejected);
        text += csvLine(fields);
    }
    return text;
}

}  // namespace kvloupe
