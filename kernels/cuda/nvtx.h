// SPDX-License-Identifier: GPL-3.0-or-later
//
// Named ranges that NVIDIA's tools (Nsight Systems, Nsight Compute) show beside the kernels. Without such a tool a call costs
// next to nothing. nvtx.cpp holds them; tests/emulation/runtime has its own, which remembers the names.
#pragma once

namespace kvloupe::cuda {

void push_range(const char* name);
void pop_range();

}  // namespace kvloupe::cuda
