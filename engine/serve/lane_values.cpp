// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a block holds, as numbers, and what its values were before they were stored.
#include "engine/serve/lane.h"

#include <algorithm>

namespace kvloupe {

namespace {

BlockPart empty_part(const KvFormat& format, std::uint32_t heads, std::uint32_t width, std::uint32_t tokens) {
    BlockPart part;
    part.format = format;
    part.heads = heads;
    part.width = width;
    part.tokens = tokens;
    part.stored.resize(std::size_t{heads} * tokens * width);
    return part;
}

bool loses_nothing(const KvFormat& format) { return format.dtype == DType::f32 && !format.rotate; }

// From (tokens, heads, width) to (heads, tokens, width).
void by_head(const std::vector<float>& rows, BlockPart& part) {
    for (std::uint32_t token = 0; token < part.tokens; ++token)
        for (std::uint32_t head = 0; head < part.heads; ++head)
            for (std::uint32_t channel = 0; channel < part.width; ++channel)
                part.stored[part.at(head, token, channel)] = rows[(std::size_t{token} * part.heads + head) * part.width + channel];
}

ErrorSum whole_error(const BlockPart& part) {
    ErrorSum sum;
    for (std::size_t i = 0; i < part.before.size(); ++i) sum.add(static_cast<double>(part.before[i]), static_cast<double>(part.stored[i]));
    return sum;
}

}  // namespace

// One sentence, or "" where the block can be read.
std::string Lane::why_unreadable(const BlockQuestion& question) const {
    const std::string lane = "Lane '" + m_setup.options.name + "'", block = "Block " + std::to_string(question.block.value);
    if (!m_device) return lane + " does no arithmetic: its blocks hold no keys and values.";
    if (!m_cache || !m_cache_memory) return lane + " keeps no cache: keys and values are made anew in every step.";
    if (question.layer >= m_shape.layers.size())
        return lane + " has " + std::to_string(m_shape.layers.size()) + " layers, so there is no layer " + std::to_string(question.layer) + ".";
    if (question.block == null_block_id) return block + " is the null block: it stands for tokens that were given up, and holds nothing.";
    if (question.block.value >= m_setup.blocks)
        return lane + " has " + std::to_string(m_setup.blocks) + " blocks, so there is no block " + std::to_string(question.block.value) + ".";
    const BlockState& state = m_writer->state().blocks()[question.block.value];
    if (state.filled == 0 || (state.owners == 0 && !state.cached())) return block + " is free: it holds no token.";
    const std::uint32_t group = question.layer < m_shape.groups.size() ? m_shape.groups[question.layer] : 0;
    if (state.group != group)
        return block + " belongs to the layers of cache group " + std::to_string(state.group) + "; layer " + std::to_string(question.layer) +
               " keeps its keys and values in blocks of group " + std::to_string(group) + ".";
    return {};
}

// Called for every event in order, before it is recorded.
void Lane::shadow_event(const Event& event) {
    switch (event.kind) {
    case EventKind::allocate:
    case EventKind::swap_in: m_shadow->forget(event.block); break;  // host memory has no copy
    case EventKind::copy_on_write:
        m_shadow->forget(BlockId(event.other));
        m_shadow->copy(event.block, BlockId(event.other), event.tokens);
        break;
    default: break;
    }
}

void Lane::drop_shadow() {
    m_decoder.set_shadow(nullptr);
    m_shadow.reset();
    m_shadow_problem.clear();
}

// One that holds the layer, where storing changes values at all.
void Lane::keep_shadow(std::uint32_t layer, BlockValues& told) {
    const auto plain = [](const KvLayerShape& each) { return loses_nothing(each.keys) && loses_nothing(each.values); };
    if (std::all_of(m_shape.layers.begin(), m_shape.layers.end(), plain)) return;
    if (!m_shadow || !m_shadow->holds(layer)) {
        drop_shadow();
        auto made = ShadowCache::make(*m_device->backend, m_cache_memory->shape(), layer, m_step);
        if (made) m_shadow = std::move(*made);
        else m_shadow_problem = "Values before they are stored are not kept: " + made.error().sentence;
        m_decoder.set_shadow(m_shadow.get());
    }
    told.before_problem = m_shadow_problem;
    if (!m_shadow) return;
    told.before_since = m_shadow->since();
    told.before_bytes = m_shadow->bytes();
}

Result<void> Lane::read_part(std::uint32_t layer, BlockId block, std::uint32_t tokens, BlockPart& keys, BlockPart& values) const {
    const KvLayerShape& shape = m_shape.layers[layer];
    keys = empty_part(shape.keys, shape.kv_heads, shape.key_dim, tokens);
    values = empty_part(shape.values, shape.kv_heads, shape.value_dim, tokens);
    const bool residual = shape.keys.keeps_residual() || shape.values.keeps_residual();
    const std::uint32_t page = residual ? m_pages.page_of(block) : 0;
    return m_device->backend->read_block(*m_cache_memory, layer, block.value, page, tokens, keys.stored, values.stored);
}

// `before` of what read_part() filled.
Result<void> Lane::read_before(std::uint32_t layer, BlockId block, BlockPart& keys, BlockPart& values) const {
    if (loses_nothing(keys.format)) keys.before = keys.stored;
    if (loses_nothing(values.format)) values.before = values.stored;
    if (!m_shadow || !m_shadow->holds(layer)) return {};
    std::vector<float> k(keys.stored.size()), v(values.stored.size());
    if (auto read = m_shadow->read(layer, block, keys.tokens, k, v); !read) return read;
    if (keys.before.empty()) keys.before = std::move(k);
    if (values.before.empty()) values.before = std::move(v);
    return {};
}

// The same tokens in all layers: layers of other cache groups keep them in blocks of their own.
void Lane::compare_layers(BlockValues& told) const {
    const auto group_of = [this](std::uint32_t layer) { return layer < m_shape.groups.size() ? m_shape.groups[layer] : 0; };
    for (std::uint32_t layer = 0; layer < m_shape.layers.size(); ++layer) {
        BlockId block = told.question.block;
        if (group_of(layer) != group_of(told.question.layer)) {
            if (!told.first_position) continue;
            const std::span<const BlockId> table = m_cache->table(told.sequence, group_of(layer));
            const std::uint32_t logical = *told.first_position / m_shape.block_size;
            if (logical >= table.size() || table[logical] == null_block_id) continue;
            block = table[logical];
        }
        BlockPart keys, values;
        if (!read_part(layer, block, told.tokens, keys, values) || !read_before(layer, block, keys, values)) return;
        LayerErrors errors{layer, whole_error(keys), whole_error(values)};
        if (errors.keys.known() || errors.values.known()) told.layers.push_back(errors);
    }
}

void Lane::expand_latents(BlockValues& told) {
    const bool late = m_device->model->config.latent.late_rotation;
    if (late && !told.first_position) {
        told.expansion_problem = "Nobody owns the block, so the positions are not known by which its keys would be rotated.";
        return;
    }
    if (!m_shown_expansion) m_shown_expansion = std::make_unique<LatentExpansion>(m_device, m_setup.decoder_options(m_shape));
    LatentExpansion& expansion = *m_shown_expansion;
    const KvFormat plain = KvFormat::of(DType::f32);
    told.expanded_keys = empty_part(plain, expansion.heads(), expansion.key_dim(), told.tokens);
    told.expanded_values = empty_part(plain, expansion.heads(), expansion.value_dim(), told.tokens);
    std::vector<float> keys(told.expanded_keys.stored.size()), values(told.expanded_values.stored.size());
    const LatentExpansion::BlockPlace place{told.question.block.value, m_pages.page_of(told.question.block),
                                            told.first_position.value_or(0), told.tokens};
    if (auto expanded = expansion.expand_block(told.question.layer, *m_cache_memory, place, keys, values); !expanded) {
        told.expansion_problem = expanded.error().sentence;
        told.expanded_keys = told.expanded_values = {};
        return;
    }
    by_head(keys, told.expanded_keys);
    by_head(values, told.expanded_values);
}

BlockValues Lane::block_values(const BlockQuestion& question) {
    BlockValues told;
    told.question = question;
    told.step = m_step == 0 ? 0 : m_step - 1;
    told.problem = why_unreadable(question);
    // Asked before anything is stored, so that the first step's values are known too.
    if (m_device && m_cache && m_cache_memory && question.layer < m_shape.layers.size()) keep_shadow(question.layer, told);
    if (!told.problem.empty()) return told;
    const BlockState& state = m_writer->state().blocks()[question.block.value];
    told.tokens = std::min(state.filled, m_shape.block_size);
    told.owners = state.owners;
    if (state.owners > 0) {
        told.sequence = state.first_owner;
        told.first_position = state.logical * m_shape.block_size;
    }
    const KvLayerShape& shape = m_shape.layers[question.layer];
    told.latent = shape.latent;
    told.in_page = (shape.keys.keeps_residual() || shape.values.keeps_residual()) && m_pages.page_of(question.block) > 0;
    auto read = read_part(question.layer, question.block, told.tokens, told.keys, told.values);
    if (read) read = read_before(question.layer, question.block, told.keys, told.values);
    if (!read) {
        told.problem = read.error().message();
        return told;
    }
    compare_layers(told);
    if (told.latent) expand_latents(told);
    return told;
}

}  // namespace kvloupe
