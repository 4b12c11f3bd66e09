// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/nvtx.h"
#include "tests/emulation/runtime/emulated_runtime.h"

#include <mutex>

namespace {

struct RangeLog {
    std::mutex mutex;
    kvloupe::emulation::Ranges ranges;
    int depth = 0;
};

RangeLog& range_log() {
    static RangeLog log;
    return log;
}

}  // namespace

namespace kvloupe::cuda {

void push_range(const char* name) {
    RangeLog& log = range_log();
    const std::lock_guard lock(log.mutex);
    log.ranges.names.push_back(std::string(static_cast<std::size_t>(log.depth++), ' ') + name);
}

void pop_range() {
    RangeLog& log = range_log();
    const std::lock_guard lock(log.mutex);
    if (--log.depth < 0) log.ranges.balanced = false, log.depth = 0;
}

}  // namespace kvloupe::cuda

namespace kvloupe::emulation {

Ranges take_ranges() {
    RangeLog& log = range_log();
    const std::lock_guard lock(log.mutex);
    Ranges taken = std::move(log.ranges);
    if (log.depth != 0) taken.balanced = false;
    log.ranges = {};
    return taken;
}

}  // namespace kvloupe::emulation
