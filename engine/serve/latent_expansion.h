// SPDX-License-Identifier: GPL-3.0-or-later
//
// LatentExpansion: keys and values of all heads, made anew in every step and layer from the cached latents of the sequences of
// a batch. They go into a scratch cache of one block per sequence in f32, over which ordinary attention runs. This is what
// multi-head latent attention costs without absorption; only the latents stay.
#pragma once

#include "engine/serve/device_model.h"

#include <cstdint>
#include <memory>
#include <span>

namespace kvloupe {

class LatentExpansion {
public:
    LatentExpansion(std::shared_ptr<DeviceModel> device, DecoderOptions options);

    // Bytes of the device's memory for so many sequences of at most `context` tokens (derived).
    std::uint64_t bytes_for(std::uint32_t sequences, std::uint32_t context) const;
    // Room for the batch's sequences, and the batch with one cache group more, the scratch's. Errors: the backend's.
    Result<void> prepare(const Batch& batch);
    const Batch& batch() const { return m_batch; }
    std::uint32_t group() const { return m_group; }
    const KvCache& cache() const { return *m_scratch; }
    // Fills the scratch from the latents of a layer, in whose cache the batch's own rows lie already. The batch() is the
    // backend's again afterwards. Errors: the backend's.
    Result<void> expand(std::uint32_t layer, const KvCache& latents);

    // Where the latents of one block lie.
    struct BlockPlace {
        std::uint32_t block = 0;
        std::uint32_t page = 0;            // page + 1 where it is kept in f16, else 0
        std::uint32_t first_position = 0;  // of its first slot
        std::uint32_t tokens = 0;
    };
    // Widths of what a block's latents stand for.
    std::uint32_t heads() const { return static_cast<std::uint32_t>(sizes().heads); }
    std::uint32_t key_dim() const { return static_cast<std::uint32_t>(sizes().nope + sizes().rotary); }
    std::uint32_t value_dim() const { return static_cast<std::uint32_t>(sizes().value); }
    // keys (tokens, heads, key_dim) and values (tokens, heads, value_dim) of a block. The backend's batch is another one
    // afterwards: between passes only. Errors: the backend's.
    Result<void> expand_block(std::uint32_t layer, const KvCache& latents, const BlockPlace& place, std::span<float> keys,
                              std::span<float> values);

    static constexpr std::uint32_t rows_at_once = 256;

private:
    struct Sizes {
        std::uint64_t heads, kv_rank, nope, rotary, value;
    };
    Sizes sizes() const;
    Result<void> make_buffers();
    Batch piece(const Batch::Sequence& sequence, std::uint32_t place, std::uint32_t layer, std::uint32_t first, std::uint32_t count) const;
    void make_heads(std::uint32_t layer, const KvCache& latents, std::uint32_t first, std::uint32_t count);

    std::shared_ptr<DeviceModel> m_device;
    DecoderOptions m_options;
    std::unique_ptr<KvCache> m_scratch;  // one layer: (sequences, query_heads, tokens, nope + rotary and value)
    Batch m_batch;
    std::uint32_t m_group = 0;           // the scratch's in m_batch
    std::unique_ptr<Buffer> m_latents;   // (rows_at_once, kv_rank)
    std::unique_ptr<Buffer> m_rotary;    // (rows_at_once, rotary)
    std::unique_ptr<Buffer> m_expanded;  // (rows_at_once, heads, nope + value)
    std::unique_ptr<Buffer> m_keys;      // (rows_at_once, heads, nope + rotary)
    std::unique_ptr<Buffer> m_values;    // (rows_at_once, heads, value)
};

}  // namespace kvloupe
