// SPDX-License-Identifier: GPL-3.0-or-later
//
// The CUDA runtime for the backend's host code: the toolkit's, or the one that tests/emulation/runtime offers, which runs the
// same calls in main memory. The backend uses no call that is not listed there.
#pragma once

#include "kernels/cuda/platform.h"

#if !defined(__CUDACC__) && !defined(KVLOUPE_CUDA_TOOLKIT)
#include <kvloupe_cuda_runtime.h>  // tests/emulation/runtime
#endif
