// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/format_cases.h"

namespace kvloupe::test {

KvFormat with_scale(DType type, KvScale scale) {
    KvFormat format = KvFormat::of(type);
    format.scale = scale;
    return format;
}

KvFormat in_groups(DType type, std::uint32_t group) {
    KvFormat format = KvFormat::of(type);
    format.group = group;
    return format;
}

KvFormat rotated(KvFormat format) {
    format.rotate = true;
    return format;
}

std::vector<KvFormat> unpaged_formats() {
    std::vector<KvFormat> all;
    for (DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q5_1, DType::q5_0, DType::q4_1, DType::q4_0}) all.push_back(KvFormat::of(type));
    for (DType type : {DType::fp8_e4m3, DType::fp8_e5m2})
        for (KvScale scale : {KvScale::tensor, KvScale::head, KvScale::token_head}) all.push_back(with_scale(type, scale));
    for (DType type : {DType::int8, DType::int4})
        for (KvScale scale : {KvScale::token_head, KvScale::joint}) all.push_back(with_scale(type, scale));
    return all;
}

FilledCache::FilledCache(Backend& backend, const FormatCase& given) : m_backend(backend), m_case(given) {
    m_batch = make_batch(m_case.pieces, m_case.block_size, 5, m_blocks);
    KvCacheShape shape = KvCacheShape::uniform(2, m_blocks, m_case.block_size, m_case.kv_heads, m_case.head_dim, DType::f16, DType::f16);
    for (KvLayerShape& layer : shape.layers) {
        layer.keys = m_case.keys;
        layer.values = m_case.values;
    }
    const bool paged = m_case.keys.keeps_residual() || m_case.values.keeps_residual();
    if (paged) shape.residual_pages = m_blocks;
    auto cache = backend.kv_cache(shape, Purpose::kv_cache);
    if (!cache) {
        m_problem = cache.error().sentence;
        return;
    }
    m_cache = std::move(*cache);
    for (std::uint32_t block = 0; block < m_blocks; ++block) backend.poison_block(*m_cache, block);
    m_page_of.assign(m_blocks, 0);
    m_tokens_in.assign(m_blocks, 0);
    // Page numbers run against block numbers, so that one taken for the other shows.
    if (paged)
        for (std::uint32_t block = 1; block < m_blocks; ++block) m_page_of[block] = m_blocks - block + 1;
    const std::size_t elements = std::size_t{m_blocks} * m_case.kv_heads * m_case.block_size * m_case.head_dim;
    for (auto* rows : {&m_keys, &m_values, &m_raw_keys, &m_raw_values}) rows->assign(elements, std::nanf(""));
    const std::size_t width = std::size_t{m_case.kv_heads} * m_case.head_dim;
    for (std::uint32_t s = 0; s < m_batch.sequences.size() && m_problem.empty(); ++s) {
        const Batch::Sequence& sequence = m_batch.sequences[s];
        Batch before;
        before.block_tables = m_batch.block_tables;
        before.sequences = {{0, sequence.first_position, 0, sequence.table_begin, sequence.table_size}};
        for (std::uint32_t t = 0; t < sequence.first_position; ++t) {
            before.tokens.push_back(0);
            before.positions.push_back(t);
            const std::uint64_t block = m_batch.block_tables[sequence.table_begin + t / m_case.block_size];
            before.slots.push_back(block * m_case.block_size + t % m_case.block_size);
        }
        if (before.rows() > 0) write(before, random_floats(before.rows() * width, 2000 + s), random_floats(before.rows() * width, 3000 + s));
    }
    write(m_batch, random_floats(m_batch.rows() * width, 2), random_floats(m_batch.rows() * width, 3));
    if (paged) seal_full_blocks();
    if (paged)
        for (const std::uint32_t block : m_batch.block_tables) m_batch.table_pages.push_back(m_page_of[block]);
}

