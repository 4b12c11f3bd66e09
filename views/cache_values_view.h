// SPDX-License-Identifier: GPL-3.0-or-later
//
// Cache values: keys or values of one head in one block, before they were stored, as they are stored, and the difference; the
// error by channel and token beside it, by head and layer below; scales; outliers (block_errors.h says which). "Before" is known
// from the moment somebody looks, so earlier tokens show only what is stored.
#pragma once

#include "engine/record/block_scales.h"
#include "views/block_view.h"
#include "views/value_map.h"

#include <vector>

namespace kvloupe {

class CacheValuesView : public BlockView {
    Q_OBJECT

public:
    explicit CacheValuesView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    std::vector<ViewChoice> choices() const override;

    // What the three maps show.
    enum Map : int { before, stored, error };
    double valueAt(Map map, std::uint32_t token, std::uint32_t channel) const;

protected:
    void valuesChanged() override;
    std::uint32_t headCount() const override;
    void setChoice(const QString& key, int index) override;
    void refresh() override;
    QString tipAt(const QPointF& position) const override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;

private:
    struct Bar {
        QRectF area;
        std::uint32_t index = 0;  // of a head or layer
        double relative = 0;
        bool known = false;
    };
    struct Places {
        ValueMap maps[3];
        QRectF labels;            // positions, left of the maps
        QRectF channelBars;       // below the error
        QRectF tokenBars;         // right of it
        QRectF scales;            // of tokens; of channels they stand below the stored values
        QRectF channelScales;
        QRectF legend;
        QRectF side;              // facts; null where there is no room
        QRectF headTitle, layerTitle;
        std::vector<Bar> heads, layers;
    };
    const BlockPart& part() const;
    bool showsKeys() const { return m_part == 0; }
    Places placesFor(const QRectF& area) const;
    std::vector<Bar> barsIn(const QRectF& area, bool ofHeads) const;
    QString scaleText(std::uint32_t token, std::uint32_t channel) const;  // "" where there is none
    QString lossText() const;     // what is known of "before", one sentence

    void paintLabels(const Canvas& canvas, const Places& places) const;
    void paintMaps(const Canvas& canvas, const Places& places) const;
    void paintMargins(const Canvas& canvas, const Places& places) const;
    void paintScales(const Canvas& canvas, const Places& places) const;
    void paintBars(const Canvas& canvas, const QRectF& title, const QString& text, const std::vector<Bar>& bars, std::uint32_t chosen) const;
    void paintSide(const Canvas& canvas, const QRectF& side) const;

    int m_part = 0;               // keys, values
    BlockErrors m_errors;
    HeadOutliers m_outliers;
    StoredScales m_scales;
    double m_largest = 0;         // |x| of the head, before or stored
    Places m_places;              // on screen
};

// "7.0 %", "0.0061 %".
QString relativeText(double relative);

}  // namespace kvloupe
