// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot_axis.h"

#include "views/format.h"

#include <cmath>

namespace kvloupe {

namespace {

// Shortest decimal text that tells ticks `step` apart; both in the axis' unit.
QString tickNumber(double value, double step) {
    int decimals = 0;
    double rest = std::abs(step);
    while (decimals < 3 && rest > 0 && std::abs(rest - std::round(rest)) > 1e-6 * std::max(1.0, rest)) {
        rest *= 10;
        ++decimals;
    }
    QString text = QLocale(QLocale::English).toString(value, 'f', decimals);
    if (text == QLatin1String("-0")) text = QStringLiteral("0");
    return text;
}

QString shortest(double value) { return QString::number(value, 'g', 3); }

QString superscript(int exponent) {
    static const QString digits = QStringLiteral("⁰¹²³⁴⁵⁶⁷⁸⁹");
    QString text;
    for (const QChar c : QString::number(exponent)) text += c == QLatin1Char('-') ? QChar(0x207B) : digits[c.digitValue()];
    return text;
}

}  // namespace

QString powerOfTen(double value) {
    if (!(value > 0)) return QStringLiteral("0");
    const int exponent = static_cast<int>(std::floor(std::log10(value) + 1e-9));
    const double mantissa = value / std::pow(10.0, exponent);
    if (exponent == 0) return shortest(value);
    if (std::abs(mantissa - 1) < 1e-6) return QStringLiteral("10") + superscript(exponent);
    return shortest(mantissa) + QStringLiteral("·10") + superscript(exponent);
}

PlotTicker::PlotTicker(PlotNumbers numbers, bool logarithmic) : m_numbers(numbers), m_logarithmic(logarithmic) {
    setTickCount(5);
}

double PlotTicker::getTickStep(const QCPRange& range) {
    if (!m_categories.isEmpty()) return std::max(1.0, std::ceil(range.size() / std::max(1, tickCount() * 3)));
    const double exact = range.size() / std::max(1, tickCount());
    if (m_numbers == PlotNumbers::bytes) {
        m_step = std::pow(2.0, std::max(0.0, std::round(std::log2(std::max(exact, 1.0)))));
        return m_step;
    }
    m_step = cleanMantissa(exact);
    if (m_numbers == PlotNumbers::count) m_step = std::max(1.0, std::round(m_step));
    return m_step;
}

QVector<double> PlotTicker::createTickVector(double tickStep, const QCPRange& range) {
    QVector<double> ticks;
    if (m_logarithmic && m_categories.isEmpty()) {
        const double base = m_numbers == PlotNumbers::bytes ? 2.0 : 10.0;
        const double low = std::log(std::max(range.lower, 1e-300)) / std::log(base);
        const double high = std::log(std::max(range.upper, 1e-300)) / std::log(base);
        const int step = std::max(1, static_cast<int>(std::ceil((high - low) / (tickCount() + 2.0))));
        for (int e = static_cast<int>(std::ceil(low / step)) * step; e <= high + 1e-9; e += step)
            ticks.append(std::pow(base, e));
        if (ticks.size() < 2) {  // less than a power in sight
            const double width = cleanMantissa(range.size() / std::max(1, tickCount()));
            for (double v = std::ceil(range.lower / width) * width; v <= range.upper; v += width) ticks.append(v);
        }
    } else {
        for (double i = std::ceil(range.lower / tickStep - 1e-9); i * tickStep <= range.upper + tickStep * 1e-9; ++i)
            ticks.append(i * tickStep);
    }
    m_largest = 0;
    for (const double tick : ticks) m_largest = std::max(m_largest, std::abs(tick));
    return ticks;
}

QString PlotTicker::getTickLabel(double tick, const QLocale&, QChar, int) {
    if (!m_categories.isEmpty()) {
        const int index = static_cast<int>(std::lround(tick));
        return index >= 0 && index < m_categories.size() ? m_categories[index] : QString();
    }
    switch (m_numbers) {
    case PlotNumbers::bytes:
        if (tick == 0) return QStringLiteral("0");
        return formatAxisBytes(tick);
    case PlotNumbers::duration: {
        const double scale = m_logarithmic ? std::abs(tick) : m_largest;
        const double unit = scale < 1e3 ? 1 : scale < 1e6 ? 1e3 : scale < 1e9 ? 1e6 : 1e9;
        const QString name = unit == 1 ? QStringLiteral("ns") : unit == 1e3 ? QStringLiteral("µs")
                           : unit == 1e6 ? QStringLiteral("ms") : QStringLiteral("s");
        return (m_logarithmic ? shortest(tick / unit) : tickNumber(tick / unit, m_step / unit)) + QChar(0xA0) + name;
    }
    case PlotNumbers::factor:
        return (m_logarithmic ? shortest(tick) : tickNumber(tick, m_step)) + QStringLiteral("×");
    case PlotNumbers::power:
        return powerOfTen(tick);
    case PlotNumbers::count:
        break;
    }
    return QLocale(QLocale::English).toString(tick, 'f', 0);
}

}  // namespace kvloupe
