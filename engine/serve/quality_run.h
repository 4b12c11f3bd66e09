// SPDX-License-Identifier: GPL-3.0-or-later
//
// Measures the lanes of a scenario on held-out text. Every lane is given the same tokens, whatever it would have said itself
// (teacher forcing), group by group, the reference lane first, so that only a group's logits are held in memory.
// The result is the same to the bit however often it is measured on the same device and with the same threads.
#pragma once

#include "engine/record/quality.h"
#include "engine/serve/quality_text.h"
#include "engine/serve/session.h"

#include <functional>
#include <stop_token>
#include <string>

namespace kvloupe {

struct QualityOptions {
    QualitySource source;
    std::string reference;                     // a lane's name; "": the first lane with a model
    std::uint64_t memory_bytes = 256ull << 20; // most that the reference's logits take at a time
    std::stop_token stop;
    // May be empty; called by the measuring thread.
    std::function<void(double fraction, const std::string& what)> progress;
    std::function<void(const QualityReport&)> partial;  // after every group: figures of what all lanes have read
};

// The scenario's lanes (requests, actions and breakpoints do not matter) on models and devices of the session options. A lane
// that fails on the way keeps its figures and says why; the others go on. When it is stopped, the report says `cancelled` and its
// figures are of what all lanes have read. Errors: no lane has a model, an unknown reference, a text too short; what a session
// would refuse.
Result<QualityReport> measure_quality(const Scenario& scenario, const SessionOptions& session, const QualityOptions& options);

}  // namespace kvloupe
