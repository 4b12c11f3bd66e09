// SPDX-License-Identifier: GPL-3.0-or-later
//
// LatentExpansion: keys and values of all heads, made anew in every step and layer from the cached latents of the sequences of
// a batch. They go into a scratch cache of one block per sequence in f32, over which ordinary attention runs. This is what
// multi-head latent attention costs without absorption; only the latents stay.
#pragma once

#include "engine/serve/device_model.h"

#include <cstdint>
#include <memory>

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

    static constexpr std::uint32_t rows_at_once = 256;

private:
    struct Sizes {
        std::uint64_t heads, kv_rank, nope, rotary, value;
    };
    Sizes sizes() const;
    Result<void> make_buffers();
    Batch piece(const Batch::Sequence& sequence, std::uint32_t place, std::uint32_t layer, std::uint32_t first, std::uint32_t count) const;
    void expand_piece(std::uint32_t layer, const KvCache& latents, std::uint32_t first, std::uint32_t count);

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
