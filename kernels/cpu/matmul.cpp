// SPDX-License-Identifier: GPL-3.0-or-later
//
// Many rows: a panel of matrix rows is expanded to f32 in the thread's scratch and multiplied by single-threaded sgemm;
// the panels are shared out over our threads. No more than a panel per thread is ever inflated.
// OpenBLAS chooses its kernels by a list of processor models. On one that is younger than the list it takes those of a
// Prescott: version 0.3.21 on an Emerald Rapids makes 28 GFLOP/s on a core where our own kernels make 50 to 90. So its
// choice is asked for, and our kernels multiply the panel where it is none with wide vectors.
// Rejected: threads inside BLAS (a second pool beside ours, and the expansion of the next panel could not overlap).
#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <string>

#if defined(KVLOUPE_OPENBLAS)
#include <cblas.h>
#endif

namespace kvloupe::cpu {

namespace {

// Matrix rows per panel: whole register tiles of sgemm, few enough that the panel stays in the second-level cache, and
// enough panels for the threads. Never a function of the number of threads: sums must not depend on it.
std::uint64_t panel_rows(std::uint64_t cols, std::uint64_t rows) {
    constexpr std::uint64_t tile = 16, panel_bytes = 1u << 19, fewest_panels = 8;
    const std::uint64_t fit = panel_bytes / (std::max<std::uint64_t>(1, cols) * sizeof(float)) / tile * tile;
    const std::uint64_t share = (rows / fewest_panels + tile - 1) / tile * tile;
    return std::clamp<std::uint64_t>(std::min(fit, share), 2 * tile, 16 * tile);
}

void multiply_panel(const PackedMatrix& matrix, const ProductRows& rows, std::uint64_t begin, std::uint64_t end,
                    float* scratch, bool blas) {
    for (std::uint64_t r = begin; r < end; ++r)
        expand_row(matrix.dtype, matrix.row(r), matrix.cols, scratch + (r - begin) * matrix.cols);
    const std::uint64_t out_stride = rows.out_stride != 0 ? rows.out_stride : matrix.rows;
#if defined(KVLOUPE_OPENBLAS)
    if (blas) {
        const auto inner = static_cast<blasint>(matrix.cols);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<blasint>(rows.count),
                    static_cast<blasint>(end - begin), inner, 1.0f, rows.in, inner, scratch, inner,
                    rows.accumulate ? 1.0f : 0.0f, rows.out + begin, static_cast<blasint>(out_stride));
        return;
    }
#else
    (void)blas;
#endif
    const PackedMatrix panel{reinterpret_cast<const std::byte*>(scratch), DType::f32, end - begin, matrix.cols};
    matvec_plain(panel, 0, panel.rows, {rows.in, rows.out + begin, rows.count, rows.accumulate, out_stride});
}

}  // namespace

std::uint64_t panel_floats(std::uint64_t cols) { return panel_rows(cols, UINT64_MAX / 2) * cols; }

void matvec_rows(const PackedMatrix& matrix, std::uint64_t begin, std::uint64_t end, const ProductRows& rows) {
    if (is_float(matrix.dtype)) return matvec_plain(matrix, begin, end, rows);
    matvec_packed(matrix, begin, end, rows);
}

void multiply(const PackedMatrix& matrix, const ProductRows& rows, ThreadPool& pool, const Panels& panels) {
    if (rows.count == 0) return;
    if (rows.count > matvec_rows_limit) {
        const std::uint64_t step = panel_rows(matrix.cols, matrix.rows);
        const auto parts = static_cast<std::uint32_t>((matrix.rows + step - 1) / step);
        pool.run(parts, [&](std::uint32_t part, unsigned thread) {
            const std::uint64_t begin = part * step;
            multiply_panel(matrix, rows, begin, std::min(begin + step, matrix.rows), panels.of_thread[thread], panels.blas);
        });
        return;
    }
    // Parts of at least 24 KB (about a microsecond of reading), at most eight per thread, whole groups of four rows.
    constexpr std::uint64_t smallest_part = 24u << 10, parts_per_thread = 8, group = 4;
    const std::uint64_t wanted =
        std::clamp<std::uint64_t>(matrix.bytes() / smallest_part, 1, std::uint64_t{pool.threads()} * parts_per_thread);
    const std::uint64_t step = ((matrix.rows + wanted - 1) / wanted + group - 1) / group * group;
    const auto parts = static_cast<std::uint32_t>((matrix.rows + step - 1) / step);
    pool.run(parts, [&](std::uint32_t part, unsigned) {
        const std::uint64_t begin = part * step;
        matvec_rows(matrix, begin, std::min(begin + step, matrix.rows), rows);
    });
}

bool prepare_blas() {
#if defined(KVLOUPE_OPENBLAS)
    openblas_set_num_threads(1);
    const std::string core = openblas_get_corename();
    for (const char* narrow : {"Prescott", "Core2", "Nehalem", "Penryn", "Dunnington", "Atom", "Nano", "Barcelona", "Bobcat",
                               "Opteron", "Opteron_SSE3", "Katmai", "Coppermine", "Northwood", "Banias", "Athlon", "generic",
                               "Unknown"})
        if (core == narrow) return false;
    return true;
#else
    return false;
#endif
}

}  // namespace kvloupe::cpu
