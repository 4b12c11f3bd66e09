// SPDX-License-Identifier: GPL-3.0-or-later
//
// ParametersView ("parameters"): where the parameters of each lane's model are: a bar to scale, the same scale for all
// lanes, and the numbers by part. What tells attention variants apart is the attention's own part, drawn in the lane's
// colour.
#pragma once

#include "engine/record/layer_info.h"
#include "views/list_view.h"

#include <array>

namespace kvloupe {

class Canvas;

class ParametersView : public ListView {
    Q_OBJECT

public:
    enum Part { embedding, attention, feedForward, norms, output, partCount_ };

    explicit ParametersView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;

    static std::array<std::uint64_t, partCount_> numbersOf(const ParameterParts& parts);
    static QString partName(int part);
    // Numbers shown beside the bars in an area of this width: parts, and partCount_ for the sum.
    std::vector<int> columnsShown(double width) const;

protected:
    void refresh() override;
    void layOut() override;
    QString tipAt(const QPointF& position) const override;
    Pick pickOf(int card) const override;
    void choose(int card) override;

private:
    struct Frame {
        double head = 0, row = 0;
        double nameWidth = 0;
        QRectF bars;  // of all lanes; its left edge is 0 parameters
        std::vector<int> columns;
        double columnWidth = 0;
    };
    Frame frameFor(const QRectF& area) const;
    void placeRows();
    double nameWidth(double width) const;
    double columnWidth() const;
    const LaneInfo& info(std::uint32_t lane) const;
    std::uint64_t greatest() const;  // parameters of a lane
    std::optional<std::uint32_t> widestAttention() const;
    QString shareText(std::uint32_t lane) const;
    void paintHead(const Canvas& canvas, const Frame& frame, const QRectF& area) const;
    void paintBar(const Canvas& canvas, const QRectF& bar, std::uint32_t lane) const;
    void paintPart(const Canvas& canvas, const QRectF& box, int part, const QColor& lane) const;
};

}  // namespace kvloupe
