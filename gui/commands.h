// SPDX-License-Identifier: GPL-3.0-or-later
//
// The commands without a window (contract, section 1). Each takes the words after its name and returns the exit status:
// 0 done, 1 failed (one sentence on stderr), 2 wrong usage.
#pragma once

#include <string>
#include <vector>

namespace kvloupe {

inline constexpr int exit_done = 0;
inline constexpr int exit_failed = 1;
inline constexpr int exit_usage = 2;

int run_command(const std::vector<std::string>& words);
int tokenize_command(const std::vector<std::string>& words);
int devices_command(const std::vector<std::string>& words);
int quality_command(const std::vector<std::string>& words);
int size_command(const std::vector<std::string>& words);
int bench_command(const std::vector<std::string>& words);
int query_command(const std::vector<std::string>& words);
int check_command(const std::vector<std::string>& words);
int export_command(const std::vector<std::string>& words);  // a QApplication must be there
int branch_command(const std::vector<std::string>& words);
int diff_command(const std::vector<std::string>& words);

// Prints "kvloupe: <message>" on stderr and returns `status`.
int fail(const std::string& message, int status = exit_failed);

}  // namespace kvloupe
