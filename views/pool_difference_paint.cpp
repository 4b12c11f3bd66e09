// SPDX-License-Identifier: GPL-3.0-or-later
//
// The block pool compared with another lane's: what each block holds here alone, there alone, or in both but not the same.
#include "views/pool_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"
#include "views/reference.h"

#include <algorithm>

namespace kvloupe {

namespace {

QString poolStateOf(const BlockState& block) {
    return block.owners > 0 ? QStringLiteral("used") : block.cached() ? QStringLiteral("cached") : QStringLiteral("free");
}

void fillChange(const Canvas& canvas, const QRectF& cell, BlockChange change) {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    painter.setPen(Qt::NoPen);
    switch (change) {
    case BlockChange::same: break;
    case BlockChange::here: painter.fillRect(cell, colours.here); break;
    case BlockChange::there:  // nothing of it lies here: hatched
        painter.fillRect(cell, canvas.mix(colours.there, colours.panel, 0.18));
        canvas.hatch(cell, colours.there, 4);
        break;
    case BlockChange::differs:
        painter.setBrush(colours.here);
        painter.drawPolygon(QPolygonF({cell.topLeft(), cell.topRight(), cell.bottomLeft()}));
        painter.setBrush(colours.there);
        painter.drawPolygon(QPolygonF({cell.bottomRight(), cell.topRight(), cell.bottomLeft()}));
        break;
    }
}

}  // namespace

void PoolView::updateDifference() {
    const Reference* reference = cursor()->reference();
    if (!reference || !m_showDifference || reference->isSameLane() || !reference->laneRecord().info().kv_cache) return;
    const LaneState* there = reference->state();
    if (!there) return;
    m_thereOwners.collect(*there);
    m_difference = poolDifference(*m_state, *there, reference->sameSequences(),
                                  hashAlike(cursor()->laneRecord()->info(), reference->laneRecord().info()));
    // A block that is not full was written in as many steps as it has tokens, a few more where its sequence waited.
    const std::size_t steps = 4 * std::size_t{m_state->block_size()};
    const auto step = static_cast<std::size_t>(std::max(0, cursor()->stepOf(cursor()->lane())));
    compareTokens(m_difference, *m_state, RecentTokens(*cursor()->recording(), *cursor()->laneRecord(), step, steps), *there,
                  RecentTokens(*reference->recording(), reference->laneRecord(), static_cast<std::size_t>(reference->step()), steps));
}

QString PoolView::describeDifference(BlockId block) const {
    const Reference& reference = *cursor()->reference();
    const LaneState* there = reference.state();
    if (!there) return {};
    const QString where = tr("%1, step %2").arg(reference.label(), formatCount(static_cast<quint64>(reference.step())));
    if (m_difference.at(block.value) == BlockChange::same) return tr("The same in %1.").arg(where);
    if (block.value >= there->blocks().size()) return tr("%1 has no block %2.").arg(where).arg(block.value);
    const BlockState& other = there->blocks()[block.value];
    if (other.owners == 0) return other.cached() ? tr("In %1: free but cached.").arg(where) : tr("In %1: free.").arg(where);
    QStringList owners;
    for (const BlockOwner& owner : m_thereOwners.of(block.value))
        owners << tr("%1 logical %2").arg(sequenceName(*reference.recording(), reference.laneRecord(), owner.sequence)).arg(owner.logical);
    return tr("In %1: reference count %2 (%3), %4 of %5 slots filled.")
        .arg(where, QString::number(other.owners), owners.join(QStringLiteral(", ")), QString::number(other.filled),
             QString::number(there->block_size()));
}

QStringList PoolView::differenceFields(std::uint32_t block) const {
    static const char* const names[] = {"same", "only here", "only there", "differs"};
    const Reference& reference = *cursor()->reference();
    const LaneState* there = reference.state();
    const QString change = QLatin1String(names[static_cast<int>(m_difference.at(block))]);
    if (!there || block >= there->blocks().size()) return {change, QString(), QString(), QString(), QString()};
    const BlockState& other = there->blocks()[block];
    QStringList owners;
    for (const BlockOwner& owner : m_thereOwners.of(block))
        owners << sequenceName(*reference.recording(), reference.laneRecord(), owner.sequence);
    return {change, block == 0 ? QStringLiteral("null") : poolStateOf(other), QString::number(block ? other.owners : 0),
            owners.join(QStringLiteral("; ")), QString::number(block ? other.filled : 0)};
}

// Where there is no difference the cell is quiet: grey in use, hatched cached, empty free.
void PoolView::paintDifference(const Canvas& canvas, const PoolLayout& layout, std::uint32_t block) const {
    const QRectF cell = layout.cell(block);
    const Palette& colours = canvas.colours();
    const BlockState& stored = m_state->blocks()[block];
    const BlockChange change = m_difference.at(block);
    const bool used = block > 0 && stored.owners > 0;
    canvas.painter().fillRect(cell, block == 0 ? colours.panel : used ? canvas.mix(colours.ink2, colours.panel, 0.16) : colours.free);
    if (block > 0 && stored.cached() && change != BlockChange::here) canvas.hatch(cell, colours.hatch);
    fillChange(canvas, cell, change);
    canvas.outline(cell.adjusted(0.5, 0.5, -0.5, -0.5),
                   change == BlockChange::same ? colours.freeBorder : change == BlockChange::there ? colours.there : colours.ink1,
                   change == BlockChange::differs ? 1.4 : 1, change == BlockChange::there ? Qt::DashLine : Qt::SolidLine);
    if (!layout.id) return;
    const bool onColour = change == BlockChange::here || change == BlockChange::differs;
    const bool null = block == 0 && layout.cellWidth >= canvas.u(28);
    const QColor ink = onColour ? colours.panel : used || change == BlockChange::there ? colours.ink1 : colours.ink3;
    const TextStyle style{layout.cellWidth < canvas.u(28) ? 9.0 : 11.0, onColour ? QFont::Bold : QFont::Normal, ink, !null};
    const QString id = null ? tr("null") : QString::number(block);
    const QRectF place = cell.adjusted(canvas.u(3), canvas.u(1), -canvas.u(1), 0);
    if (change == BlockChange::there)  // a hatch is no ground for digits
        canvas.painter().fillRect(QRectF(place.left() - canvas.u(1), place.top() + canvas.u(1), canvas.width(id, style) + canvas.u(2),
                                         canvas.u(layout.cellWidth < canvas.u(28) ? 10 : 12)),
                                  colours.panel);
    canvas.text(place, id, style, null ? Qt::AlignCenter : Qt::AlignLeft | Qt::AlignTop, Qt::ElideNone);
    if (!layout.slotBar || !used) return;
    // Reference count and slots here; what lies there is the hover's to say.
    canvas.text(cell.adjusted(canvas.u(3), 0, -canvas.u(3), -canvas.u(1)), QString::number(stored.filled),
                {10.5, QFont::Normal, change == BlockChange::differs ? colours.panel : ink, false}, Qt::AlignRight | Qt::AlignBottom, Qt::ElideNone);
}

QColor PoolView::differenceDot(const Canvas& canvas, std::uint32_t block) const {
    const Palette& colours = canvas.colours();
    switch (m_difference.at(block)) {
    case BlockChange::here: return colours.here;
    case BlockChange::there: return colours.there;
    case BlockChange::differs: return colours.ink1;
    case BlockChange::same: break;
    }
    const BlockState& stored = m_state->blocks()[block];
    return stored.owners > 0 ? canvas.mix(colours.ink2, colours.panel, 0.3) : stored.cached() ? colours.hatch : colours.free;
}

void PoolView::paintDifferenceLegend(const Canvas& canvas, const PoolLayout& layout) const {
    const Palette& colours = canvas.colours();
    const TextStyle style{11, QFont::Normal, colours.ink2, false};
    const double side = canvas.u(10), middle = layout.legend.center().y();
    double x = layout.grid.left();
    const auto entry = [&](const QString& text, const auto& swatch) {
        const double need = side + canvas.u(6) + canvas.width(text, style);
        if (x + need > layout.legend.right()) return;
        swatch(QRectF(x, middle - side / 2, side, side));
        canvas.text(QRectF(x + side + canvas.u(6), layout.legend.top(), need, layout.legend.height()), text, style);
        x += need + canvas.u(16);
    };
    const QString names[] = {QString(), tr("holds K and V only here: %1"), tr("only there: %1"), tr("in both, not the same: %1")};
    for (const BlockChange change : {BlockChange::differs, BlockChange::here, BlockChange::there})
        entry(names[static_cast<int>(change)].arg(formatCount(m_difference.count(change))), [&](const QRectF& box) {
            if (!layout.image) {
                fillChange(canvas, box, change);
                canvas.outline(box, change == BlockChange::there ? colours.there : colours.ink1, 1);
                return;
            }
            const QColor dot = change == BlockChange::here ? colours.here : change == BlockChange::there ? colours.there : colours.ink1;
            canvas.painter().fillRect(box, dot);
        });
    entry(tr("in use in both, the same"), [&](const QRectF& box) {
        canvas.painter().fillRect(box, canvas.mix(colours.ink2, colours.panel, layout.image ? 0.3 : 0.16));
        canvas.outline(box, colours.freeBorder, 1);
    });
    entry(tr("free in both"), [&](const QRectF& box) {
        canvas.painter().fillRect(box, colours.free);
        canvas.outline(box, colours.freeBorder, 1);
    });
}

}  // namespace kvloupe
