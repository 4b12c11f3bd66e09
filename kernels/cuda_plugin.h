// SPDX-License-Identifier: GPL-3.0-or-later
//
// CudaPlugin: opens the CUDA backend on demand. The program is never linked to CUDA; where driver, plugin or cuBLAS are
// missing it goes on with the CPU and says which of them it was.
#pragma once

#include "engine/record/result.h"
#include "kernels/cuda/plugin.h"

#include <string>
#include <vector>

namespace kvloupe {

class CudaPlugin {
public:
    struct Places {
        std::string driver = "libcuda.so.1";
        std::vector<std::string> plugins;  // files to try, in this order; the first that exists is opened
    };
    // $KVLOUPE_CUDA_PLUGIN alone if it is set; else libkvloupe_cuda.so beside the program, in ../lib, and up to two folders
    // above the program, where a build folder has it.
    static Places usual_places();

    // Errors, as one sentence: no driver, no plugin in this build, a library that the plugin needs (cuBLAS) is missing, a
    // plugin of another build. The plugin stays in memory until the program ends: what it makes lives in it.
    static Result<CudaPlugin> open(const Places& places = usual_places());

    cuda::CardList cards() const { return m_entry->cards(); }
    Result<std::unique_ptr<Backend>> make_backend(int card) const { return m_entry->make_backend(card); }

private:
    explicit CudaPlugin(const cuda::PluginEntry* entry) : m_entry(entry) {}
    const cuda::PluginEntry* m_entry;
};

}  // namespace kvloupe
