// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/latent_expansion.h"

#include <algorithm>
#include <bit>

namespace kvloupe {

LatentExpansion::LatentExpansion(std::shared_ptr<DeviceModel> device, DecoderOptions options)
    : m_device(std::move(device)), m_options(std::move(options)) {}

LatentExpansion::Sizes LatentExpansion::sizes() const {
    const LatentShape& latent = m_device->model->config.latent;
    std::uint64_t heads = 0;
    for (std::uint32_t layer = 0; layer < m_device->model->config.layers; ++layer)
        heads = std::max<std::uint64_t>(heads, expanded_heads(m_device->model->config, layer));
    return {heads, latent.kv_rank, latent.nope_dim, latent.rotary_dim, latent.value_dim};
}

std::uint64_t LatentExpansion::bytes_for(std::uint32_t sequences, std::uint32_t context) const {
    const Sizes s = sizes();
    const std::uint64_t of_token = s.heads * (s.nope + s.rotary + s.value);
    const std::uint64_t of_row = s.kv_rank + s.rotary + s.heads * (s.nope + s.value) + of_token;
    return sizeof(float) * (rows_at_once * of_row + std::uint64_t{sequences} * std::bit_ceil(std::max(context, 1u)) * of_token);
}

Result<void> LatentExpansion::make_buffers() {
    if (m_values) return {};
    const Sizes s = sizes();
    for (auto [slot, width] : {std::pair{&m_latents, s.kv_rank}, std::pair{&m_rotary, s.rotary},
                               std::pair{&m_expanded, s.heads * (s.nope + s.value)}, std::pair{&m_keys, s.heads * (s.nope + s.rotary)},
                               std::pair{&m_values, s.heads * s.value}}) {
        auto buffer = m_device->backend->buffer(rows_at_once * width * sizeof(float), Purpose::activations);
        if (!buffer) return buffer.error();
        *slot = std::move(*buffer);
    }
    return {};
}

Result<void> LatentExpansion::prepare(const Batch& batch) {
    if (auto made = make_buffers(); !made) return made;
    std::uint32_t longest = 1;
    for (const Batch::Sequence& sequence : batch.sequences) longest = std::max(longest, sequence.first_position + sequence.rows);
    const auto sequences = static_cast<std::uint32_t>(std::max<std::size_t>(1, batch.sequences.size()));
    const KvCacheShape* has = m_scratch ? &m_scratch->shape() : nullptr;
    if (has == nullptr || has->blocks < sequences || has->block_size < longest) {
        const Sizes s = sizes();
        KvCacheShape shape;
        shape.blocks = std::max(sequences, has ? has->blocks : 0u);
        shape.block_size = std::max(std::bit_ceil(longest), has ? has->block_size : 0u);  // grown by doubling
        const KvFormat plain = KvFormat::of(DType::f32);
        shape.layers = {{static_cast<std::uint32_t>(s.heads), static_cast<std::uint32_t>(s.nope + s.rotary),
                         static_cast<std::uint32_t>(s.value), false, plain, plain, 0}};
        m_scratch.reset();
        auto scratch = m_device->backend->kv_cache(shape, Purpose::activations);
        if (!scratch) return scratch.error();
        m_scratch = std::move(*scratch);
    }
    // One group more: a table of one block, that of the sequence's place in the batch.
    m_batch = batch;
    m_group = batch.rows() == 0 ? 0 : static_cast<std::uint32_t>(batch.slots.size() / batch.rows());
    const std::uint64_t block_size = m_scratch->shape().block_size;
    m_batch.block_tables.clear();
    m_batch.table_pages.clear();
    for (std::uint32_t s = 0; s < sequences && !batch.sequences.empty(); ++s) {
        const Batch::Sequence& from = batch.sequences[s];
        const auto begin = static_cast<std::ptrdiff_t>(from.table_begin);
        const std::ptrdiff_t end = begin + static_cast<std::ptrdiff_t>(from.table_size) * m_group;
        m_batch.sequences[s].table_begin = static_cast<std::uint32_t>(m_batch.block_tables.size());
        m_batch.block_tables.insert(m_batch.block_tables.end(), batch.block_tables.begin() + begin, batch.block_tables.begin() + end);
        m_batch.block_tables.insert(m_batch.block_tables.end(), from.table_size, s);
        if (batch.table_pages.empty()) continue;
        m_batch.table_pages.insert(m_batch.table_pages.end(), batch.table_pages.begin() + begin, batch.table_pages.begin() + end);
        m_batch.table_pages.insert(m_batch.table_pages.end(), from.table_size, 0);
    }
    for (std::uint32_t s = 0; s < batch.sequences.size(); ++s)
        for (std::uint32_t row = 0; row < batch.sequences[s].rows; ++row)
            m_batch.slots.push_back(s * block_size + batch.sequences[s].first_position + row);
    if (!batch.slot_pages.empty()) m_batch.slot_pages.resize(m_batch.slots.size(), 0);
    return {};
}

// A batch whose rows are tokens of the context: group 0 is where their latents lie, group 1 where their keys and values go.
Batch LatentExpansion::piece(const Batch::Sequence& sequence, std::uint32_t place, std::uint32_t layer, std::uint32_t first,
                             std::uint32_t count) const {
    Batch batch;
    const std::size_t table = sequence.table_begin + std::size_t{m_options.group_of(layer)} * sequence.table_size;
    const auto begin = static_cast<std::ptrdiff_t>(table), end = begin + static_cast<std::ptrdiff_t>(sequence.table_size);
    batch.tokens.assign(count, 0);
    for (std::uint32_t row = 0; row < count; ++row) batch.positions.push_back(first + row);
    batch.slots.assign(count, 0);
    for (std::uint32_t row = 0; row < count; ++row)
        batch.slots.push_back(std::uint64_t{place} * m_scratch->shape().block_size + first + row);
    batch.block_tables.assign(m_batch.block_tables.begin() + begin, m_batch.block_tables.begin() + end);
    batch.block_tables.insert(batch.block_tables.end(), sequence.table_size, place);
    if (!m_batch.table_pages.empty()) {
        batch.table_pages.assign(m_batch.table_pages.begin() + begin, m_batch.table_pages.begin() + end);
        batch.table_pages.insert(batch.table_pages.end(), sequence.table_size, 0);
        batch.slot_pages.assign(batch.slots.size(), 0);
    }
    batch.sequences = {{0, count, first, 0, sequence.table_size}};
    batch.requests = m_batch.requests;
    return batch;
}

Result<void> LatentExpansion::expand(std::uint32_t layer, const KvCache& latents) {
    const KeySpan span = m_device->attention_shape(layer, m_options).span;
    for (std::uint32_t s = 0; s < m_batch.sequences.size(); ++s) {
        const Batch::Sequence& sequence = m_batch.sequences[s];
        const SeenKeys seen = span.seen(sequence.first_position);  // of its first row; later ones see no earlier keys
        const std::uint32_t begin = seen.sinks > 0 || span.sinks > 0 ? 0 : seen.begin;
        const std::uint32_t end = sequence.first_position + sequence.rows;
        for (std::uint32_t first = begin; first < end; first += rows_at_once) {
            const std::uint32_t count = std::min(rows_at_once, end - first);
            if (auto begun = m_device->backend->begin_batch(piece(sequence, s, layer, first, count)); !begun) return begun;
            make_heads(layer, latents, first, count);
            m_device->backend->store(*m_keys, *m_values, 1, *m_scratch, 0);
        }
    }
    return m_device->backend->begin_batch(m_batch);
}

Result<void> LatentExpansion::expand_block(std::uint32_t layer, const KvCache& latents, const BlockPlace& place, std::span<float> keys,
                                           std::span<float> values) {
    if (auto made = make_buffers(); !made) return made;
    const std::uint64_t key_row = std::uint64_t{heads()} * key_dim(), value_row = std::uint64_t{heads()} * value_dim();
    for (std::uint32_t first = 0; first < place.tokens; first += rows_at_once) {
        const std::uint32_t count = std::min(rows_at_once, place.tokens - first);
        Batch batch;
        batch.tokens.assign(count, 0);
        for (std::uint32_t row = 0; row < count; ++row) batch.positions.push_back(place.first_position + first + row);
        batch.slots.assign(count, 0);  // nothing is written
        batch.block_tables = {place.block};
        if (latents.shape().residual_pages > 0) {
            batch.table_pages = {place.page};
            batch.slot_pages.assign(count, 0);
        }
        batch.sequences = {{0, count, place.first_position + first, 0, 1}};
        if (auto begun = m_device->backend->begin_batch(batch); !begun) return begun;
        make_heads(layer, latents, first, count);
        if (auto read = m_device->backend->read(*m_keys, keys.subspan(first * key_row, count * key_row)); !read) return read;
        if (auto read = m_device->backend->read(*m_values, values.subspan(first * value_row, count * value_row)); !read) return read;
    }
    return {};
}

// Into m_keys and m_values: of the latents at `first` … of the batch's first sequence, group 0.
void LatentExpansion::make_heads(std::uint32_t layer, const KvCache& latents, std::uint32_t first, std::uint32_t count) {
    Backend& backend = *m_device->backend;
    const Sizes s = sizes();
    const auto n = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
    const std::uint32_t heads = n(s.heads), nope = n(s.nope), rotary = n(s.rotary), value = n(s.value);
    backend.load(latents, layer, 0, 0, first, count, *m_latents, *m_rotary);
    backend.matmul(*m_device->layers[layer].latent.key_value_up, *m_latents, count, *m_expanded, false);
    backend.copy_columns(*m_expanded, {count, heads, heads, nope, nope + value, 0, nope + rotary, 0}, *m_keys);
    if (rotary > 0) backend.copy_columns(*m_rotary, {count, heads, 1, rotary, rotary, 0, nope + rotary, nope}, *m_keys);
    backend.copy_columns(*m_expanded, {count, heads, heads, value, nope + value, nope, value, 0}, *m_values);
    if (m_device->model->config.latent.late_rotation) {
        const DeviceLayer& weights = m_device->layers[layer];
        if (weights.key_bias) backend.add_bias(*m_keys, *weights.key_bias, count);
        if (weights.value_bias) backend.add_bias(*m_values, *weights.value_bias, count);
        if (weights.key_norm) backend.rms_norm_heads(*m_keys, *weights.key_norm, m_device->model->config.rms_epsilon, count, heads);
        backend.rotate(*m_keys, heads, nope, 0, m_device->rotary_shape(layer));
    }
}

}  // namespace kvloupe
