// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_backend.h"

#include "kernels/backend_checks.h"
#include "kernels/cpu/aligned_bytes.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cache_operations.h"
#include "kernels/cpu/cpu_cache.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/kv_rows.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/measure_ceilings.h"
#include "kernels/cpu/rotary.h"
#include "kernels/cpu/stage_clock.h"
#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <utility>

namespace kvloupe::cpu {

namespace {

class CpuBuffer final : public Buffer {
public:
    explicit CpuBuffer(AlignedBytes bytes) : m_bytes(std::move(bytes)) {}
    std::uint64_t bytes() const override { return m_bytes.size(); }
    float* floats() const { return m_bytes.as<float>(); }

private:
    AlignedBytes m_bytes;
};

class CpuWeight final : public Weight {
public:
    explicit CpuWeight(const PackedMatrix& matrix) : m_matrix(matrix) {}
    std::uint64_t rows() const override { return m_matrix.rows; }
    std::uint64_t cols() const override { return m_matrix.cols; }
    DType dtype() const override { return m_matrix.dtype; }
    std::uint64_t bytes() const override { return m_matrix.bytes(); }
    const PackedMatrix& matrix() const { return m_matrix; }

private:
    PackedMatrix m_matrix;
};

float* floats(Buffer& buffer) { return static_cast<CpuBuffer&>(buffer).floats(); }
const float* floats(const Buffer& buffer) { return static_cast<const CpuBuffer&>(buffer).floats(); }
const PackedMatrix& matrix(const Weight& weight) { return static_cast<const CpuWeight&>(weight).matrix(); }

// Rows of about `width` floats per part that are worth a thread.
constexpr std::uint64_t smallest_part = 8192;

class CpuBackend final : public Backend {
public:
    explicit CpuBackend(unsigned threads)
        : m_pool(threads), m_attention(m_pool, m_counters), m_panels(m_pool.threads()), m_panel_of(m_pool.threads()) {
        m_blas = prepare_blas();
    }

    DeviceInfo info() const override {
        const MemorySize memory = memory_size();
        const unsigned threads = m_pool.threads();
        return {"cpu", processor_name(),
                std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") + vector_instructions(), memory.total,
                memory.free};
    }

    MemoryCounters memory() const override {
        return {0, m_counters.kv_cache.load(), m_counters.activations.load(), m_counters.host_blocks.load()};
    }

    Result<std::unique_ptr<Weight>> weight(const Tensor& tensor) override {
        if (auto checked = check_weight(tensor, "the CPU's"); !checked) return checked.error();
        if (is_packed(tensor.dtype) || tensor.rows > 1)
            if (auto grown = grow_panels(panel_floats(tensor.cols)); !grown) return grown.error();
        return std::unique_ptr<Weight>(new CpuWeight({tensor.data, tensor.dtype, tensor.rows, tensor.cols}));
    }

    Result<std::unique_ptr<Buffer>> buffer(std::uint64_t bytes, Purpose purpose) override {
        auto memory = AlignedBytes::make(bytes, m_counters.of(purpose), "a buffer");
        if (!memory) return memory.error();
        return std::unique_ptr<Buffer>(new CpuBuffer(std::move(*memory)));
    }

    Result<std::unique_ptr<KvCache>> kv_cache(const KvCacheShape& shape, Purpose purpose) override {
        return CpuKvCache::make(shape, purpose, m_counters);
    }

    Result<std::unique_ptr<HostBlocks>> host_blocks(const KvCache& cache, std::uint32_t count) override {
        return CpuHostBlocks::make(cache.shape(), count, m_counters);
    }

    Result<void> begin_batch(const Batch& batch) override {
        if (auto checked = check_batch(batch); !checked) return checked;
        try {
            m_batch = batch;
        } catch (const std::bad_alloc&) {
            return Error{"Not enough memory for a batch of " + std::to_string(batch.rows()) + " rows", "Use a smaller batch"};
        }
        m_rotary.begin_batch();
        m_attention.begin_batch();
        return {};
    }

    void embed(const Weight& table, Buffer& out) override {
        const PackedMatrix& m = matrix(table);
        float* to = floats(out);
        for_rows(m_batch.rows(), m.cols, [&](std::uint32_t row) {
            const auto token = static_cast<std::uint64_t>(m_batch.tokens[row]);
            float* row_out = to + row * m.cols;
            if (token < m.rows)
                expand_row(m.dtype, m.row(token), m.cols, row_out);
            else  // outside the vocabulary: shows as a failed step, never as a read beyond the table
                std::fill(row_out, row_out + m.cols, std::numeric_limits<float>::quiet_NaN());
        });
    }

