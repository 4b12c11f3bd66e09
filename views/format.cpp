// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/format.h"

#include <QCoreApplication>

#include <array>
#include <cmath>

namespace kvloupe {

namespace {

QString translated(const char* text) { return QCoreApplication::translate("kvloupe::format", text); }

// Three significant digits, never more than `decimals` after the point.
QString shortNumber(double value, int decimals) {
    const double size = std::abs(value);
    if (size >= 99.95) return QString::number(value, 'f', 0);
    if (size >= 9.995) return QString::number(value, 'f', std::min(decimals, 1));
    return QString::number(value, 'f', decimals);
}

}  // namespace

QString originMark(Origin origin) {
    switch (origin) {
    case Origin::measured: return QStringLiteral("●");
    case Origin::derived: return QStringLiteral("◐");
    case Origin::predicted: return QStringLiteral("○");
    }
    return {};
}

QString originName(Origin origin) {
    switch (origin) {
    case Origin::measured: return translated("measured");
    case Origin::derived: return translated("derived");
    case Origin::predicted: return translated("predicted");
    }
    return {};
}

QString formatCount(quint64 value) {
    QString digits = QString::number(value);
    for (qsizetype i = digits.size() - 3; i > 0; i -= 3) digits.insert(i, QLatin1Char(','));
    return digits;
}

QString formatAmount(double value, int decimals) {
    QString digits = QString::number(value, 'f', decimals);
    const qsizetype first = digits.startsWith(QLatin1Char('-')), point = digits.indexOf(QLatin1Char('.'));
    for (qsizetype i = (point < 0 ? digits.size() : point) - 3; i > first; i -= 3) digits.insert(i, QLatin1Char(','));
    return digits;
}

QString formatBytes(quint64 bytes) {
    if (bytes < 10'000'000) return formatCount(bytes) + QStringLiteral(" B");
    const double mib = static_cast<double>(bytes) / (1024.0 * 1024.0);
    if (mib < 1024) return QString::number(mib, 'f', 2) + QStringLiteral(" MiB");
    if (mib < 1024.0 * 1024.0) return QString::number(mib / 1024.0, 'f', 2) + QStringLiteral(" GiB");
    return QString::number(mib / (1024.0 * 1024.0), 'f', 2) + QStringLiteral(" TiB");
}

QString formatAxisBytes(double bytes) {
    static constexpr std::array<const char*, 5> units = {"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t unit = 0;
    while (std::abs(bytes) >= 1024 && unit + 1 < units.size()) {
        bytes /= 1024;
        ++unit;
    }
    QString number = QString::number(bytes, 'g', 4);
    return number + QLatin1Char(' ') + QLatin1String(units[unit]);
}

QString formatDuration(double nanoseconds) {
    if (!std::isfinite(nanoseconds)) return {};
    if (nanoseconds < 999'500) return shortNumber(nanoseconds / 1e3, 1) + QStringLiteral(" µs");
    if (nanoseconds < 999.5e6) return shortNumber(nanoseconds / 1e6, 2) + QStringLiteral(" ms");
    return shortNumber(nanoseconds / 1e9, 2) + QStringLiteral(" s");
}

QString formatPercent(double share) {
    return std::isfinite(share) ? QString::number(share * 100, 'f', 1) + QStringLiteral(" %") : QString();
}

QString formatRate(double bytesPerSecond) {
    if (!std::isfinite(bytesPerSecond)) return {};
    if (bytesPerSecond < 1e9) return shortNumber(bytesPerSecond / 1e6, 1) + QStringLiteral(" MB/s");
    return shortNumber(bytesPerSecond / 1e9, 1) + QStringLiteral(" GB/s");
}

QString formatSmall(double value) {
    if (!std::isfinite(value)) return {};
    if (value == 0) return QStringLiteral("0");
    const bool tiny = std::abs(value) < 0.01;
    QString text = QString::number(value, tiny ? 'e' : 'g', tiny ? 1 : 2);
    text.replace(QStringLiteral("e-0"), QStringLiteral("e-"));
    return text.replace(QLatin1Char('-'), QChar(0x2212));
}

QString formatHash(quint64 firstBytes) {
    return QStringLiteral("%1").arg(firstBytes >> 32, 8, 16, QLatin1Char('0'));
}

QString csvField(const QString& text) {
    if (!text.contains(QLatin1Char('"')) && !text.contains(QLatin1Char(',')) && !text.contains(QLatin1Char('\n')) &&
        !text.contains(QLatin1Char('\r')))
        return text;
    QString quoted = text;
    quoted.replace(QLatin1Char('"'), QStringLiteral("\"\""));
    return QLatin1Char('"') + quoted + QLatin1Char('"');
}

}  // namespace kvloupe
