// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/make_backend.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/cuda_plugin.h"
#include "tests/kernels/support.h"

#include <QElapsedTimer>
#include <QTemporaryDir>

#include <dlfcn.h>
#include <sched.h>

using namespace kvloupe;

class TestMakeBackend : public QObject {
    Q_OBJECT

    static std::vector<DeviceReport> cards() {
        std::vector<DeviceReport> found = list_devices();
        found.erase(std::remove_if(found.begin(), found.end(), [](const DeviceReport& d) { return d.id.rfind("cuda:", 0) != 0; }),
                    found.end());
        return found;
    }

private Q_SLOTS:
    void theCpuAlwaysComputes() {
        auto backend = make_backend({"cpu", 2});
        QVERIFY(bool(backend));
        const DeviceInfo info = (*backend)->info();
        QCOMPARE(info.id, std::string("cpu"));
        QVERIFY(!info.name.empty());
        QVERIFY(info.detail.rfind("2 threads, ", 0) == 0);
        QVERIFY(info.memory_bytes > 0);
        QVERIFY(info.free_bytes > 0 && info.free_bytes <= info.memory_bytes);
        QVERIFY(!info.own_memory);
    }

    void autoIsTheFirstUsableCardElseTheCpu() {
        std::string expected = "cpu";
        for (const DeviceReport& device : list_devices())
            if (expected == "cpu" && device.available && device.id != "cpu") expected = device.id;
        auto backend = make_backend({"auto", 2});
        QVERIFY(bool(backend));
        QCOMPARE((*backend)->info().id, expected);
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
        std::vector<std::string> absent{"cuda:4096"};
        if (cards().empty()) absent.insert(absent.end(), {"cuda:0", "cuda:7", "cuda"});
        for (const std::string& device : absent) {
            const auto refused = make_backend({device, 1});
            QVERIFY(!refused);
            QVERIFY(refused.error().sentence.find(device) != std::string::npos);
            if (cards().empty()) QVERIFY(refused.error().sentence.find("CUDA") != std::string::npos);
            QVERIFY(refused.error().hint.find("cpu") != std::string::npos);
        }
        for (const char* unknown : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:0x", "cudacard"}) {
            const auto refused = make_backend({unknown, 1});
            QVERIFY2(!refused, unknown);
            QVERIFY(refused.error().sentence.find("There is no device '" + std::string(unknown) + "'") == 0);
        }
    }

    void theListSaysWhyCudaIsAbsent() {
        const std::vector<DeviceReport> devices = list_devices();
        QVERIFY(devices.size() >= 2);
        QVERIFY(devices[0].id == "cpu" && devices[0].available && devices[0].memory_bytes > 0 && devices[0].free_bytes > 0);
        void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
        if (driver == nullptr) {
            QCOMPARE(devices.size(), std::size_t{2});
            QVERIFY(devices[1].id == "cuda" && !devices[1].available);
            QVERIFY(devices[1].detail.find("libcuda.so.1 was not found") != std::string::npos);
        } else {
            dlclose(driver);
        }
        for (const DeviceReport& device : devices) QVERIFY(!device.detail.empty() && !device.name.empty());
    }

    void withoutADriverTheListIsThereAtOnce() {
        if (void* driver = dlopen("libcuda.so.1", RTLD_LAZY)) {
            dlclose(driver);
            QSKIP("There is a driver here");
        }
        QElapsedTimer clock;
        clock.start();
        for (int i = 0; i < 10; ++i) (void)list_devices();
        QVERIFY2(clock.elapsed() < 500, qPrintable(QString::number(clock.elapsed())));
    }

    // A library that exists everywhere stands in for the driver; what is missing or wrong after it has a sentence of its own.
    void aPluginThatDoesNotOpenSaysWhatIsWrong() {
        CudaPlugin::Places places;
        places.driver = "libkvloupe-no-such-driver.so.1";
        auto opened = CudaPlugin::open(places);
        QVERIFY(!opened && opened.error().sentence == "No NVIDIA driver: libkvloupe-no-such-driver.so.1 was not found");

        places.driver = "libm.so.6";
        places.plugins = {"/nonexistent/libkvloupe_cuda.so"};
        opened = CudaPlugin::open(places);
        QVERIFY(!opened && opened.error().sentence.find("no CUDA backend") != std::string::npos);

        QTemporaryDir folder;
        QFile broken(folder.filePath("libkvloupe_cuda.so"));
        QVERIFY(broken.open(QIODevice::WriteOnly) && broken.write("no library") > 0);
        broken.close();
        places.plugins = {broken.fileName().toStdString()};
        opened = CudaPlugin::open(places);
        QVERIFY(!opened && opened.error().sentence.find("does not load") != std::string::npos);

        places.plugins = {KVLOUPE_PLUGIN_WITHOUT_BLAS};
        opened = CudaPlugin::open(places);
        QVERIFY(!opened && opened.error().sentence.find("cuBLAS is missing") != std::string::npos);
        QVERIFY(opened.error().sentence.find("libcublas.so.0") != std::string::npos);

        places.plugins = {KVLOUPE_PLUGIN_OF_ANOTHER_BUILD};
        opened = CudaPlugin::open(places);
        QVERIFY(!opened && opened.error().sentence.find("is of another build of this program") != std::string::npos);
    }

    void aPluginOfThisBuildIsAskedForItsCards() {
        CudaPlugin::Places places;
        places.driver = "libm.so.6";
        places.plugins = {"/nonexistent/libkvloupe_cuda.so", KVLOUPE_PLUGIN_OF_THIS_BUILD};
        const auto opened = CudaPlugin::open(places);
        QVERIFY(bool(opened));
        const cuda::CardList list = opened->cards();
        QCOMPARE(list.cards.size(), std::size_t{2});
        QCOMPARE(list.cards[1].refusal, std::string("too old"));
        const auto refused = opened->make_backend(1);
        QVERIFY(!refused && refused.error().sentence == "card 1: too old");
    }

    // The whole way of a user without a usable card: the environment names the plugin, `auto` stays with the CPU.
    void theEnvironmentNamesThePlugin() {
        qputenv("KVLOUPE_CUDA_PLUGIN", "/nonexistent/libkvloupe_cuda.so");
        const CudaPlugin::Places places = CudaPlugin::usual_places();
        qunsetenv("KVLOUPE_CUDA_PLUGIN");
        QCOMPARE(places.plugins, std::vector<std::string>{"/nonexistent/libkvloupe_cuda.so"});
        QVERIFY(CudaPlugin::usual_places().plugins.size() > 1);
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
