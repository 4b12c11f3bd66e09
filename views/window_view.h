// SPDX-License-Identifier: GPL-3.0-or-later
//
// Window: what each group of layers keeps of the sequence in focus, drawn by position: what the newest token sees, sinks, what
// lies masked in kept blocks, what was given up to the null block. From the recording alone, at any step.
#pragma once

#include "views/scrolling_view.h"
#include "views/window_rows.h"

#include <optional>
#include <vector>

namespace kvloupe {

class Canvas;

class WindowView : public ScrollingView {
    Q_OBJECT

public:
    explicit WindowView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;

protected:
    void refresh() override;
    void refreshSelection() override { update(); }
    void layOut() override;
    bool navigates() const override { return true; }
    QString tipAt(const QPointF& position) const override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    struct Hit {
        std::size_t row = 0;
        std::uint32_t position = 0;
    };
    double rowHeight() const;
    // The strip of a row, positions from left to right.
    QRectF stripOf(std::size_t row, const QRectF& area) const;
    std::optional<Hit> hitAt(const QPointF& point) const;
    Pick pickOf(const Hit& hit) const;
    std::uint32_t slots() const;     // of the widest row
    bool folded(const QRectF& strip) const;
    QString layersText(const WindowRow& row) const;
    QString ruleText(const WindowRow& row) const;
    QString factsText(const WindowRow& row) const;

    void paintRow(const Canvas& canvas, std::size_t row, const QRectF& area) const;
    void paintRun(const Canvas& canvas, const QRectF& box, SlotUse use) const;
    void paintBlocks(const Canvas& canvas, const WindowRow& row, const QRectF& strip) const;
    void paintAxis(const Canvas& canvas, const QRectF& area) const;
    void paintLegend(const Canvas& canvas, const QRectF& area) const;

    std::vector<WindowRow> m_rows;
    SequenceId m_sequence;
    std::uint32_t m_blockSize = 1;
};

// "seen", "sink", … as CSV and tips say it.
QString nameOf(SlotUse use);

}  // namespace kvloupe