    void rms_norm(const Buffer& in, const Weight& weight, float epsilon, std::uint32_t rows, Buffer& out) override {
        const PackedMatrix& m = matrix(weight);
        const float* from = floats(in);
        float* to = floats(out);
        const float* factors = norm_weight(m);
        for_rows(rows, m.cols, [&](std::uint32_t row) {
            rms_norm_row(from + row * m.cols, factors, epsilon, m.cols, to + row * m.cols);
        });
    }

    void matmul(const Weight& weight, const Buffer& in, std::uint32_t rows, Buffer& out, bool accumulate) override {
        multiply(matrix(weight), {floats(in), floats(out), rows, accumulate}, m_pool, {m_panel_of, m_blas});
    }

    void rotary_store(Buffer& q, Buffer& k, const Buffer& v, const AttentionShape& shape, const RotaryShape& rotary,
                      KvCache& cache, std::uint32_t layer) override {
        auto& to = static_cast<CpuKvCache&>(cache);
        const std::uint64_t width = std::uint64_t{shape.query_heads + 2 * shape.kv_heads} * shape.head_dim;
        m_rotary.prepare(m_batch.positions, rotary);
        float* q_rows = floats(q);
        float* k_rows = floats(k);
        const float* v_rows = floats(v);
        const std::uint64_t kv_width = std::uint64_t{shape.kv_heads} * shape.head_dim;
        for_rows(m_batch.rows(), width, [&](std::uint32_t row) {
            m_rotary.rotate(row, q_rows + std::uint64_t{row} * shape.query_heads * shape.head_dim, shape.query_heads, shape.head_dim);
            m_rotary.rotate(row, k_rows + row * kv_width, shape.kv_heads, shape.head_dim);
        });
        store_batch(m_pool, m_batch, k_rows, v_rows, shape.group, to, layer);
    }

    void store(const Buffer& k, const Buffer& v, std::uint32_t group, KvCache& cache, std::uint32_t layer) override {
        store_batch(m_pool, m_batch, floats(k), floats(v), group, static_cast<CpuKvCache&>(cache), layer);
    }

    void load(const KvCache& cache, std::uint32_t layer, std::uint32_t group, std::uint32_t sequence, std::uint32_t first,
              std::uint32_t count, Buffer& keys, Buffer& values) override {
        load_positions(static_cast<const CpuKvCache&>(cache), m_batch, {layer, group, sequence, first, count}, floats(keys), floats(values));
    }

    void attention(const Buffer& q, const AttentionShape& shape, const KvCache& cache, std::uint32_t layer, Buffer& out,
                   AttentionProbe* probe) override {
        const auto& from = static_cast<const CpuKvCache&>(cache);
        m_attention.run(m_batch, floats(q), shape, from, layer, floats(out));
        if (probe != nullptr && !probe->heads.empty()) m_attention.probe(m_batch, floats(q), shape, from, layer, *probe);
    }

    void silu_multiply(Buffer& gate, const Buffer& up, std::uint32_t rows, std::uint32_t width) override {
        float* g = floats(gate);
        const float* u = floats(up);
        for_rows(rows, width, [&](std::uint32_t row) {
            silu_multiply_row(g + std::uint64_t{row} * width, u + std::uint64_t{row} * width, width);
        });
    }

    void gather_rows(const Buffer& in, std::span<const std::uint32_t> rows, std::uint32_t width, Buffer& out) override {
        for (std::size_t i = 0; i < rows.size(); ++i)
            std::memcpy(floats(out) + i * width, floats(in) + std::uint64_t{rows[i]} * width, std::uint64_t{width} * sizeof(float));
    }

    Result<void> read(const Buffer& in, std::span<float> destination) override {
        if (destination.size_bytes() > in.bytes())
            return Error{std::to_string(destination.size_bytes()) + " bytes were asked of a buffer of " + std::to_string(in.bytes()),
                         "This is a defect of the program"};
        std::memcpy(destination.data(), floats(in), destination.size_bytes());
        return {};
    }

