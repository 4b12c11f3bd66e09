// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/window_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

void WindowView::paintContent(QPainter& painter, const QRectF& area) {
    if (m_rows.empty()) return;
    const Canvas canvas(painter, palette_(), textFont(), unit());
    QRectF room = area;
    room.setWidth(std::min(area.width(), contentWidth()));
    painter.save();
    painter.setClipRect(QRectF(area.left(), area.top(), area.width(), area.height() - canvas.u(24)), Qt::IntersectClip);
    paintAxis(canvas, room);
    for (std::size_t row = 0; row < m_rows.size(); ++row) paintRow(canvas, row, room);
    painter.restore();
    paintLegend(canvas, QRectF(area.left() + canvas.u(12), area.bottom() - canvas.u(22), area.width() - canvas.u(24), canvas.u(18)));
}

// Positions: a label at every few blocks.
void WindowView::paintAxis(const Canvas& canvas, const QRectF& area) const {
    const QRectF strip = stripOf(0, area);
    const TextStyle tick{10.5, QFont::Normal, canvas.colours().ink3, false};
    const double block = strip.width() * m_blockSize / slots();
    const double need = canvas.width(QString::number(slots()), tick) + canvas.u(14);
    const auto every = static_cast<std::uint32_t>(std::max(1.0, std::ceil(need / block)));
    for (std::uint32_t i = 0; i * m_blockSize < slots(); i += every) {
        const double x = strip.left() + i * block;
        canvas.text(QRectF(x, area.top() + canvas.u(4) - offset(), need, canvas.u(14)), QString::number(i * m_blockSize), tick);
    }
    if (strip.left() - area.left() > canvas.u(100))
        canvas.text(QRectF(area.left() + canvas.u(12), area.top() + canvas.u(4) - offset(), canvas.u(130), canvas.u(14)), tr("position"), tick);
}

void WindowView::paintRow(const Canvas& canvas, std::size_t index, const QRectF& area) const {
    const WindowRow& row = m_rows[index];
    const QRectF strip = stripOf(index, area);
    const bool labels = strip.left() - area.left() > canvas.u(100);
    const TextStyle fact{11, QFont::Normal, canvas.colours().ink2, false};
    if (labels) {
        const QRectF label(area.left() + canvas.u(12), strip.top() - canvas.u(4), canvas.u(132), canvas.u(16));
        canvas.text(label, layersText(row), {12, QFont::DemiBold});
        canvas.text(label.translated(0, canvas.u(16)), ruleText(row), fact);
    }
    for (const SlotRun& run : row.runs) {
        const double left = strip.left() + strip.width() * run.first / slots(), right = strip.left() + strip.width() * run.end / slots();
        paintRun(canvas, QRectF(left, strip.top(), right - left, strip.height()), run.use);
    }
    if (!folded(strip)) paintBlocks(canvas, row, strip);
    const QString facts = labels ? factsText(row) : layersText(row) + QStringLiteral(", ") + ruleText(row) + QStringLiteral(": ") + factsText(row);
    canvas.paragraph(QRectF(strip.left(), strip.bottom() + canvas.u(3), strip.width(), canvas.u(32)), facts, fact);
    const auto outline = [&](const Pick& pick, double width) {
        if (!pick.position || !meansToken(pick, cursor()->lane(), m_sequence, *pick.position) || *pick.position >= row.table.size() * m_blockSize) return;
        const double slot = strip.width() / slots(), wide = std::max(slot, canvas.u(4));
        const double left = strip.left() + slot * (*pick.position + 0.5) - wide / 2;
        canvas.outline(QRectF(left, strip.top() - canvas.u(2), wide, strip.height() + canvas.u(4)), canvas.colours().ink1, width);
    };
    outline(cursor()->hover(), 1);
    outline(cursor()->locked(), 2);
}

// Hue is the sequence; solid is seen, hatched is in the cache and masked, an empty dotted box is gone.
void WindowView::paintRun(const Canvas& canvas, const QRectF& box, SlotUse use) const {
    QPainter& painter = canvas.painter();
    const unsigned owner = m_sequence.value;
    switch (use) {
    case SlotUse::sink: painter.fillRect(box, canvas.ownerBorder(owner)); break;
    case SlotUse::seen: painter.fillRect(box, canvas.ownerFill(owner)); break;
    case SlotUse::kept:
        painter.fillRect(box, canvas.ownerPale(owner));
        canvas.hatch(box, canvas.colours().hatch);
        break;
    case SlotUse::given_up: canvas.outline(box.adjusted(0.5, 0.5, -0.5, -0.5), canvas.colours().hatch, 1, Qt::DotLine); break;
    case SlotUse::unwritten: painter.fillRect(box, canvas.colours().free); break;
    }
}

void WindowView::paintBlocks(const Canvas& canvas, const WindowRow& row, const QRectF& strip) const {
    const double width = strip.width() * m_blockSize / slots();
    const TextStyle id{10.5, QFont::Normal, canvas.colours().ink2, true};
    double labelled = strip.left();
    for (std::size_t i = 0; i < row.table.size(); ++i) {
        const QRectF box(strip.left() + static_cast<double>(i) * width, strip.top(), width, strip.height());
        if (row.table[i] == null_block_id) continue;
        canvas.outline(box, canvas.colours().freeBorder, 1);
        const QString name = QString::number(row.table[i].value);
        const double need = canvas.width(name, id) + canvas.u(4);
        if (box.left() < labelled || need > width + canvas.u(8)) continue;
        canvas.text(QRectF(box.left() + 1, box.top() - canvas.u(15), need, canvas.u(14)), name, id, Qt::AlignLeft | Qt::AlignVCenter, Qt::ElideNone);
        labelled = box.left() + need;
    }
}

void WindowView::paintLegend(const Canvas& canvas, const QRectF& area) const {
    const TextStyle word{10.5, QFont::Normal, canvas.colours().ink2, false};
    double x = area.left();
    for (const SlotUse use : {SlotUse::seen, SlotUse::sink, SlotUse::kept, SlotUse::given_up, SlotUse::unwritten}) {
        const bool present = std::any_of(m_rows.begin(), m_rows.end(), [use](const WindowRow& row) { return row.count(use) > 0; });
        if (!present) continue;
        const QString text = nameOf(use);
        const double need = canvas.u(22) + canvas.width(text, word) + canvas.u(14);
        if (x + need > area.right()) return;
        paintRun(canvas, QRectF(x, area.top() + canvas.u(3), canvas.u(18), canvas.u(12)), use);
        canvas.text(QRectF(x + canvas.u(22), area.top(), need, area.height()), text, word);
        x += need;
    }
    if (folded(stripOf(0, area)))
        canvas.text(QRectF(x, area.top(), area.right() - x, area.height()), tr("folded: blocks of %1 slots are narrower than 3 pixels").arg(m_blockSize), word);
}

}  // namespace kvloupe
