// SPDX-License-Identifier: GPL-3.0-or-later
//
// Whole sessions over an emulated card, against the CPU.
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
    std::vector<Row> rows = session_rows(subject);
    const Row first = rows.front();
    rows.push_back({"decode steps of a session replay recorded passes", [first](Check& check) {
                        first.run(check);
                        const emulation::RuntimeCounts counts = emulation::runtime_counts();
                        check.note(shown(counts.graph_launches) + " launches of " + shown(counts.graphs_recorded) + " recorded passes");
                        CHECK_THAT(counts.graphs_recorded > 0);
                        // A record is launched once when it is made. The requests come and go: three shapes in 22 steps.
                        CHECK_THAT(counts.graph_launches >= counts.graphs_recorded + 4);
                    }});
    return rows;
}
