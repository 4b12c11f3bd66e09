// SPDX-License-Identifier: GPL-3.0-or-later
//
// Where things are on this machine: resources, bundled models, the log. No Qt GUI needed.
#pragma once

#include "engine/analysis/known_models.h"
#include "engine/record/kvt_writer.h"
#include "engine/record/result.h"
#include "engine/serve/session.h"

#include <string>
#include <vector>

namespace kvloupe {

// The folder `resources`: beside the sources it was built from, or ../share/kvloupe beside the installed program, or
// what KVLOUPE_RESOURCES names.
std::string resource_folder();

// "gqa" -> resources/models/gqa; error names the models there are.
Result<std::string> bundled_model_path(const std::string& name);
// Names of the bundled models, sorted: the folders of resources/models with a config.json.
std::vector<std::string> bundled_models();
// The name that "bundled" alone stands for.
std::string default_bundled_model();

// Path of `bundled`, `bundled:NAME` or a path.
Result<std::string> resolve_model(const std::string& model);

// The table of known models among the resources.
Result<KnownModels> known_models();

// Logs (spdlog) go to stderr (warnings and errors) and, where a folder can be written, to a file; never to stdout.
void set_up_logging();

// Milliseconds since this process was started, from /proc (10 ms steps); 0 where that is absent.
double process_age_ms();

// A session's way to models and devices. Models are loaded once per path and shared; `threads`: 0 = one per core.
SessionOptions session_options(unsigned threads = 0);

// How this program writes recordings: its name and version, this machine's processor and system. scenario: JSON, or "".
KvtOptions kvt_options(const std::string& path, const std::string& scenario);

}  // namespace kvloupe
