// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/make_backend.h"
#include "kernels/cpu/cpu_info.h"
#include "tests/kernels/support.h"

#include <dlfcn.h>
#include <sched.h>

using namespace kvloupe;

class TestMakeBackend : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void autoAndCpuComputeHere() {
        for (const char* device : {"auto", "cpu"}) {
            auto backend = make_backend({device, 2});
            QVERIFY(bool(backend));
            const DeviceInfo info = (*backend)->info();
            QCOMPARE(info.id, std::string("cpu"));
            QVERIFY(!info.name.empty());
            QVERIFY(info.detail.rfind("2 threads, ", 0) == 0);
            QVERIFY(info.memory_bytes > 0);
            QVERIFY(info.free_bytes > 0 && info.free_bytes <= info.memory_bytes);
        }
    }

    void withoutAThreadCountEveryCoreAtHandComputes() {
        cpu_set_t set;
        CPU_ZERO(&set);
        QCOMPARE(sched_getaffinity(0, sizeof set, &set), 0);
        const unsigned cores = cpu::cores_at_hand();
        QVERIFY(cores >= 1 && cores <= unsigned(CPU_COUNT(&set)));
        auto backend = make_backend({"cpu", 0});
        QVERIFY((*backend)->info().detail.rfind(std::to_string(cores) + " thread", 0) == 0);
    }

    void devicesThatCannotComputeAreRefusedWithAReason() {
        for (const char* device : {"cuda:0", "cuda:7", "cuda"}) {
            const auto refused = make_backend({device, 1});
            QVERIFY(!refused);
            QVERIFY(refused.error().sentence.find(device) != std::string::npos);
            QVERIFY(refused.error().sentence.find("CUDA") != std::string::npos);
        }
        const auto unknown = make_backend({"gpu", 1});
        QVERIFY(!unknown && unknown.error().sentence.find("'gpu'") != std::string::npos);
    }

    void theListSaysWhyCudaIsAbsent() {
        const std::vector<DeviceReport> devices = list_devices();
        QCOMPARE(devices.size(), std::size_t{2});
        QVERIFY(devices[0].id == "cpu" && devices[0].available && devices[0].memory_bytes > 0);
        QVERIFY(devices[1].id == "cuda" && !devices[1].available);
        void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
        QCOMPARE(devices[1].detail.find("libcuda.so.1") != std::string::npos, driver == nullptr);
        QVERIFY(devices[1].detail.find("no CUDA backend") != std::string::npos);
        if (driver != nullptr) dlclose(driver);
    }

    void stagesAreTimedInOrder() {
        auto backend = make_backend({"cpu", 1});
        const std::uint64_t first = (*backend)->start_timing();
        QTest::qSleep(2);
        (*backend)->mark(StageKind::embed, StageRecord::no_layer);
        (*backend)->mark(StageKind::qkv, 3);
        const auto timings = (*backend)->timings(first);
        QCOMPARE(timings.size(), std::size_t{2});
        QVERIFY(timings[0].kind == StageKind::embed && timings[0].layer == StageRecord::no_layer);
        QVERIFY(timings[0].duration_ns >= 1'000'000);
        QVERIFY(timings[1].kind == StageKind::qkv && timings[1].layer == 3);
        const std::uint64_t second = (*backend)->start_timing();
        QVERIFY((*backend)->timings(second).empty());
        QCOMPARE((*backend)->timings(first).size(), std::size_t{2});  // kept while the next pass runs
    }

    void theBandwidthIsMeasuredOnceAndFreesItsMemory() {
        auto backend = make_backend({"cpu", 2});
        const double bandwidth = (*backend)->measure_ceilings({}).read_bandwidth;
        QVERIFY(bandwidth > 0);
        QCOMPARE((*backend)->measure_ceilings({}).read_bandwidth, bandwidth);
        QCOMPARE((*backend)->memory().activations, 0u);
    }
};

QTEST_GUILESS_MAIN(TestMakeBackend)
#include "tst_make_backend.moc"
