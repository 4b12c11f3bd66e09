// SPDX-License-Identifier: GPL-3.0-or-later
//
// What storing a block did to its values: errors by head, channel and token, and values far from the rest. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace kvloupe {

struct BlockPart;

// Of values whose `before` is known: error = stored - before.
struct ErrorSum {
    std::uint64_t count = 0;
    double squares = 0;         // of errors
    double before_squares = 0;  // of the values before
    double largest = 0;         // |error|

    void add(double before, double stored);
    void add(const ErrorSum& other);
    bool known() const { return count > 0; }
    double rms() const;
    // sqrt(sum of squared errors / sum of squared values); 0 where both are 0.
    double relative() const;
    bool operator==(const ErrorSum&) const = default;
};

struct BlockErrors {
    ErrorSum total;                  // of all heads
    std::vector<ErrorSum> heads;     // (heads)
    std::vector<ErrorSum> channels;  // (width) of the head asked for
    std::vector<ErrorSum> tokens;    // (tokens) of the head asked for
};

// Channels and tokens of `head`, which exists.
BlockErrors errors_of(const BlockPart& part, std::uint32_t head);

// Values whose magnitude is beyond so many times the RMS of their head in this block.
inline constexpr double outlier_factor = 6;

struct HeadOutliers {
    double limit = 0;                // outlier_factor * RMS
    std::uint32_t count = 0;
    std::vector<bool> marked;        // (tokens, width)
    std::vector<std::uint32_t> channels;  // (width) outliers of each
};

// Judged by the values before they were stored where all of the head are known, else by what is stored.
HeadOutliers outliers_of(const BlockPart& part, std::uint32_t head);

}  // namespace kvloupe
