// SPDX-License-Identifier: GPL-3.0-or-later
//
// The backend of one NVIDIA card. Everything runs on one stream, in order; the host waits in read(), summarise(),
// synchronise() and where attention is watched. What a step needs beside its launches is allocated at set-up or grows to the
// largest step so far.
#pragma once

#include "engine/backend.h"

#include <memory>

namespace kvloupe::cuda {

struct CudaOptions {
    std::uint64_t ceiling_bytes = std::uint64_t{1} << 30;    // of each buffer that bandwidth is measured over
    std::uint32_t ceiling_matrix = 8192;                     // rows and columns of the product that is measured
    std::uint64_t expanded_bytes = std::uint64_t{64} << 20;  // of a quantised matrix that are expanded to f16 at once
};

// Errors: the card cannot be used, no memory for what every backend needs, cuBLAS does not start.
Result<std::unique_ptr<Backend>> make_cuda_backend(int card, const CudaOptions& options);

}  // namespace kvloupe::cuda
