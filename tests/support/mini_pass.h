// SPDX-License-Identifier: GPL-3.0-or-later
//
// A whole forward pass of a one-layer model with random weights, through engine/backend.h alone: what the tests of passes,
// of allocations and of lost cards step.
#pragma once

#include "tests/support/kernel_data.h"

#include <memory>
#include <string>
#include <vector>

namespace kvloupe::test {

class MiniPass {
public:
    static constexpr std::uint32_t hidden = 64, query_heads = 2, kv_heads = 1, head_dim = 32, vocabulary = 50, most_rows = 80;

    // Null where the backend refuses; why() says it.
    static std::unique_ptr<MiniPass> make(Backend& backend, DType type, std::string& why);

    // The next token of every sequence (or its first `rows` tokens at once), positions going on from `before`.
    Batch batch(std::uint32_t sequences, std::uint32_t before, std::uint32_t rows) const;
    // Logits of the batch's logit rows. owner 0: no pass is announced. replayed: the backend had it recorded.
    struct Step {
        std::vector<float> logits;
        bool replayed = false;
        std::string problem;
    };
    Step run(const Batch& batch, std::uint64_t owner);
    // The operations alone.
    void issue(const Batch& batch, bool marks = false);
    Buffer& logits() { return *m_logits; }
    KvCache& cache() { return *m_cache; }
    std::unique_ptr<Buffer>& spare() { return m_spare; }  // a buffer that no pass uses

private:
    explicit MiniPass(Backend& backend) : m_backend(backend) {}
    Backend& m_backend;
    std::vector<StoredMatrix> m_stored;
    std::unique_ptr<Weight> m_embedding, m_norm, m_query, m_key, m_value, m_out, m_head;
    std::unique_ptr<Buffer> m_hidden, m_normed, m_q, m_k, m_v, m_attended, m_gathered, m_logits, m_spare;
    std::unique_ptr<KvCache> m_cache;
};

}  // namespace kvloupe::test
