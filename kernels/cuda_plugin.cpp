// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda_plugin.h"

#include <cstdlib>

#ifdef __unix__
#include <dlfcn.h>
#include <unistd.h>
#endif

namespace kvloupe {

namespace {

constexpr const char* library_name = "libkvloupe_cuda.so";

#ifdef __unix__

std::string program_folder() {
    std::string path(4096, '\0');
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
    if (length <= 0) return ".";
    path.resize(static_cast<std::size_t>(length));
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string last_problem() {
    const char* text = dlerror();
    return text == nullptr ? "the loader gives no reason" : text;
}

#endif

}  // namespace

CudaPlugin::Places CudaPlugin::usual_places() {
    Places places;
#ifdef __unix__
    if (const char* given = std::getenv("KVLOUPE_CUDA_PLUGIN"); given != nullptr && *given != '\0') {
        places.plugins = {given};
        return places;
    }
    const std::string folder = program_folder();
    for (const char* place : {"/", "/../lib/", "/../", "/../../"}) places.plugins.push_back(folder + place + library_name);
#endif
    return places;
}

Result<CudaPlugin> CudaPlugin::open(const Places& places) {
    const std::string hint = "Use the device 'cpu' or 'auto'";
#ifdef __unix__
    void* driver = dlopen(places.driver.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (driver == nullptr) return Error{"No NVIDIA driver: " + places.driver + " was not found", hint};
    std::string file;
    for (const std::string& candidate : places.plugins)
        if (file.empty() && access(candidate.c_str(), R_OK) == 0) file = candidate;
    if (file.empty()) {
        dlclose(driver);
        return Error{"An NVIDIA driver is installed, but this build has no CUDA backend (no " + std::string(library_name) +
                         (places.plugins.size() == 1 ? " at " + places.plugins.front() : " beside the program") + ")", hint};
    }
    // Local: cuBLAS and the CUDA runtime must not meet other copies of theirs in this process.
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const std::string problem = last_problem();
        const bool blas = problem.find("libcublas") != std::string::npos;
        return Error{std::string("An NVIDIA driver is installed, but the CUDA backend does not load: ") +
                         (blas ? "cuBLAS is missing (" + problem + ")" : problem), hint};
    }
    void* symbol = dlsym(library, cuda::plugin_entry_name);
    const auto entry_of = reinterpret_cast<decltype(&kvloupe_cuda_plugin)>(symbol);
    const cuda::PluginEntry* entry = entry_of == nullptr ? nullptr : entry_of();
    if (entry == nullptr || entry->version != cuda::plugin_version || entry->fingerprint != cuda::plugin_fingerprint()) {
        dlclose(library);
        return Error{file + " is of another build of this program", "Build both again, or remove the file"};
    }
    return CudaPlugin(entry);
#else
    (void)places;
    return Error{"The CUDA backend is for Linux", hint};
#endif
}

}  // namespace kvloupe
