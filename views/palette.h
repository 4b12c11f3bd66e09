// SPDX-License-Identifier: GPL-3.0-or-later
//
// Colours by role, light and dark. Hue is who; texture is state; shape is event; ink is cursor and lock; magenta is what
// is in focus now. Sets keep apart for common colour vision deficiencies (smallest OKLab distance 5.3 and up).
#pragma once

#include <QColor>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/record/ids.h"

#include <array>

class QWidget;

namespace kvloupe {

struct Palette {
    bool dark = false;
    QColor window, panel, head;
    QColor line, grid;
    QColor ink1, ink2, ink3;
    QColor selectedRow, accent;
    QColor focus, focusWash;
    QColor free, hatch, freeBorder;
    QColor breakpoint;
    QColor weights, keysValues, activations;
    QColor tokenStates, reserved, internal, external;
    QColor stepFlagText;
    std::array<QColor, 8> owners;
    std::array<QColor, 9> lanes;       // MHA, GQA, int8, MLA, MQA, uncached; three more, of the owners'
    std::array<QColor, 6> attention;   // 0 -> 1
    QColor here, there;                // what only the lane in focus has, and only the one that it is compared with
    std::array<QColor, 7> difference;  // -1 (all there) -> 0 (the panel) -> 1 (all here)

    static const Palette& light();
    static const Palette& darkTheme();
    // By the widget's window colour, which the theme sets.
    static const Palette& of(const QWidget* widget);

    // Colour of the n-th owner; after eight the hues repeat and repeats() is true (drawn with a dot pattern).
    QColor owner(unsigned index) const { return owners[index % owners.size()]; }
    static bool repeats(unsigned index) { return index >= 8; }
    // Colour of a lane by its attention variant and cache, stable for the names above, else by index. A lane whose colour
    // an earlier one has takes the next that no lane before it has; beyond nine lanes colours repeat.
    QColor lane(const class Recording& recording, LaneId lane) const;
    // Linear between the six stops; weight in 0 .. 1.
    QColor attentionColour(double weight) const;
    // Linear between the seven stops; -1 .. 1.
    QColor differenceColour(double difference) const;
};

}  // namespace kvloupe
