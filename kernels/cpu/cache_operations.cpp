// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cache_operations.h"

#include "kernels/cpu/kv_quantise.h"
#include "kernels/cpu/kv_rows.h"

#include <algorithm>
#include <string>

namespace kvloupe::cpu {

namespace {

// Rows of one head, turned back where they were turned.
void expand_as_stored(const CpuKvCache& cache, std::uint32_t layer, KvPart part, std::uint32_t head, const KvRun& run, float* out) {
    expand_rows(cache, layer, part, head, run, out);
    const KvPlane& plane = cache.plane(layer, part).plane;
    if (!plane.format.rotate) return;
    for (std::uint32_t t = 0; t < run.count; ++t) hadamard(out + std::uint64_t{t} * plane.head_dim, plane.head_dim);
}

// Rows that are worth a thread: of about this many values.
constexpr std::uint64_t smallest_part = 8192;

}  // namespace

void store_batch(ThreadPool& pool, const Batch& batch, const float* k, const float* v, std::uint32_t group, CpuKvCache& cache,
                 std::uint32_t layer) {
    const KvPlane& keys = cache.keys(layer).plane;
    const KvPlane& values = cache.values(layer).plane;
    const std::uint32_t rows = batch.rows();
    take_head_scales(cache.keys(layer), k, rows);
    take_head_scales(cache.values(layer), v, rows);
    const std::uint64_t* slots = batch.slots.data() + std::size_t{group} * rows;
    const std::uint32_t* pages = batch.slot_pages.empty() ? nullptr : batch.slot_pages.data() + std::size_t{group} * rows;
    const std::uint64_t k_width = std::uint64_t{keys.heads} * keys.head_dim, v_width = std::uint64_t{values.heads} * values.head_dim;
    const auto step = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, smallest_part / (k_width + v_width)));
    pool.run((rows + step - 1) / step, [&](std::uint32_t part, unsigned) {
        std::uint64_t beyond = 0;
        for (std::uint32_t row = part * step; row < std::min(rows, (part + 1) * step); ++row) {
            const KvSlot slot{slots[row] / keys.block_size, static_cast<std::uint32_t>(slots[row] % keys.block_size),
                              pages == nullptr ? 0 : pages[row]};
            beyond += store_token(cache, layer, slot, k + row * k_width, v + row * v_width);
        }
        if (beyond > 0) cache.add_overflowed(beyond);
    });
}

void load_positions(const CpuKvCache& cache, const Batch& batch, const LoadedPositions& which, float* keys, float* values) {
    const Batch::Sequence& sequence = batch.sequences[which.sequence];
    const std::size_t begin = sequence.table_begin + std::size_t{which.group} * sequence.table_size;
    for (const auto& target : {std::pair{KvPart::keys, keys}, std::pair{KvPart::values, values}}) {
        const KvPlane& plane = cache.plane(which.layer, target.first).plane;
        for (std::uint32_t i = 0; i < which.count; ++i) {
            const std::uint32_t logical = (which.first + i) / plane.block_size;
            const KvRun run{batch.block_tables[begin + logical], batch.table_pages.empty() ? 0 : batch.table_pages[begin + logical],
                            (which.first + i) % plane.block_size, 1};
            for (std::uint32_t head = 0; head < plane.heads; ++head)
                expand_as_stored(cache, which.layer, target.first, head, run,
                                 target.second + (std::uint64_t{i} * plane.heads + head) * plane.head_dim);
        }
    }
}

Result<void> read_slots(const CpuKvCache& cache, std::uint32_t layer, std::uint32_t block, std::uint32_t page, std::uint32_t tokens,
                        std::span<float> keys, std::span<float> values) {
    const KvCacheShape& shape = cache.shape();
    if (layer >= shape.layers.size() || block >= shape.blocks || page > shape.residual_pages || tokens > shape.block_size)
        return Error{"A KV cache of " + std::to_string(shape.blocks) + " blocks has no block " + std::to_string(block) + " of " +
                         std::to_string(tokens) + " tokens in layer " + std::to_string(layer), "This is a defect of the program"};
    for (const auto& target : {std::pair{KvPart::keys, keys}, std::pair{KvPart::values, values}}) {
        const KvPlane& plane = cache.plane(layer, target.first).plane;
        const std::uint64_t of_head = std::uint64_t{tokens} * plane.head_dim;
        if (target.second.size() < of_head * plane.heads)
            return Error{std::to_string(of_head * plane.heads) + " values of a block were asked for with room for " +
                             std::to_string(target.second.size()), "This is a defect of the program"};
        for (std::uint32_t head = 0; head < plane.heads; ++head)
            expand_as_stored(cache, layer, target.first, head, {block, page, 0, tokens}, target.second.data() + head * of_head);
    }
    return {};
}

}  // namespace kvloupe::cpu
