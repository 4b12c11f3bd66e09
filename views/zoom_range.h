// SPDX-License-Identifier: GPL-3.0-or-later
//
// ZoomRange: the part of an axis that is in sight; the whole until the user zooms. The whole may grow or shrink between
// two calls; a chosen range is kept inside it.
#pragma once

#include <QPointF>
#include <QVariant>

#include <algorithm>
#include <utility>

namespace kvloupe {

class ZoomRange {
public:
    using Range = std::pair<double, double>;

    Range of(const Range& whole) const {
        if (!m_zoomed) return whole;
        const double width = std::min(m_range.second - m_range.first, whole.second - whole.first);
        const double begin = std::clamp(m_range.first, whole.first, whole.second - width);
        return {begin, begin + width};
    }
    bool zoomed() const { return m_zoomed; }
    void fit() { m_zoomed = false; }
    // Factor < 1 zooms in; `pivot` stays where it is. shift: to higher values. least: closest zoom.
    void zoom(double factor, double pivot, double shift, const Range& whole, double least) {
        const auto [begin, end] = of(whole);
        const double all = whole.second - whole.first;
        const double width = std::clamp((end - begin) * factor, std::min(least, all), all);
        const double share = end > begin ? (pivot - begin) / (end - begin) : 0.5;
        const double first = std::clamp(pivot - share * width + shift, whole.first, whole.second - width);
        m_range = {first, first + width};
        m_zoomed = width < all * (1 - 1e-9);
    }
    void set(double begin, double end) {
        m_range = {begin, std::max(end, begin + 1e-9)};
        m_zoomed = true;
    }
    // For the zoom stack: invalid is the whole.
    QVariant state() const { return m_zoomed ? QVariant(QPointF(m_range.first, m_range.second)) : QVariant(); }
    void setState(const QVariant& state) {
        if (state.isValid()) set(state.toPointF().x(), state.toPointF().y());
        else fit();
    }

private:
    bool m_zoomed = false;
    Range m_range{0, 1};
};

}  // namespace kvloupe