AttentionShape FilledCache::shape() const {
    AttentionShape shape;
    shape.query_heads = m_case.query_heads;
    shape.kv_heads = m_case.kv_heads;
    shape.head_dim = m_case.head_dim;
    shape.scale = 1.0f / std::sqrt(static_cast<float>(m_case.head_dim));
    shape.span = m_case.span;
    return shape;
}

// Stores through the backend and notes what the twin makes of it.
void FilledCache::write(const Batch& given, const std::vector<float>& k, const std::vector<float>& v) {
    Batch batch = given;
    if (m_case.keys.keeps_residual() || m_case.values.keeps_residual())
        for (const std::uint64_t slot : batch.slots) batch.slot_pages.push_back(m_page_of[slot / m_case.block_size]);
    auto q = upload(m_backend, std::vector<float>(std::size_t{batch.rows()} * m_case.query_heads * m_case.head_dim));
    auto k_buffer = upload(m_backend, k), v_buffer = upload(m_backend, v);
    if (!q || !k_buffer || !v_buffer) {
        m_problem = "no buffers";
        return;
    }
    if (auto begun = m_backend.begin_batch(batch); !begun) {
        m_problem = begun.error().sentence;
        return;
    }
    m_backend.rotary_store(*q, *k_buffer, *v_buffer, shape(), {}, *m_cache, 1);
    const KvLayerShape& layer = m_cache->shape().layers[1];
    const KvPlane keys = *layer.key_plane(m_case.block_size), values = *layer.value_plane(m_case.block_size);
    const std::size_t d = m_case.head_dim, width = m_case.kv_heads * d;
    const auto head_scales = [&](const KvFormat& format, const std::vector<float>& x, std::vector<float>& scales) {
        if (!scales.empty()) return;
        scales.assign(m_case.kv_heads, 1);
        if (format.scale != KvScale::head) return;
        for (std::uint32_t head = 0; head < m_case.kv_heads; ++head) {
            float largest = 0;
            for (std::uint32_t row = 0; row < batch.rows(); ++row) {
                const std::span<const float> values_of(x.data() + row * width + head * d, d);
                const std::vector<float> stored = format.rotate ? cpu::scalar::turned(values_of) : std::vector<float>(values_of.begin(), values_of.end());
                for (const float value : stored) largest = std::max(largest, std::fabs(value));
            }
            scales[head] = largest / (format.dtype == DType::fp8_e4m3 ? 448.0f : 57344.0f);
        }
    };
    head_scales(m_case.keys, k, m_key_scales);
    head_scales(m_case.values, v, m_value_scales);
    for (std::uint32_t row = 0; row < batch.rows(); ++row) note(keys, values, batch.slots[row], k.data() + row * width, v.data() + row * width);
}

void FilledCache::note(const KvPlane& keys, const KvPlane& values, std::uint64_t slot, const float* k, const float* v) {
    const std::size_t d = m_case.head_dim;
    const auto block = static_cast<std::uint32_t>(slot / m_case.block_size), offset = static_cast<std::uint32_t>(slot % m_case.block_size);
    m_tokens_in[block] = std::max(m_tokens_in[block], offset + 1);
    const auto at = [&](std::uint32_t head) { return ((std::size_t{block} * m_case.kv_heads + head) * m_case.block_size + offset) * d; };
    for (std::uint32_t head = 0; head < m_case.kv_heads; ++head) {
        std::copy_n(k + head * d, d, m_raw_keys.begin() + static_cast<std::ptrdiff_t>(at(head)));
        std::copy_n(v + head * d, d, m_raw_values.begin() + static_cast<std::ptrdiff_t>(at(head)));
    }
    const auto put = [&](const KvPlane& plane, std::uint32_t row, const std::vector<float>& x) {
        for (std::uint32_t i = 0; i < plane.heads_per_row; ++i)
            std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(i * d), d, twin(plane.part).begin() + static_cast<std::ptrdiff_t>(at(row * plane.heads_per_row + i)));
    };
    const auto stored = [&](const KvPlane& plane, std::uint32_t row) {
        const bool of_keys = plane.part == KvPart::keys;
        return cpu::scalar::StoredRow{plane.format, m_case.head_dim, {(of_keys ? k : v) + std::size_t{row} * plane.width(), plane.width()},
                                      (of_keys ? m_key_scales : m_value_scales)[row]};
    };
    for (const KvPlane* plane : {&keys, &values})
        for (std::uint32_t row = 0; row < plane->rows(); ++row) {
            if (plane->format.keeps_residual()) {
                put(*plane, row, cpu::scalar::unsealed(plane->format, stored(*plane, row).values));
                continue;
            }
            const bool joint = plane->format.scale == KvScale::joint;
            const cpu::scalar::StoredRow none{KvFormat::of(DType::f32), m_case.head_dim, {}};
            const bool of_keys = plane->part == KvPart::keys;
            const auto pair = cpu::scalar::kept(of_keys || joint ? stored(keys, row) : none, !of_keys || joint ? stored(values, row) : none);
            put(*plane, row, of_keys ? pair.k : pair.v);
        }
}

