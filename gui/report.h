// SPDX-License-Identifier: GPL-3.0-or-later
//
// A report of a recording: one HTML file without anything outside itself. Pictures of the views at the last step (SVG), the numbers of
// its lanes with their origins, requests, configuration, versions and the machine.
#pragma once

#include "engine/record/kvt_reader.h"

#include <string>

namespace kvloupe {

// A QApplication must be there: pictures are painted.
Result<std::string> report_html(const StoredRecording& stored);

}  // namespace kvloupe
