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
    if (compares()) return paintDifferenceLegend(canvas, layout);
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
    if (m_colour != PoolColour::owner) {
        paintScale(canvas, layout);
        return;
    }
    std::size_t named = 0;
    for (const SequenceId owner : m_owners) {
        if (named == (m_owners.size() > 8 ? 5u : 8u)) break;  // textures and shapes need room, too
        const QString name = sequenceName(*cursor()->recording(), *cursor()->laneRecord(), owner);
        if (!entry(side, name, [&](const QRectF& box) { canvas.swatch(box, owner.value); })) break;
        ++named;
    }
    if (named < m_owners.size())
        entry(0, tr("+ %1 owners").arg(m_owners.size() - named), [](const QRectF&) {});
    if (m_sharedBlocks > 0)
        entry(canvas.u(20), tr("shared, notch counts owners"), [&](const QRectF& box) {
            const unsigned a = m_owners.empty() ? 0 : m_owners.front().value, b = m_owners.size() > 1 ? m_owners[1].value : a + 1;
            canvas.painter().fillRect(QRectF(box.left(), box.top(), box.width() / 2, box.height()), canvas.ownerFill(a));
            canvas.painter().fillRect(QRectF(box.center().x(), box.top(), box.width() / 2, box.height()), canvas.ownerFill(b));
            canvas.outline(box, colours.ink1, 1.4);
            canvas.painter().setPen(Qt::NoPen);
            canvas.painter().setBrush(colours.ink1);
            const double notch = canvas.u(6);
            canvas.painter().drawPolygon(QPolygonF({box.topRight() - QPointF(notch, 0), box.topRight(), box.topRight() + QPointF(0, notch)}));
        });
    if (!m_touched.empty())
        entry(side, m_blocks.copies().empty() ? tr("named above") : tr("copied"), [&](const QRectF& box) { canvas.outline(box, colours.focus, 1.6); });
    if (!m_blocks.regions().empty()) {
        const unsigned owner = m_blocks.regions().front().sequence.value;
        entry(canvas.u(20), tr("one region"), [&](const QRectF& box) {
            canvas.painter().fillRect(box.adjusted(3, 2, -3, -2), canvas.ownerFill(owner));
            canvas.outline(box, canvas.ownerBorder(owner), 1.5);
        });
        entry(side, tr("reserved, not written"), [&](const QRectF& box) {
            canvas.painter().fillRect(box, canvas.mix(colours.owner(owner), colours.panel, 0.14));
            canvas.outline(box, canvas.ownerBorder(owner), 1, Qt::DashLine);
        });
    }
    const bool anyEvicted = std::any_of(m_freeOrder.begin(), m_freeOrder.end(), [this](BlockId block) { return m_blocks.evicted(block.value); }) ||
                            std::any_of(m_touched.begin(), m_touched.end(), [this](std::uint32_t block) { return m_blocks.evicted(block); });
    if (anyEvicted)
        entry(side, tr("evicted"), [&](const QRectF& box) {
            canvas.painter().fillRect(box, colours.free);
            canvas.outline(box, colours.ink1, 1, Qt::DashLine);
        });
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

QString PoolView::valueText(double value) const {
    if (m_colour == PoolColour::mass) return formatPercent(value);
    const QString count = formatCount(static_cast<quint64>(value));
    return m_colour == PoolColour::count ? count : value == 1 ? tr("1 step") : tr("%1 steps").arg(count);
}

// From pale to strong: the least and the greatest value, what it is and its origin.
void PoolView::paintScale(const Canvas& canvas, const PoolLayout& layout) const {
    const Palette& colours = canvas.colours();
    const TextStyle style{11, QFont::Normal, colours.ink2, false};
    QRectF area(layout.grid.left(), layout.legend.top(), layout.legend.right() - layout.grid.left(), layout.legend.height());
    if (!m_blocks.anyValue()) {
        canvas.text(area, m_colour == PoolColour::mass
                              ? tr("Attention of layer %1, head %2 is not recorded at this step").arg(cursor()->layer()).arg(cursor()->head())
                              : tr("Not recorded"), style);
        return;
    }
    QString what;
    switch (m_colour) {
    case PoolColour::owner: break;
    case PoolColour::count: what = tr("owners (reference count)"); break;
    case PoolColour::age: what = tr("age: steps since the content began"); break;
    case PoolColour::lastUse: what = tr("steps since a sequence last owned it"); break;
    case PoolColour::mass:
        what = tr("attention of the newest query, layer %1, head %2").arg(cursor()->layer()).arg(cursor()->head());
        break;
    }
    canvas.originMark(QPointF(area.left() + canvas.u(5), area.center().y()), PoolBlocks::originOf(m_colour));
    area.setLeft(area.left() + canvas.u(14));
    canvas.text(area, what, style);
    double x = area.left() + canvas.width(what, style) + canvas.u(14);
    const QString least = valueText(0), greatest = valueText(m_blocks.greatest());
    const double need = canvas.width(least, style) + canvas.width(greatest, style) + canvas.u(130);
    if (x + need > area.right()) return;
    canvas.text(QRectF(x, area.top(), canvas.width(least, style) + 2, area.height()), least, style);
    x += canvas.width(least, style) + canvas.u(6);
    const QRectF ramp(x, area.center().y() - canvas.u(5), canvas.u(100), canvas.u(10));
    for (int i = 0; i < 50; ++i)
        canvas.painter().fillRect(QRectF(ramp.left() + ramp.width() * i / 50, ramp.top(), ramp.width() / 50 + 0.5, ramp.height()),
                                  colours.attentionColour((i + 0.5) / 50));
    canvas.outline(ramp, colours.freeBorder, 1);
    canvas.text(QRectF(ramp.right() + canvas.u(6), area.top(), canvas.width(greatest, style) + 2, area.height()), greatest, style);
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
