// SPDX-License-Identifier: GPL-3.0-or-later
//
// The files of a run: summary.json, steps.csv, events.csv, trace.json, blocks.json (contract, section 4).
#pragma once

#include "engine/record/recording.h"
#include "engine/record/result.h"

#include <string>

namespace kvloupe {

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
