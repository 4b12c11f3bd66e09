// SPDX-License-Identifier: GPL-3.0-or-later
//
// A backend that records the operations of a pass and replays them, as a device with graphs does: what is replayed uses the
// buffers, weights and cache of the pass that was recorded, and the batch at hand.
#pragma once

#include "tests/serve/wrapping_backend.h"

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace kvloupe::test {

// What it saw, shared with the test.
struct Passes {
    int recorded = 0;
    int replayed = 0;
    int open = 0;                          // begun and not ended
    int operations_outside = 0;            // of passes that were not announced
    std::vector<std::uint64_t> owners;     // of the passes, in order
    std::function<void(int)> on_operation; // called with the number of each operation of a pass, if set
};

class ReplayingBackend final : public WrappingBackend {
public:
    ReplayingBackend(std::unique_ptr<Backend> real, std::shared_ptr<Passes> passes)
        : WrappingBackend(std::move(real)), m_passes(std::move(passes)) {}

    Result<void> begin_batch(const Batch& batch) override {
        m_batch = batch;
        m_operation = 0;
        return m_real->begin_batch(batch);
    }
    bool begin_pass(const PassShape& shape) override {
        ++m_passes->open;
        m_passes->owners.push_back(shape.owner);
        m_key = {shape.owner, m_batch.rows(), static_cast<std::uint32_t>(m_batch.logit_rows.size())};
        for (const Batch::Sequence& sequence : m_batch.sequences) m_key.push_back(sequence.rows);
        const auto found = m_kept.find(m_key);
        m_recording = found == m_kept.end();
        if (m_recording) return false;
        ++m_passes->replayed;
        for (const Operation& operation : found->second) operation();
        return true;
    }
    void end_pass() override {
        --m_passes->open;
        if (!m_recording) return;
        m_recording = false;
        ++m_passes->recorded;
        m_kept[m_key] = std::exchange(m_operations, {});
    }
    void embed(const Weight& table, Buffer& out) override {
        run([this, &table, &out] { m_real->embed(table, out); });
    }
    void rms_norm(const Buffer& in, const Weight& weight, float epsilon, std::uint32_t rows, Buffer& out) override {
        run([this, &in, &weight, epsilon, rows, &out] { m_real->rms_norm(in, weight, epsilon, rows, out); });
    }
    void matmul(const Weight& weight, const Buffer& in, std::uint32_t rows, Buffer& out, bool accumulate) override {
        run([this, &weight, &in, rows, &out, accumulate] { m_real->matmul(weight, in, rows, out, accumulate); });
    }
    void rotary_store(Buffer& q, Buffer& k, const Buffer& v, const AttentionShape& shape, const RotaryShape& rotary,
                      KvCache& cache, std::uint32_t layer) override {
        run([this, &q, &k, &v, shape, rotary, &cache, layer] { m_real->rotary_store(q, k, v, shape, rotary, cache, layer); });
    }
    void attention(const Buffer& q, const AttentionShape& shape, const KvCache& cache, std::uint32_t layer, Buffer& out,
                   AttentionProbe* probe) override {
        run([this, &q, shape, &cache, layer, &out, probe] { m_real->attention(q, shape, cache, layer, out, probe); });
    }
    void gate_multiply(Activation activation, Buffer& gate, const Buffer& up, std::uint32_t rows, std::uint32_t width) override {
        run([this, activation, &gate, &up, rows, width] { m_real->gate_multiply(activation, gate, up, rows, width); });
    }
    void store(const Buffer& k, const Buffer& v, std::uint32_t group, KvCache& cache, std::uint32_t layer) override {
        run([this, &k, &v, group, &cache, layer] { m_real->store(k, v, group, cache, layer); });
    }
    void rotate(Buffer& x, std::uint32_t heads, std::uint32_t width, std::uint32_t first, const RotaryShape& rotary) override {
        run([this, &x, heads, width, first, rotary] { m_real->rotate(x, heads, width, first, rotary); });
    }
    void rms_norm_heads(Buffer& x, const Weight& weight, float epsilon, std::uint32_t rows, std::uint32_t heads) override {
        run([this, &x, &weight, epsilon, rows, heads] { m_real->rms_norm_heads(x, weight, epsilon, rows, heads); });
    }
    void add_bias(Buffer& x, const Weight& bias, std::uint32_t rows) override {
        run([this, &x, &bias, rows] { m_real->add_bias(x, bias, rows); });
    }
    void scale(Buffer& x, float factor, std::uint64_t count) override {
        run([this, &x, factor, count] { m_real->scale(x, factor, count); });
    }
    void soft_cap(Buffer& x, float cap, std::uint64_t count) override {
        run([this, &x, cap, count] { m_real->soft_cap(x, cap, count); });
    }
    void add(const Buffer& from, Buffer& to, std::uint64_t count) override {
        run([this, &from, &to, count] { m_real->add(from, to, count); });
    }
    void copy_columns(const Buffer& in, const Columns& columns, Buffer& out) override {
        run([this, &in, columns, &out] { m_real->copy_columns(in, columns, out); });
    }
    void matmul_heads(const Weight& weight, const Buffer& in, std::uint32_t rows, std::uint32_t heads, Buffer& out) override {
        run([this, &weight, &in, rows, heads, &out] { m_real->matmul_heads(weight, in, rows, heads, out); });
    }
    // Within a pass: the rows of the batch that it is replayed with. Outside, an expert's rows come here too.
    void gather_rows(const Buffer& in, std::span<const std::uint32_t> rows, std::uint32_t width, Buffer& out) override {
        if (m_passes->open == 0) {
            m_real->gather_rows(in, rows, width, out);
            ++m_passes->operations_outside;
            return;
        }
        run([this, &in, width, &out] { m_real->gather_rows(in, m_batch.logit_rows, width, out); });
    }

private:
    using Operation = std::function<void()>;
    void run(Operation operation) {
        operation();
        if (m_passes->open == 0) ++m_passes->operations_outside;
        else if (m_passes->on_operation) m_passes->on_operation(m_operation++);
        if (m_recording) m_operations.push_back(std::move(operation));
    }

    std::shared_ptr<Passes> m_passes;
    Batch m_batch;
    std::vector<std::uint64_t> m_key;
    std::map<std::vector<std::uint64_t>, std::vector<Operation>> m_kept;
    std::vector<Operation> m_operations;
    bool m_recording = false;
    int m_operation = 0;
};

}  // namespace kvloupe::test
