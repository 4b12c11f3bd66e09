// SPDX-License-Identifier: GPL-3.0-or-later
//
// QualityColumn: a figure that each lane has one of, how it is written and on what scale lanes are compared in it.
#pragma once

#include "engine/record/quality.h"
#include "views/nice_scale.h"

#include <QString>

#include <vector>

namespace kvloupe {

enum class QualityColumn {
    perplexity,
    recall,      // share, 0 … 1
    ratio,       // perplexity ÷ the reference lane's, paired
    divergence,  // mean KL to the reference lane, nats
};

QString qualityCaption(QualityColumn column);  // "perplexity", "recall"
QString qualityHint(QualityColumn column);     // "lower is better"
QualityFigure qualityFigure(const LaneQuality& lane, QualityColumn column);
// "8.914", "98.4 %", "+0.03 %", "4.5e−6"
QString qualityNumber(QualityColumn column, double value);
QString qualityTick(QualityColumn column, double value, double step);
// As wide as a tick of the column gets: how many of them have room.
QString qualityWidestTick(QualityColumn column);
// "8.914 (95 %: 8.80 to 9.03)"
QString qualityInterval(QualityColumn column, const QualityFigure& figure);
// Over all that are measured; at most `most` ticks.
NiceScale qualityScale(QualityColumn column, const std::vector<QualityFigure>& figures, int most);

}  // namespace kvloupe
