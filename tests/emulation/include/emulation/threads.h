// SPDX-License-Identifier: GPL-3.0-or-later
//
// Who a CUDA thread is, and the barriers of its block.
#pragma once

#include "emulation/vectors.h"

namespace kvloupe::emulation {

struct ThisThread {
    uint3 thread_index;
    uint3 block_index;
    dim3 block_size;
    dim3 grid_size;
    bool first;  // of its block
};

// Of the fiber that runs on this worker. Fibers never move between workers.
extern constinit thread_local const ThisThread* this_thread [[gnu::tls_model("initial-exec")]];

// Waits until every thread of the block is here, at the same line. Returns whether `vote` was not 0 for any.
bool synchronise_block(bool vote, const char* file, int line);

// Ends the launch: this thread does not go on. The sentence is told with the kernel's name, the block and the thread.
[[noreturn]] void fail_launch(const char* sentence);

}  // namespace kvloupe::emulation

#define threadIdx (::kvloupe::emulation::this_thread->thread_index)
#define blockIdx (::kvloupe::emulation::this_thread->block_index)
#define blockDim (::kvloupe::emulation::this_thread->block_size)
#define gridDim (::kvloupe::emulation::this_thread->grid_size)

inline constexpr int warpSize = 32;

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    kvloupe::emulation::synchronise_block(false, file, line);
}
inline int __syncthreads_or(int vote, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return kvloupe::emulation::synchronise_block(vote != 0, file, line) ? 1 : 0;
}
