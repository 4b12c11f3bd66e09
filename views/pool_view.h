// SPDX-License-Identifier: GPL-3.0-or-later
//
// Block pool: every block of the lane in focus, coloured by owner, filled by slots; the block table of the sequence in
// focus at the left, with an arrow from each logical index to its physical block; the free queue below. A copy of the step
// is an arrow from its source (dashed) to its destination, with the cause above. Hue is who, texture is state; instead of
// the owner a number can give the colour, and where the lane is compared with another one what differs between the two.
#pragma once

#include "views/view.h"

#include "views/pool_blocks.h"
#include "views/pool_difference.h"
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
    std::vector<ViewChoice> choices() const override;
    const PoolLayout& layoutOfScreen() const { return m_layout; }
    const PoolBlocks& blocks() const { return m_blocks; }
    PoolColour colour() const { return m_colour; }
    const PoolDifference& difference() const { return m_difference; }  // empty: none is shown
    const QString& calloutTitle() const { return m_callout.title; }
    const QString& calloutCause() const { return m_callout.cause; }

protected:
    void refresh() override;
    void refreshSelection() override;
    QString tipAt(const QPointF& position) const override;
    bool navigates() const override { return true; }
    void resizeEvent(QResizeEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    enum class QueueShown { strip, places, off };
    // What the step did to blocks: a title, a sentence, and the fork without which a copy would not have been needed.
    struct Callout {
        bool happened = false;
        QString title, cause;
        std::vector<std::pair<QString, std::optional<Origin>>> numbers;
        std::optional<std::uint64_t> fork;
        std::uint32_t forkStep = 0;
    };
    Callout calloutOf(const LaneRecord& lane, std::size_t step);
    void findFork(Callout& callout, const LaneRecord& lane, std::size_t step, const Event& copy) const;
    void setChoice(const QString& key, int index) override;
    static QStringList colourNames();
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
    void paintFree(const Canvas& canvas, const PoolLayout& layout, std::uint32_t block) const;
    void paintUsed(const Canvas& canvas, const PoolLayout& layout, std::uint32_t block) const;
    void paintSlots(const Canvas& canvas, const QRectF& cell, std::uint32_t block) const;
    bool compares() const { return !m_difference.blocks.empty(); }
    void updateDifference();
    QString describeDifference(BlockId block) const;
    QStringList differenceFields(std::uint32_t block) const;  // of the CSV
    void paintDifference(const Canvas& canvas, const PoolLayout& layout, std::uint32_t block) const;
    void paintDifferenceLegend(const Canvas& canvas, const PoolLayout& layout) const;
    QColor differenceDot(const Canvas& canvas, std::uint32_t block) const;
    void paintRegions(const Canvas& canvas, const PoolLayout& layout) const;
    void paintCopies(const Canvas& canvas, const PoolLayout& layout) const;
    QColor valueColour(const Canvas& canvas, std::uint32_t block) const;  // invalid: no number
    void paintImage(const Canvas& canvas, const PoolLayout& layout) const;
    void paintMarks(const Canvas& canvas, const PoolLayout& layout) const;
    void paintLegend(const Canvas& canvas, const PoolLayout& layout) const;
    void paintScale(const Canvas& canvas, const PoolLayout& layout) const;
    void paintQueue(const Canvas& canvas, const PoolLayout& layout) const;
    QString valueText(double value) const;

    const LaneState* m_state = nullptr;  // of the cursor, valid until it moves
    PoolBlocks m_blocks;
    PoolColour m_colour = PoolColour::owner;
    QueueShown m_queueShown = QueueShown::strip;
    bool m_showDifference = true;          // where there is something to compare with
    PoolDifference m_difference;
    BlockOwners m_thereOwners;             // while one is shown
    std::uint8_t m_group = 0;              // cache group whose table is shown
    TableState m_table;                    // of the sequence in focus
    std::vector<std::uint32_t> m_touched;  // blocks of what the callout tells
    std::vector<SequenceId> m_owners;      // sequences that own blocks, ascending
    std::vector<BlockId> m_freeOrder;      // from the head, as many as are shown
    std::vector<std::uint32_t> m_place;    // per block: place in the free queue from 1, 0 for none; empty: not shown
    std::uint64_t m_freeBlocks = 0, m_cachedBlocks = 0, m_sharedBlocks = 0, m_unusedSlots = 0;
    Callout m_callout;
    PoolLayout m_layout;
};

}  // namespace kvloupe
