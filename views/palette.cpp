// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/palette.h"

#include "engine/record/recording.h"

#include <QWidget>

#include <algorithm>

namespace kvloupe {

namespace {

QColor rgb(unsigned value) { return QColor::fromRgb(0xFF000000u | value); }

template <std::size_t N>
std::array<QColor, N> row(const unsigned (&values)[N]) {
    std::array<QColor, N> colours;
    for (std::size_t i = 0; i < N; ++i) colours[i] = rgb(values[i]);
    return colours;
}

Palette makeLight() {
    Palette p;
    p.dark = false;
    p.window = rgb(0xEEF0F3), p.panel = rgb(0xFFFFFF), p.head = rgb(0xF7F8FA);
    p.line = rgb(0xD9DDE4), p.grid = rgb(0xE9ECF0);
    p.ink1 = rgb(0x1B2330), p.ink2 = rgb(0x566072), p.ink3 = rgb(0x5E6878);
    p.selectedRow = rgb(0xE3EAF6), p.accent = rgb(0x2B4C8C);
    p.focus = rgb(0xB3157F), p.focusWash = rgb(0xFBEFF7);
    p.free = rgb(0xF4F6F8), p.hatch = rgb(0xC3CAD4), p.freeBorder = rgb(0xCFD5DD);
    p.breakpoint = rgb(0xC8361D);
    p.weights = rgb(0x5B7DB1), p.keysValues = rgb(0xE69F00), p.activations = rgb(0x9AA3B0);
    p.tokenStates = rgb(0x41506A), p.reserved = rgb(0x9DB0CC), p.internal = rgb(0xB5482E), p.external = rgb(0xE7A593);
    p.stepFlagText = rgb(0xFFFFFF);
    p.owners = row({0x0072B2, 0xE69F00, 0x009E73, 0xCC79A7, 0x56B4E9, 0xD55E00, 0xF0E442, 0x332288});
    p.lanes = row({0x332288, 0x0072B2, 0x56B4E9, 0xD55E00, 0x009E73, 0x4F5866, 0xCC79A7, 0xE69F00, 0xF0E442});
    p.attention = row({0xFFFFFF, 0xE8E3F1, 0xC3B8DD, 0x8F84BE, 0x574F96, 0x211B52});
    // Brown and teal (ColorBrewer BrBG): apart for every common colour vision deficiency, and no owner's.
    p.here = rgb(0x01665E), p.there = rgb(0x8C510A);
    p.difference = row({0x8C510A, 0xD8B365, 0xF6E8C3, 0xFFFFFF, 0xC7EAE5, 0x5AB4AC, 0x01665E});
    return p;
}

Palette makeDark() {
    Palette p;
    p.dark = true;
    p.window = rgb(0x12151A), p.panel = rgb(0x1C2129), p.head = rgb(0x20262F);
    p.line = rgb(0x323A46), p.grid = rgb(0x29303A);
    p.ink1 = rgb(0xE8EBF0), p.ink2 = rgb(0xA9B3C1), p.ink3 = rgb(0x95A0B0);
    p.selectedRow = rgb(0x2A3648), p.accent = rgb(0x8FB4FF);
    p.focus = rgb(0xFF7AD1), p.focusWash = rgb(0x33202D);
    p.free = rgb(0x20262F), p.hatch = rgb(0x4A5463), p.freeBorder = rgb(0x4A5463);
    p.breakpoint = rgb(0xE2704F);
    p.weights = rgb(0x7C9BD0), p.keysValues = rgb(0xF0B040), p.activations = rgb(0x7E899A);
    p.tokenStates = rgb(0x8FA3C4), p.reserved = rgb(0x4F6385), p.internal = rgb(0xE2704F), p.external = rgb(0x8A4A38);
    p.stepFlagText = rgb(0x12151A);
    p.owners = row({0x5DB2EA, 0xF0B040, 0x17906D, 0xD984C6, 0xC4E4FA, 0xE2662F, 0xF5EC86, 0x7060D8});
    p.lanes = row({0x7060D8, 0x5DB2EA, 0xC4E4FA, 0xE2662F, 0x17906D, 0xA9B3C1, 0xD984C6, 0xF0B040, 0xF5EC86});
    // The light ramp reversed; 0 lies on the panel.
    p.attention = row({0x1C2129, 0x574F96, 0x8F84BE, 0xC3B8DD, 0xE8E3F1, 0xFFFFFF});
    p.here = rgb(0x5FC9BC), p.there = rgb(0xD9A35B);
    p.difference = row({0xF3D9A6, 0xC8904A, 0x5C421F, 0x1C2129, 0x1B4A46, 0x3E9F94, 0xB5F0E8});
    return p;
}

}  // namespace

const Palette& Palette::light() {
    static const Palette palette = makeLight();
    return palette;
}

const Palette& Palette::darkTheme() {
    static const Palette palette = makeDark();
    return palette;
}

const Palette& Palette::of(const QWidget* widget) {
    return widget && widget->palette().color(QPalette::Window).lightness() < 128 ? darkTheme() : light();
}

namespace {

std::size_t usualColour(const LaneInfo& info, std::size_t index) {
    if (!info.kv_cache) return 5;
    if (info.cache_dtype == "int8" || info.cache_dtype == "q8_0") return 2;
    if (info.attention_variant == "MHA") return 0;
    if (info.attention_variant == "GQA") return 1;
    if (info.attention_variant == "MLA") return 3;
    if (info.attention_variant == "MQA") return 4;
    return index % 6;
}

}  // namespace

QColor Palette::lane(const Recording& recording, LaneId lane) const {
    std::array<bool, std::tuple_size_v<decltype(Palette::lanes)>> taken{};
    std::size_t colour = 0;
    for (std::size_t i = 0; i <= lane.value; ++i) {
        colour = usualColour(recording.lanes()[i]->info(), i);
        for (std::size_t tries = 0; taken[colour] && tries < taken.size(); ++tries) colour = (colour + 1) % taken.size();
        taken[colour] = true;
    }
    return lanes[colour];
}

namespace {

// Between neighbouring colours of a row; place: 0 .. the last one's number.
template <std::size_t N>
QColor stopBetween(const std::array<QColor, N>& row, double place) {
    const std::size_t below = std::min(static_cast<std::size_t>(place), N - 2);
    const double share = place - static_cast<double>(below);
    const QColor &a = row[below], &b = row[below + 1];
    const auto mix = [share](int from, int to) { return qRound(from + (to - from) * share); };
    return QColor(mix(a.red(), b.red()), mix(a.green(), b.green()), mix(a.blue(), b.blue()));
}

}  // namespace

QColor Palette::attentionColour(double weight) const {
    return stopBetween(attention, std::clamp(weight, 0.0, 1.0) * (attention.size() - 1));
}

QColor Palette::differenceColour(double value) const {
    return stopBetween(difference, (std::clamp(value, -1.0, 1.0) + 1) / 2 * (difference.size() - 1));
}

}  // namespace kvloupe
