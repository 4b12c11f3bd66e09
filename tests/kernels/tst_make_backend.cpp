// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_info.h"
#include "kernels/cuda_plugin.h"
#include "kernels/make_backend.h"
#include "tests/kernels/support.h"
#include "tests/support/claims.h"
#include "tests/support/temporary_folder.h"

#include <dlfcn.h>
#include <sched.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::vector<DeviceReport> cards() {
    std::vector<DeviceReport> found = list_devices();
    found.erase(std::remove_if(found.begin(), found.end(), [](const DeviceReport& d) { return d.id.rfind("cuda:", 0) != 0; }),
                found.end());
    return found;
}

void theCpuAlwaysComputes(Check& check) {
    auto backend = make_backend({"cpu", 2});
    CHECK_THAT(bool(backend));
    const DeviceInfo info = (*backend)->info();
    CHECK_EQUAL(info.id, std::string("cpu"));
    CHECK_THAT(!info.name.empty());
    CHECK_THAT(info.detail.rfind("2 threads, ", 0) == 0);
    CHECK_THAT(info.memory_bytes > 0);
    CHECK_THAT(info.free_bytes > 0 && info.free_bytes <= info.memory_bytes);
    CHECK_THAT(!info.own_memory);
}

void autoIsTheFirstCardIfItIsUsableElseTheCpu(Check& check) {
    std::string expected = "cpu";
    for (const DeviceReport& device : list_devices())
        if (device.available && device.id == "cuda:0") expected = device.id;
    auto backend = make_backend({"auto", 2});
    CHECK_THAT(bool(backend));
    CHECK_EQUAL((*backend)->info().id, expected);
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
    std::vector<std::string> absent{"cuda:4096"};
    if (cards().empty()) absent.insert(absent.end(), {"cuda:0", "cuda:7", "cuda"});
    for (const std::string& device : absent) {
        const auto refused = make_backend({device, 1});
        CHECK_THAT(!refused);
        CHECK_THAT(refused.error().sentence.find(device) != std::string::npos);
        if (cards().empty()) CHECK_THAT(refused.error().sentence.find("CUDA") != std::string::npos);
        CHECK_THAT(refused.error().hint.find("cpu") != std::string::npos);
    }
    for (const char* unknown : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:0x", "cudacard"}) {
        const auto refused = make_backend({unknown, 1});
        CHECK_OR_SAY(!refused, unknown);
        CHECK_THAT(refused.error().sentence.find("There is no device '" + std::string(unknown) + "'") == 0);
    }
}

void theListSaysWhyCudaIsAbsent(Check& check) {
    const std::vector<DeviceReport> devices = list_devices();
    CHECK_THAT(devices.size() >= 2);
    CHECK_THAT(devices[0].id == "cpu" && devices[0].available && devices[0].memory_bytes > 0 && devices[0].free_bytes > 0);
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
    if (driver == nullptr) {
        CHECK_EQUAL(devices.size(), std::size_t{2});
        CHECK_THAT(devices[1].id == "cuda" && !devices[1].available);
        CHECK_THAT(devices[1].detail.find("libcuda.so.1 was not found") != std::string::npos);
    } else {
        dlclose(driver);
    }
    for (const DeviceReport& device : devices) CHECK_THAT(!device.detail.empty() && !device.name.empty());
}

// A library that exists everywhere stands in for the driver; what is missing or wrong after it has a sentence of its own.
void aPluginThatDoesNotOpenSaysWhatIsWrong(Check& check) {
    CudaPlugin::Places places;
    places.driver = "libkvloupe-no-such-driver.so.1";
    auto opened = CudaPlugin::open(places);
    CHECK_THAT(!opened && opened.error().sentence == "No NVIDIA driver: libkvloupe-no-such-driver.so.1 was not found");

    places.driver = "libm.so.6";
    places.plugins = {"/nonexistent/libkvloupe_cuda.so"};
    opened = CudaPlugin::open(places);
    CHECK_THAT(!opened && opened.error().sentence.find("no CUDA backend") != std::string::npos);

    const TemporaryFolder folder;
    const std::string broken = folder.file("libkvloupe_cuda.so");
    std::ofstream(broken) << "no library";
    places.plugins = {broken};
    opened = CudaPlugin::open(places);
    CHECK_THAT(!opened && opened.error().sentence.find("does not load") != std::string::npos);

    places.plugins = {KVLOUPE_PLUGIN_WITHOUT_BLAS};
    opened = CudaPlugin::open(places);
    CHECK_THAT(!opened && opened.error().sentence.find("cuBLAS is missing") != std::string::npos);
    CHECK_THAT(opened.error().sentence.find("libcublas.so.0") != std::string::npos);

    places.plugins = {KVLOUPE_PLUGIN_OF_ANOTHER_BUILD};
    opened = CudaPlugin::open(places);
    CHECK_THAT(!opened && opened.error().sentence.find("is of another build of this program") != std::string::npos);
}

void aPluginOfThisBuildIsAskedForItsCards(Check& check) {
    CudaPlugin::Places places;
    places.driver = "libm.so.6";
    places.plugins = {"/nonexistent/libkvloupe_cuda.so", KVLOUPE_PLUGIN_OF_THIS_BUILD};
    const auto opened = CudaPlugin::open(places);
    CHECK_THAT(bool(opened));
    const cuda::CardList list = opened->cards();
    CHECK_EQUAL(list.cards.size(), std::size_t{2});
    CHECK_EQUAL(list.cards[1].refusal, std::string("too old"));
    const auto refused = opened->make_backend(1);
    CHECK_THAT(!refused && refused.error().sentence == "card 1: too old");
}

// The whole way of a user without a usable card: the environment names the plugin, `auto` stays with the CPU.
void theEnvironmentNamesThePlugin(Check& check) {
    setenv("KVLOUPE_CUDA_PLUGIN", "/nonexistent/libkvloupe_cuda.so", 1);
    const CudaPlugin::Places places = CudaPlugin::usual_places();
    unsetenv("KVLOUPE_CUDA_PLUGIN");
    CHECK_THAT(places.plugins == std::vector<std::string>{"/nonexistent/libkvloupe_cuda.so"});
    CHECK_THAT(CudaPlugin::usual_places().plugins.size() > 1);
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
    claims.add(CLAIM(theCpuAlwaysComputes));
    claims.add(CLAIM(autoIsTheFirstCardIfItIsUsableElseTheCpu));
    claims.add(CLAIM(withoutAThreadCountEveryCoreAtHandComputes));
    claims.add(CLAIM(devicesThatCannotComputeAreRefusedWithAReason));
    claims.add(CLAIM(theListSaysWhyCudaIsAbsent));
    claims.add(CLAIM(aPluginThatDoesNotOpenSaysWhatIsWrong));
    claims.add(CLAIM(aPluginOfThisBuildIsAskedForItsCards));
    claims.add(CLAIM(theEnvironmentNamesThePlugin));
    claims.add(CLAIM(stagesAreTimedInOrder));
    claims.add(CLAIM(theBandwidthIsMeasuredOnceAndFreesItsMemory));
    return claims.rows();
}
