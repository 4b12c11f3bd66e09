// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/mini_pass.h"

#include <cmath>

namespace kvloupe::test {

namespace {

constexpr std::uint32_t mini_block_size = 8, blocks_of_a_sequence = 24, most_sequences = 4;

}  // namespace

std::unique_ptr<MiniPass> MiniPass::make(Backend& backend, DType type, std::string& why) {
    std::unique_ptr<MiniPass> pass(new MiniPass(backend));
    const auto weight = [&](std::unique_ptr<Weight>& to, std::uint64_t rows, std::uint64_t cols) {
        if (!why.empty()) return;
        // Norm factors near 1, so that the pass keeps to ordinary numbers.
        pass->m_stored.emplace_back(rows == 1 ? DType::f32 : type, rows, cols, static_cast<unsigned>(7 + pass->m_stored.size()));
        auto made = backend.weight(pass->m_stored.back().tensor("weight " + std::to_string(pass->m_stored.size())));
        if (made) to = std::move(*made);
        else why = made.error().sentence;
    };
    const auto buffer = [&](std::unique_ptr<Buffer>& to, std::uint64_t width) {
        if (!why.empty()) return;
        auto made = backend.buffer(most_rows * width * sizeof(float), Purpose::activations);
        if (made) to = std::move(*made);
        else why = made.error().sentence;
    };
    weight(pass->m_embedding, vocabulary, hidden);
    weight(pass->m_norm, 1, hidden);
    weight(pass->m_query, query_heads * head_dim, hidden);
    weight(pass->m_key, kv_heads * head_dim, hidden);
    weight(pass->m_value, kv_heads * head_dim, hidden);
    weight(pass->m_out, hidden, query_heads * head_dim);
    weight(pass->m_head, vocabulary, hidden);
    for (auto* to : {&pass->m_hidden, &pass->m_normed, &pass->m_gathered}) buffer(*to, hidden);
    for (auto* to : {&pass->m_q, &pass->m_attended}) buffer(*to, query_heads * head_dim);
    for (auto* to : {&pass->m_k, &pass->m_v}) buffer(*to, kv_heads * head_dim);
    buffer(pass->m_logits, vocabulary);
    buffer(pass->m_spare, 1);
    if (!why.empty()) return nullptr;
    auto cache = backend.kv_cache(KvCacheShape::uniform(1, 1 + most_sequences * blocks_of_a_sequence, mini_block_size, kv_heads, head_dim, DType::f16, DType::f16),
                                  Purpose::kv_cache);
    if (!cache) return why = cache.error().sentence, nullptr;
    pass->m_cache = std::move(*cache);
    return pass;
}

Batch MiniPass::batch(std::uint32_t sequences, std::uint32_t before, std::uint32_t rows) const {
    Batch batch;
    for (std::uint32_t s = 0; s < sequences; ++s) {
        const auto begin = static_cast<std::uint32_t>(batch.block_tables.size());
        const std::uint32_t size = (before + rows + mini_block_size - 1) / mini_block_size;
        // Interleaved, so that neighbouring blocks are not one sequence's.
        for (std::uint32_t b = 0; b < size; ++b) batch.block_tables.push_back(1 + b * most_sequences + s);
        batch.sequences.push_back({s * rows, rows, before, begin, size});
        for (std::uint32_t r = 0; r < rows; ++r) {
            const std::uint32_t position = before + r;
            batch.tokens.push_back(static_cast<TokenId>((position * 7 + s * 3) % vocabulary));
            batch.positions.push_back(position);
            batch.slots.push_back(std::uint64_t{batch.block_tables[begin + position / mini_block_size]} * mini_block_size + position % mini_block_size);
        }
        batch.logit_rows.push_back((s + 1) * rows - 1);
    }
    return batch;
}

void MiniPass::issue(const Batch& batch, bool marks) {
    const std::uint32_t rows = batch.rows();
    AttentionShape shape;
    shape.query_heads = query_heads;
    shape.kv_heads = kv_heads;
    shape.head_dim = head_dim;
    shape.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    const RotaryShape rotary{10000, head_dim, RotaryLayout::half_split};
    const auto mark = [&](StageKind kind, std::uint16_t layer) {
        if (marks) m_backend.mark(kind, layer);
    };
    constexpr std::uint16_t none = StageRecord::no_layer;
    m_backend.embed(*m_embedding, *m_hidden);
    mark(StageKind::embed, none);
    m_backend.rms_norm(*m_hidden, *m_norm, 1e-5f, rows, *m_normed);
    mark(StageKind::attention_norm, 0);
    m_backend.matmul(*m_query, *m_normed, rows, *m_q, false);
    m_backend.matmul(*m_key, *m_normed, rows, *m_k, false);
    m_backend.matmul(*m_value, *m_normed, rows, *m_v, false);
    mark(StageKind::qkv, 0);
    m_backend.rotary_store(*m_q, *m_k, *m_v, shape, rotary, *m_cache, 0);
    mark(StageKind::rotary_store, 0);
    m_backend.attention(*m_q, shape, *m_cache, 0, *m_attended, nullptr);
    mark(StageKind::attention, 0);
    m_backend.matmul(*m_out, *m_attended, rows, *m_hidden, true);
    mark(StageKind::attention_out, 0);
    const auto logit_rows = static_cast<std::uint32_t>(batch.logit_rows.size());
    m_backend.gather_rows(*m_hidden, batch.logit_rows, hidden, *m_gathered);
    m_backend.rms_norm(*m_gathered, *m_norm, 1e-5f, logit_rows, *m_gathered);
    mark(StageKind::output_norm, none);
    m_backend.matmul(*m_head, *m_gathered, logit_rows, *m_logits, false);
    mark(StageKind::logits, none);
}

MiniPass::Step MiniPass::run(const Batch& batch, std::uint64_t owner) {
    Step step;
    if (auto begun = m_backend.begin_batch(batch); !begun) return step.problem = begun.error().message(), step;
    step.replayed = owner != 0 && m_backend.begin_pass({owner});
    if (!step.replayed) issue(batch);
    if (owner != 0) m_backend.end_pass();
    step.logits.resize(batch.logit_rows.size() * vocabulary);
    if (auto read = m_backend.read(*m_logits, step.logits); !read) step.problem = read.error().message();
    return step;
}

}  // namespace kvloupe::test
