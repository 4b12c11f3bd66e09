// SPDX-License-Identifier: GPL-3.0-or-later
//
// Legend and free queue of the block pool's picture.
#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"
#include "views/pool_view.h"

#include <algorithm>

namespace kvloupe {

void PoolView::paintLegend(const Canvas& canvas, const PoolLayout& layout) const {
    if (layout.legend.isEmpty()) return;
    const Palette& colours = canvas.colours();
    const TextStyle style{11, QFont::Normal, colours.ink2, false};
    double x = layout.grid.left();
    const double y = layout.legend.top(), height = layout.legend.height(), end = layout.legend.right();
    const double side = canvas.u(10), middle = layout.legend.center().y();
    // Draws one entry when it fits; the swatch is drawn by the caller's function.
    const auto entry = [&](double swatchWidth, const QString& text, const auto& swatch) {
        const double need = swatchWidth + canvas.u(6) + canvas.width(text, style);
        if (x + need > end) return false;
        swatch(QRectF(x, middle - side / 2, swatchWidth, side));
        canvas.text(QRectF(x + swatchWidth + canvas.u(6), y, need, height), text, style);
        x += need + canvas.u(16);
        return true;
    };
    std::size_t named = 0;
    for (const SequenceId owner : m_owners) {
        if (named == 8) break;
        const QString name = sequenceName(*cursor()->recording(), *cursor()->laneRecord(), owner);
        if (!entry(side, name, [&](const QRectF& box) { canvas.swatch(box, owner.value); })) break;
        ++named;
    }
    if (named < m_owners.size())
        entry(0, tr("+ %1 owners").arg(m_owners.size() - named), [](const QRectF&) {});
    const bool anyShared = std::any_of(m_state->blocks().begin(), m_state->blocks().end(),
                                       [](const BlockState& block) { return block.owners > 1; });
    if (anyShared)
        entry(canvas.u(16), tr("shared, notch counts owners"), [&](const QRectF& box) {
            canvas.painter().fillRect(box, colours.selectedRow);
            canvas.outline(box, colours.ink1, 1);
        });
    if (!m_touched.empty())
        entry(side, tr("changed in this step"), [&](const QRectF& box) { canvas.outline(box, colours.focus, 1.6); });
    if (m_cachedBlocks > 0)
        entry(side, tr("free but cached"), [&](const QRectF& box) {
            canvas.painter().fillRect(box, colours.free);
            canvas.hatch(box, colours.hatch, 3);
            canvas.outline(box, colours.freeBorder, 1);
        });
    entry(side, tr("free"), [&](const QRectF& box) {
        canvas.painter().fillRect(box, colours.free);
        canvas.outline(box, colours.freeBorder, 1);
    });
    if (layout.slotBar)
        entry(canvas.u(24), tr("slots filled, unused"), [&](const QRectF& box) {
            const unsigned owner = cursor()->sequence().valid() ? cursor()->sequence().value : 0;
            const QRectF bar(box.left(), box.center().y() - canvas.u(3), box.width(), canvas.u(6));
            canvas.painter().fillRect(bar, canvas.ownerPale(owner));
            canvas.painter().fillRect(QRectF(bar.left(), bar.top(), bar.width() * 0.6, bar.height()), colours.owner(owner));
        });
}

void PoolView::paintQueue(const Canvas& canvas, const PoolLayout& layout) const {
    if (layout.queue.isEmpty()) return;
    const Palette& colours = canvas.colours();
    const TextStyle caption{11, QFont::Normal, colours.ink2, false}, id{11, QFont::Normal, colours.ink1, true};
    const QString title = m_freeBlocks == 0 ? tr("Free queue is empty: a sequence that needs a block must wait")
                                            : tr("Free queue from the head");
    canvas.text(layout.queue, title, caption);
    double x = std::max(layout.grid.left(), layout.queue.left() + canvas.width(title, caption) + canvas.u(12));
    const double middle = layout.queue.center().y();
    std::size_t shown = 0;
    for (const BlockId block : m_freeOrder) {
        const QString text = QString::number(block.value);
        const double width = std::max(canvas.u(26), canvas.width(text, id) + canvas.u(8));
        if (x + width > layout.queue.right() - canvas.u(52)) break;
        const QRectF box(x, middle - canvas.u(8), width, canvas.u(16));
        canvas.painter().fillRect(box, colours.free);
        const bool meant = meansBlock(cursor()->hover(), cursor()->lane(), block) ||
                           meansBlock(cursor()->locked(), cursor()->lane(), block);
        canvas.outline(box, meant ? colours.ink1 : colours.freeBorder, meant ? 1.5 : 1);
        canvas.text(box, text, id, Qt::AlignCenter, Qt::ElideNone);
        x += width + canvas.u(14);
        if (++shown < m_freeOrder.size()) {
            canvas.painter().setPen(QPen(colours.ink3, canvas.u(1)));
            canvas.painter().drawLine(QPointF(x - canvas.u(12), middle), QPointF(x - canvas.u(3), middle));
            canvas.painter().drawLine(QPointF(x - canvas.u(6), middle - canvas.u(3)), QPointF(x - canvas.u(3), middle));
            canvas.painter().drawLine(QPointF(x - canvas.u(6), middle + canvas.u(3)), QPointF(x - canvas.u(3), middle));
        }
    }
    if (shown < m_freeBlocks)
        canvas.text(QRectF(x, layout.queue.top(), layout.queue.right() - x, layout.queue.height()),
                    tr("+ %1").arg(formatCount(m_freeBlocks - shown)), caption);
}

}  // namespace kvloupe