    void copy_block(KvCache& cache, std::uint32_t from, std::uint32_t to, std::uint32_t tokens) override {
        static_cast<CpuKvCache&>(cache).copy_block(from, to, tokens);
    }
    void swap_out(const KvCache& cache, std::uint32_t block, HostBlocks& host, std::uint32_t host_block,
                  std::uint32_t tokens) override {
        static_cast<const CpuKvCache&>(cache).swap_out(block, static_cast<CpuHostBlocks&>(host), host_block, tokens);
    }
    void swap_in(KvCache& cache, std::uint32_t block, const HostBlocks& host, std::uint32_t host_block,
                 std::uint32_t tokens) override {
        static_cast<CpuKvCache&>(cache).swap_in(block, static_cast<const CpuHostBlocks&>(host), host_block, tokens);
    }
    void seal_block(KvCache& cache, std::uint32_t block, std::uint32_t page) override {
        cpu::seal_block(static_cast<const CpuKvCache&>(cache), block, page);
    }
    void copy_page(KvCache& cache, std::uint32_t from, std::uint32_t to, std::uint32_t tokens) override {
        static_cast<CpuKvCache&>(cache).copy_page(from, to, tokens);
    }
    Result<void> read_block(const KvCache& cache, std::uint32_t layer, std::uint32_t block, std::uint32_t page, std::uint32_t tokens,
                            std::span<float> keys, std::span<float> values) override {
        return read_slots(static_cast<const CpuKvCache&>(cache), layer, block, page, tokens, keys, values);
    }
    void poison_block(KvCache& cache, std::uint32_t block) override { static_cast<CpuKvCache&>(cache).poison_block(block); }
    Result<void> synchronise() override { return {}; }

    std::uint64_t start_timing() override { return m_clock.start(); }
    void mark(StageKind kind, std::uint16_t layer) override { m_clock.mark(kind, layer); }
    std::span<const StageTiming> timings(std::uint64_t set) override { return m_clock.timings(set); }
    Ceilings measure_ceilings(std::stop_token stop) override;

private:
    // Calls f(row) for all rows, on several threads where there is enough to do.
    template <class F>
    void for_rows(std::uint32_t rows, std::uint64_t width, F&& f) {
        const auto step = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, smallest_part / std::max<std::uint64_t>(1, width)));
        m_pool.run((rows + step - 1) / step, [&](std::uint32_t part, unsigned) {
            const std::uint32_t end = std::min(rows, (part + 1) * step);
            for (std::uint32_t row = part * step; row < end; ++row) f(row);
        });
    }

    // The factors as aligned f32: where they lie, or expanded into scratch.
    const float* norm_weight(const PackedMatrix& m) {
        if (m.dtype == DType::f32 && reinterpret_cast<std::uintptr_t>(m.data) % alignof(float) == 0)
            return reinterpret_cast<const float*>(m.data);
        if (m_norm.size() < m.cols) m_norm.resize(m.cols);
        expand_row(m.dtype, m.data, m.cols, m_norm.data());
        return m_norm.data();
    }

    Result<void> grow_panels(std::uint64_t wanted) {
        if (m_panel_floats >= wanted) return {};
        for (std::size_t thread = 0; thread < m_panels.size(); ++thread) {
            auto panel = AlignedBytes::make(wanted * sizeof(float), m_counters.activations, "the scratch of products");
            if (!panel) return panel.error();
            m_panels[thread] = std::move(*panel);
            m_panel_of[thread] = m_panels[thread].as<float>();
        }
        m_panel_floats = wanted;
        return {};
    }

    Counters m_counters;  // first: outlives everything that counts
    ThreadPool m_pool;
    Batch m_batch;
    RotaryTable m_rotary;
    Attention m_attention;
    StageClock m_clock;
    std::vector<AlignedBytes> m_panels;
    std::vector<float*> m_panel_of;
    std::uint64_t m_panel_floats = 0;
    bool m_blas = false;
    std::vector<float> m_norm;
    Ceilings m_ceilings;
};

Ceilings CpuBackend::measure_ceilings(std::stop_token stop) {
    m_ceilings = cpu::measure_ceilings(m_ceilings, m_pool, m_blas, std::move(stop));
    return m_ceilings;
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cpu_backend(unsigned threads) {
    try {
        return std::unique_ptr<Backend>(new CpuBackend(threads == 0 ? cores_at_hand() : threads));
    } catch (const std::bad_alloc&) {
        return Error{"Not enough memory for the CPU backend", "Close other programs"};
    }
}

}  // namespace kvloupe::cpu
