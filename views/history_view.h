// SPDX-License-Identifier: GPL-3.0-or-later
//
// Block history: every block of the lane in focus against every step, coloured by owner. Zoomed in it shows ids, owners and
// what happened to a block; zoomed out each cell shows what most of its blocks and steps were.
// The window's thread draws what is counted; a job reads new steps and counts cells, one tile after the other, and until
// a tile is there a coarser one stands in for it.
#pragma once

#include "views/view.h"

#include "views/background_job.h"
#include "views/history_tiles.h"
#include "views/step_axis.h"

#include <QImage>

#include <span>
#include <vector>

namespace kvloupe {

// Where the parts of one drawing lie and what a pixel of it covers.
struct HistoryFrame {
    QRectF labels, plot, legend;               // empty legend: not shown
    StepAxis axis;
    double firstBlock = 0, perBlock = 1;       // y = plot.top() + (block - firstBlock) * perBlock
    std::uint8_t blockLevel = 0, stepLevel = 0; // a cell is 2^level blocks by 2^level steps

    double y(double block) const { return plot.top() + (block - firstBlock) * perBlock; }
    double blockAt(double y) const { return firstBlock + (y - plot.top()) / perBlock; }
    bool folded() const { return blockLevel > 0 || stepLevel > 0; }
    std::uint32_t blocksPerCell() const { return std::uint32_t{1} << blockLevel; }
    std::uint32_t stepsPerCell() const { return std::uint32_t{1} << stepLevel; }
};

class HistoryView : public View {
    Q_OBJECT

public:
    explicit HistoryView(Cursor* cursor, QWidget* parent = nullptr);

    // States of the blocks and steps in sight; cells where there are too many.
    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    QVariant zoomState() const override;
    void fit() override;

    // Factors below 1 zoom in; the point of the widget stays where it is.
    void zoomAt(const QPointF& point, double steps, double blocks);
    // Pixels to the left and up.
    void pan(double dx, double dy);

    HistoryFrame frame() const { return frameFor(QRectF(rect())); }
    // Everything recorded is read and every cell in sight counted: nothing coarser stands in.
    bool settled();
    void settle() override;  // waits for it
    const HistoryIndex* index() const { return m_index && !m_away ? m_index.get() : nullptr; }  // null while a job writes it
    std::uint64_t memoryBytes() const;  // of index and tiles, measured

protected:
    int refreshInterval() const override { return 40; }
    void refresh() override;
    void refreshSelection() override;
    QString tipAt(const QPointF& position) const override;
    bool navigates() const override { return true; }
    void setZoomState(const QVariant& state) override;
    void resizeEvent(QResizeEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    class Stretches;
    struct Glyph {  // as drawn last on screen
        QPointF centre;
        std::uint64_t event = 0;
    };
    struct Composed {  // what the image of the screen was made for
        QSizeF size;
        double ratio = 0;
        const Palette* colours = nullptr;
        std::uint32_t steps = 0;
        std::uint64_t tiles = 0;
        double firstBlock = 0, perBlock = 0, begin = 0, perStep = 0;
        bool operator==(const Composed& other) const;
    };
    HistoryFrame frameFor(const QRectF& area) const;
    void explain();
    void shareSteps();
    void followSteps();
    void catchUpIndex();
    void readInBackground(std::uint32_t target);
    bool stale() const;
    std::vector<HistoryTileKey> missingTiles(const HistoryFrame& frame);
    void countTiles(const HistoryFrame& frame, bool wait);
    void zoomBlocks(double factor, double pivot, double shift);
    double blockCount() const;
    Pick pickAt(const QPointF& point) const;
    std::optional<std::uint32_t> blockUnder(const HistoryFrame& frame, double y) const;
    QString describe(HistoryIndex::Code code) const;
    QStringList lifeAround(std::uint32_t block, std::uint32_t step) const;

    void compose(const HistoryFrame& frame, double ratio, QImage& image);
    void paintRows(const Canvas& canvas, const HistoryFrame& frame) const;
    void paintLabels(const Canvas& canvas, const HistoryFrame& frame) const;
    void paintGlyphs(const Canvas& canvas, const HistoryFrame& frame);
    std::span<const HistoryIndex::Mark> marksInSight(const HistoryFrame& frame) const;
    std::size_t marksLeftOut(const HistoryFrame& frame) const;  // 0: they are drawn
    void paintFewEvents(const Canvas& canvas, const HistoryFrame& frame, std::vector<Glyph>& drawn) const;
    void paintManyEvents(const Canvas& canvas, const HistoryFrame& frame, std::vector<Glyph>& drawn) const;
    void paintSelection(const Canvas& canvas, const HistoryFrame& frame) const;
    void paintLife(const Canvas& canvas, const HistoryFrame& frame) const;
    void paintLegend(const Canvas& canvas, const HistoryFrame& frame) const;

    std::shared_ptr<const Recording> m_seen;
    LaneId m_lane;
    std::shared_ptr<HistoryIndex> m_index;
    bool m_away = false;                       // a job reads steps into the index
    std::uint32_t m_stepsKnown = 0;            // of the index before the job took it
    HistoryTiles m_tiles;
    StepRange m_steps;
    bool m_blocksZoomed = false;
    double m_blockBegin = 0, m_blockEnd = 1;   // where zoomed
    QImage m_image;                            // of the screen
    Composed m_composed;
    std::vector<Glyph> m_glyphs;
    std::uint32_t m_kindsDrawn = 0;            // bits by event kind, for the legend
    QPointF m_pressed;
    bool m_dragging = false, m_moved = false;
    BackgroundJob m_job;                       // last: its end is waited for while the rest is still there
};

}  // namespace kvloupe
