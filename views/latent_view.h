// SPDX-License-Identifier: GPL-3.0-or-later
//
// Latent: what multi-head latent attention keeps of a block's tokens, and the keys and values of one head that it stands for.
// The same for a model converted to latents. Beside it the numbers kept and stood for, counted from the shapes.
#pragma once

#include "views/block_view.h"
#include "views/value_map.h"

#include <vector>

namespace kvloupe {

class Canvas;

class LatentView : public BlockView {
    Q_OBJECT

public:
    explicit LatentView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;

protected:
    void valuesChanged() override;
    std::uint32_t headCount() const override;
    QString whyNot(const LaneInfo& info) const override;
    QString tipAt(const QPointF& position) const override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;

private:
    // One of: latent, rotary key (as stored); keys, values (of the head in focus).
    struct Shown {
        ValueMap map;
        QString title;
        const char* key = "";      // in the CSV
        const BlockPart* part = nullptr;
        std::uint32_t head = 0;
    };
    std::vector<Shown> shownIn(const QRectF& area) const;
    std::optional<std::pair<const Shown*, std::pair<std::uint32_t, std::uint32_t>>> at(const QPointF& point) const;
    void paintSide(const Canvas& canvas, const QRectF& side) const;
    QRectF sideIn(const QRectF& area) const;

    std::vector<Shown> m_shown;    // on screen
};

}  // namespace kvloupe
