// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_backend.h"

#include "kernels/backend_checks.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cache_operations.h"
#include "kernels/cpu/cpu_buffers.h"
#include "kernels/cpu/cpu_cache.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/cpu/cpu_operations.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/kv_rows.h"
#include "kernels/cpu/measure_ceilings.h"
#include "kernels/cpu/stage_clock.h"

#include <new>
#include <string>
#include <utility>

namespace kvloupe::cpu {

namespace {

class CpuBackend final : public CpuOperations {
public:
    explicit CpuBackend(unsigned threads) : CpuOperations(threads), m_attention(m_pool, m_counters) {}

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

    void rotary_store(Buffer& q, Buffer& k, const Buffer& v, const AttentionShape& shape, const RotaryShape& rotary,
                      KvCache& cache, std::uint32_t layer) override;
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
    std::uint64_t page_bytes(const KvCache& cache) const override { return static_cast<const CpuKvCache&>(cache).page_bytes(); }
    Result<void> save_page(const KvCache& cache, std::uint32_t page, std::span<std::byte> to) override {
        static_cast<const CpuKvCache&>(cache).save_page(page, to.data());
        return {};
    }
    Result<void> restore_page(KvCache& cache, std::uint32_t page, std::span<const std::byte> from) override {
        static_cast<CpuKvCache&>(cache).restore_page(page, from.data());
        return {};
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
    Attention m_attention;
    StageClock m_clock;
    Ceilings m_ceilings;
};

Ceilings CpuBackend::measure_ceilings(std::stop_token stop) {
    m_ceilings = cpu::measure_ceilings(m_ceilings, m_pool, m_blas, std::move(stop));
    return m_ceilings;
}

void CpuBackend::rotary_store(Buffer& q, Buffer& k, const Buffer& v, const AttentionShape& shape, const RotaryShape& rotary,
                              KvCache& cache, std::uint32_t layer) {
    const std::uint64_t q_width = std::uint64_t{shape.query_heads} * shape.head_dim;
    const std::uint64_t k_width = std::uint64_t{shape.kv_heads} * shape.head_dim;
    const RotaryTable& table = m_rotary.prepare(m_batch.positions, rotary);
    float* q_rows = floats(q);
    float* k_rows = floats(k);
    for_rows(m_batch.rows(), q_width + k_width, [&](std::uint32_t row) {
        table.rotate(row, q_rows + row * q_width, shape.query_heads, shape.head_dim);
        table.rotate(row, k_rows + row * k_width, shape.kv_heads, shape.head_dim);
    });
    store_batch(m_pool, m_batch, k_rows, floats(v), shape.group, static_cast<CpuKvCache&>(cache), layer);
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
