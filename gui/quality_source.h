// SPDX-License-Identifier: GPL-3.0-or-later
//
// Which text the lanes of a scenario are measured on when nothing else is said, and how a file of the user's is read.
#pragma once

#include "engine/serve/quality_text.h"
#include "engine/serve/scenario.h"

#include <string>

namespace kvloupe {

// Whether all lanes with a model run bundled models, converted or not: they know the stories.
bool knows_stories(const Scenario& scenario);

// The stories and questions that come with the program where all lanes know them, else its prose.
Result<QualitySource> default_quality_source(const Scenario& scenario);

// Errors: a file that cannot be read, is too large or is no text in UTF-8.
Result<QualitySource> quality_source_of_file(const std::string& path);

}  // namespace kvloupe
