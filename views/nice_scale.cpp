// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/nice_scale.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

double NiceScale::share(double value) const {
    if (logarithmic) {
        if (value <= low) return 0;
        return std::clamp(std::log(value / low) / std::log(high / low), 0.0, 1.0);
    }
    return std::clamp((value - low) / (high - low), 0.0, 1.0);
}

NiceScale NiceScale::linear(double low, double high, int most) {
    NiceScale scale;
    double spread = high - low;
    // Values that do not differ stand in the middle of a hundredth of their size.
    if (!(spread > 1e-9 * std::max(std::abs(low), std::abs(high))))
        spread = std::max(1e-6, 0.01 * std::max(std::abs(low), std::abs(high)));
    const double middle = (low + high) / 2;
    scale.low = middle - 0.56 * spread;
    scale.high = middle + 0.56 * spread;
    const double rough = (scale.high - scale.low) / std::max(2, most);
    const double power = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
        scale.step = factor * power;
        if (scale.step >= rough) break;
    }
    const double first = std::ceil(scale.low / scale.step);
    for (int i = 0; (first + i) * scale.step <= scale.high; ++i) scale.ticks.push_back((first + i) * scale.step);
    return scale;
}

NiceScale NiceScale::powers(double low, double high, int most) {
    NiceScale scale;
    scale.logarithmic = true;
    const int from = static_cast<int>(std::floor(std::log10(low)));
    const int to = std::max(from + 1, static_cast<int>(std::ceil(std::log10(high))));
    scale.low = std::pow(10, from);
    scale.high = std::pow(10, to);
    const int stride = std::max(1, (to - from + std::max(2, most) - 2) / (std::max(2, most) - 1));
    for (int power = from; power <= to; power += stride) scale.ticks.push_back(std::pow(10, power));
    return scale;
}

}  // namespace kvloupe
