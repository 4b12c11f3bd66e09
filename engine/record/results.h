// SPDX-License-Identifier: GPL-3.0-or-later
//
// The files of a run: summary.json, steps.csv, events.csv, trace.json, blocks.json (contract, section 4).
#pragma once

#include "engine/record/recording.h"
#include "engine/record/result.h"

#include <string>

namespace kvloupe {

// Rules where the contract leaves room:
// - time.prefill_ms, decode_ms, decode_tokens_per_s: time_split of figures.h. itl_ms: percentile of figures.h.
// - kv.slots: mean over all steps of a kind's share of the pool's slots, null block excluded; they sum to 1.
// - kv.waste_percent: mean over the steps in which a request waits (over all if none ever does) of those that hold
//   slots. Reserved and internal are recounted with what is known at the end (recount.h), here and in steps.csv.
// - A lane without a cache holds 0 blocks and 0 bytes; its shares and sizes per token and block are null.
// - A finish_reason is null while the request lives; times are null where nothing was measured.
// - `origins` names for each key whether its numbers are measured, derived or predicted.
// - requests[].sequences[] lists forks, samples and beams with `parent` and `forked_at`, but no beam that better
//   continuations replaced; a request that became several sequences has the result of the first.
// - events.csv: `other_block` is where a copy went, of a swap the block of host memory.
// - blocks.json: a contiguous lane's free blocks stand in the order of their addresses; `group_tables` is a list, by group,
//   of what `tables` is for group 0.
// - `memory`: by device that has memory of its own, at the end: the driver's total and used bytes, what weights, pools and
//   activations take of them, and the residual, which nobody here allocated. Absent where no device has any.
// - CSV rows go step by step, within a step lane by lane; lines end in CR LF (RFC 4180); times have three decimals.
struct ResultOptions {
    bool blocks = false;                                 // write blocks.json
    std::uint64_t trace_limit_bytes = 200ull * 1000 * 1000;  // longer traces are thinned, and say so
};

// Creates the folder if need be. Each file is written beside its place and renamed, so that a full disk or a read-only
// folder leaves nothing half-written. Errors name file and reason.
Result<void> write_results(const Recording& recording, const std::string& folder, const ResultOptions& options);

// The single documents, for tests and for the clipboard.
std::string summary_json(const Recording& recording);
std::string steps_csv(const Recording& recording);
std::string events_csv(const Recording& recording);
std::string trace_json(const Recording& recording, std::uint64_t limit_bytes);
std::string blocks_json(const Recording& recording);

}  // namespace kvloupe
