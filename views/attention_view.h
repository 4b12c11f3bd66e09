// SPDX-License-Identifier: GPL-3.0-or-later
//
// Attention: a wall of all heads grouped by KV head, one head large with block borders, and what the query in focus
// reads: mass per block and the largest keys. Rows are queries, columns are keys; only recorded rows are drawn. Where the lane is
// compared with another one: weights here minus there, of rows that both recorded.
#pragma once

#include "views/view.h"

#include "views/attention_difference.h"
#include "views/attention_index.h"
#include "views/token_track.h"

#include <QImage>

#include <optional>
#include <vector>

namespace kvloupe {

class Canvas;

class AttentionView : public View {
    Q_OBJECT

public:
    explicit AttentionView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    std::vector<ViewChoice> choices() const override;
    bool compares() const { return m_compares; }

protected:
    void setChoice(const QString& key, int index) override;
    int refreshInterval() const override { return 100; }
    void refresh() override;
    void settle() override;  // waits for what is still being read
    void refreshSelection() override;
    QString tipAt(const QPointF& position) const override;
    bool navigates() const override { return true; }
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    struct Places {
        QRectF wall, head, plot, side;  // head: caption of the large head
        double cellWidth = 0, cellHeight = 0, groupGap = 0;
        QRectF link;                    // "Watch layer n", where the layer in focus is not recorded
    };
    Places placesFor(const QRectF& area) const;
    QRectF wallCell(const Places& places, std::uint32_t layer, std::uint32_t head) const;
    std::optional<std::pair<std::uint32_t, std::uint32_t>> wallAt(const QPointF& point) const;
    // Query (row) and key (column) under a point of the large head.
    std::optional<std::pair<std::uint32_t, std::uint32_t>> cellAt(const QPointF& point) const;
    // Rows sampled and keys folded by their largest weight, at most `width` x `height` pixels.
    // Colours from weight 0 to 1 in equal steps of its square root, for the current theme.
    const std::vector<QRgb>& colourRamp() const;
    QImage imageOf(const std::vector<const AttentionRow*>& rows, int width, int height) const;
    // The other lane's rows of a head at its step, as rows of the index; empty where it has no such head or none was recorded.
    std::vector<const AttentionRow*> rowsThere(std::uint32_t layer, std::uint32_t head) const;
    bool updateThere();  // false: it recorded nothing of the sequence
    const AttentionRow* thereRow(std::uint32_t query) const { return query < m_there.size() ? m_there[query] : nullptr; }
    DifferenceGrid differenceGrid(const std::vector<const AttentionRow*>& here, const std::vector<const AttentionRow*>& there, int width,
                                  int height) const;
    QImage imageOfDifference(const DifferenceGrid& grid) const;
    void buildDifferenceImages(int width, int height);  // of the wall and of the large head
    QString differenceCsv(const AttentionRow& row, std::uint32_t key) const;  // the two last fields with their commas
    std::optional<float> differenceAt(const AttentionRow& row, std::uint32_t key) const;
    void paintDifferenceSide(const Canvas& canvas, const QRectF& side, const AttentionRow& row) const;
    void paintScale(const Canvas& canvas, const QRectF& plot) const;
    const AttentionRow* queryRow() const;  // locked query where it has a row, else the newest
    std::uint32_t groupSize() const;       // keys per block, or 16 without blocks
    QString tokenAt(std::uint32_t position) const;

    void paintWall(const Canvas& canvas, const Places& places) const;
    void paintHead(const Canvas& canvas, const Places& places) const;
    void paintValues(const Canvas& canvas, const QRectF& plot) const;
    void paintSide(const Canvas& canvas, const Places& places) const;

    AttentionIndex m_index;
    TokenTrack m_track;
    std::size_t m_step = 0;
    std::uint32_t m_layers = 0, m_heads = 0, m_kvHeads = 0, m_blockSize = 0;
    bool m_latent = false;  // all heads read one latent: they are one group
    TableState m_table;
    std::vector<const AttentionRow*> m_rows;  // of the head in focus, by position
    std::uint32_t m_extent = 0;               // queries and keys drawn: 0 .. m_extent - 1
    std::vector<QImage> m_wall;               // layer * heads + head; null where nothing is recorded
    QImage m_head;
    mutable const Palette* m_rampOf = nullptr;
    mutable std::vector<QRgb> m_ramp;
    Places m_places;
    bool m_showDifference = true;                // where there is something to compare with
    bool m_compares = false;
    AttentionIndex m_thereIndex;
    std::size_t m_thereStep = 0;
    double m_reach = 1;                          // ends of the colour scale of differences
    std::vector<const AttentionRow*> m_there;    // of the head in focus, by position
};

}  // namespace kvloupe
