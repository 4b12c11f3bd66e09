// SPDX-License-Identifier: GPL-3.0-or-later
//
// Whole sessions with tiny models of other architectures over an emulated card, against the CPU.
#include "kernels/cuda/cuda_backend.h"
#include "tests/emulation/runtime/emulated_runtime.h"
#include "tests/support/backend_rows.h"

std::vector<kvloupe::test::Row> kvloupe::test::rows() {
    BackendSubject subject;
    subject.make = []() -> Result<std::unique_ptr<Backend>> {
        const std::string alive = emulation::set_up_runtime({});
        if (!alive.empty()) return Error{"the row before left behind " + alive, ""};
        return cuda::make_cuda_backend(0, {});
    };
    return family_rows(subject);
}
