// SPDX-License-Identifier: GPL-3.0-or-later
//
// A memory snapshot of PyTorch's CUDA caching allocator (torch.cuda.memory._dump_snapshot, FORMATS 2.7) as a recording: a lane per
// device with a contiguous pool, a sequence per allocation, a step per action of the allocator.
//
// Rules where the snapshot and a recording differ:
// - The addresses of all segments that ever were, one behind the other, are the pool. A cell (block) stands for `unit` bytes, a
//   power of two from 512 on, so that there are at most about a million; a slot is 512 bytes, the allocator's granule. No cell
//   belongs to two segments; several small allocations can share one. LaneInfo::notes says the unit.
// - Slots: token = asked for, internal = the rest of the block, external = in segments but in no allocation, free = in no segment
//   at that time. They are exact in bytes at the end; a freed block's size is its request rounded up to 512 bytes (the trace tells
//   requests), so internal of earlier steps is a lower bound.
// - What was allocated before the trace begins is told by step 0, found by walking back from the end.
// - A block lives until free_completed; free_requested alone keeps it (another stream still uses it).
// - Events: admit (tokens: slots asked for; detail: bytes, stream, site), allocate per cell, prefill (the part that was asked for),
//   free per cell, finish. An out-of-memory is a refuse event of a sequence of its own.
// - Requests are call sites: the innermost frame outside of torch. More than max_steps actions: several a step.
#pragma once

#include "engine/record/kvt_reader.h"
#include "engine/record/result.h"

#include <string>
#include <string_view>

namespace kvloupe {

struct SnapshotOptions {
    std::uint64_t max_cells = 1u << 20;
    std::uint64_t max_events = 8'000'000;  // allocate and free; larger cells where there would be more
    std::size_t max_steps = 200'000;
};

// name: for sentences and the title. Errors: one sentence: a pickle that is more than data, or cut off; not a snapshot; a size or
// address that cannot be.
Result<StoredRecording> memory_snapshot(std::string_view bytes, const std::string& name, const SnapshotOptions& options = {});
Result<StoredRecording> open_memory_snapshot(const std::string& path);

}  // namespace kvloupe
