// SPDX-License-Identifier: GPL-3.0-or-later
//
// How many blocks each lane's pool has: as the scenario says, or by rule where it says auto.
// - An accounting lane: accounting_blocks.
// - On a device whose memory others use too (a CPU): what the requests at hand can use at once, at most a quarter of the
//   free memory; with no request at hand one sequence of the whole context.
// - On a device with memory of its own (a GPU): the lane's memory_share of the whole memory, less what is in use (the
//   weights are loaded by then), less what the lanes need for activations and pools of a given size; what is left is
//   divided evenly between the lanes of the device that say auto. The same meaning as vLLM's gpu_memory_utilization.
#pragma once

#include "engine/serve/lane.h"

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe {

inline constexpr std::uint32_t accounting_blocks = 1024;
inline constexpr std::uint32_t max_automatic_blocks = 1'000'000;  // lists of the recorder and pixels of the window stay bounded

// Sets LaneSetup::blocks (null block included) of every lane with a cache. requests (lanes, requests).
// Errors: a pool larger than the free memory, or no room for one, with the sizes and what would fit.
Result<void> size_pools(std::vector<LaneSetup>& lanes, std::span<const std::vector<Request>> requests);

// Bytes of device memory that a lane's activations take at the most: a step of its whole token budget with every sequence
// it may run (derived). Without a cache: those and the K/V of its longest sequence.
std::uint64_t activation_bytes(const LaneSetup& lane, std::span<const Request> requests);

}  // namespace kvloupe
