// SPDX-License-Identifier: GPL-3.0-or-later
//
// CpuOperations: the part of the CPU backend that computes with rows of activations and weights and knows no cache.
#pragma once

#include "engine/backend.h"
#include "kernels/cpu/aligned_bytes.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rotary.h"
#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kvloupe::cpu {

class CpuOperations : public Backend {
public:
    explicit CpuOperations(unsigned threads);

    Result<std::unique_ptr<Weight>> weight(const Tensor& tensor) override;
    Result<std::unique_ptr<Buffer>> buffer(std::uint64_t bytes, Purpose purpose) override;

    void embed(const Weight& table, Buffer& out) override;
    void rms_norm(const Buffer& in, const Weight& weight, float epsilon, std::uint32_t rows, Buffer& out) override;
    void rms_norm_heads(Buffer& x, const Weight& weight, float epsilon, std::uint32_t rows, std::uint32_t heads) override;
    void matmul(const Weight& weight, const Buffer& in, std::uint32_t rows, Buffer& out, bool accumulate) override;
    void matmul_heads(const Weight& weight, const Buffer& in, std::uint32_t rows, std::uint32_t heads, Buffer& out) override;
    void rotate(Buffer& x, std::uint32_t heads, std::uint32_t width, std::uint32_t first, const RotaryShape& rotary) override;
    void add_bias(Buffer& x, const Weight& bias, std::uint32_t rows) override;
    void scale(Buffer& x, float factor, std::uint64_t count) override;
    void soft_cap(Buffer& x, float cap, std::uint64_t count) override;
    void add(const Buffer& from, Buffer& to, std::uint64_t count) override;
    void copy_columns(const Buffer& in, const Columns& columns, Buffer& out) override;
    void gate_multiply(Activation activation, Buffer& gate, const Buffer& up, std::uint32_t rows, std::uint32_t width) override;
    void gather_rows(const Buffer& in, std::span<const std::uint32_t> rows, std::uint32_t width, Buffer& out) override;
    void scatter_add(const Buffer& in, std::span<const std::uint32_t> rows, std::span<const float> weights, std::uint32_t width,
                     Buffer& out) override;
    Result<void> read(const Buffer& in, std::span<float> destination) override;

protected:
    // Rows of about `width` floats per part that are worth a thread.
    static constexpr std::uint64_t smallest_part = 8192;

    // Calls f(row) for all rows, on several threads where there is enough to do.
    template <class F>
    void for_rows(std::uint32_t rows, std::uint64_t width, F&& f) {
        const auto step = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, smallest_part / std::max<std::uint64_t>(1, width)));
        m_pool.run((rows + step - 1) / step, [&](std::uint32_t part, unsigned) {
            const std::uint32_t end = std::min(rows, (part + 1) * step);
            for (std::uint32_t row = part * step; row < end; ++row) f(row);
        });
    }
    // Calls f(first, count) for parts of `count` elements that are whole vectors.
    template <class F>
    void for_elements(std::uint64_t count, F&& f) {
        m_pool.run(static_cast<std::uint32_t>((count + smallest_part - 1) / smallest_part), [&](std::uint32_t part, unsigned) {
            const std::uint64_t first = part * smallest_part;
            f(first, std::min(smallest_part, count - first));
        });
    }

    Counters m_counters;  // first: outlives everything that counts
    ThreadPool m_pool;
    Batch m_batch;
    RotaryTables m_rotary;
    bool m_blas = false;

private:
    bool uses_blas(const PackedMatrix& matrix) const;
    // A vector of a model as aligned f32: where it lies, or expanded into scratch.
    const float* vector_of(const PackedMatrix& m);
    Result<void> grow_panels(std::uint64_t wanted);

    std::vector<AlignedBytes> m_panels;
    std::vector<float*> m_panel_of;
    std::uint64_t m_panel_floats = 0;
    std::vector<float> m_vector;
    std::vector<float> m_head_rows;  // input of matmul_heads, head by head
};

}  // namespace kvloupe::cpu
