// SPDX-License-Identifier: GPL-3.0-or-later
//
// Caches in every precision, filled through a backend's operations, and beside each what its scalar twin says that they hold.
#pragma once

#include "engine/backend.h"
#include "kernels/cpu/scalar.h"
#include "kernels/cpu/scalar_kv.h"
#include "tests/support/kernel_data.h"

#include <memory>
#include <string>
#include <vector>

namespace kvloupe::test {

struct FormatCase {
    KvFormat keys, values;
    std::uint32_t head_dim = 64, block_size = 16;
    std::vector<Piece> pieces;
    std::uint32_t query_heads = 4, kv_heads = 2;
    KeySpan span = {};
};

// A format with other scales, groups or turned rows.
KvFormat with_scale(DType type, KvScale scale);
KvFormat in_groups(DType type, std::uint32_t group);
KvFormat rotated(KvFormat format);
// Every precision and scale that does without pages; KIVI has its own groups and block sizes.
std::vector<KvFormat> unpaged_formats();

// Layer 1 of 2 is filled, layer 0 stays NaN as all that nobody wrote, so that a wrong layer or slot shows. What lies before a
// piece's rows is written sequence by sequence, then the step's rows; where K or V keeps a residual, all full blocks but the
// last one of a sequence are sealed then.
class FilledCache {
public:
    FilledCache(Backend& backend, const FormatCase& given);

    const std::string& problem() const { return m_problem; }
    KvCache& cache() { return *m_cache; }
    const Batch& batch() const { return m_batch; }
    std::uint32_t blocks() const { return m_blocks; }
    AttentionShape shape() const;
    // Attention of the step's rows over random queries, and the same in double over what the twin keeps.
    std::vector<float> attend();
    std::vector<double> expected();
    // What the twin keeps of a block's head: (block_size, head_dim); NaN where nothing was written.
    std::vector<float> kept(KvPart part, std::uint32_t block, std::uint32_t head) const;
    std::uint32_t page_of(std::uint32_t block) const { return m_page_of[block]; }  // page + 1, or 0
    std::uint32_t tokens_in(std::uint32_t block) const { return m_tokens_in[block]; }

private:
    void write(const Batch& batch, const std::vector<float>& k, const std::vector<float>& v);
    void note(const KvPlane& keys, const KvPlane& values, std::uint64_t slot, const float* k, const float* v);
    void seal_full_blocks();
    std::vector<float>& twin(KvPart part) { return part == KvPart::keys ? m_keys : m_values; }

    Backend& m_backend;
    FormatCase m_case;
    std::string m_problem;
    std::unique_ptr<KvCache> m_cache;
    Batch m_batch;
    std::uint32_t m_blocks = 0;
    std::vector<float> m_keys, m_values;                        // (blocks, kv_heads, block_size, head_dim)
    std::vector<float> m_raw_keys, m_raw_values;                // the same before they were stored
    std::vector<float> m_key_scales, m_value_scales;            // (kv_heads) of KvScale::head
    std::vector<std::uint32_t> m_page_of, m_tokens_in;          // (blocks)
};

}  // namespace kvloupe::test
