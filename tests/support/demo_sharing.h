// SPDX-License-Identifier: GPL-3.0-or-later
//
// Synthetic recordings of lanes that share, copy, evict, preempt and swap, for tests of views and exports. Small engines
// replay made-up requests by the rules (CACHE_SEMANTICS 1.1, 1.4; contract, section 3) through a RecordingWriter. Times
// are set and tokens come from a hash: the same options always give the same recording.
//
// Lanes, over the same requests:
//   "paged"     chained hashes, preemption by recomputation     "swap"    the same, preemption by swapping
//   "windows"   two KV cache groups, the second with a window   "radix"   radix tree that keeps blocks and deduplicates
//   "max", "oracle"   contiguous regions by max_model_len and by true length, from a buddy allocator
// and on demand (DemoSharingOptions::lanes)
//   "pow2", "grow"    regions by the power of two, and growing by copy
//   "static"          like "paged", by static batching
//
// The cast (defaults: 240 steps, 80 blocks of 16 slots; S: a system prompt of 64 tokens):
//   a  S + 20, 60 new, from step 0     b  S + 13, 40 new, from step 4: finds S in the cache
//   c  step 20: forks from a at position 85, in the middle of a block that a has filled further; 5 tokens of its own
//   d  S + 9, n = 3, from step 8: d.0, d.1, d.2 share the prompt, d.0 and d.1 copy its last block, d.2 writes in place
//   e  200 + 60 from step 12, in chunks   f, g  150 + 220 and 130 + 250 from steps 26 and 28: they hold much and live long
//   h  step 30, rejected: it exceeds the pool
//   r0, r1, …  in steps 80-118 and 160-198, each with one of four system prompts: blocks are cached, hit again and
//      evicted; about steps 112-122 and from 180 on the pool is full, someone is preempted, waits and resumes
//   Request number 15, 31, … is cancelled. One in eight of r0, r1, … has priority -1, which these lanes do not heed.
#pragma once

#include "engine/record/writer.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe {

struct DemoSharingOptions {
    std::uint32_t steps = 240;
    std::uint32_t blocks = 80;        // null block included
    std::uint32_t block_size = 16;
    std::uint32_t token_budget = 128; // of a step; longer prompts are prefilled in chunks
    std::uint32_t max_num_seqs = 16;
    bool cast = true;                 // a to h; else only r0, r1, …
    std::uint32_t every = 2;          // steps between arrivals of r0, r1, …
    std::uint32_t arrivals = 1;       // requests that arrive together then
    std::uint32_t prompt = 80;        // tokens of r0, r1, … about
    std::uint32_t new_tokens = 40;    // of r0, r1, … about
    std::uint32_t window = 48;        // of lane "windows"
    bool tokens = true;               // token records; without them a million-token recording is small
    std::vector<std::string> lanes = {"paged", "swap", "windows", "radix", "max", "oracle"};

    // 1,000,000 blocks × `steps` steps, one lane, thousands of sequences: seconds to make.
    static DemoSharingOptions large(std::uint32_t steps = 10000, std::uint32_t blocks = 1000000);
};

std::shared_ptr<const Recording> demo_sharing_recording(const DemoSharingOptions& options = {});

// The same, step by step: for tests of what happens while a recording grows.
class DemoEngine;
class DemoSharingSession {
public:
    explicit DemoSharingSession(const DemoSharingOptions& options = {});
    ~DemoSharingSession();

    std::shared_ptr<const Recording> recording() const { return m_writer.recording(); }
    bool step();  // all lanes; false when options.steps are reached
    void run();   // to the end, then the phase is paused
    RecordingWriter& writer() { return m_writer; }

private:
    DemoSharingOptions m_options;
    RecordingWriter m_writer;
    std::vector<std::unique_ptr<DemoEngine>> m_lanes;
    std::uint64_t m_time_ns = 0;
    std::uint32_t m_step = 0;
};

}  // namespace kvloupe
