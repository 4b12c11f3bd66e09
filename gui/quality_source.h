// SPDX-License-Identifier: GPL-3.0-or-later
//
// Which text the lanes of a scenario are measured on when nothing else is said, and how a file of the user's is read.
#pragma once

#include "engine/model/model.h"
#include "engine/serve/quality_text.h"
#include "engine/serve/scenario.h"

#include <string>

namespace kvloupe {

// Whether all lanes with a model run bundled models, converted or not: they know the stories.
bool knows_stories(const Scenario& scenario);

// The stories and questions that come with the program where all lanes know them, else its prose.
Result<QualitySource> default_quality_source(const Scenario& scenario);

// The text that a model is measured on before a conversion by sensitivity: the last stories for the bundled models, the prose for
// others. (Measurements take the first stories, so a part of them can be kept apart from it.)
inline constexpr std::uint32_t calibration_stories = 48;
Result<QualitySource> calibration_source(const Model& model, std::uint32_t stories_to_take = calibration_stories);
// Whether it was loaded from the bundled models' folder, converted or not.
bool is_bundled(const Model& model);

// Errors: a file that cannot be read, is too large or is no text in UTF-8.
Result<QualitySource> quality_source_of_file(const std::string& path);

}  // namespace kvloupe
