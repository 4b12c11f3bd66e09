// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/open_recording.h"

#include "engine/record/memory_snapshot.h"

#include <string_view>

namespace kvloupe {

bool names_snapshot(const std::string& path) {
    return std::string_view(path).ends_with(".pickle") || std::string_view(path).ends_with(".pkl");
}

Result<StoredRecording> open_recording(const std::string& path) {
    return names_snapshot(path) ? open_memory_snapshot(path) : open_kvt(path);
}

}  // namespace kvloupe
