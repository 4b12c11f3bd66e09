// SPDX-License-Identifier: GPL-3.0-or-later
//
// A table model as a picture (SVG, PDF, PNG) and as CSV, and the look that all QTableViews share.
#pragma once

#include <QRectF>
#include <QString>

#include <vector>

class QAbstractItemModel;
class QTableView;

namespace kvloupe {

class Canvas;
struct Palette;

// What a cell or a header stands for in CSV, where that differs from what is shown (plain numbers; unit and origin in
// the header). Models answer it for data() and headerData().
inline constexpr int csvRole = 0x0100 + 50;  // Qt::UserRole + 50
// A cell's origin (int of Origin), drawn as a mark in front of the number; absent for text.
inline constexpr int originRole = 0x0100 + 51;
// A cell's event glyph (int of EventKind) or owner swatch (unsigned), drawn in front of the text.
inline constexpr int glyphRole = 0x0100 + 52;
inline constexpr int ownerRole = 0x0100 + 53;
// A colour (QColor): a swatch in front of the text; with barRole or sparkRole the colour of the bars.
inline constexpr int colourRole = 0x0100 + 54;
// A share 0 .. 1 (double), drawn as a bar with the text behind it.
inline constexpr int barRole = 0x0100 + 55;
// Values of equal kind (QVariantList of double), drawn as small bars from 0; one that stands out by half is in focus.
inline constexpr int sparkRole = 0x0100 + 56;

// True: the row lies after the cursor and fades to 40 %.
inline constexpr int fadedRole = 0x0100 + 57;
// True: the glyph is drawn in the colour of what is in focus now.
inline constexpr int focusRole = 0x0100 + 58;

// Row height at 100 %: 19 events, 24 stages, 29 lanes. Keyboard: rows are selected, arrows move.
void styleTable(QTableView* table, const Palette& palette, double rowHeight, double scale);

// Header and as many rows from `firstRow` as fit; a last line says how many are left out. rowHeight: at 100 %;
// tables with rows higher than 19 (lanes, stages) spread their columns over the width. byWeight: columns, the most telling
// first; in a narrow area the last of them are left out, and a line below says so. Empty: all are drawn, and the widest give
// way. leastRowHeight: rows shrink to it where they do not all fit; 0: they keep their height.
void paintTable(const Canvas& canvas, const QRectF& area, const QAbstractItemModel& model, int firstRow = 0,
                double rowHeight = 19, const std::vector<int>& byWeight = {}, double leastRowHeight = 0);

// RFC 4180: header row, then all rows.
QString tableCsv(const QAbstractItemModel& model);

}  // namespace kvloupe
