// SPDX-License-Identifier: GPL-3.0-or-later
//
// How the kinds of slots look and are called, the same in every picture.
#pragma once

#include "views/canvas.h"
#include "views/slot_series.h"

#include <QCoreApplication>

namespace kvloupe {

inline QColor slotColour(const Palette& colours, SlotKind kind) {
    switch (kind) {
    case SlotKind::token: return colours.tokenStates;
    case SlotKind::reserved: return colours.reserved;
    case SlotKind::internal: return colours.internal;
    case SlotKind::external: return colours.external;
    case SlotKind::cached: return colours.free;  // and a hatch
    case SlotKind::free: break;
    }
    return colours.panel;
}

inline QString slotName(SlotKind kind) {
    const char* const names[] = {QT_TRANSLATE_NOOP("kvloupe::slots", "tokens"),   QT_TRANSLATE_NOOP("kvloupe::slots", "reserved"),
                                 QT_TRANSLATE_NOOP("kvloupe::slots", "internal"), QT_TRANSLATE_NOOP("kvloupe::slots", "external"),
                                 QT_TRANSLATE_NOOP("kvloupe::slots", "free but cached"), QT_TRANSLATE_NOOP("kvloupe::slots", "free")};
    return QCoreApplication::translate("kvloupe::slots", names[static_cast<int>(kind)]);
}

inline void slotSwatch(const Canvas& canvas, const QRectF& box, SlotKind kind) {
    canvas.painter().fillRect(box, slotColour(canvas.colours(), kind));
    if (kind == SlotKind::cached) canvas.hatch(box, canvas.colours().hatch, 3);
    if (kind == SlotKind::cached || kind == SlotKind::free) canvas.outline(box, canvas.colours().freeBorder, 1);
}

// Names of all kinds from the right end of `area` inwards, the stack's order from the left; what does not fit is left out.
inline void slotLegend(const Canvas& canvas, const QRectF& area) {
    const TextStyle style{11, QFont::Normal, canvas.colours().ink2, false};
    double right = area.right();
    for (int i = slot_kind_count; i-- > 0;) {
        const auto kind = static_cast<SlotKind>(i);
        const double side = canvas.u(10), width = side + canvas.u(6) + canvas.width(slotName(kind), style);
        if (right - width < area.left()) return;
        right -= width;
        slotSwatch(canvas, QRectF(right, area.center().y() - side / 2, side, side), kind);
        canvas.text(QRectF(right + side + canvas.u(6), area.top(), width, area.height()), slotName(kind), style);
        right -= canvas.u(14);
    }
}

}  // namespace kvloupe
