// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/open_recording.h"

#include "engine/record/memory_snapshot.h"

namespace kvloupe {

bool names_snapshot(const std::string& path) {
    const auto ends = [&](std::string_view end) { return path.size() >= end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0; };
    return ends(".pickle") || ends(".pkl");
}

Result<StoredRecording> open_recording(const std::string& path) { return names_snapshot(path) ? open_memory_snapshot(path) : open_kvt(path); }

}  // namespace kvloupe
