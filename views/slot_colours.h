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

// Names of the kinds at the right end of `area`; where not all fit, the last ones are left out.
inline void slotLegend(const Canvas& canvas, const QRectF& area) {
    const TextStyle style{11, QFont::Normal, canvas.colours().ink2, false};
    const double side = canvas.u(10), gap = canvas.u(14);
    const auto widthOf = [&](int kind) { return side + canvas.u(6) + canvas.width(slotName(static_cast<SlotKind>(kind)), style) + gap; };
    double width = -gap;
    int count = 0;
    while (count < slot_kind_count && width + widthOf(count) <= area.width()) width += widthOf(count++);
    double x = area.right() - width;
    for (int i = 0; i < count; ++i) {
        const auto kind = static_cast<SlotKind>(i);
        slotSwatch(canvas, QRectF(x, area.center().y() - side / 2, side, side), kind);
        canvas.text(QRectF(x + side + canvas.u(6), area.top(), widthOf(i), area.height()), slotName(kind), style);
        x += widthOf(i);
    }
}

}  // namespace kvloupe
