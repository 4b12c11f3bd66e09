// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/scalar.h"

#include "engine/model/half.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace kvloupe::cpu::scalar {

namespace {

std::uint16_t load16(const std::byte* from) {
    std::uint16_t value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

double half_at(const std::byte* from) { return static_cast<double>(f16_to_f32(load16(from))); }

// Low nibbles are elements 0 .. 15 of a pack, high nibbles 16 .. 31.
int nibble(const std::byte* quants, std::uint64_t index) {
    const int byte = static_cast<int>(quants[index % 16]);
    return index < 16 ? byte & 15 : byte >> 4;
}

// Bits first .. first + count - 1 of a byte.
int bits(std::byte from, unsigned first, unsigned count) {
    return static_cast<int>(static_cast<unsigned>(from) >> first & ((1u << count) - 1));
}

// q5_0 (16 less, no minimum) and q5_1: the fifth bits are bits of four bytes.
double five_bits(const std::byte* pack, std::uint64_t index, bool shifted) {
    const std::byte* const fifth = pack + (shifted ? 2 : 4);
    const int code = nibble(fifth + 4, index) + 16 * bits(fifth[index / 8], index % 8, 1);
    return shifted ? half_at(pack) * (code - 16) : half_at(pack) * code + half_at(pack + 2);
}

// q4_k and q5_k: 32 elements share a scale and a minimum of 6 bits; those of the last four parts lie in two pieces.
double four_or_five_k(const std::byte* pack, std::uint64_t index, bool fifth) {
    const std::byte* const scales = pack + 4;
    const std::uint64_t part = index / 32, inside = index % 32;
    const int scale = part < 4 ? bits(scales[part], 0, 6) : bits(scales[part + 4], 0, 4) + 16 * bits(scales[part - 4], 6, 2);
    const int minimum = part < 4 ? bits(scales[part + 4], 0, 6) : bits(scales[part + 4], 4, 4) + 16 * bits(scales[part], 6, 2);
    int code = bits(pack[(fifth ? 48 : 16) + part / 2 * 32 + inside], part % 2 == 0 ? 0 : 4, 4);
    if (fifth) code += 16 * bits(pack[16 + inside], static_cast<unsigned>(part), 1);
    return half_at(pack) * scale * code - half_at(pack + 2) * minimum;
}

double six_k(const std::byte* pack, std::uint64_t index) {
    const std::uint64_t half = index / 128, part = index % 128 / 32, inside = index % 32;
    const int low = bits(pack[half * 64 + part % 2 * 32 + inside], part < 2 ? 0 : 4, 4);
    const int high = bits(pack[128 + half * 32 + inside], static_cast<unsigned>(2 * part), 2);
    const auto scale = static_cast<std::int8_t>(pack[192 + index / 16]);
    return half_at(pack + 208) * scale * (low + 16 * high - 32);
}

// Whether a query at position p sees key t, from the definition (CACHE_SEMANTICS 1.9).
bool sees(const KeySpan& span, std::uint32_t p, std::uint32_t t) {
    if (t > p) return false;
    if (span.window > 0) return std::uint64_t{t} + span.window > p || t < span.sinks;
    return span.chunk == 0 || t / span.chunk == p / span.chunk;
}

std::uint64_t slot_of(const Batch& batch, const Batch::Sequence& sequence, std::uint32_t group, std::uint32_t position,
                      std::uint32_t block_size) {
    const std::size_t table = sequence.table_begin + std::size_t{group} * sequence.table_size;
    return std::uint64_t{batch.block_tables[table + position / block_size]} * block_size + position % block_size;
}

// A key turned forward by `positions`: what it was multiplied with when it was turned first, it keeps.
void turn(std::span<double> key, double positions, const RotaryShape& rotary) {
    const std::uint32_t half = rotary.rotary_dim / 2;
    const std::vector<double> frequencies = rotary_frequencies(rotary);
    for (std::uint32_t i = 0; i < half; ++i) {
        const double angle = positions * frequencies[i];
        double& a = rotary.layout == RotaryLayout::adjacent ? key[2 * i] : key[i];
        double& b = rotary.layout == RotaryLayout::adjacent ? key[2 * i + 1] : key[i + half];
        const double first = a, second = b;
        a = first * std::cos(angle) - second * std::sin(angle);
        b = first * std::sin(angle) + second * std::cos(angle);
    }
}

}  // namespace

double element(DType dtype, const std::byte* row, std::uint64_t index) {
    const std::byte* pack = row + index / elements_per_pack(dtype) * bytes_per_pack(dtype);
    const std::uint64_t inside = index % elements_per_pack(dtype);
    switch (dtype) {
    case DType::f32: {
        float value;
        std::memcpy(&value, pack, sizeof value);
        return static_cast<double>(value);
    }
    case DType::f16: return half_at(pack);
    case DType::bf16: return static_cast<double>(bf16_to_f32(load16(pack)));
    case DType::q8_0: return half_at(pack) * static_cast<double>(static_cast<std::int8_t>(pack[2 + inside]));
    case DType::q4_0: return half_at(pack) * (nibble(pack + 2, inside) - 8);
    case DType::q4_1: return half_at(pack) * nibble(pack + 4, inside) + half_at(pack + 2);
    case DType::q5_0: return five_bits(pack, inside, true);
    case DType::q5_1: return five_bits(pack, inside, false);
    case DType::q4_k: return four_or_five_k(pack, inside, false);
    case DType::q5_k: return four_or_five_k(pack, inside, true);
    case DType::q6_k: return six_k(pack, inside);
    default: break;
    }
    return 0;
}

void store_element(DType dtype, std::byte* row, std::uint64_t index, float value) {
    if (dtype == DType::f32) {
        std::memcpy(row + 4 * index, &value, sizeof value);
        return;
    }
    const std::uint16_t bits = dtype == DType::f16 ? f32_to_f16(value) : f32_to_bf16(value);
    std::memcpy(row + 2 * index, &bits, sizeof bits);
}

void embed(const PackedMatrix& table, std::span<const TokenId> tokens, float* out) {
    for (TokenId token : tokens)
        for (std::uint64_t i = 0; i < table.cols; ++i)
            *out++ = static_cast<float>(element(table.dtype, table.row(static_cast<std::uint64_t>(token)), i));
}

void rms_norm(std::span<const float> in, std::span<const float> weight, float epsilon, float* out) {
    const std::size_t width = weight.size();
    for (std::size_t row = 0; row < in.size() / width; ++row) {
        const float* x = in.data() + row * width;
        double squares = 0;
        for (std::size_t i = 0; i < width; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
        const double root = std::sqrt(squares / static_cast<double>(width) + static_cast<double>(epsilon));
        for (std::size_t i = 0; i < width; ++i)
            out[row * width + i] = static_cast<float>(static_cast<double>(x[i]) / root * static_cast<double>(weight[i]));
    }
}

void matmul(const PackedMatrix& weight, const ProductRows& rows) {
    for (std::uint32_t n = 0; n < rows.count; ++n)
        for (std::uint64_t r = 0; r < weight.rows; ++r) {
            double sum = 0;
            for (std::uint64_t i = 0; i < weight.cols; ++i)
                sum += element(weight.dtype, weight.row(r), i) * static_cast<double>(rows.in[n * weight.cols + i]);
            float& out = rows.out[n * weight.rows + r];
            out = static_cast<float>(rows.accumulate ? static_cast<double>(out) + sum : sum);
        }
}

void gather_rows(const float* in, std::span<const std::uint32_t> rows, std::uint32_t width, float* out) {
    for (std::uint32_t row : rows)
        for (std::uint32_t i = 0; i < width; ++i) *out++ = in[std::uint64_t{row} * width + i];
}

void store(const float* x, std::span<const std::uint64_t> slots, const CacheView& cache) {
    for (std::size_t row = 0; row < slots.size(); ++row)
        for (std::uint32_t head = 0; head < cache.kv_heads; ++head)
            for (std::uint32_t i = 0; i < cache.head_dim; ++i)
                store_element(cache.dtype, cache.data, cache.row(slots[row], head) + i,
                              x[(row * cache.kv_heads + head) * cache.head_dim + i]);
}

std::vector<double> attention_weights(const Batch& batch, const float* q, const AttentionShape& shape,
                                      const CacheView& keys, const Query& query, const CacheView* rotary_keys) {
    const Batch::Sequence& sequence = batch.sequences[query.sequence];
    const std::uint32_t kv_head = query.head / (shape.query_heads / shape.kv_heads);
    const float* head_q =
        q + (std::uint64_t{sequence.first_row + query.row} * shape.query_heads + query.head) * shape.head_dim;
    const std::uint32_t position = sequence.first_position + query.row;
    const std::uint32_t turned = shape.latent ? keys.head_dim : 0;  // where the part with positions begins
    std::vector<double> weights(position + 1), key(shape.head_dim);
    for (std::uint32_t t = 0; t <= position; ++t) {
        weights[t] = -std::numeric_limits<double>::infinity();
        if (!sees(shape.span, position, t)) continue;
        const std::uint64_t slot = slot_of(batch, sequence, shape.group, t, keys.block_size);
        for (std::uint32_t i = 0; i < keys.head_dim; ++i) key[i] = element(keys.dtype, keys.data, keys.row(slot, kv_head) + i);
        for (std::uint32_t i = keys.head_dim; i < shape.head_dim; ++i)
            key[i] = element(rotary_keys->dtype, rotary_keys->data, rotary_keys->row(slot, 0) + i - keys.head_dim);
        if (shape.span.rank && t < shape.span.sinks) {
            const std::int64_t dropped = std::int64_t{position} - shape.span.window + 1 - shape.span.sinks;
            turn(std::span(key).subspan(turned), static_cast<double>(std::max<std::int64_t>(0, dropped)), shape.rotary);
        }
        double score = 0;
        for (std::uint32_t i = 0; i < shape.head_dim; ++i) score += static_cast<double>(head_q[i]) * key[i];
        weights[t] = score * static_cast<double>(shape.scale);
        const auto cap = static_cast<double>(shape.soft_cap);
        if (cap != 0) weights[t] = cap * std::tanh(weights[t] / cap);
    }
    const double top = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - top);
    for (double& weight : weights) weight /= sum;
    return weights;
}

void attention(const Batch& batch, const float* q, const AttentionShape& shape, const CacheView& keys,
               const CacheView& values, double* out) {
    const CacheView& read = shape.latent ? keys : values;  // the latents are the values
    const std::uint32_t width = value_dim_of(shape);
    for (std::uint32_t s = 0; s < batch.sequences.size(); ++s) {
        const Batch::Sequence& sequence = batch.sequences[s];
        for (std::uint32_t row = 0; row < sequence.rows; ++row)
            for (std::uint32_t head = 0; head < shape.query_heads; ++head) {
                const std::vector<double> weights = attention_weights(batch, q, shape, keys, {s, row, head}, &values);
                const std::uint32_t kv_head = head / (shape.query_heads / shape.kv_heads);
                double* to = out + (std::uint64_t{sequence.first_row + row} * shape.query_heads + head) * width;
                std::fill(to, to + width, 0.0);
                for (std::uint32_t t = 0; t < weights.size(); ++t) {
                    if (!sees(shape.span, sequence.first_position + row, t)) continue;
                    const std::uint64_t at = read.row(slot_of(batch, sequence, shape.group, t, read.block_size), kv_head);
                    for (std::uint32_t i = 0; i < width; ++i) to[i] += weights[t] * element(read.dtype, read.data, at + i);
                }
            }
    }
}

void load(const Batch& batch, const Batch::Sequence& sequence, std::uint32_t group, const CacheView& cache, std::uint32_t first,
          std::uint32_t count, float* out) {
    for (std::uint32_t t = first; t < first + count; ++t)
        for (std::uint32_t head = 0; head < cache.kv_heads; ++head)
            for (std::uint32_t i = 0; i < cache.head_dim; ++i)
                *out++ = static_cast<float>(
                    element(cache.dtype, cache.data, cache.row(slot_of(batch, sequence, group, t, cache.block_size), head) + i));
}

LogitSummary summarise_row(std::span<const float> logits, TokenId asked) {
    LogitSummary summary;
    for (const float logit : logits) summary.finite = summary.finite && std::isfinite(logit);
    if (!summary.finite || logits.empty()) return summary;
    const auto before = [&](std::size_t a, std::size_t b) {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    };
    std::vector<std::size_t> order(logits.size());
    for (std::size_t id = 0; id < order.size(); ++id) order[id] = id;
    std::sort(order.begin(), order.end(), before);
    summary.maximum = logits[order[0]];
    for (const float logit : logits) summary.exponentials += std::exp(double{logit} - double{summary.maximum});
    summary.top_tokens = static_cast<std::uint32_t>(std::min<std::size_t>(order.size(), LogitSummary::top_count));
    for (std::uint32_t i = 0; i < summary.top_tokens; ++i) {
        summary.top[i] = static_cast<TokenId>(order[i]);
        summary.top_logits[i] = logits[order[i]];
    }
    if (asked < 0) return summary;
    const auto token = static_cast<std::size_t>(asked);
    summary.asked_logit = logits[token];
    while (order[summary.asked_rank] != token) ++summary.asked_rank;
    return summary;
}

}  // namespace kvloupe::cpu::scalar
