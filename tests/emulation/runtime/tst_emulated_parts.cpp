// SPDX-License-Identifier: GPL-3.0-or-later
//
// What only some models need through the CUDA backend over an emulated card: its operations and the other forms of attention against
// their scalar twins.
#include "kernels/cuda/cuda_backend.h"
#include "tests/emulation/runtime/emulated_runtime.h"
#include "tests/support/backend_rows.h"

std::vector<kvloupe::test::Row> kvloupe::test::rows() {
    BackendSubject subject;
    subject.make = []() -> Result<std::unique_ptr<Backend>> {
        const std::string alive = emulation::set_up_runtime({});
        if (!alive.empty()) return Error{"the row before left behind " + alive, ""};
        cuda::CudaOptions options;
        options.expanded_bytes = 2048;  // quantised matrices are expanded in several pieces
        return cuda::make_cuda_backend(0, options);
    };
    std::vector<Row> rows = part_rows(subject);
    append(rows, form_rows(subject));
    return rows;
}
