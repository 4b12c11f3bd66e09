// SPDX-License-Identifier: GPL-3.0-or-later
//
// SweepView ("sweep"): bars of the time to generate N tokens with and without a KV cache, the speed-up below. It draws a
// SweepResult that the window measures; it asks for a run and for its end by signals.
#pragma once

#include "views/plot.h"
#include "views/sweep_result.h"
#include "views/view.h"

class QComboBox;
class QLabel;
class QProgressBar;
class QPushButton;

namespace kvloupe {

class SweepView : public View {
    Q_OBJECT

public:
    explicit SweepView(Cursor* cursor, QWidget* parent = nullptr);

    void setResult(const SweepResult& result);
    const SweepResult& result() const { return m_result; }
    // fraction: 0 .. 1 while a sweep runs; negative when none does. text: one sentence ("cached, 200 tokens, run 2 of 3").
    void setProgress(double fraction, const QString& text);
    // What the result was measured on ("SmolLM2-135M, CPU, 2 threads"), for the subtitle.
    void setSubject(const QString& subject);
    void setLogarithmic(bool logarithmic);

    // Uncached / cached; empty where either is missing or not above 0 (derived).
    static std::optional<double> speedUp(const SweepResult& result, std::size_t index);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    void fit() override { m_plot->fit(); }
    QVariant zoomState() const override { return m_plot->zoomState(); }
    Plot* plot() const { return m_plot; }

Q_SIGNALS:
    void startRequested();
    void cancelRequested();

protected:
    void setZoomState(const QVariant& state) override { m_plot->setZoomState(state); }
    void refresh() override;
    void refreshSelection() override {}

private:
    void draw();
    QString tipAtIndex(int index) const;

    SweepResult m_result;
    QString m_subject, m_progressText;
    double m_fraction = -1;
    QWidget* m_body;
    QComboBox* m_scaleBox;
    QPushButton* m_start;
    QPushButton* m_cancel;
    QProgressBar* m_bar;
    QLabel* m_label;
    Plot* m_plot;
};

}  // namespace kvloupe
