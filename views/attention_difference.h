// SPDX-License-Identifier: GPL-3.0-or-later
//
// What differs between two attention rows, and how a difference of weights is written and coloured.
#pragma once

#include "views/attention_index.h"
#include "views/palette.h"

#include <QString>

#include <cmath>
#include <optional>

namespace kvloupe {

// Weight here minus there; a key that a row does not reach has weight 0 in it. None beyond both rows.
inline std::optional<float> attentionDifference(const AttentionIndex& hereIndex, const AttentionRow& here, const AttentionIndex& thereIndex,
                                                const AttentionRow& there, std::uint32_t key) {
    if (key >= here.key_count && key >= there.key_count) return std::nullopt;
    return hereIndex.weight(here, key) - thereIndex.weight(there, key);
}

// By the square root of its size, so that 0.01 is still seen.
inline QColor differenceShade(const Palette& colours, double difference) {
    return colours.differenceColour(difference < 0 ? -std::sqrt(-difference) : std::sqrt(difference));
}

// "+0.031", "−0.2"; decimals -1: as many as it has.
inline QString signedWeight(double difference, int decimals) {
    const double size = std::abs(difference);
    const QString number = decimals < 0 ? QString::number(size) : QString::number(size, 'f', decimals);
    return (difference < 0 ? QStringLiteral("−") : difference > 0 ? QStringLiteral("+") : QString()) + number;
}

}  // namespace kvloupe
