// SPDX-License-Identifier: GPL-3.0-or-later
//
// A model in plain loops and doubles, without cache, blocks or batches: what the lanes must come to. Keys that a span masks are
// simply left out; experts are chosen by sorting; latents are always taken up to keys and values of every head.
#pragma once

#include "engine/key_span.h"
#include "engine/model/model.h"
#include "engine/model/quants.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace kvloupe::test {

class ReferenceModel {
public:
    using Row = std::vector<double>;

    explicit ReferenceModel(const Model& model) : m_model(model), m_c(model.config) {}

    // Logits (positions)(vocabulary). span: of all layers; a full one: the model's own.
    std::vector<Row> logits(const std::vector<TokenId>& tokens, const KeySpan& span = {}) const {
        std::vector<Row> hidden;
        for (const TokenId token : tokens) {
            hidden.push_back(row_of(m_model.embedding, std::uint64_t(token)));
            for (double& value : hidden.back()) value *= double(m_c.embedding_scale);
        }
        for (std::uint32_t layer = 0; layer < m_model.layers.size(); ++layer) {
            attend_layer(layer, hidden, span);
            for (Row& row : hidden) {
                const LayerWeights& weights = m_model.layers[layer];
                Row out = feed_forward(layer, norm(row, weights.ffn_norm));
                if (m_c.post_norms) out = norm(out, weights.post_ffn_norm);
                add(row, out);
            }
        }
        std::vector<Row> result;
        for (const Row& row : hidden) {
            result.push_back(product(m_model.output.present() ? m_model.output : m_model.embedding, norm(row, m_model.output_norm)));
            if (m_c.logit_soft_cap > 0)
                for (double& logit : result.back()) logit = capped(logit, double(m_c.logit_soft_cap));
        }
        return result;
    }

private:
    struct Heads {
        Row q, k, v;  // (heads, width), before they are turned
    };
    LayerShape shape_of(std::uint32_t layer) const {
        if (layer < m_c.layer_shapes.size()) return m_c.layer_shapes[layer];
        return {m_c.query_heads, m_c.kv_heads, m_c.intermediate, 0, 0, false, false};
    }
    static double capped(double x, double cap) { return cap * std::tanh(x / cap); }
    double activated(double x) const {
        if (m_c.activation == Activation::silu) return x / (1 + std::exp(-x));
        return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    }
    Row row_of(const Tensor& tensor, std::uint64_t row) const {
        std::vector<float> values(tensor.cols);
        dequantise_row(tensor.dtype, tensor.data + row * row_bytes(tensor.dtype, tensor.cols), values);
        return {values.begin(), values.end()};
    }
    Row product(const Tensor& weight, const Row& in) const {
        Row out(weight.rows, 0);
        for (std::uint64_t r = 0; r < weight.rows; ++r) {
            const Row row = row_of(weight, r);
            for (std::size_t i = 0; i < in.size(); ++i) out[r] += row[i] * in[i];
        }
        return out;
    }
    Row norm(const Row& in, const Tensor& weight) const {
        double squares = 0;
        for (const double value : in) squares += value * value;
        const double scale = 1 / std::sqrt(squares / double(in.size()) + double(m_c.rms_epsilon));
        const Row factors = row_of(weight, 0);
        Row out(in.size());
        for (std::size_t i = 0; i < in.size(); ++i) out[i] = in[i] * scale * factors[i];
        return out;
    }
    void norm_heads(Row& x, const Tensor& weight) const {
        if (!weight.present()) return;
        for (std::size_t at = 0; at < x.size(); at += weight.cols) {
            const auto begin = x.begin() + std::ptrdiff_t(at), end = begin + std::ptrdiff_t(weight.cols);
            const Row normed = norm(Row(begin, end), weight);
            std::copy(normed.begin(), normed.end(), begin);
        }
    }
    static void add(Row& to, const Row& what) {
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
    }
    // Values first .. first + rotary_dim - 1 of a head, turned by `position` (which may lie beyond the row's own). Keys turned
    // once more, by rank, are not multiplied again.
    static void turn(Row& head, std::uint32_t first, double position, const RotaryShape& rotary, bool again = false) {
        const std::vector<double> frequencies = rotary_frequencies(rotary);
        const double magnitude = again ? 1.0 : double(rotary.scaling.magnitude);
        const std::uint32_t half = rotary.rotary_dim / 2;
        for (std::uint32_t i = 0; i < half; ++i) {
            const bool adjacent = rotary.layout == RotaryLayout::adjacent;
            const std::uint32_t a = first + (adjacent ? 2 * i : i), b = first + (adjacent ? 2 * i + 1 : i + half);
            const double x = head[a], y = head[b], angle = position * frequencies[i];
            head[a] = magnitude * (x * std::cos(angle) - y * std::sin(angle));
            head[b] = magnitude * (x * std::sin(angle) + y * std::cos(angle));
        }
    }
    static Row part(const Row& row, std::size_t first, std::size_t count) {
        return {row.begin() + std::ptrdiff_t(first), row.begin() + std::ptrdiff_t(first + count)};
    }
    Heads project(std::uint32_t layer, const Row& x) const {
        const LayerWeights& weights = m_model.layers[layer];
        if (m_c.latent.present()) return project_latent(layer, x);
        Heads heads{product(weights.query, x), product(weights.key, x), product(weights.value, x)};
        if (weights.query_bias.present()) add(heads.q, row_of(weights.query_bias, 0));
        if (weights.key_bias.present()) add(heads.k, row_of(weights.key_bias, 0));
        if (weights.value_bias.present()) add(heads.v, row_of(weights.value_bias, 0));
        norm_heads(heads.q, weights.query_norm);
        norm_heads(heads.k, weights.key_norm);
        return heads;
    }
    // By the textbook: the latent goes up to a key and a value of every head, the one rotary key behind each key.
    Heads project_latent(std::uint32_t layer, const Row& x) const {
        const LayerWeights& w = m_model.layers[layer];
        const LatentShape& l = m_c.latent;
        Heads heads;
        heads.q = w.latent.query_down.present() ? product(w.latent.query_up, norm(product(w.latent.query_down, x), w.latent.query_norm))
                                                : product(w.query, x);
        const Row low = product(w.latent.key_value_down, x);
        const Row up = product(w.latent.key_value_up, norm(part(low, 0, l.kv_rank), w.latent.key_value_norm));
        const Row rotary = part(low, l.kv_rank, l.rotary_dim);
        for (std::uint32_t head = 0; head < shape_of(layer).query_heads; ++head) {
            const Row key = part(up, head * (l.nope_dim + l.value_dim), l.nope_dim);
            const Row value = part(up, head * (l.nope_dim + l.value_dim) + l.nope_dim, l.value_dim);
            heads.k.insert(heads.k.end(), key.begin(), key.end());
            heads.k.insert(heads.k.end(), rotary.begin(), rotary.end());
            heads.v.insert(heads.v.end(), value.begin(), value.end());
        }
        return heads;
    }
    void attend_layer(std::uint32_t layer, std::vector<Row>& hidden, KeySpan span) const {
        const LayerWeights& weights = m_model.layers[layer];
        if (span.full()) {
            span.window = shape_of(layer).window;
            span.chunk = shape_of(layer).chunk;
        }
        std::vector<Heads> rows;
        for (const Row& row : hidden) rows.push_back(project(layer, norm(row, weights.attention_norm)));
        for (std::uint32_t position = 0; position < hidden.size(); ++position) {
            Row out = product(weights.attention_out, attend(layer, rows, position, span));
            if (m_c.post_norms) out = norm(out, weights.post_attention_norm);
            add(hidden[position], out);
        }
    }
    Row attend(std::uint32_t layer, const std::vector<Heads>& rows, std::uint32_t position, const KeySpan& span) const {
        const LatentShape& l = m_c.latent;
        const LayerShape shape = shape_of(layer);
        const std::uint32_t kv_heads = l.present() ? shape.query_heads : shape.kv_heads;
        const std::uint32_t width = l.present() ? l.nope_dim + l.rotary_dim : m_c.head_dim;
        const std::uint32_t value_width = l.present() ? l.value_dim : m_c.head_dim;
        const std::uint32_t first = l.present() ? l.nope_dim : 0;
        RotaryShape rotary = m_c.rotary(layer);
        if (l.present()) rotary.rotary_dim = l.rotary_dim;
        const double scale = m_c.attention_scale > 0 ? double(m_c.attention_scale) : 1 / std::sqrt(double(width));
        const SeenKeys seen = span.seen(position);
        Row out(std::size_t{shape.query_heads} * value_width, 0);
        for (std::uint32_t head = 0; head < shape.query_heads; ++head) {
            const std::uint32_t kv_head = head / (shape.query_heads / kv_heads);
            Row q = part(rows[position].q, std::size_t{head} * width, width);
            turn(q, first, position, rotary);
            std::vector<double> scores;
            std::vector<std::uint32_t> which;
            for (std::uint32_t key = 0; key <= position; ++key) {
                if (!seen.sees(key)) continue;
                Row k = part(rows[key].k, std::size_t{kv_head} * width, width);
                turn(k, first, key, rotary);
                // By rank a sink stands right before the window.
                if (key < seen.sinks && span.dropped(position) > 0) turn(k, first, span.dropped(position), rotary, true);
                double score = 0;
                for (std::size_t i = 0; i < k.size(); ++i) score += q[i] * k[i];
                score *= scale;
                scores.push_back(m_c.attention_soft_cap > 0 ? capped(score, double(m_c.attention_soft_cap)) : score);
                which.push_back(key);
            }
            const double largest = *std::max_element(scores.begin(), scores.end());
            double sum = 0;
            for (double& score : scores) sum += score = std::exp(score - largest);
            for (std::size_t k = 0; k < scores.size(); ++k)
                for (std::uint32_t i = 0; i < value_width; ++i)
                    out[head * value_width + i] += scores[k] / sum * rows[which[k]].v[kv_head * value_width + i];
        }
        return out;
    }
    Row gated(const Tensor& gate, const Tensor& up, const Tensor& down, const Row& x) const {
        Row g = product(gate, x);
        const Row u = product(up, x);
        for (std::size_t i = 0; i < g.size(); ++i) g[i] = activated(g[i]) * u[i];
        return product(down, g);
    }
    Row feed_forward(std::uint32_t layer, const Row& x) const {
        const LayerWeights& w = m_model.layers[layer];
        if (!m_c.experts.present() || !shape_of(layer).experts) return gated(w.gate, w.up, w.down, x);
        Row out(m_c.hidden, 0);
        if (w.gate.present()) add(out, gated(w.gate, w.up, w.down, x));
        Row scores = product(w.router, x);
        if (m_c.experts.score == ExpertShape::Score::sigmoid) {
            for (double& score : scores) score = 1 / (1 + std::exp(-score));
        } else {
            const double top = *std::max_element(scores.begin(), scores.end());
            double sum = 0;
            for (double& score : scores) sum += score = std::exp(score - top);
            for (double& score : scores) score /= sum;
        }
        const std::vector<std::size_t> chosen = choose(w, scores);
        double sum = 0;
        for (const std::size_t expert : chosen) sum += scores[expert];
        for (const std::size_t expert : chosen) {
            Row part_out = gated(w.experts[expert].gate, w.experts[expert].up, w.experts[expert].down, x);
            const double weight = scores[expert] / (m_c.experts.normalised ? sum : 1.0) * double(m_c.experts.weight_scale);
            for (double& value : part_out) value *= weight;
            add(out, part_out);
        }
        return out;
    }
    std::vector<std::size_t> choose(const LayerWeights& w, Row scores) const {
        const ExpertShape& e = m_c.experts;
        if (e.corrected) add(scores, row_of(w.router_bias, 0));
        const auto sorted = [](const Row& values) {
            std::vector<std::size_t> order(values.size());
            std::iota(order.begin(), order.end(), std::size_t(0));
            std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
            return order;
        };
        if (e.group_score != ExpertShape::GroupScore::none) {
            const std::size_t size = scores.size() / e.groups;
            Row groups;
            for (std::size_t group = 0; group < e.groups; ++group) {
                Row members = part(scores, group * size, size);
                std::sort(members.rbegin(), members.rend());
                groups.push_back(members[0] + (e.group_score == ExpertShape::GroupScore::best_two ? members[1] : 0));
            }
            const std::vector<std::size_t> order = sorted(groups);
            for (std::size_t i = e.used_groups; i < order.size(); ++i)
                std::fill_n(scores.begin() + std::ptrdiff_t(order[i] * size), size, -INFINITY);
        }
        std::vector<std::size_t> order = sorted(scores);
        order.resize(e.used);
        return order;
    }

    const Model& m_model;
    const ModelConfig& m_c;
};

}  // namespace kvloupe::test
