// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <chrono>

namespace kvloupe::test {

// The time since it was made or started again, by a steady clock.
class Stopwatch {
public:
    void start() { m_begin = std::chrono::steady_clock::now(); }
    long long nanoseconds() const {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - m_begin).count();
    }
    long long milliseconds() const { return nanoseconds() / 1'000'000; }

private:
    std::chrono::steady_clock::time_point m_begin = std::chrono::steady_clock::now();
};

}  // namespace kvloupe::test
