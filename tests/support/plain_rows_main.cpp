// SPDX-License-Identifier: GPL-3.0-or-later
//
// Runs the rows of a test program without Qt: NAME [PART OF A ROW'S NAME]. Prints what failed and was skipped, then a count.
// Exit status: 0 all passed, 1 a row failed, 2 no row has that name.
#include "tests/support/rows.h"

#include <cstdio>
#include <exception>
#include <string>

using namespace kvloupe::test;

int main(int count, char** words) {
    const std::string part = count > 1 ? words[1] : "";
    std::size_t passed = 0, failed = 0, skipped = 0;
    for (const Row& row : rows()) {
        if (row.name.find(part) == std::string::npos) continue;
        Check check;
        try {
            row.run(check);
        } catch (const std::exception& problem) {
            check.fail(std::string("an exception: ") + problem.what(), __FILE__, __LINE__);
        }
        for (const std::string& note : check.notes()) std::printf("NOTE : %s: %s\n", row.name.c_str(), note.c_str());
        if (!check.good()) ++failed, std::printf("FAIL : %s: %s\n", row.name.c_str(), check.failure().c_str());
        else if (!check.skipped().empty()) ++skipped, std::printf("SKIP : %s: %s\n", row.name.c_str(), check.skipped().c_str());
        else ++passed;
        std::fflush(stdout);
    }
    std::printf("Totals: %zu passed, %zu failed, %zu skipped\n", passed, failed, skipped);
    if (passed + failed + skipped == 0) {
        std::printf("No row's name contains '%s'.\n", part.c_str());
        return 2;
    }
    return failed > 0 ? 1 : 0;
}
