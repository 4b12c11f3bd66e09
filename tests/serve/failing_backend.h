// SPDX-License-Identifier: GPL-3.0-or-later
//
// A backend that does what another one does, and fails when it is told to.
#pragma once

#include "tests/serve/wrapping_backend.h"

#include <limits>
#include <memory>
#include <vector>

namespace kvloupe::test {

// What is to go wrong, shared with the test.
struct Sabotage {
    int begin_batch = -1;   // counts down with each call; the call at 0 fails
    int read = -1;
    int buffers = -1;
    int nan_layer = -1;     // the attention of this layer gives NaN for batches that hold nan_row_token
    TokenId nan_row_token = -1;
    bool lost = false;      // the device is gone: everything that can fail does, from now on
};

class FailingBackend final : public WrappingBackend {
public:
    FailingBackend(std::unique_ptr<Backend> real, std::shared_ptr<Sabotage> sabotage)
        : WrappingBackend(std::move(real)), m_sabotage(std::move(sabotage)) {}

    Result<std::unique_ptr<Buffer>> buffer(std::uint64_t bytes, Purpose purpose) override {
        if (m_sabotage->lost) return gone();
        if (due(m_sabotage->buffers)) return Error{"no memory for " + std::to_string(bytes) + " bytes", "Free some."};
        return m_real->buffer(bytes, purpose);
    }
    Result<void> begin_batch(const Batch& batch) override {
        if (m_sabotage->lost) return gone();
        if (due(m_sabotage->begin_batch)) return Error{"the device fell off the bus", "Plug it in."};
        m_tokens = batch.tokens;
        return m_real->begin_batch(batch);
    }
    // A broken layer: its softmax scale becomes NaN for the batches that hold the token.
    void attention(const Buffer& q, const AttentionShape& shape, const KvCache& cache, std::uint32_t layer, Buffer& out,
                   AttentionProbe* probe) override {
        AttentionShape used = shape;
        const bool broken = static_cast<int>(layer) == m_sabotage->nan_layer && holds(m_sabotage->nan_row_token);
        if (broken) used.scale = std::numeric_limits<float>::quiet_NaN();
        m_real->attention(q, used, cache, layer, out, probe);
    }
    Result<void> read(const Buffer& in, std::span<float> destination) override {
        if (m_sabotage->lost) return gone();
        if (due(m_sabotage->read)) return Error{"the device answered with an error", "Start it again."};
        return m_real->read(in, destination);
    }
    Result<void> synchronise() override {
        if (m_sabotage->lost) return gone();
        return m_real->synchronise();
    }

private:
    static Error gone() { return {"the device is lost", "Choose another one."}; }
    static bool due(int& countdown) { return countdown >= 0 && countdown-- == 0; }
    bool holds(TokenId token) const {
        for (const TokenId given : m_tokens)
            if (given == token) return true;
        return false;
    }

    std::shared_ptr<Sabotage> m_sabotage;
    std::vector<TokenId> m_tokens;
};

}  // namespace kvloupe::test
