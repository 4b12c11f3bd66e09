// SPDX-License-Identifier: GPL-3.0-or-later
//
// Whole sessions on a real card, against the CPU.
#include "kernels/make_backend.h"
#include "tests/support/backend_rows.h"

std::vector<kvloupe::test::Row> kvloupe::test::rows() {
    BackendSubject subject;
    subject.make = [] { return make_backend({"cuda:0", 0}); };
    subject.absent = !subject.make();
    subject.large = true;
    std::vector<Row> rows = session_rows(subject);
    append(rows, family_rows(subject));
    return rows;
}
