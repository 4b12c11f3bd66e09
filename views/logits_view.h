// SPDX-License-Identifier: GPL-3.0-or-later
//
// LogitsView ("logits"): the largest absolute difference of each lane's logits to the first lane with the same weights, per
// step, on a logarithmic axis. A triangle marks a step whose greedy choice differs while both answer the same text; once a token
// that follows differs, texts part, and what comes after is no measure of the cache. Caches in f32 compute what no cache computes,
// to the tolerance that the tests hold them to; of other precisions the difference is what they cost, so there is no line for them.
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

    // What the tests hold f32 caches to.
    static constexpr double f32Tolerance = 1e-4;

protected:
    void build() override;
    void appendSteps() override;
    void showCursor() override;
    QString tipAtStep(int step) const override;
    LaneId laneOfCurve(int curve) const override;
    QString emptySentence_() const override;
    void resizeEvent(QResizeEvent* event) override;

private:
    bool hasWords() const;                                 // each comparison has lines of its own; else one
    QString precisionOf(LaneId lane) const;                // "f16", "int8 in a window"; "f32" without a cache
    QString againstText(const LaneDifference& comparison) const;
    void label(PlotOverlayData& marks, const LaneDifference& comparison, double y, std::optional<double> now) const;
    void markDifferences(PlotOverlayData& marks, const LaneDifference& comparison) const;
    QString tokenText(LaneId lane, TokenId token) const;

    std::vector<LaneDifference> m_comparisons;
    std::vector<int> m_curves;            // per comparison
    std::vector<std::size_t> m_appended;  // per comparison
    bool m_equalSeen = false;
    double m_greatest = 0;
};

}  // namespace kvloupe
