// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a memory snapshot says, by device, in plain numbers: the input of memory_snapshot().
#pragma once

#include "engine/record/plain_pickle.h"
#include "engine/record/result.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kvloupe {

struct SnapshotBlock {
    std::uint64_t address = 0, size = 0, requested = 0;  // bytes
    std::uint32_t site = 0;
    std::int64_t stream = 0;
};

struct SnapshotAction {
    enum Kind : std::uint8_t { alloc, free, segment_alloc, segment_free, oom };
    Kind kind = alloc;
    std::uint64_t address = 0;  // of oom: bytes that were free on the device
    std::uint64_t size = 0;     // as the trace has it: of alloc and free the request
    std::int64_t time_us = 0;
    std::uint32_t site = 0;
    std::int64_t stream = 0;
};

struct SnapshotRange {
    std::uint64_t begin = 0, end = 0;
};

struct SnapshotDevice {
    std::map<std::uint64_t, SnapshotBlock> live;  // at the end, by address
    std::vector<SnapshotRange> segments;          // at the end
    std::vector<SnapshotAction> actions;
};

struct SnapshotTrace {
    std::map<std::int64_t, SnapshotDevice> devices;  // those with anything
    std::vector<std::string> sites;                  // "forward (model.py:31)"
    std::string settings;                            // the allocator's, "key value, …"
};

Result<SnapshotTrace> read_snapshot(const PlainPickle& pickle);

// What was live before the first action, and how many bytes the segments had.
struct SnapshotStart {
    std::map<std::uint64_t, SnapshotBlock> live;
    std::uint64_t reserved = 0;
};
SnapshotStart start_of(const SnapshotDevice& device);

// The allocator gives multiples of this (kMinBlockSize of CUDACachingAllocator).
inline constexpr std::uint64_t snapshot_granule = 512;
constexpr std::uint64_t granules(std::uint64_t bytes) { return (bytes + snapshot_granule - 1) / snapshot_granule; }

}  // namespace kvloupe
