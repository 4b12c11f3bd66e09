// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/block_scales.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace kvloupe {

namespace {

// How the codes of a precision run: a symmetric one has a largest code, an asymmetric one steps above a minimum.
struct CodeRange {
    double top = 0;         // symmetric: |x| of the largest value ÷ scale
    bool signed_extreme = false;  // the extreme has code -top, whichever its sign (q4_0, q5_0)
    int steps = 0;          // asymmetric: codes 0 .. steps
};

CodeRange code_range(DType type) {
    switch (type) {
    case DType::fp8_e4m3: return {448, false, 0};
    case DType::fp8_e5m2: return {57344, false, 0};
    case DType::int8:
    case DType::q8_0: return {127, false, 0};
    case DType::q4_0: return {8, true, 0};
    case DType::q5_0: return {16, true, 0};
    case DType::int4:
    case DType::kivi4:
    case DType::q4_1: return {0, false, 15};
    case DType::q5_1: return {0, false, 31};
    case DType::kivi2: return {0, false, 3};
    default: return {};
    }
}

// x H / sqrt(size), H the Hadamard matrix of that size, a power of two; turned twice it is x again.
void hadamard_turn(std::span<double> x) {
    for (std::size_t half = 1; half < x.size(); half *= 2)
        for (std::size_t base = 0; base < x.size(); base += 2 * half)
            for (std::size_t i = base; i < base + half; ++i) {
                const double a = x[i], b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
    for (double& value : x) value /= std::sqrt(static_cast<double>(x.size()));
}

std::vector<double> row_of(const BlockPart& part, std::uint32_t head, std::uint32_t token) {
    std::vector<double> row(part.width);
    for (std::uint32_t channel = 0; channel < part.width; ++channel) row[channel] = static_cast<double>(part.stored[part.at(head, token, channel)]);
    if (part.format.rotate) hadamard_turn(row);
    return row;
}

void add_scale(std::span<const double> group, const CodeRange& range, StoredScales& to) {
    if (range.steps > 0) {
        const auto [low, high] = std::minmax_element(group.begin(), group.end());
        to.steps.push_back((*high - *low) / range.steps);
        to.minimums.push_back(*low);
        return;
    }
    const double extreme = *std::max_element(group.begin(), group.end(), [](double a, double b) { return std::fabs(a) < std::fabs(b); });
    to.steps.push_back(range.signed_extreme ? extreme / -range.top : std::fabs(extreme) / range.top);
}

std::string words(const CodeRange& range, const std::string& group) {
    if (range.steps > 0) return "(largest − smallest) ÷ " + std::to_string(range.steps) + " of " + group + ", above the smallest";
    if (range.signed_extreme) return "extreme ÷ −" + std::to_string(static_cast<int>(range.top)) + " of " + group;
    return "largest |x| ÷ " + std::to_string(static_cast<int>(range.top)) + " of " + group;
}

// One entry per token, of the row itself or of its runs of `run` channels.
StoredScales by_token(const BlockPart& part, std::uint32_t head, std::uint32_t run, const CodeRange& range) {
    StoredScales scales;
    scales.axis = StoredScales::Axis::token;
    scales.per_entry = part.width / run;
    scales.run = run;
    for (std::uint32_t token = 0; token < part.tokens; ++token) {
        const std::vector<double> row = row_of(part, head, token);
        for (std::uint32_t first = 0; first < part.width; first += run) add_scale(std::span(row).subspan(first, run), range, scales);
    }
    return scales;
}

// K and V of a token share their scale.
StoredScales by_joint_row(const BlockValues& values, std::uint32_t head, const CodeRange& range) {
    StoredScales scales;
    scales.axis = StoredScales::Axis::token;
    scales.per_entry = 1;
    scales.run = std::max(values.keys.width, values.values.width);
    for (std::uint32_t token = 0; token < values.tokens; ++token) {
        std::vector<double> row = row_of(values.keys, head, token);
        const std::vector<double> more = row_of(values.values, head, token);
        row.insert(row.end(), more.begin(), more.end());
        add_scale(row, range, scales);
    }
    return scales;
}

// Packs of 32 of a token's row over neighbouring heads, where a head is narrower than a pack or does not fill whole ones.
StoredScales by_packs_over_heads(const BlockPart& part, std::uint32_t head, const CodeRange& range) {
    std::uint32_t together = 1;
    while (together < part.heads && (together * part.width % 32 != 0 || part.heads % together != 0)) ++together;
    const std::uint32_t first_head = head / together * together, begin = (head - first_head) * part.width;
    const std::uint32_t first = begin / 32, last = (begin + part.width - 1) / 32;
    StoredScales scales;
    scales.axis = StoredScales::Axis::token;
    scales.per_entry = last - first + 1;
    scales.run = 32;
    scales.offset = begin % 32;
    for (std::uint32_t token = 0; token < part.tokens; ++token) {
        std::vector<double> row;
        for (std::uint32_t h = first_head; h < first_head + together; ++h) {
            const std::vector<double> of_head = row_of(part, h, token);
            row.insert(row.end(), of_head.begin(), of_head.end());
        }
        for (std::uint32_t pack = first; pack <= last; ++pack) add_scale(std::span(row).subspan(pack * 32, 32), range, scales);
    }
    return scales;
}

// KIVI's keys: of a channel over `group` tokens. Sealed blocks are full.
StoredScales by_channel(const BlockPart& part, std::uint32_t head, const CodeRange& range) {
    StoredScales scales;
    scales.axis = StoredScales::Axis::channel;
    scales.per_entry = (part.tokens + part.format.group - 1) / part.format.group;
    scales.run = part.format.group;
    std::vector<std::vector<double>> rows;
    for (std::uint32_t token = 0; token < part.tokens; ++token) rows.push_back(row_of(part, head, token));
    for (std::uint32_t channel = 0; channel < part.width; ++channel)
        for (std::uint32_t first = 0; first < part.tokens; first += part.format.group) {
            std::vector<double> group;
            for (std::uint32_t token = first; token < std::min(part.tokens, first + part.format.group); ++token)
                group.push_back(rows[token][channel]);
            add_scale(group, range, scales);
        }
    return scales;
}

StoredScales nothing(std::string why) {
    StoredScales scales;
    scales.rule = std::move(why);
    return scales;
}

}  // namespace

StoredScales scales_of(const BlockValues& values, KvPart which, std::uint32_t head) {
    const BlockPart& part = which == KvPart::keys ? values.keys : values.values;
    const CodeRange range = code_range(part.format.dtype);
    if (part.width == 0 || part.tokens == 0) return nothing("nothing is kept here");
    StoredScales scales;
    switch (part.format.scale) {
    case KvScale::none: return nothing("no scale: every value is a number by itself");
    case KvScale::tensor: return nothing("one scale of 1 for the whole tensor");
    case KvScale::head: return nothing("one scale per head, fixed by the first step that wrote; a block does not tell it");
    case KvScale::token_head:
        scales = by_token(part, head, part.width, range);
        scales.rule = words(range, "a token's row");
        return scales;
    case KvScale::joint:
        scales = by_joint_row(values, head, range);
        scales.rule = words(range, "a token's K and V rows together");
        return scales;
    case KvScale::pack:
        scales = part.width % 32 == 0 ? by_token(part, head, 32, range) : by_packs_over_heads(part, head, range);
        scales.rule = words(range, "32 channels");
        return scales;
    case KvScale::channel:
        if (values.in_page) return nothing("no scale yet: the newest tokens are kept in f16");
        scales = which == KvPart::keys ? by_channel(part, head, range) : by_token(part, head, part.format.group, range);
        scales.rule = words(range, std::to_string(part.format.group) + (which == KvPart::keys ? " tokens of a channel" : " channels of a token"));
        return scales;
    }
    return nothing({});
}

}  // namespace kvloupe
