// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/data_sheet.h"

#include "views/format.h"

#include <QCoreApplication>

#include <cmath>

namespace kvloupe {

namespace {

QString sheet_text(const char* text) { return QCoreApplication::translate("kvloupe::data_sheet", text); }

QString threeDigits(double value) { return QString::number(value, 'f', value < 9.995 ? 2 : value < 99.95 ? 1 : 0); }

}  // namespace

QString formatFlopRate(double flopsPerSecond) {
    if (!std::isfinite(flopsPerSecond)) return {};
    if (flopsPerSecond < 1e9) return threeDigits(flopsPerSecond / 1e6) + QStringLiteral(" MFLOP/s");
    if (flopsPerSecond < 1e12) return threeDigits(flopsPerSecond / 1e9) + QStringLiteral(" GFLOP/s");
    return threeDigits(flopsPerSecond / 1e12) + QStringLiteral(" TFLOP/s");
}

QString formatBandwidth(double bytesPerSecond) {
    return bytesPerSecond < 1e12 ? formatRate(bytesPerSecond)
                                 : threeDigits(bytesPerSecond / 1e12) + QStringLiteral(" TB/s");
}

QString ceilingsText(const Ceilings& ceilings) {
    if (!ceilings.measured()) return {};
    const QString mark = originMark(Origin::measured);
    QString text = sheet_text("read %1 %2").arg(mark, formatBandwidth(ceilings.read_bandwidth));
    const std::string_view type = name_of(ceilings.matrix_type);
    if (ceilings.matrix_rate > 0)
        text += sheet_text(", matrix %1 %2 %3")
                    .arg(QString::fromUtf8(type.data(), static_cast<qsizetype>(type.size())), mark,
                         formatFlopRate(ceilings.matrix_rate));
    return text;
}

QString dataSheetText(const GpuEntry* entry) {
    if (!entry) return {};
    return sheet_text("data sheet %1: %2, %3 bf16")
        .arg(QString::fromUtf8(entry->name.data(), static_cast<qsizetype>(entry->name.size())),
             formatBandwidth(entry->bandwidth), formatFlopRate(entry->bf16_flops));
}

}  // namespace kvloupe
