// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/backend_rows.h"

namespace kvloupe::test {

std::unique_ptr<Backend> make_subject(const BackendSubject& subject, Check& check) {
    auto made = subject.make();
    if (made) return std::move(*made);
    if (subject.absent) check.skip(made.error().sentence);
    else check.fail(made.error().message(), __FILE__, __LINE__);
    return nullptr;
}

}  // namespace kvloupe::test
