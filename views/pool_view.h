// SPDX-License-Identifier: GPL-3.0-or-later
//
// Block pool: every block of the lane in focus, coloured by owner, filled by slots; the block table of the sequence in
// focus at the left, with an arrow from each logical index to its physical block; the free queue below.
#pragma once

#include "views/view.h"

#include "views/pool_layout.h"

#include <QImage>

#include <vector>

namespace kvloupe {

class Canvas;

class PoolView : public View {
    Q_OBJECT

public:
    explicit PoolView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    const PoolLayout& layoutOfScreen() const { return m_layout; }

protected:
    void refresh() override;
    void refreshSelection() override { update(); }
    QString tipAt(const QPointF& position) const override;
    bool navigates() const override { return true; }
    void resizeEvent(QResizeEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    // What the last step did to blocks, as a title and a sentence.
    struct Callout {
        bool happened = false;
        QString title, cause, size;
    };
    Callout calloutOf(const LaneRecord& lane, std::size_t step);
    void explain(const PoolLayout& layout);
    PoolLayout layoutFor(const QRectF& area) const;
    Pick pickAt(const QPointF& point) const;
    QString describe(BlockId block) const;
    std::uint32_t tableRowShown(const PoolLayout& layout, std::uint32_t box) const;  // logical index, or none

    void paintCallout(const Canvas& canvas, const PoolLayout& layout) const;
    void paintTable(const Canvas& canvas, const PoolLayout& layout) const;
    void paintArrows(const Canvas& canvas, const PoolLayout& layout) const;
    void paintCounts(const Canvas& canvas, const PoolLayout& layout) const;
    void paintHeads(const Canvas& canvas, const PoolLayout& layout) const;
    void paintCell(const Canvas& canvas, const PoolLayout& layout, std::uint32_t block) const;
    void paintImage(const Canvas& canvas, const PoolLayout& layout) const;
    void paintMarks(const Canvas& canvas, const PoolLayout& layout) const;
    void paintLegend(const Canvas& canvas, const PoolLayout& layout) const;
    void paintQueue(const Canvas& canvas, const PoolLayout& layout) const;

    const LaneState* m_state = nullptr;  // of the cursor, valid until it moves
    TableState m_table;        // of the sequence in focus
    std::vector<std::uint32_t> m_touched;  // blocks taken, copied or given back in this step
    std::vector<SequenceId> m_owners;    // sequences that own blocks, ascending
    std::vector<BlockId> m_freeOrder;    // from the head, as many as are shown
    std::uint64_t m_freeBlocks = 0, m_cachedBlocks = 0, m_unusedSlots = 0;
    Callout m_callout;
    PoolLayout m_layout;
};

}  // namespace kvloupe
