// SPDX-License-Identifier: GPL-3.0-or-later
//
// QualityView ("quality"): what the lanes are worth on held-out text: perplexity and recall with their intervals, one row
// per lane; with more room recall against the distance of a fact, and what tells a lane from the reference lane: perplexity
// change and KL divergence, in total and by position. As kept from an earlier measurement or measured now (M, or the
// button).
#pragma once

#include "views/list_view.h"
#include "views/quality_chart.h"
#include "views/quality_column.h"
#include "views/quality_holder.h"

namespace kvloupe {

class Canvas;
struct TextStyle;

class QualityView : public ListView, public QualityHolder {
    Q_OBJECT

public:
    explicit QualityView(Cursor* cursor, QWidget* parent = nullptr);

    void setQuality(std::shared_ptr<const QualityReport> report) override;
    const std::shared_ptr<const QualityReport>& quality() const { return m_report; }

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    std::vector<ViewChoice> choices() const override;
    using View::choose;  // beside ListView's, of a row
    // Titles of what an area of this width shows beside the names, from left to right.
    QStringList partsShown(double width) const;

protected:
    void refresh() override;
    void layOut() override;
    void setChoice(const QString& key, int index) override;
    QString tipAt(const QPointF& position) const override;
    Pick pickOf(int card) const override;
    void choose(int card) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    enum class Show { fitting, totals, reference, places };
    // A column of figures, or a chart.
    struct Part {
        const QualityChart* chart = nullptr;
        QualityColumn column = QualityColumn::perplexity;
        QRectF area;                                         // the full height
        double wanted() const { return chart ? 200 : 150; }  // least width at 100 %
    };
    struct Frame {
        QRectF names, foot, link;
        double head = 0, axis = 0, row = 0;
        std::vector<Part> parts;
    };
    std::vector<Part> candidates() const;
    std::vector<Part> fitting(double width, double names) const;
    Frame frameFor(const QRectF& area) const;
    double nameWidth(double width) const;
    void placeRows();
    const LaneQuality* qualityOf(std::uint32_t lane) const;
    bool isReference(std::uint32_t lane) const;
    QString laneName(LaneId lane) const;
    QString footText() const;
    QString linkText() const;
    bool overLink(const QPointF& position) const;
    QString stateOf(std::uint32_t lane) const;  // instead of figures: "not measured"; "" where there are figures
    QString laneTip(std::uint32_t lane) const;

    void paintStates(const Canvas& canvas, const Frame& frame, const QRectF& area) const;
    void paintWash(const Canvas& canvas, const QRectF& room, const QString& text, const TextStyle& style,
                   std::uint32_t lane) const;
    QRectF bandOf(const Frame& frame, const QRectF& area, std::uint32_t lane) const;
    void paintNames(const Canvas& canvas, const Frame& frame, const QRectF& area) const;
    void paintColumn(const Canvas& canvas, const Frame& frame, const Part& part) const;
    void paintFigure(const Canvas& canvas, const Part& part, const NiceScale& scale, const QRectF& row,
                     std::uint32_t lane) const;
    QRectF plotOf(const Canvas& canvas, const Part& part) const;
    QRectF rowOf(const Frame& frame, const QRectF& area, std::uint32_t lane) const;

    std::shared_ptr<const QualityReport> m_report;
    Show m_show = Show::fitting;
    QualityChart m_distances, m_positions;
};

}  // namespace kvloupe
