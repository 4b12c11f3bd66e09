// SPDX-License-Identifier: GPL-3.0-or-later
//
// KvBytesView ("kv-bytes"): how the cache of each lane grows. Solid stairs: bytes of allocated blocks, from the allocator's
// counter; dashed: the size formula, bytes per token x tokens, which flattens where layers see windows; the residual is printed,
// not left to the eye. A GPU's memory can be laid across, with the number of tokens at which each predicted line reaches it.
#pragma once

#include "views/plot_pane.h"
#include "views/predicted_bytes.h"

namespace kvloupe {

class KvBytesView : public PlotPane {
    Q_OBJECT

public:
    explicit KvBytesView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;

    // Bytes of one lane after one step.
    struct Bytes {
        std::uint64_t tokens = 0;      // in the cache (measured)
        std::uint64_t measured = 0;
        std::uint64_t predicted = 0;   // by the size formula
        std::int64_t residual = 0;     // measured - predicted: slots that hold no token yet, and what the ledger names besides
    };
    static Bytes bytesOf(const PredictedBytes& lane, std::size_t step);
    const PredictedBytes& prediction(std::size_t lane) const { return m_predictions[lane]; }

    void setLogarithmic(bool logarithmic);
    void setAgainstTokens(bool tokens);
    // Index into gpu_table(), or -1 for none.
    void setGpu(int gpu);
    // Tokens of one sequence at which the formula reaches the chosen GPU's memory (predicted); 0: never, or no GPU chosen.
    double capacity(std::size_t lane) const;
    int measuredCurve(std::size_t lane) const { return m_lanes[lane].measured; }
    int predictedCurve(std::size_t lane) const { return m_lanes[lane].predicted; }

protected:
    void build() override;
    void appendSteps() override;
    void showCursor() override;
    QString tipAtStep(int step) const override;
    LaneId laneOfCurve(int curve) const override;
    int stepAt(double x) const override;

private:
    struct Lane {
        int measured = -1, predicted = -1;   // curves
        std::size_t steps = 0;               // appended
        std::uint64_t mostTokens = 0;
    };

    QComboBox* m_scaleBox;
    QComboBox* m_axisBox;
    QComboBox* m_gpuBox;
    std::vector<Lane> m_lanes;
    std::vector<PredictedBytes> m_predictions;  // per lane
};

}  // namespace kvloupe
