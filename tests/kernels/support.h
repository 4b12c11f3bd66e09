// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the tests of the CPU's kernels share beside tests/support/kernel_data.h: buffers with guards, instruction sets.
#pragma once

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/kernels.h"
#include "tests/support/claims.h"
#include "tests/support/kernel_data.h"

#include <hwy/targets.h>

namespace kvloupe::test {

// Output memory filled with NaN, with a guard behind it that must stay as it was.
class Guarded {
public:
    explicit Guarded(std::size_t count) : m_values(count + guard, std::numeric_limits<float>::quiet_NaN()), m_count(count) {
        std::fill(m_values.begin() + static_cast<std::ptrdiff_t>(count), m_values.end(), mark);
    }
    float* data() { return m_values.data(); }
    float operator[](std::size_t i) const { return m_values[i]; }
    std::size_t size() const { return m_count; }
    std::vector<float> values() const { return {m_values.begin(), m_values.begin() + static_cast<std::ptrdiff_t>(m_count)}; }
    bool intact() const {
        return std::all_of(m_values.begin() + static_cast<std::ptrdiff_t>(m_count), m_values.end(),
                           [](float v) { return v == mark; });
    }

private:
    static constexpr std::size_t guard = 64;
    static constexpr float mark = 12345.5f;
    std::vector<float> m_values;
    std::size_t m_count;
};

inline std::unique_ptr<Backend> cpu_backend(unsigned threads) {
    auto backend = cpu::make_cpu_backend(threads);
    return backend ? std::move(*backend) : nullptr;
}

// Runs the kernels with one instruction set, then with the best again.
class UseTarget {
public:
    explicit UseTarget(std::int64_t target) { hwy::SetSupportedTargetsForTest(target); }
    ~UseTarget() { hwy::SetSupportedTargetsForTest(0); }
    UseTarget(const UseTarget&) = delete;
    UseTarget& operator=(const UseTarget&) = delete;
};

}  // namespace kvloupe::test
