// SPDX-License-Identifier: GPL-3.0-or-later
//
// Tokens and block table: the tokens of the sequence in focus, wrapped at the block size, a row per block with its logical
// and physical number. What this step wrote is strong, what earlier steps wrote is paler, what is not written yet is dashed.
#pragma once

#include "views/block_tables.h"
#include "views/scrolling_view.h"
#include "views/token_track.h"

namespace kvloupe {

class Canvas;

class TokensView : public ScrollingView {
    Q_OBJECT

public:
    explicit TokensView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;

    // Cell of a position in widget coordinates; empty when it is scrolled out. For tests and tips.
    QRectF cellRect(std::uint32_t position) const;
    // All block tables are shown, not the tokens of one sequence.
    bool tablesShown() const;
    const BlockTables& tables() const { return m_tables; }
    QRectF tableCell(std::size_t row, std::uint32_t logical) const;  // in widget coordinates
    std::vector<ViewChoice> choices() const override;
    std::size_t tokenCount() const { return m_track.tokens().size(); }

protected:
    void refresh() override;
    void settle() override;
    void refreshSelection() override;
    QString tipAt(const QPointF& position) const override;
    bool navigates() const override { return true; }
    void layOut() override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    enum class Shown { automatic, sequence, tables };
    struct Grid {
        std::uint32_t columns = 16;  // cells per row
        double left = 0, top = 0;    // of the first cell, not scrolled
        double cellWidth = 0, rowHeight = 0;
        bool narrowLabels = false;
    };
    Grid gridFor(double width) const;
    QRectF cell(const Grid& grid, std::uint32_t position) const;  // not scrolled
    std::optional<std::uint32_t> positionAt(const QPointF& point) const;
    std::uint32_t slotCount() const;  // cells: tokens, and the free slots of the last block
    bool hasProbability() const;
    QString describe(std::uint32_t position, bool rich) const;
    void paintLabels(const Canvas& canvas, const Grid& grid, const QRectF& area, std::uint32_t row) const;
    void paintCell(const Canvas& canvas, const QRectF& box, std::uint32_t position) const;
    void paintTokens(const Canvas& canvas, const QRectF& area, const QRectF& view) const;
    void paintDetail(const Canvas& canvas, const QRectF& strip) const;
    double stripHeight() const;  // of the lines below, 0 in a low view
    QString tableDetail() const;
    void setChoice(const QString& key, int index) override;
    void explain();
    Pick pickAt(const QPointF& point) const;
    void moveInTables(int columns, int rows);
    QString tablesCsv() const;

    Shown m_shown = Shown::automatic;
    BlockTables m_tables;
    SequenceFacts m_facts;
    std::uint32_t m_reused = 0;        // first tokens that the sequence did not compute itself
    TokenTrack m_track;
    StepWork m_work;
    std::uint32_t m_blockSize = 0;     // 0: the lane keeps no cache
    std::uint32_t m_written = 0;       // tokens whose K/V lie in the cache
    TableState m_table;
    std::vector<std::uint32_t> m_owners;  // per logical block
};

}  // namespace kvloupe
