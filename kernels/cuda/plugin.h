// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the CUDA plugin (libkvloupe_cuda.so) hands to the program that opens it. Program and plugin are built from the same
// sources by the same compiler, so the interface is C++ behind one C function; a plugin of another build is refused by its
// number and its fingerprint before anything else of it is touched.
//
// A plugin, because cuBLAS is 596 MB, costs 60-80 ms at every start, and a missing libcublas.so would end a linked program in
// the loader. Once opened it stays until the program ends: backends live in it.
#pragma once

#include "engine/backend.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe::cuda {

// A card as the driver describes it.
struct CardReport {
    int index = 0;                   // N of "cuda:N"
    std::string name;
    int major = 0, minor = 0;        // compute capability
    std::uint64_t memory_bytes = 0;
    std::uint64_t free_bytes = 0;
    std::string detail;              // "compute capability 9.0, 132 multiprocessors, driver 13.0"
    std::string refusal;             // why it cannot compute for us; empty: it can
};

struct CardList {
    std::vector<CardReport> cards;
    std::string none;                // why there are none; empty where there are
};

struct PluginEntry {
    std::uint32_t version = 0;       // first: read before anything else
    std::uint32_t fingerprint = 0;
    CardList (*cards)() = nullptr;
    // Errors: no such card, one that cannot compute, no memory for what every backend needs, no cuBLAS.
    Result<std::unique_ptr<Backend>> (*make_backend)(int card) = nullptr;
};

// Changes whenever the meaning of what is handed over changes.
inline constexpr std::uint32_t plugin_version = 1;

// Of the layout of what is handed over, so that a plugin of other sources is found out even where nobody changed the number.
constexpr std::uint32_t plugin_fingerprint() {
    std::uint32_t sum = 0;
    for (std::size_t size : {sizeof(PluginEntry), sizeof(CardReport), sizeof(Batch), sizeof(Batch::Sequence), sizeof(KvCacheShape),
                             sizeof(AttentionShape), sizeof(AttentionProbe), sizeof(LogitSummary), sizeof(DeviceInfo),
                             sizeof(MemoryCounters), sizeof(Ceilings), sizeof(Tensor), sizeof(StageTiming), sizeof(PassShape)})
        sum = sum * 31 + static_cast<std::uint32_t>(size);
    return sum * 31 + static_cast<std::uint32_t>(stage_kind_count);
}

inline constexpr const char* plugin_entry_name = "kvloupe_cuda_plugin";

}  // namespace kvloupe::cuda

extern "C" const kvloupe::cuda::PluginEntry* kvloupe_cuda_plugin();
