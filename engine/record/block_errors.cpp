// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/block_errors.h"

#include "engine/record/block_values.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

void ErrorSum::add(double before, double stored) {
    if (std::isnan(before)) return;
    const double error = stored - before;
    ++count;
    squares += error * error;
    before_squares += before * before;
    largest = std::max(largest, std::fabs(error));
}

void ErrorSum::add(const ErrorSum& other) {
    count += other.count;
    squares += other.squares;
    before_squares += other.before_squares;
    largest = std::max(largest, other.largest);
}

double ErrorSum::rms() const { return count == 0 ? 0 : std::sqrt(squares / static_cast<double>(count)); }

double ErrorSum::relative() const {
    if (squares == 0) return 0;
    return std::sqrt(squares / before_squares);  // infinite where something came out of nothing
}

bool BlockPart::before_known() const {
    return std::any_of(before.begin(), before.end(), [](float value) { return !std::isnan(value); });
}

BlockErrors errors_of(const BlockPart& part, std::uint32_t head) {
    BlockErrors errors;
    errors.heads.resize(part.heads);
    errors.channels.resize(part.width);
    errors.tokens.resize(part.tokens);
    if (part.before.empty()) return errors;
    for (std::uint32_t h = 0; h < part.heads; ++h)
        for (std::uint32_t token = 0; token < part.tokens; ++token)
            for (std::uint32_t channel = 0; channel < part.width; ++channel) {
                const std::size_t at = part.at(h, token, channel);
                ErrorSum one;
                one.add(static_cast<double>(part.before[at]), static_cast<double>(part.stored[at]));
                errors.heads[h].add(one);
                if (h != head) continue;
                errors.channels[channel].add(one);
                errors.tokens[token].add(one);
            }
    for (const ErrorSum& of_head : errors.heads) errors.total.add(of_head);
    return errors;
}

HeadOutliers outliers_of(const BlockPart& part, std::uint32_t head) {
    HeadOutliers outliers;
    const std::size_t first = part.at(head, 0, 0), count = std::size_t{part.tokens} * part.width;
    outliers.marked.assign(count, false);
    outliers.channels.assign(part.width, 0);
    if (count == 0) return outliers;
    const auto known = [&](const std::vector<float>& values) {
        return values.size() >= first + count &&
               std::none_of(values.begin() + static_cast<std::ptrdiff_t>(first),
                            values.begin() + static_cast<std::ptrdiff_t>(first + count), [](float value) { return std::isnan(value); });
    };
    const std::vector<float>& values = known(part.before) ? part.before : part.stored;
    double squares = 0;
    for (std::size_t i = 0; i < count; ++i) squares += static_cast<double>(values[first + i]) * static_cast<double>(values[first + i]);
    outliers.limit = outlier_factor * std::sqrt(squares / static_cast<double>(count));
    for (std::size_t i = 0; i < count; ++i) {
        if (!(std::fabs(static_cast<double>(values[first + i])) > outliers.limit)) continue;
        outliers.marked[i] = true;
        ++outliers.count;
        ++outliers.channels[i % part.width];
    }
    return outliers;
}

}  // namespace kvloupe
