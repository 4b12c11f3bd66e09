// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/make_backend.h"

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_info.h"

#ifdef __unix__
#include <dlfcn.h>
#endif

namespace kvloupe {

namespace {

// The first thing in the way of computing on a GPU here.
std::string why_no_cuda() {
#ifdef __unix__
    if (void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) {
        dlclose(driver);
        return "An NVIDIA driver is installed, but this build has no CUDA backend yet";
    }
    return "No NVIDIA driver: libcuda.so.1 was not found; this build has no CUDA backend yet either";
#else
    return "This build has no CUDA backend yet";
#endif
}

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options) {
    if (options.device == "auto" || options.device == "cpu") return cpu::make_cpu_backend(options.threads);
    if (options.device.rfind("cuda", 0) == 0)
        return Error{"Device '" + options.device + "' cannot compute here: " + why_no_cuda(), "Use 'cpu' or 'auto'"};
    return Error{"There is no device '" + options.device + "'", "Use 'auto', 'cpu' or 'cuda:N'"};
}

std::vector<DeviceReport> list_devices() {
    const cpu::MemorySize memory = cpu::memory_size();
    const unsigned cores = cpu::cores_at_hand();
    return {
        {"cpu", cpu::processor_name(), true,
         std::to_string(cores) + (cores == 1 ? " thread, " : " threads, ") + cpu::vector_instructions(), memory.total},
        {"cuda", "NVIDIA GPU", false, why_no_cuda(), 0},
    };
}

}  // namespace kvloupe
