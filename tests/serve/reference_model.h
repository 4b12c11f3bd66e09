// SPDX-License-Identifier: GPL-3.0-or-later
//
// A Llama model in plain loops and doubles, without cache, blocks or batches: what the lanes must come to. Keys that a
// span masks are simply left out.
#pragma once

#include "engine/key_span.h"
#include "engine/model/model.h"
#include "engine/model/quants.h"

#include <cmath>
#include <vector>

namespace kvloupe::test {

class ReferenceModel {
public:
    using Row = std::vector<double>;

    explicit ReferenceModel(const Model& model) : m_model(model), m_c(model.config) {}

    // Logits (positions)(vocabulary).
    std::vector<Row> logits(const std::vector<TokenId>& tokens, const KeySpan& span) const {
        std::vector<Row> hidden;
        for (const TokenId token : tokens) hidden.push_back(row_of(m_model.embedding, std::uint64_t(token)));
        for (const LayerWeights& layer : m_model.layers) {
            std::vector<Row> queries, keys, values;
            for (const Row& row : hidden) {
                const Row normed = norm(row, layer.attention_norm);
                queries.push_back(product(layer.query, normed));
                keys.push_back(product(layer.key, normed));
                values.push_back(product(layer.value, normed));
            }
            for (std::uint32_t position = 0; position < hidden.size(); ++position)
                add(hidden[position], product(layer.attention_out, attend(queries[position], keys, values, position, span)));
            for (Row& row : hidden) {
                const Row normed = norm(row, layer.ffn_norm);
                Row gate = product(layer.gate, normed);
                const Row up = product(layer.up, normed);
                for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
                add(row, product(layer.down, gate));
            }
        }
        std::vector<Row> result;
        for (const Row& row : hidden)
            result.push_back(product(m_model.output.present() ? m_model.output : m_model.embedding, norm(row, m_model.output_norm)));
        return result;
    }

private:
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
    static void add(Row& to, const Row& what) {
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
    }
    // Head `head` of the row, turned by `position` (which may lie beyond the row's own).
    Row turned(const Row& row, std::uint32_t head, std::uint32_t position) const {
        const std::uint32_t size = m_c.head_dim, half = m_c.rotary_dim / 2;
        Row out(row.begin() + head * size, row.begin() + (head + 1) * size);
        for (std::uint32_t i = 0; i < half; ++i) {
            const double angle = position * std::pow(double(m_c.rope_theta), -2.0 * i / m_c.rotary_dim);
            const bool adjacent = m_c.rotary_layout == RotaryLayout::adjacent;
            const std::uint32_t a = adjacent ? 2 * i : i, b = adjacent ? 2 * i + 1 : i + half;
            const double x = out[a], y = out[b];
            out[a] = x * std::cos(angle) - y * std::sin(angle);
            out[b] = x * std::sin(angle) + y * std::cos(angle);
        }
        return out;
    }
    Row attend(const Row& query, const std::vector<Row>& keys, const std::vector<Row>& values, std::uint32_t position,
               const KeySpan& span) const {
        const SeenKeys seen = span.seen(position);
        Row out(query.size(), 0);
        for (std::uint32_t head = 0; head < m_c.query_heads; ++head) {
            const std::uint32_t kv_head = head / (m_c.query_heads / m_c.kv_heads);
            const Row q = turned(query, head, position);
            std::vector<double> scores;
            std::vector<std::uint32_t> which;
            double largest = -INFINITY;
            for (std::uint32_t key = 0; key <= position; ++key) {
                if (!seen.sees(key)) continue;
                // By rank a sink stands right before the window.
                const Row k = turned(keys[key], kv_head, key + (key < seen.sinks ? span.dropped(position) : 0));
                double score = 0;
                for (std::size_t i = 0; i < k.size(); ++i) score += q[i] * k[i];
                scores.push_back(score / std::sqrt(double(m_c.head_dim)));
                which.push_back(key);
                largest = std::max(largest, scores.back());
            }
            double sum = 0;
            for (double& score : scores) sum += score = std::exp(score - largest);
            for (std::size_t k = 0; k < scores.size(); ++k)
                for (std::uint32_t i = 0; i < m_c.head_dim; ++i)
                    out[head * m_c.head_dim + i] += scores[k] / sum * values[which[k]][kv_head * m_c.head_dim + i];
        }
        return out;
    }

    const Model& m_model;
    const ModelConfig& m_c;
};

}  // namespace kvloupe::test
