// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the CPU backend measures itself against, and what its stage clock costs.
#include "kernels/cpu/stage_clock.h"
#include "kernels/make_backend.h"
#include "tests/support/rows.h"

#include <ctime>
#include <fstream>
#include <stop_token>

#ifdef __unix__
#include <sys/resource.h>
#include <unistd.h>
#endif

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::string day(std::time_t time) {
    char text[16];
    std::tm parts{};
    gmtime_r(&time, &parts);
    std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
    return text;
}

void measured_once(Check& check) {
    auto backend = make_backend({"cpu", 2});
    CHECK_THAT(backend);
    const std::time_t before = std::time(nullptr);
    const Ceilings ceilings = (*backend)->measure_ceilings({});
    // Orders of magnitude that no machine leaves; the numbers themselves are nobody's to know.
    CHECK_THAT(ceilings.read_bandwidth > 1e8 && ceilings.read_bandwidth < 1e13);
    CHECK_THAT(ceilings.copy_bandwidth > 1e8 && ceilings.copy_bandwidth < 1e13);
    CHECK_THAT(ceilings.matrix_rate > 1e8 && ceilings.matrix_rate < 1e14);
    CHECK_THAT(ceilings.matrix_type == DType::f32);
    CHECK_THAT(ceilings.measured_on == day(before) || ceilings.measured_on == day(std::time(nullptr)));
    CHECK_THAT((*backend)->measure_ceilings({}) == ceilings);
    CHECK_EQUAL((*backend)->memory().activations, 0u);
    check.note("read " + shown(ceilings.read_bandwidth / 1e9) + " GB/s, copy " + shown(ceilings.copy_bandwidth / 1e9) +
               " GB/s, matrices " + shown(ceilings.matrix_rate / 1e9) + " GFLOP/s");
}

void stopped(Check& check) {
    auto backend = make_backend({"cpu", 2});
    CHECK_THAT(backend);
    std::stop_source source;
    source.request_stop();
    CHECK_THAT((*backend)->measure_ceilings(source.get_token()) == Ceilings{});
    CHECK_THAT((*backend)->measure_ceilings({}).measured());
}

void no_memory(Check& check) {
#if !defined(__unix__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    check.skip("the address space cannot be limited here");
#else
    auto backend = make_backend({"cpu", 2});
    CHECK_THAT(backend);
    std::ifstream file("/proc/self/statm");
    rlim_t pages = 0;
    if (!(file >> pages)) return check.skip("/proc is not there");
    rlimit before{};
    CHECK_EQUAL(getrlimit(RLIMIT_AS, &before), 0);
    rlimit tight = before;
    tight.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (8u << 20);
    CHECK_EQUAL(setrlimit(RLIMIT_AS, &tight), 0);
    const Ceilings none = (*backend)->measure_ceilings({});
    CHECK_EQUAL(setrlimit(RLIMIT_AS, &before), 0);
    CHECK_THAT(none == Ceilings{});
    CHECK_THAT((*backend)->measure_ceilings({}).measured());
#endif
}

void clock_cost(Check& check) {
    const double cost = cpu::stage_clock_cost_ns();
    CHECK_THAT(cost > 1);
    CHECK_BELOW(cost, 10'000);
    check.note("a mark costs " + shown(cost) + " ns");
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    // First what needs a heap that holds nothing back: later ones find what an earlier one freed.
    return {{"without memory for them ceilings are not measured", no_memory},
            {"ceilings are measured once and free their memory", measured_once},
            {"a stopped measurement leaves zeros and can be made later", stopped},
            {"a mark of the stage clock costs less than a stage", clock_cost}};
}
