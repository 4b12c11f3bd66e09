// SPDX-License-Identifier: GPL-3.0-or-later
//
// gpu_bench [--device cuda:N|cpu] [--out FOLDER] [--tiny] [--look]
// The bench of tests/gpu/run.sh. --look: only says which device there is. --tiny: small sizes, to try the program out on a
// device that is no GPU; its figures mean nothing.
// Exit status: 0 measured, 1 failed, 2 wrong usage, 77 there is no such device.
#include "kernels/make_backend.h"
#include "tests/gpu/bench_attention.h"
#include "tests/gpu/bench_step.h"

#include <cstdio>
#include <cstring>

using namespace kvloupe;
using namespace kvloupe::test;

int main(int count, char** words) {
    std::string device = "cuda:0", out = ".";
    bool tiny = false, look = false;
    for (int i = 1; i < count; ++i) {
        if (std::strcmp(words[i], "--device") == 0 && i + 1 < count) device = words[++i];
        else if (std::strcmp(words[i], "--out") == 0 && i + 1 < count) out = words[++i];
        else if (std::strcmp(words[i], "--tiny") == 0) tiny = true;
        else if (std::strcmp(words[i], "--look") == 0) look = true;
        else {
            std::fprintf(stderr, "gpu_bench [--device cuda:N|cpu] [--out FOLDER] [--tiny] [--look]\n");
            return 2;
        }
    }
    for (const DeviceReport& report : list_devices())
        std::printf("%s: %s%s, %s\n", report.id.c_str(), report.name.c_str(), report.available ? "" : ", not available", report.detail.c_str());
    const auto factory = [](const std::string& name) { return make_backend(BackendOptions{name, 0}); };
    BenchResults results;
    Ceilings ceilings;
    {
        auto backend = factory(device);
        if (!backend) {
            std::printf("%s\n", backend.error().message().c_str());
            return 77;
        }
        if (look) return 0;
        const DeviceInfo info = (*backend)->info();
        results.row("device", info.name + ", " + info.detail);
        ceilings = (*backend)->measure_ceilings({});
        results.row("copy bandwidth", fixed(ceilings.copy_bandwidth / 1e9, 0) + " GB/s read + written");
        results.row("read bandwidth", fixed(ceilings.read_bandwidth / 1e9, 0) + " GB/s");
        results.row("matrix rate", fixed(ceilings.matrix_rate / 1e12, 1) + " TFLOP/s, " + std::string(name_of(ceilings.matrix_type)) + ", 8192^3");
        results.figure("copy_bandwidth", ceilings.copy_bandwidth);
        results.figure("matrix_rate", ceilings.matrix_rate);
        if (!tiny) bench_attention(**backend, ceilings, results);
        if (auto done = (*backend)->synchronise(); !done) {
            std::printf("%s\n", done.error().message().c_str());
            results.write(out);
            return 1;
        }
    }
    bench_step({device, ceilings, factory, tiny}, results);
    if (!results.write(out)) {
        std::fprintf(stderr, "The folder %s cannot be written; name another with --out\n", out.c_str());
        return 1;
    }
    return 0;
}
