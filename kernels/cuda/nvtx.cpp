// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/nvtx.h"

#include <nvtx3/nvToolsExt.h>

namespace kvloupe::cuda {

void push_range(const char* name) { nvtxRangePushA(name); }
void pop_range() { nvtxRangePop(); }

}  // namespace kvloupe::cuda
