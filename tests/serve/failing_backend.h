// SPDX-License-Identifier: GPL-3.0-or-later
//
// A backend that does what another one does, and fails when it is told to.
#pragma once

#include "engine/backend.h"

#include <limits>
#include <memory>

namespace kvloupe::test {

// What is to go wrong, shared with the test.
struct Sabotage {
    int begin_batch = -1;   // counts down with each call; the call at 0 fails
    int read = -1;
    int buffers = -1;
    int nan_layer = -1;     // the attention of this layer gives NaN for batches that hold nan_row_token
    TokenId nan_row_token = -1;
};

class FailingBackend final : public Backend {
public:
    FailingBackend(std::unique_ptr<Backend> real, std::shared_ptr<Sabotage> sabotage)
        : m_real(std::move(real)), m_sabotage(std::move(sabotage)) {}

    DeviceInfo info() const override { return m_real->info(); }
    MemoryCounters memory() const override { return m_real->memory(); }
    Result<std::unique_ptr<Weight>> weight(const Tensor& tensor) override { return m_real->weight(tensor); }
    Result<std::unique_ptr<Buffer>> buffer(std::uint64_t bytes, Purpose purpose) override {
        if (due(m_sabotage->buffers)) return Error{"no memory for " + std::to_string(bytes) + " bytes", "Free some."};
        return m_real->buffer(bytes, purpose);
    }
    Result<std::unique_ptr<KvCache>> kv_cache(const KvCacheShape& shape, Purpose purpose) override {
        return m_real->kv_cache(shape, purpose);
    }
    Result<std::unique_ptr<HostBlocks>> host_blocks(const KvCache& cache, std::uint32_t count) override {
        return m_real->host_blocks(cache, count);
    }
    Result<void> begin_batch(const Batch& batch) override {
        if (due(m_sabotage->begin_batch)) return Error{"the device fell off the bus", "Plug it in."};
        m_tokens = batch.tokens;
        return m_real->begin_batch(batch);
    }
    void embed(const Weight& table, Buffer& out) override { m_real->embed(table, out); }
    void rms_norm(const Buffer& in, const Weight& weight, float epsilon, std::uint32_t rows, Buffer& out) override {
        m_real->rms_norm(in, weight, epsilon, rows, out);
    }
    void matmul(const Weight& weight, const Buffer& in, std::uint32_t rows, Buffer& out, bool accumulate) override {
        m_real->matmul(weight, in, rows, out, accumulate);
    }
    void rotary_store(Buffer& q, Buffer& k, const Buffer& v, const AttentionShape& shape, const RotaryShape& rotary,
                      KvCache& cache, std::uint32_t layer) override {
        m_real->rotary_store(q, k, v, shape, rotary, cache, layer);
    }
    // A broken layer: its softmax scale becomes NaN for the batches that hold the token.
    void attention(const Buffer& q, const AttentionShape& shape, const KvCache& cache, std::uint32_t layer, Buffer& out,
                   AttentionProbe* probe) override {
        AttentionShape used = shape;
        const bool broken = static_cast<int>(layer) == m_sabotage->nan_layer && holds(m_sabotage->nan_row_token);
        if (broken) used.scale = std::numeric_limits<float>::quiet_NaN();
        m_real->attention(q, used, cache, layer, out, probe);
    }
    void silu_multiply(Buffer& gate, const Buffer& up, std::uint32_t rows, std::uint32_t width) override {
        m_real->silu_multiply(gate, up, rows, width);
    }
    void gather_rows(const Buffer& in, std::span<const std::uint32_t> rows, std::uint32_t width, Buffer& out) override {
        m_real->gather_rows(in, rows, width, out);
    }
    Result<void> read(const Buffer& in, std::span<float> destination) override {
        if (due(m_sabotage->read)) return Error{"the device answered with an error", "Start it again."};
        return m_real->read(in, destination);
    }
    void copy_block(KvCache& cache, std::uint32_t from, std::uint32_t to, std::uint32_t tokens) override {
        m_real->copy_block(cache, from, to, tokens);
    }
    void swap_out(const KvCache& cache, std::uint32_t block, HostBlocks& host, std::uint32_t host_block,
                  std::uint32_t tokens) override {
        m_real->swap_out(cache, block, host, host_block, tokens);
    }
    void swap_in(KvCache& cache, std::uint32_t block, const HostBlocks& host, std::uint32_t host_block,
                 std::uint32_t tokens) override {
        m_real->swap_in(cache, block, host, host_block, tokens);
    }
    void poison_block(KvCache& cache, std::uint32_t block) override { m_real->poison_block(cache, block); }
    Result<void> synchronise() override { return m_real->synchronise(); }
    std::uint64_t start_timing() override { return m_real->start_timing(); }
    void mark(StageKind kind, std::uint16_t layer) override { m_real->mark(kind, layer); }
    std::span<const StageTiming> timings(std::uint64_t set) override { return m_real->timings(set); }
    Ceilings measure_ceilings(std::stop_token stop) override { return m_real->measure_ceilings(stop); }

private:
    static bool due(int& countdown) { return countdown >= 0 && countdown-- == 0; }
    bool holds(TokenId token) const {
        for (const TokenId given : m_tokens)
            if (given == token) return true;
        return false;
    }

    std::unique_ptr<Backend> m_real;
    std::shared_ptr<Sabotage> m_sabotage;
    std::vector<TokenId> m_tokens;
};

}  // namespace kvloupe::test
