// SPDX-License-Identifier: GPL-3.0-or-later
//
// The scenario that a recording file holds, so that it can be run again from it.
#pragma once

#include "engine/record/kvt_reader.h"
#include "engine/serve/scenario.h"

#include <string>

namespace kvloupe {

// As JSON for a recording's meta `scenario`. Paths of models are made absolute: the file is opened from anywhere.
std::string stored_scenario(Scenario scenario);

// Back from an opened file. Errors: the file holds none, or begins in the middle of its run.
Result<Scenario> scenario_of(const StoredRecording& stored);

}  // namespace kvloupe
