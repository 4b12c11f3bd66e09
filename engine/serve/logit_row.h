// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/backend.h"
#include "engine/serve/sampler.h"

#include <span>

namespace kvloupe {

// What a pass says about the next token of one sequence: all logits, or the device's summary of them where that is
// enough; nothing where none was asked for, or without a model.
struct LogitRow {
    std::span<const float> values = {};     // (vocabulary)
    const LogitSummary* summary = nullptr;

    bool present() const { return summary != nullptr || !values.empty(); }
    bool finite() const { return summary ? summary->finite : all_finite(values); }
};

}  // namespace kvloupe
