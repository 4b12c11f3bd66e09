// SPDX-License-Identifier: GPL-3.0-or-later
//
// Opens whatever can be looked at as a recording: a recording file (.kvt) or a PyTorch memory snapshot (.pickle).
#pragma once

#include "engine/record/kvt_reader.h"

#include <string>

namespace kvloupe {

// By the name's end: .pickle or .pkl is a snapshot, all else a recording file. Errors as open_kvt() and memory_snapshot().
Result<StoredRecording> open_recording(const std::string& path);
bool names_snapshot(const std::string& path);

}  // namespace kvloupe
