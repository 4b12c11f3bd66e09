// SPDX-License-Identifier: GPL-3.0-or-later
//
// StepTimeView ("step-time"): what a step takes with and without a cache, per step or summed, the speed-up below on an axis
// of its own, and the tokens pushed through the model: T(T+1)/2 without a cache, T with it; the difference is reused work.
// Where the lane in focus is compared with another one: the times of both, and below them what this one takes more or less.
#pragma once

#include "views/plot_pane.h"

namespace kvloupe {

class StepTimeView : public PlotPane {
    Q_OBJECT

public:
    explicit StepTimeView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    std::vector<ViewChoice> choices() const override;
    void setCumulated(bool cumulated);
    void setLogarithmic(bool logarithmic);
    // Times of the compared pairs alone, or of all lanes. Until it is chosen: alone where there are more than four lanes.
    void setPairsAlone(bool alone);
    bool pairsAlone() const;

    // The lanes that the speed-up compares: an uncached one and the cached one with the same weights.
    struct Pair {
        LaneId uncached, cached;
    };
    const std::vector<Pair>& pairs() const { return m_pairs; }
    int timeCurve(std::size_t lane) const { return m_lanes[lane].time; }  // -1: not shown
    int speedUpCurve(std::size_t pair) const { return m_ratios[pair].curve; }
    int reusedCurve() const { return m_reused; }       // tokens computed with a cache
    int naiveCurve() const { return m_naive; }         // tokens computed without one, predicted
    int recomputedCurve() const { return m_recomputed; }  // the same, measured; -1 without an uncached lane

    // Uncached duration / cached duration of a step (derived); only where both decoded as many sequences and computed no
    // prompt token.
    static std::optional<double> speedUp(const LaneProgress& uncached, const LaneProgress& cached, std::size_t step);

    // End of a linear axis over such curves, where a few steps tower above all others, as those in which the processor did something
    // else: 1.6 x the greatest of the curves' 95th percentiles. Empty where nothing exceeds 2.5 x as much: the axis holds all.
    static std::optional<double> endBelowOutliers(const std::vector<std::vector<double>>& curves);

    // Both lanes' times and their difference are shown in place of the lanes of one recording.
    bool compares() const;
    int hereCurve() const { return m_compared.here; }
    int thereCurve() const { return m_compared.there; }
    int differenceCurve() const { return m_compared.difference; }
    // Nanoseconds of a step here and of the one beside it there; summed: of all steps so far. NaN where a step does not decode, or
    // nothing stands beside it.
    struct TimePair {
        double here, there;
        double difference() const { return here - there; }
    };
    static TimePair timesOf(const LaneProgress& here, std::size_t step, const LaneProgress& there, int beside, bool summed);

protected:
    void refresh() override;
    void setChoice(const QString& key, int index) override;
    void build() override;
    void appendSteps() override;
    void showCursor() override;
    QString tipAtStep(int step) const override;
    LaneId laneOfCurve(int curve) const override;
    void resizeEvent(QResizeEvent* event) override;

private:
    struct Lane {
        int time = -1, prompt = -1;   // curves: decode steps, steps with prompt tokens
        std::size_t steps = 0;
    };
    struct Ratio {
        int curve = -1;
        std::size_t steps = 0;
        double uncachedNs = 0, cachedNs = 0;   // over comparable steps
        std::vector<double> cumulated;         // per step
    };
    // The lane in focus and the one that it is compared with.
    struct Compared {
        int here = -1, there = -1, difference = -1, more = -1, less = -1, zero = -1;  // curves
        std::size_t steps = 0;
        std::vector<double> times, distances;      // as shown; distances: without sign
        std::shared_ptr<const Recording> recording;  // what it was built for; null: nothing
        LaneId lane, other;
        Alignment alignment = Alignment::step;
        SequenceId sequence;
        bool provisional = false;                  // while tokens were still being read
    };
    int besideOf(std::size_t step) const;          // the other lane's step, -1: none
    void buildComparison();
    void appendComparison();
    void showComparison();
    QString comparisonTip(int step) const;
    QString comparisonCsv() const;
    bool cumulated() const;
    bool isShown(LaneId lane) const;
    bool isLow() const;   // no height for the tokens as a third panel
    double speedUpAt(std::size_t pair, std::size_t step) const;   // NaN where there is none
    void appendTokens();
    void limitAxes();
    // Says what lies above the end of a panel's axis.
    void noteOutliers(PlotOverlayData& marks, int panel, const std::vector<std::vector<double>>& curves, bool duration) const;
    void labelTimes(PlotOverlayData& marks, std::vector<int>& emphasis) const;
    void labelTokens(PlotOverlayData& marks) const;

    QComboBox* m_sumBox;
    QComboBox* m_scaleBox;
    QComboBox* m_lanesBox;
    bool m_lanesChosen = false;   // by the user
    bool m_low = false;           // as built
    std::vector<Lane> m_lanes;
    std::vector<Pair> m_pairs;
    std::vector<Ratio> m_ratios;
    // What the curves of single steps hold: decode times of the lanes that are shown, speed-ups of the pairs.
    std::vector<std::vector<double>> m_shownTimes, m_shownRatios;
    LaneId m_tokenLane;           // cached lane of the lowest panel
    LaneId m_tokenTwin;           // uncached lane with its weights, or none
    int m_ratioPanel = -1, m_tokenPanel = -1;
    int m_reused = -1, m_naive = -1, m_recomputed = -1;  // curves of the lowest panel
    std::size_t m_tokenSteps = 0, m_twinSteps = 0;
    bool m_showDifference = true;  // where there is something to compare with
    Compared m_compared;
    std::optional<LaneProgress> m_there;
};

}  // namespace kvloupe
