// SPDX-License-Identifier: GPL-3.0-or-later
//
// Genealogy: forks and copies of a block's content since its birth, up to the cursor: a line per sequence that owned it
// against the steps, branching where one forked, changing its block where one copied; below, every event as a sentence with
// position, slots and bytes; at the bottom what sharing saves. Shows the locked block, else the one copied last.
#pragma once

#include "views/list_view.h"

#include "views/block_lineage.h"
#include "views/step_axis.h"

namespace kvloupe {

class GenealogyView : public ListView {
    Q_OBJECT

public:
    explicit GenealogyView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    QVariant zoomState() const override { return m_range.state(); }
    void fit() override;

    const BlockLineage& lineage() const { return m_lineage; }
    BlockId block() const { return m_choice.block; }
    std::pair<double, double> range() const { return m_range.of(cursor()->stepCount()); }

protected:
    int refreshInterval() const override { return 100; }
    void refresh() override;
    void refreshSelection() override;
    QString tipAt(const QPointF& position) const override;
    Pick pickOf(int card) const override;
    void choose(int card) override;
    void layOut() override;
    void setZoomState(const QVariant& state) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    struct Layout {
        StepAxis axis;            // not scrolled
        double labels = 0;        // room for names at the left
        double line = 20;         // height of a sequence
        std::size_t shown = 0;    // lines drawn; the others are counted
        double sentences = 0;     // where they begin
        bool wide = false;        // an event takes one line
    };
    // What an event did, for its sentence, the table and the tips.
    struct Told {
        std::uint32_t step = 0;
        std::optional<std::uint32_t> position;
        std::uint64_t slots = 0, bytes = 0;
        bool moved = false;       // it copied K/V
        QString sentence;
    };
    // A block and the event before which it had the content that is meant.
    struct Choice {
        BlockId block;
        std::uint64_t when = 0;
        bool operator==(const Choice&) const = default;
    };
    Choice choice() const;
    Layout layoutFor(const QRectF& area) const;
    Told tell(std::uint64_t event) const;
    void explain();
    void shareSteps();
    void followSteps();
    double stripHeight() const;
    std::optional<std::uint32_t> holdAt(const Layout& layout, const QPointF& point) const;
    Pick pickEvent(std::uint64_t event) const;
    Pick pickHold(const BlockLineage::Hold& hold) const;

    void paintLines(const Canvas& canvas, const Layout& layout, const QRectF& area) const;
    void paintHold(const Canvas& canvas, const Layout& layout, const QRectF& row, const BlockLineage::Hold& hold) const;
    void paintJoints(const Canvas& canvas, const Layout& layout, double top) const;
    void paintSentence(const Canvas& canvas, const Layout& layout, const QRectF& box, std::uint64_t event) const;
    void paintStrip(const Canvas& canvas, const QRectF& strip) const;

    BlockEvents m_events;
    BlockLineage m_lineage;
    Choice m_choice;
    bool m_chosen = false;        // by the lock; else the block copied last
    SharingSaved m_saved;
    StepRange m_range;
};

}  // namespace kvloupe
