// SPDX-License-Identifier: GPL-3.0-or-later
//
// Launching a kernel, and what a test may ask afterwards.
#pragma once

#include "emulation/errors.h"
#include "emulation/vectors.h"

#include <cstddef>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace kvloupe::emulation {

struct Grid {
    dim3 blocks, threads;
    std::size_t shared_bytes = 0;
};

// Runs body(context) as every thread of the grid, and waits. Errors: cudaErrorInvalidConfiguration or
// cudaErrorInvalidValue as CUDA has them; cudaErrorLaunchFailure: see last_failure().
cudaError_t run_grid(const Grid& grid, void (*body)(const void*), const void* context);

// Why the last launch that failed did so, with kernel, block and thread. Empty: none failed yet.
std::string last_failure();
void forget_failure();

// Names that KVLOUPE_KERNEL noted. Where the environment names a file in KVLOUPE_LAUNCHED_KERNELS, they are written there
// at exit, one a line.
void note_kernel(const char* name);
std::set<std::string> launched_kernels();

}  // namespace kvloupe::emulation

namespace kvloupe::cuda {

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                   Arguments... arguments) {
    struct Call {
        void (*kernel)(Parameters...);
        std::tuple<Parameters...> arguments;
    };
    Call call{kernel, std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)};
    return emulation::submit(stream, [call, grid, block, shared_bytes] {
        return emulation::run_grid({grid, block, shared_bytes}, [](const void* context) {
            const Call& it = *static_cast<const Call*>(context);
            std::apply(it.kernel, it.arguments);
        }, &call);
    });
}

}  // namespace kvloupe::cuda
