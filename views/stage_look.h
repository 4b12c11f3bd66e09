// SPDX-License-Identifier: GPL-3.0-or-later
//
// How stages look and what they are called, the same in all views of a profile: the colour says which bytes a stage mostly
// moves (design: bytes have colours of their own).
#pragma once

#include <QColor>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/record/step.h"
#include "views/stage_bound.h"

#include <QRectF>
#include <QString>

namespace kvloupe {

class Canvas;
struct Palette;

enum class BytesKind { weights, keys_values, activations };

BytesKind mostBytesOf(StageKind kind);
QColor colourOf(BytesKind kind, const Palette& palette);
inline QColor colourOf(StageKind kind, const Palette& palette) { return colourOf(mostBytesOf(kind), palette); }
QString bytesKindName(BytesKind kind);

QString stageName(StageKind kind);
QString shortStageName(StageKind kind);   // for a narrow box: "o", "norm"
// "memory", "compute", "latency"; "" for unknown
QString limitName(StageLimit limit);

// Lines for a tip: time, bytes and rate, FLOPs and rate, FLOP per byte, what bounds it and its share of both ceilings.
// Why a share of a ceiling can be more than 100 %.
QString aboveCeilingText();
QString stageTip(const StageWork& work, const Ceilings& ceilings);

// "bytes moved are mostly ■ weights ■ keys and values ■ activations", right-aligned; returns the width used. What has no
// room is left out: first the words in front, then all of it.
double paintBytesLegend(const Canvas& canvas, const QRectF& area);

// Black or white, whichever reads better on that colour.
QColor inkOn(const QColor& background);

}  // namespace kvloupe
