// SPDX-License-Identifier: GPL-3.0-or-later
//
// NiceScale: a small axis for painted pictures: a range with round ticks in it, linear or by powers of ten.
#pragma once

#include <vector>

namespace kvloupe {

struct NiceScale {
    double low = 0, high = 1;  // low < high; logarithmic: low > 0
    bool logarithmic = false;
    std::vector<double> ticks;  // ascending, within the range
    double step = 1;            // between ticks; of a logarithmic scale 1

    // 0 at low, 1 at high; what lies outside is clamped.
    double share(double value) const;

    // From low to high and somewhat beyond; at most `most` ticks (>= 2) of 1, 2 or 5 times a power of ten.
    static NiceScale linear(double low, double high, int most);
    // Whole powers of ten around the values; both positive.
    static NiceScale powers(double low, double high, int most);
};

}  // namespace kvloupe
