// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/stage_look.h"

#include "views/canvas.h"
#include "views/data_sheet.h"
#include "views/format.h"

#include <QCoreApplication>

#include <array>
#include <cmath>

namespace kvloupe {

namespace {

constexpr std::array<BytesKind, 3> kinds = {BytesKind::weights, BytesKind::keys_values, BytesKind::activations};

QString stage_text(const char* text) { return QCoreApplication::translate("kvloupe::stage_look", text); }

QString text(std::string_view name) { return QString::fromUtf8(name.data(), static_cast<qsizetype>(name.size())); }

}  // namespace

BytesKind mostBytesOf(StageKind kind) {
    switch (kind) {
    case StageKind::qkv:
    case StageKind::attention_out:
    case StageKind::gate_up:
    case StageKind::down:
    case StageKind::logits:
    case StageKind::route:
    case StageKind::latent: return BytesKind::weights;
    case StageKind::attention:
    case StageKind::rotary_store: return BytesKind::keys_values;
    default: return BytesKind::activations;
    }
}

QColor colourOf(BytesKind kind, const Palette& palette) {
    switch (kind) {
    case BytesKind::weights: return palette.weights;
    case BytesKind::keys_values: return palette.keysValues;
    case BytesKind::activations: break;
    }
    return palette.activations;
}

QString bytesKindName(BytesKind kind) {
    switch (kind) {
    case BytesKind::weights: return stage_text("weights");
    case BytesKind::keys_values: return stage_text("keys and values");
    case BytesKind::activations: break;
    }
    return stage_text("activations");
}

QString stageName(StageKind kind) { return text(name_of(kind)); }

QString shortStageName(StageKind kind) {
    switch (kind) {
    case StageKind::attention_norm:
    case StageKind::ffn_norm:
    case StageKind::output_norm: return QStringLiteral("norm");
    case StageKind::rotary_store: return QStringLiteral("rotary");
    case StageKind::attention: return QStringLiteral("attn");
    case StageKind::attention_out: return QStringLiteral("out");
    case StageKind::activation: return QStringLiteral("act");
    default: return stageName(kind);
    }
}

QString limitName(StageLimit limit) {
    switch (limit) {
    case StageLimit::memory: return stage_text("memory");
    case StageLimit::compute: return stage_text("compute");
    case StageLimit::latency: return stage_text("latency");
    case StageLimit::unknown: break;
    }
    return {};
}

QString aboveCeilingText() {
    return stage_text(
        "above the ceiling: served from the processor’s caches, or the ceiling was measured on a busy machine");
}

QString stageTip(const StageWork& work, const Ceilings& ceilings) {
    const StageBound bound = bound_of(work, ceilings);
    const QString measured = originMark(Origin::measured), derived = originMark(Origin::derived);
    QStringList lines{stage_text("%1 %2").arg(measured, formatDuration(static_cast<double>(work.duration_ns)))};
    if (work.bytes > 0)
        lines << stage_text("%1 %2 moved, %3")
                     .arg(derived, formatBytes(work.bytes), formatBandwidth(bound.bytes_per_second));
    if (work.flops > 0)
        lines
            << stage_text("%1 %2 FLOP, %3").arg(derived, formatCount(work.flops), formatFlopRate(bound.flops_per_second));
    if (work.flops > 0 && work.bytes > 0)
        lines << stage_text("%1 %2 FLOP per byte").arg(derived, QString::number(bound.flops_per_byte, 'f', 2));
    if (!ceilings.measured()) {
        lines << stage_text("the device’s ceilings are not measured yet");
        return lines.join(QLatin1Char('\n'));
    }
    if (bound.limit == StageLimit::latency)
        lines << stage_text("%1 bound by latency: less than 30 % of both ceilings").arg(derived);
    else if (bound.limit != StageLimit::unknown)
        lines << stage_text("%1 bound by %2").arg(derived, limitName(bound.limit));
    lines << stage_text("%1 %2 of the read bandwidth, %3")
                 .arg(derived, formatPercent(bound.of_memory), formatBandwidth(ceilings.read_bandwidth));
    if (ceilings.matrix_rate > 0)
        lines << stage_text("%1 %2 of the matrix rate, %3 %4")
                     .arg(derived, formatPercent(bound.of_compute), formatFlopRate(ceilings.matrix_rate),
                          text(name_of(ceilings.matrix_type)));
    if (bound.of_memory > 1 || bound.of_compute > 1) lines << aboveCeilingText();
    return lines.join(QLatin1Char('\n'));
}

double paintBytesLegend(const Canvas& canvas, const QRectF& area) {
    const TextStyle style{11, QFont::Normal, canvas.colours().ink2, false};
    const QString lead = stage_text("bytes moved are mostly");
    const double square = canvas.u(9), gap = canvas.u(5), between = canvas.u(12);
    double needed = 0;
    for (const BytesKind kind : kinds) needed += square + gap + canvas.width(bytesKindName(kind), style) + between;
    needed -= between;
    if (needed > area.width()) return 0;
    double x = area.right() - needed;
    const double leadWidth = canvas.width(lead, style) + between;
    if (needed + leadWidth <= area.width()) {
        canvas.text(QRectF(x - leadWidth, area.top(), leadWidth, area.height()), lead, style);
        needed += leadWidth;
    }
    for (const BytesKind kind : kinds) {
        canvas.painter().fillRect(QRectF(x, area.center().y() - square / 2, square, square),
                                  colourOf(kind, canvas.colours()));
        x += square + gap;
        const double width = canvas.width(bytesKindName(kind), style);
        canvas.text(QRectF(x, area.top(), width + 1, area.height()), bytesKindName(kind), style);
        x += width + between;
    }
    return needed;
}

QColor inkOn(const QColor& background) {
    // Relative luminance of WCAG 2; above 0.215 dark ink has the higher contrast.
    const auto linear = [](double c) { return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4); };
    const double luminance =
        0.2126 * linear(background.redF()) + 0.7152 * linear(background.greenF()) + 0.0722 * linear(background.blueF());
    return luminance > 0.215 ? QColor(0x1B, 0x23, 0x30) : QColor(Qt::white);
}

}  // namespace kvloupe
