// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/quality_column.h"

#include "views/format.h"

#include <QCoreApplication>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvloupe {

namespace {

QString columnText(const char* text) { return QCoreApplication::translate("QualityColumn", text); }

// "+0.03 %", with as many decimals as `size` (in percent) needs to be told from 0.
QString percentDifference(double ratio, double size) {
    const double percent = (ratio - 1) * 100;
    const int decimals = size >= 9.95 ? 0 : size >= 0.995 ? 1 : size >= 0.0995 ? 2 : 3;
    const QString number = QString::number(std::abs(percent), 'f', decimals);
    const bool zero = number.toDouble() == 0;
    return (zero ? QString() : percent < 0 ? QStringLiteral("−") : QStringLiteral("+")) + number + QStringLiteral(" %");
}

// 1e-3 -> "10⁻³"; from 0.01 to 100 as it is.
QString powerOfTen(double value) {
    const int power = static_cast<int>(std::lround(std::log10(value)));
    if (power >= -2 && power <= 2) return QString::number(value);
    static constexpr char16_t digits[] = u"⁰¹²³⁴⁵⁶⁷⁸⁹";
    QString text = QStringLiteral("10");
    if (power < 0) text += QChar(0x207B);
    for (const QChar digit : QString::number(std::abs(power))) text += QChar(digits[digit.digitValue()]);
    return text;
}

}  // namespace

QString qualityCaption(QualityColumn column) {
    switch (column) {
    case QualityColumn::perplexity: return columnText("perplexity");
    case QualityColumn::recall: return columnText("recall");
    case QualityColumn::ratio: return columnText("perplexity change");
    case QualityColumn::divergence: return columnText("KL divergence");
    }
    return {};
}

QString qualityHint(QualityColumn column) {
    return column == QualityColumn::recall ? columnText("higher is better") : columnText("lower is better");
}

QualityFigure qualityFigure(const LaneQuality& lane, QualityColumn column) {
    switch (column) {
    case QualityColumn::perplexity: return lane.perplexity;
    case QualityColumn::recall: return lane.recall_total.right;
    case QualityColumn::ratio: return lane.perplexity_ratio;
    case QualityColumn::divergence: return lane.divergence;
    }
    return {};
}

QString qualityNumber(QualityColumn column, double value) {
    switch (column) {
    case QualityColumn::perplexity: return QString::number(value, 'f', value < 9.9995 ? 3 : value < 99.995 ? 2 : 1);
    case QualityColumn::recall: return formatPercent(value);
    case QualityColumn::ratio: return percentDifference(value, std::abs(value - 1) * 100);
    case QualityColumn::divergence: return formatSmall(value);
    }
    return {};
}

QString qualityWidestTick(QualityColumn column) {
    switch (column) {
    case QualityColumn::perplexity: return QStringLiteral("8.88");
    case QualityColumn::recall: return QStringLiteral("100 %");
    case QualityColumn::ratio: return QStringLiteral("+8.8 %");
    case QualityColumn::divergence: return powerOfTen(1e-8);
    }
    return {};
}

QString qualityTick(QualityColumn column, double value, double step) {
    const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 6);
    switch (column) {
    case QualityColumn::perplexity: return QString::number(value, 'f', decimals);
    case QualityColumn::recall: return QString::number(value * 100, 'f', std::max(0, decimals - 2)) + QStringLiteral(" %");
    case QualityColumn::ratio: return percentDifference(value, step * 100);
    case QualityColumn::divergence: return powerOfTen(value);
    }
    return {};
}

QString qualityInterval(QualityColumn column, const QualityFigure& figure) {
    if (!figure.measured()) return columnText("not measured");
    return columnText("%1 (95 %: %2 to %3)")
        .arg(qualityNumber(column, figure.value), qualityNumber(column, figure.low), qualityNumber(column, figure.high));
}

NiceScale qualityScale(QualityColumn column, const std::vector<QualityFigure>& figures, int most) {
    double low = std::numeric_limits<double>::infinity(), high = -low, least = low;
    for (const QualityFigure& figure : figures) {
        if (!figure.measured()) continue;
        low = std::min({low, figure.low, figure.value});
        high = std::max({high, figure.high, figure.value});
        for (const double value : {figure.low, figure.value})
            if (value > 0) least = std::min(least, value);
    }
    if (column == QualityColumn::divergence) {
        if (!std::isfinite(least) || !(high > 0)) return NiceScale::powers(1e-6, 1, most);
        return NiceScale::powers(least, high, most);
    }
    if (!std::isfinite(low)) return NiceScale::linear(0, 1, most);
    if (column == QualityColumn::ratio) {
        low = std::min(low, 1.0);
        high = std::max(high, 1.0);
    }
    NiceScale scale = NiceScale::linear(low, high, most);
    if (column != QualityColumn::recall) return scale;
    // No share lies beyond 0 or 1, and the marks at the ends stay whole.
    scale.low = std::max(scale.low, -0.02);
    scale.high = std::min(scale.high, 1.0 + 0.04 * (1.0 - scale.low));
    std::erase_if(scale.ticks,
                  [&](double tick) { return tick > 1 + 1e-9 || tick < -1e-9 || tick > scale.high || tick < scale.low; });
    return scale;
}

}  // namespace kvloupe
