// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a card reaches, measured on it by events, the best of several runs: reading with our own kernel, copying with the
// driver's, multiplying with the matrix library in f16.
#pragma once

#include "engine/record/ceilings.h"
#include "kernels/cuda/card.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/matrix_library.h"

#include <stop_token>

namespace kvloupe::cuda {

// Zeros for what could not be measured (stopped, no memory for the buffers, a card that failed).
Ceilings measure_card(Card& card, MatrixLibrary& library, const CudaOptions& options, std::stop_token stop);

}  // namespace kvloupe::cuda