void FilledCache::seal_full_blocks() {
    const std::size_t of_head = std::size_t{m_case.block_size} * m_case.head_dim;
    for (const Batch::Sequence& sequence : m_batch.sequences)
        for (std::uint32_t i = 0; i + 1 < (sequence.first_position + sequence.rows) / m_case.block_size; ++i) {
            const std::uint32_t block = m_batch.block_tables[sequence.table_begin + i];
            m_backend.seal_block(*m_cache, block, m_page_of[block] - 1);
            m_page_of[block] = 0;
            for (std::uint32_t head = 0; head < m_case.kv_heads; ++head) {
                const std::size_t at = (std::size_t{block} * m_case.kv_heads + head) * of_head;
                for (const KvPart part : {KvPart::keys, KvPart::values}) {
                    const KvFormat& format = part == KvPart::keys ? m_case.keys : m_case.values;
                    const std::vector<float>& raw = part == KvPart::keys ? m_raw_keys : m_raw_values;
                    if (!format.keeps_residual()) continue;
                    const auto sealed = cpu::scalar::sealed(format, part, std::span<const float>(raw).subspan(at, of_head), m_case.head_dim);
                    std::copy(sealed.begin(), sealed.end(), twin(part).begin() + static_cast<std::ptrdiff_t>(at));
                }
            }
        }
}

std::vector<float> FilledCache::attend() {
    const std::size_t count = std::size_t{m_batch.rows()} * m_case.query_heads * m_case.head_dim;
    auto q = upload(m_backend, random_floats(count, 1)), out = upload(m_backend, std::vector<float>(count, std::nanf("")));
    if (!m_backend.begin_batch(m_batch)) return {};
    m_backend.attention(*q, shape(), *m_cache, 1, *out, nullptr);
    return download(m_backend, *out, count);
}

std::vector<double> FilledCache::expected() {
    const std::size_t count = std::size_t{m_batch.rows()} * m_case.query_heads * m_case.head_dim;
    const cpu::scalar::CacheView keys{reinterpret_cast<std::byte*>(m_keys.data()), DType::f32, m_case.block_size, m_case.kv_heads, m_case.head_dim};
    const cpu::scalar::CacheView values{reinterpret_cast<std::byte*>(m_values.data()), DType::f32, m_case.block_size, m_case.kv_heads, m_case.head_dim};
    std::vector<double> out(count);
    cpu::scalar::attention(m_batch, random_floats(count, 1).data(), shape(), keys, values, out.data());
    return out;
}

std::vector<float> FilledCache::kept(KvPart part, std::uint32_t block, std::uint32_t head) const {
    const std::size_t of_head = std::size_t{m_case.block_size} * m_case.head_dim;
    const std::vector<float>& all = part == KvPart::keys ? m_keys : m_values;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>((std::size_t{block} * m_case.kv_heads + head) * of_head);
    return {begin, begin + static_cast<std::ptrdiff_t>(of_head)};
}

}  // namespace kvloupe::test
