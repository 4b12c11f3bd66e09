// SPDX-License-Identifier: GPL-3.0-or-later
//
// What differs between two attention rows, and how a difference of weights is written and coloured.
#pragma once

#include "views/attention_index.h"
#include "views/palette.h"

#include <QString>

#include <cmath>
#include <optional>
#include <vector>

namespace kvloupe {

// Weight here minus there; a key that a row does not reach has weight 0 in it. None beyond both rows.
inline std::optional<float> attentionDifference(const AttentionIndex& hereIndex, const AttentionRow& here, const AttentionIndex& thereIndex,
                                                const AttentionRow& there, std::uint32_t key) {
    if (key >= here.key_count && key >= there.key_count) return std::nullopt;
    return hereIndex.weight(here, key) - thereIndex.weight(there, key);
}

// Differences of a head's rows as they are drawn: of rows that share a line of pixels the newest, of keys that share a column the
// largest by its size. Empty where no row was recorded in both.
struct DifferenceGrid {
    int columns = 0, lines = 0;
    std::vector<float> values;   // (lines, columns)
    float largest = 0;           // by its size
};

// Colours reach the ends of their scale at `reach`, a round number not below the largest difference: differences of 0.001 are seen
// as well as those of 0.5. By the square root of its size, so that the small ones are seen beside it.
inline double differenceReach(double largest) {
    for (double power = 1e-6; power < 1; power *= 10)
        for (const double step : {1.0, 2.0, 5.0})
            if (largest <= step * power * 1.0001) return step * power;
    return 1;
}

inline QColor differenceShade(const Palette& colours, double difference, double reach) {
    const double size = std::sqrt(std::abs(difference) / reach);
    return colours.differenceColour(difference < 0 ? -size : size);
}

// "+0.031", "−0.2"; decimals -1: as many as it has.
inline QString signedWeight(double difference, int decimals) {
    const double size = std::abs(difference);
    const QString number = decimals < 0 ? QString::number(size) : QString::number(size, 'f', decimals);
    return (difference < 0 ? QStringLiteral("−") : difference > 0 ? QStringLiteral("+") : QString()) + number;
}

}  // namespace kvloupe
