// SPDX-License-Identifier: GPL-3.0-or-later
//
// Prefix tree: the blocks that are owned or cached after the cursor's step, a cell each, below the block that holds the
// tokens before; a row per chain without branches, drawn where its tokens stand from the root. Cells say who owns them,
// what is cached, shared, evicted lately, hit, and what goes next. Ctrl and the wheel zoom the tokens, F shows everything.
#pragma once

#include "views/list_view.h"

#include "views/growing_data.h"
#include "views/prefix_tree.h"
#include "views/sequence_tokens.h"
#include "views/step_axis.h"

namespace kvloupe {

class PrefixTreeView : public ListView {
    Q_OBJECT

public:
    explicit PrefixTreeView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    QVariant zoomState() const override { return m_range.state(); }
    void fit() override;

    const PrefixTree& tree() const { return m_tree; }
    // Cell of a node in widget coordinates; empty where it is scrolled out or folded away. For tests.
    QRectF cellRect(std::uint32_t node) const;

protected:
    int refreshInterval() const override { return m_interval; }
    void refresh() override;
    void settle() override;  // waits for what is still being read
    QString tipAt(const QPointF& position) const override;
    Pick pickOf(int card) const override;
    void choose(int card) override;
    void layOut() override;
    void setZoomState(const QVariant& state) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;  // to the step in which the block's content began, or went
    void wheelEvent(QWheelEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    struct Layout {
        QRectF plot;                // cells, from below the axis to above the strip
        double left = 0;            // of the names
        double perToken = 1;        // pixels
        double begin = 0, end = 1;  // tokens in sight
        double cell = 0;            // width of a block
        double row = 24;            // height
        bool folded() const { return cell < 3; }
    };
    Layout layoutFor(const QRectF& area) const;
    double x(const Layout& layout, double token) const { return layout.plot.left() + (token - layout.begin) * layout.perToken; }
    QRectF cell(const Layout& layout, std::uint32_t place, std::uint32_t row) const;  // place in the order of nodes
    std::uint32_t nodeAt(const Layout& layout, const QPointF& point) const;
    Pick pickNode(std::uint32_t node) const;
    std::optional<std::uint32_t> stepOf(std::uint32_t node) const;
    void goTo(std::uint32_t node);
    void explain();
    double stripHeight() const;
    QString rowName(const PrefixTree::Row& row) const;
    QStringList rowFacts(const PrefixTree::Row& row) const;  // joined with dots they are the row's sentence; the first says most
    QString owners(const PrefixTree::Node& node, std::size_t limit) const;
    QString stateName(const PrefixTree::Node& node) const;
    QString blockText(const PrefixTree::Node& node, int longest) const;
    QString describe(const PrefixTree::Node& node) const;

    void paintAxis(const Canvas& canvas, const Layout& layout, const QRectF& area) const;
    void paintRow(const Canvas& canvas, const Layout& layout, std::uint32_t row) const;
    void paintBranch(const Canvas& canvas, const Layout& layout, std::uint32_t row) const;
    void paintFolded(const Canvas& canvas, const Layout& layout, std::uint32_t row) const;
    void paintFill(const Canvas& canvas, const QRectF& box, const PrefixTree::Node& node) const;
    void paintCell(const Canvas& canvas, const QRectF& box, const PrefixTree::Node& node, bool filledAlready = false) const;
    void paintMarks(const Canvas& canvas, const Layout& layout) const;
    void paintStrip(const Canvas& canvas, const QRectF& strip) const;

    GrowingData<PrefixHistory> m_history;
    PrefixTree m_tree;
    GrowingData<SequenceTokens> m_tokens;
    StepRange m_range;              // of tokens from the root
    std::optional<LaneState> m_state;  // after the cursor's step
    std::uint32_t m_blockSize = 1;
    std::uint32_t m_column = 0;     // cell of the current row reached by the keys or the pointer
    // What occurs, for legend and subtitle; samples are cells that are there.
    struct Occurs {
        std::size_t present = 0;
        bool owned = false, shared = false, cached = false, evicted = false, hit = false, next = false, gone = false;
        PrefixTree::Node ownedSample, sharedSample;
    };
    void lookOver();
    Occurs m_occurs;
    int m_interval = 40;            // ms between two refreshes while the recording grows
};

}  // namespace kvloupe
