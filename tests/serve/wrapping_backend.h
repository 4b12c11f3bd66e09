// SPDX-License-Identifier: GPL-3.0-or-later
//
// A backend that hands everything on to another one: the base of those that watch or disturb.
#pragma once

#include "engine/backend.h"

#include <memory>
#include <utility>

namespace kvloupe::test {

class WrappingBackend : public Backend {
public:
    explicit WrappingBackend(std::unique_ptr<Backend> real) : m_real(std::move(real)) {}

    DeviceInfo info() const override { return m_real->info(); }
    MemoryCounters memory() const override { return m_real->memory(); }
    Result<std::unique_ptr<Weight>> weight(const Tensor& tensor) override { return m_real->weight(tensor); }
    Result<std::unique_ptr<Buffer>> buffer(std::uint64_t bytes, Purpose purpose) override {
        return m_real->buffer(bytes, purpose);
    }
    Result<std::unique_ptr<KvCache>> kv_cache(const KvCacheShape& shape, Purpose purpose) override {
        return m_real->kv_cache(shape, purpose);
    }
    Result<std::unique_ptr<HostBlocks>> host_blocks(const KvCache& cache, std::uint32_t count) override {
        return m_real->host_blocks(cache, count);
    }
    Result<void> begin_batch(const Batch& batch) override { return m_real->begin_batch(batch); }
    bool begin_pass(const PassShape& shape) override { return m_real->begin_pass(shape); }
    void end_pass() override { m_real->end_pass(); }
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
    void attention(const Buffer& q, const AttentionShape& shape, const KvCache& cache, std::uint32_t layer, Buffer& out,
                   AttentionProbe* probe) override {
        m_real->attention(q, shape, cache, layer, out, probe);
    }
    void gate_multiply(Activation activation, Buffer& gate, const Buffer& up, std::uint32_t rows, std::uint32_t width) override {
        m_real->gate_multiply(activation, gate, up, rows, width);
    }
    void store(const Buffer& k, const Buffer& v, std::uint32_t group, KvCache& cache, std::uint32_t layer) override {
        m_real->store(k, v, group, cache, layer);
    }
    void load(const KvCache& cache, std::uint32_t layer, std::uint32_t group, std::uint32_t sequence, std::uint32_t first,
              std::uint32_t count, Buffer& keys, Buffer& values) override {
        m_real->load(cache, layer, group, sequence, first, count, keys, values);
    }
    void rotate(Buffer& x, std::uint32_t heads, std::uint32_t width, std::uint32_t first, const RotaryShape& rotary) override {
        m_real->rotate(x, heads, width, first, rotary);
    }
    void rms_norm_heads(Buffer& x, const Weight& weight, float epsilon, std::uint32_t rows, std::uint32_t heads) override {
        m_real->rms_norm_heads(x, weight, epsilon, rows, heads);
    }
    void add_bias(Buffer& x, const Weight& bias, std::uint32_t rows) override { m_real->add_bias(x, bias, rows); }
    void scale(Buffer& x, float factor, std::uint64_t count) override { m_real->scale(x, factor, count); }
    void soft_cap(Buffer& x, float cap, std::uint64_t count) override { m_real->soft_cap(x, cap, count); }
    void add(const Buffer& from, Buffer& to, std::uint64_t count) override { m_real->add(from, to, count); }
    void copy_columns(const Buffer& in, const Columns& columns, Buffer& out) override { m_real->copy_columns(in, columns, out); }
    void matmul_heads(const Weight& weight, const Buffer& in, std::uint32_t rows, std::uint32_t heads, Buffer& out) override {
        m_real->matmul_heads(weight, in, rows, heads, out);
    }
    void scatter_add(const Buffer& in, std::span<const std::uint32_t> rows, std::span<const float> weights, std::uint32_t width,
                     Buffer& out) override {
        m_real->scatter_add(in, rows, weights, width, out);
    }
    void gather_rows(const Buffer& in, std::span<const std::uint32_t> rows, std::uint32_t width, Buffer& out) override {
        m_real->gather_rows(in, rows, width, out);
    }
    Result<void> read(const Buffer& in, std::span<float> destination) override { return m_real->read(in, destination); }
    bool supports_summaries() const override { return m_real->supports_summaries(); }
    Result<void> summarise(const Buffer& logits, std::uint32_t vocabulary, std::span<const TokenId> asked,
                           std::span<LogitSummary> out) override {
        return m_real->summarise(logits, vocabulary, asked, out);
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
    void seal_block(KvCache& cache, std::uint32_t block, std::uint32_t page) override { m_real->seal_block(cache, block, page); }
    void copy_page(KvCache& cache, std::uint32_t from, std::uint32_t to, std::uint32_t tokens) override {
        m_real->copy_page(cache, from, to, tokens);
    }
    std::uint64_t page_bytes(const KvCache& cache) const override { return m_real->page_bytes(cache); }
    Result<void> save_page(const KvCache& cache, std::uint32_t page, std::span<std::byte> to) override {
        return m_real->save_page(cache, page, to);
    }
    Result<void> restore_page(KvCache& cache, std::uint32_t page, std::span<const std::byte> from) override {
        return m_real->restore_page(cache, page, from);
    }
    Result<void> read_block(const KvCache& cache, std::uint32_t layer, std::uint32_t block, std::uint32_t page, std::uint32_t tokens,
                            std::span<float> keys, std::span<float> values) override {
        return m_real->read_block(cache, layer, block, page, tokens, keys, values);
    }
    void poison_block(KvCache& cache, std::uint32_t block) override { m_real->poison_block(cache, block); }
    Result<void> synchronise() override { return m_real->synchronise(); }
    std::uint64_t start_timing() override { return m_real->start_timing(); }
    void mark(StageKind kind, std::uint16_t layer) override { m_real->mark(kind, layer); }
    std::span<const StageTiming> timings(std::uint64_t set) override { return m_real->timings(set); }
    bool late_timings() const override { return m_real->late_timings(); }
    Ceilings measure_ceilings(std::stop_token stop) override { return m_real->measure_ceilings(stop); }

protected:
    std::unique_ptr<Backend> m_real;
};

}  // namespace kvloupe::test
