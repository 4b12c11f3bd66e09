// SPDX-License-Identifier: GPL-3.0-or-later
//
// Time per token: how long a decode step takes against the tokens of its context, up to the cursor. The fit splits it into
// what stays (the weights are read once per step) and what each token of context adds (its keys and values are read); the
// dashed line is what the bytes alone ask for at the measured read bandwidth. Where the fit is in doubt (FitDoubt) neither is
// drawn: dots and their median remain.
#pragma once

#include "views/ceilings_view.h"
#include "views/plot.h"
#include "views/token_fit.h"
#include "views/view.h"

namespace kvloupe {

class TimePerTokenView : public View, public CeilingsView {
    Q_OBJECT

public:
    explicit TimePerTokenView(Cursor* cursor, QWidget* parent = nullptr);

    void setCeilings(const Ceilings& ceilings) override;

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    void fit() override { m_plot->fit(); }
    QVariant zoomState() const override { return m_plot->zoomState(); }

    const std::optional<TokenFit>& fitted() const { return m_fit; }
    // Why the fit is not drawn; none where it is.
    FitDoubt doubt() const { return m_doubt; }
    const std::optional<TokenPrediction>& predicted() const { return m_prediction; }
    // Decode steps up to the cursor.
    std::span<const DecodePoint> points() const { return {m_points.data(), m_shown}; }
    Plot* plot() const { return m_plot; }

protected:
    int refreshInterval() const override { return 100; }
    void refresh() override;
    void refreshSelection() override {}
    void setZoomState(const QVariant& state) override { m_plot->setZoomState(state); }
    void resizeEvent(QResizeEvent* event) override;

private:
    QString emptyText(const LaneRecord* lane, int step) const;
    void readSteps(const LaneRecord& lane);
    void readAttention(const LaneRecord& lane);
    void draw(const LaneRecord& lane, int step);
    void drawFit(int floor, int fixed, int fitted, int predicted);
    void addMarks(const LaneRecord& lane, int step);
    void addFitMarks(const LaneInfo& info, PlotOverlayData& marks, bool high) const;
    QString fitText() const;
    QString doubtText() const;
    double highestLine() const;
    QString tipAtContext(double context) const;

    Ceilings m_ceilings;
    Plot* m_plot;
    std::shared_ptr<const Recording> m_seen;
    LaneId m_lane;
    std::size_t m_read = 0;              // steps of the lane looked at
    std::vector<DecodePoint> m_points;   // ascending steps
    std::size_t m_readStaged = 0;        // staged steps of the lane looked at
    std::vector<DecodePoint> m_attention;  // decode steps with stages, ascending; ns: of the attention stage alone
    std::size_t m_shown = 0;             // of m_points, up to the cursor
    std::vector<ContextBin> m_dots;      // as drawn, and as fitted: steps of like context share a dot, their median
    double m_medianNs = 0;               // of the steps shown
    double m_top = 0;                    // of the range that fits, nanoseconds
    std::size_t m_above = 0;             // dots above it
    std::optional<TokenFit> m_fit;
    FitDoubt m_doubt = FitDoubt::none;
    std::optional<double> m_attentionGrowth;  // nanoseconds over the fit's span; empty where no stages tell
    std::optional<TokenPrediction> m_prediction;
};

}  // namespace kvloupe
