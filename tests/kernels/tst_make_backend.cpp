// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_info.h"
#include "kernels/make_backend.h"
#include "tests/kernels/support.h"
#include "tests/support/claims.h"

#include <dlfcn.h>
#include <sched.h>

#include <chrono>
#include <thread>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

void autoAndCpuComputeHere(Check& check) {
    for (const char* device : {"auto", "cpu"}) {
        auto backend = make_backend({device, 2});
        CHECK_THAT(bool(backend));
        const DeviceInfo info = (*backend)->info();
        CHECK_EQUAL(info.id, "cpu");
        CHECK_THAT(!info.name.empty());
        CHECK_THAT(info.detail.rfind("2 threads, ", 0) == 0);
        CHECK_THAT(info.memory_bytes > 0);
        CHECK_THAT(info.free_bytes > 0 && info.free_bytes <= info.memory_bytes);
    }
}

void withoutAThreadCountEveryCoreAtHandComputes(Check& check) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CHECK_EQUAL(sched_getaffinity(0, sizeof set, &set), 0);
    const unsigned cores = cpu::cores_at_hand();
    CHECK_THAT(cores >= 1 && cores <= unsigned(CPU_COUNT(&set)));
    auto backend = make_backend({"cpu", 0});
    CHECK_THAT((*backend)->info().detail.rfind(std::to_string(cores) + " thread", 0) == 0);
}

void devicesThatCannotComputeAreRefusedWithAReason(Check& check) {
    for (const char* device : {"cuda:0", "cuda:7", "cuda"}) {
        const auto refused = make_backend({device, 1});
        CHECK_THAT(!refused);
        CHECK_THAT(refused.error().sentence.find(device) != std::string::npos);
        CHECK_THAT(refused.error().sentence.find("CUDA") != std::string::npos);
    }
    const auto unknown = make_backend({"gpu", 1});
    CHECK_THAT(!unknown && unknown.error().sentence.find("'gpu'") != std::string::npos);
}

void theListSaysWhyCudaIsAbsent(Check& check) {
    const std::vector<DeviceReport> devices = list_devices();
    CHECK_EQUAL(devices.size(), std::size_t{2});
    CHECK_THAT(devices[0].id == "cpu" && devices[0].available && devices[0].memory_bytes > 0);
    CHECK_THAT(devices[1].id == "cuda" && !devices[1].available);
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
    CHECK_EQUAL(devices[1].detail.find("libcuda.so.1") != std::string::npos, driver == nullptr);
    CHECK_THAT(devices[1].detail.find("no CUDA backend") != std::string::npos);
    if (driver != nullptr) dlclose(driver);
}

void stagesAreTimedInOrder(Check& check) {
    auto backend = make_backend({"cpu", 1});
    const std::uint64_t first = (*backend)->start_timing();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    (*backend)->mark(StageKind::embed, StageRecord::no_layer);
    (*backend)->mark(StageKind::qkv, 3);
    const auto timings = (*backend)->timings(first);
    CHECK_EQUAL(timings.size(), std::size_t{2});
    CHECK_THAT(timings[0].kind == StageKind::embed && timings[0].layer == StageRecord::no_layer);
    CHECK_THAT(timings[0].duration_ns >= 1'000'000);
    CHECK_THAT(timings[1].kind == StageKind::qkv && timings[1].layer == 3);
    const std::uint64_t second = (*backend)->start_timing();
    CHECK_THAT((*backend)->timings(second).empty());
    CHECK_EQUAL((*backend)->timings(first).size(), std::size_t{2});  // kept while the next pass runs
}

void theBandwidthIsMeasuredOnceAndFreesItsMemory(Check& check) {
    auto backend = make_backend({"cpu", 2});
    const double bandwidth = (*backend)->measure_ceilings({}).read_bandwidth;
    CHECK_THAT(bandwidth > 0);
    CHECK_EQUAL((*backend)->measure_ceilings({}).read_bandwidth, bandwidth);
    CHECK_EQUAL((*backend)->memory().activations, 0u);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(autoAndCpuComputeHere));
    claims.add(CLAIM(withoutAThreadCountEveryCoreAtHandComputes));
    claims.add(CLAIM(devicesThatCannotComputeAreRefusedWithAReason));
    claims.add(CLAIM(theListSaysWhyCudaIsAbsent));
    claims.add(CLAIM(stagesAreTimedInOrder));
    claims.add(CLAIM(theBandwidthIsMeasuredOnceAndFreesItsMemory));
    return claims.rows();
}
