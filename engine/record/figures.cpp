// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/figures.h"

#include "engine/record/grouped.h"
#include "engine/record/kv_layout.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kvloupe {

std::uint64_t predicted_kv_bytes(const LaneInfo& lane, std::uint64_t tokens) {
    return lane.kv_cache ? tokens * lane.bytes_per_token : 0;
}

std::uint64_t predicted_sequence_bytes(const LaneInfo& lane, std::uint64_t tokens) {
    if (!lane.kv_cache) return 0;
    if (lane.layer_infos.empty()) return tokens * lane.bytes_per_token;
    double bytes = 0;
    for (const LayerInfo& layer : lane.layer_infos) bytes += static_cast<double>(layer.kept_tokens(tokens)) * layer.bytes_per_token();
    return static_cast<std::uint64_t>(std::llround(bytes));
}

std::uint64_t predicted_slot_bytes(const LaneInfo& lane) {
    if (!lane.kv_cache || lane.layer_infos.empty()) return lane.bytes_per_token;
    return KvLayout::of(lane.layer_infos, lane.block_size).slot_bytes();
}

namespace {

std::string amount(std::uint64_t count, const char* one) { return grouped(count) + " " + one + (count == 1 ? "" : "s"); }

std::string bytes_text(double bytes) { return grouped(static_cast<std::uint64_t>(std::llround(bytes))) + " B"; }

// What one layer keeps of a token: "2 KV heads × (36 B K + 34 B V)".
std::string layer_formula(const LayerInfo& layer) {
    if (layer.latent && layer.keys.dtype == layer.values.dtype && is_float(layer.keys.dtype))
        return (layer.value_dim > 0 ? "(" + grouped(layer.key_dim) + " + " + grouped(layer.value_dim) + " values) × "
                                    : grouped(layer.key_dim) + " latent values × ") + grouped(bytes_per_pack(layer.keys.dtype)) + " B";
    if (layer.latent && layer.value_dim == 0) return bytes_text(layer.key_bytes_per_token) + " latent";
    if (layer.latent)
        return "(" + bytes_text(layer.key_bytes_per_token) + " latent + " + bytes_text(layer.value_bytes_per_token) + " rotary key)";
    return amount(layer.kv_heads, "KV head") + " × (" + bytes_text(layer.key_bytes_per_token / layer.kv_heads) + " K + " +
           bytes_text(layer.value_bytes_per_token / layer.kv_heads) + " V)";
}

// Runs of layers that keep alike; of many runs the first three.
std::string layers_formula(const std::vector<LayerInfo>& layers) {
    std::vector<std::pair<std::string, std::uint64_t>> kinds;
    for (const LayerInfo& layer : layers) {
        const std::string formula = layer_formula(layer);
        auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& each) { return each.first == formula; });
        if (kind == kinds.end()) kind = kinds.insert(kind, {formula, 0});
        ++kind->second;
    }
    std::string text;
    for (std::size_t i = 0; i < kinds.size() && i < 3; ++i)
        text += (i > 0 ? " + " : "") + amount(kinds[i].second, "layer") + " × " + kinds[i].first;
    return kinds.size() > 3 ? text + " + …" : text;
}

}  // namespace

std::string kv_formula(const LaneInfo& lane) {
    if (!lane.kv_cache) return "no KV cache";
    const std::string product = grouped(lane.bytes_per_token) + " B per token";
    const auto dtype = dtype_from_name(lane.cache_dtype);
    const std::uint64_t element = dtype && is_float(*dtype) ? bytes_per_pack(*dtype) : 0;
    if (lane.bytes_per_token == 2ull * lane.layers * lane.kv_heads * lane.head_dim * element && element > 0)
        return "2 × " + amount(lane.layers, "layer") + " × " + amount(lane.kv_heads, "KV head") + " × " +
               amount(lane.head_dim, "value") + " × " + grouped(element) + " B = " + product;
    return lane.layer_infos.empty() ? product : layers_formula(lane.layer_infos) + " = " + product;
}

std::uint64_t cached_tokens(std::uint64_t prompt, std::uint64_t outputs) {
    return outputs == 0 ? 0 : prompt + outputs - 1;
}

std::uint64_t uncached_tokens(std::uint64_t prompt, std::uint64_t outputs) {
    return outputs == 0 ? 0 : outputs * prompt + outputs * (outputs - 1) / 2;
}

std::optional<double> percentile(std::span<const double> values, double p) {
    if (values.empty()) return std::nullopt;
    std::vector<double> sorted(values.begin(), values.end());
    std::sort(sorted.begin(), sorted.end());
    const double rank = std::clamp(p, 0.0, 100.0) / 100.0 * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(std::floor(rank));
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (rank - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::optional<LinearFit> linear_fit(std::span<const double> x, std::span<const double> y) {
    const std::size_t count = std::min(x.size(), y.size());
    if (count < 2) return std::nullopt;
    double mean_x = 0, mean_y = 0;
    for (std::size_t i = 0; i < count; ++i) {
        mean_x += x[i];
        mean_y += y[i];
    }
    mean_x /= static_cast<double>(count);
    mean_y /= static_cast<double>(count);
    double xx = 0, xy = 0, yy = 0;
    for (std::size_t i = 0; i < count; ++i) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
        yy += (y[i] - mean_y) * (y[i] - mean_y);
    }
    if (xx <= 0) return std::nullopt;
    LinearFit fit;
    fit.slope = xy / xx;
    fit.intercept = mean_y - fit.slope * mean_x;
    fit.r_squared = yy > 0 ? xy * xy / (xx * yy) : 1.0;
    return fit;
}

std::optional<double> wasted_share(const SlotCounts& slots) {
    const std::uint64_t wasted = slots.reserved + slots.internal + slots.external;
    if (wasted + slots.token == 0) return std::nullopt;
    return static_cast<double>(wasted) / static_cast<double>(wasted + slots.token);
}

TimeSplit time_split(const LaneRecord& lane, std::size_t steps) {
    TimeSplit split;
    for (std::size_t i = 0; i < steps; ++i) {
        const StepRecord& step = lane.step(i);
        std::uint64_t prefill = step.prefill_tokens;
        std::uint64_t decode = step.decode_tokens;
        split.decode_tokens += step.decode_tokens;
        if (!lane.info().kv_cache) {
            for (std::uint64_t e = step.events.begin; e < step.events.end; ++e) {
                const Event& event = lane.events()[e];
                if (event.kind != EventKind::prefill || event.cause != Cause::no_kv_cache) continue;
                if (event.tokens > prefill) continue;
                prefill -= event.tokens;
                decode += event.tokens;
            }
        }
        if (prefill + decode == 0) continue;
        const double ms = static_cast<double>(step.duration_ns) / 1e6;
        const double share = static_cast<double>(decode) / static_cast<double>(prefill + decode);
        split.decode_ms += ms * share;
        split.prefill_ms += ms * (1.0 - share);
    }
    return split;
}

}  // namespace kvloupe
