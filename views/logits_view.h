// SPDX-License-Identifier: GPL-3.0-or-later
//
// LogitsView ("logits"): the largest absolute difference of each lane's logits to the first lane with the same weights, per
// step, on a logarithmic axis beside the tolerances of the tests. A triangle marks a step whose greedy choice differs.
#pragma once

#include "views/lane_difference.h"
#include "views/plot_pane.h"

namespace kvloupe {

class LogitsView : public PlotPane {
    Q_OBJECT

public:
    explicit LogitsView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    const std::vector<LaneDifference>& comparisons() const { return m_comparisons; }

    // What the tests hold f32 caches and the others to.
    static constexpr double f32Tolerance = 1e-4;
    static constexpr double tolerance = 1e-3;

protected:
    void build() override;
    void appendSteps() override;
    void showCursor() override;
    QString tipAtStep(int step) const override;
    LaneId laneOfCurve(int curve) const override;
    QString emptySentence_() const override;

private:
    QString tokenText(LaneId lane, TokenId token) const;

    std::vector<LaneDifference> m_comparisons;
    std::vector<int> m_curves;            // per comparison
    std::vector<std::size_t> m_appended;  // per comparison
    bool m_equalSeen = false;
    double m_greatest = 0;
};

}  // namespace kvloupe
