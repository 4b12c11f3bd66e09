// SPDX-License-Identifier: GPL-3.0-or-later
//
// Lanes: the engine configurations that step side by side; the one in focus is what the other views show. Each shows one token of
// one layer as its cache stores it, all to the same scale.
#pragma once

#include "views/list_view.h"
#include "views/stored_token.h"

namespace kvloupe {

class Canvas;

class LanesView : public ListView {
    Q_OBJECT

public:
    explicit LanesView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    // Of the cursor's layer, per lane.
    const std::vector<StoredToken>& tokens() const { return m_tokens; }
    // The lanes come from a file and do not go on.
    void setRecorded(bool recorded);

protected:
    void refresh() override;
    void layOut() override;
    QString tipAt(const QPointF& position) const override;
    Pick pickOf(int card) const override;
    void choose(int card) override;

private:
    bool isWide(double width) const;
    const StepRecord* stepOf(std::uint32_t lane) const;
    // Parts of a card. Where the view is wide, the strip stands between names and numbers; else it is a thin line below them.
    struct Columns {
        double names = 0;           // width
        double numbers = 0;         // width; 0: no room for them
        double pixelsPerByte = 0;   // of the strips
    };
    Columns columnsFor(const Canvas& canvas, double width) const;
    void paintWide(const Canvas& canvas, const QRectF& card, const Columns& columns, std::uint32_t lane) const;
    void paintNarrow(const Canvas& canvas, const QRectF& card, const Columns& columns, std::uint32_t lane) const;
    // Width used by the measured bytes and, below them, the blocks.
    double paintNumbers(const Canvas& canvas, const QRectF& top, const QRectF& bottom, std::uint32_t lane) const;
    QString configurationOf(std::uint32_t lane, bool wide) const;
    QString stripText(std::uint32_t lane) const;
    bool hasEnded(std::uint32_t lane) const;  // before the cursor's step
    QString blocksText(std::uint32_t lane) const;
    // After the cursor's step, as the block pool shows it: what the step counted, less what it gave back at its end.
    std::uint32_t usedBlocks(std::uint32_t lane) const;
    std::pair<std::uint64_t, Origin> kvBytes(std::uint32_t lane) const;

    std::vector<StoredToken> m_tokens;
    double m_most = 0;  // bytes of the largest of them
    bool m_recorded = false;
};

}  // namespace kvloupe
