// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/quality_source.h"

#include "engine/model/mapped_file.h"
#include "gui/environment.h"

#include <filesystem>

namespace kvloupe {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t most_bytes = 64ull << 20;  // 16 million tokens: a day of a small model's work

fs::path held_out(const char* file) { return fs::path(resource_folder()) / "quality" / file; }

Result<QualitySource> all_stories() {
    auto stories = MappedFile::open(held_out("stories.json").string());
    if (!stories) return stories.error();
    auto questions = MappedFile::open(held_out("recall.json").string());
    if (!questions) return questions.error();
    return QualitySource::from_stories((*stories)->bytes(), (*questions)->bytes());
}

}  // namespace

bool knows_stories(const Scenario& scenario) {
    const std::string folder = (fs::path(resource_folder()) / "models").string() + "/";
    for (const LaneOptions& lane : scenario.lanes) {
        if (is_accounting(scenario, lane)) continue;
        const std::string& model = lane.model.empty() ? scenario.model : lane.model;
        if (model != "bundled" && model.rfind("bundled:", 0) != 0 && model.rfind(folder, 0) != 0) return false;
    }
    return true;
}

Result<QualitySource> default_quality_source(const Scenario& scenario) {
    return knows_stories(scenario) ? all_stories() : quality_source_of_file(held_out("prose.txt").string());
}

bool is_bundled(const Model& model) {
    std::error_code absent;
    if (model.files.empty()) return false;
    const fs::path folder = fs::path(model.files.front()->path()).parent_path();
    return fs::equivalent(folder.parent_path(), fs::path(resource_folder()) / "models", absent);
}

Result<QualitySource> calibration_source(const Model& model, std::uint32_t stories_to_take) {
    if (!is_bundled(model)) return quality_source_of_file(held_out("prose.txt").string());
    auto stories = all_stories();
    if (!stories) return stories.error();
    if (stories->texts.size() > stories_to_take)
        stories->texts.erase(stories->texts.begin(), stories->texts.end() - static_cast<std::ptrdiff_t>(stories_to_take));
    stories->questions.clear();
    stories->name = "the last " + std::to_string(stories->texts.size()) + " stories";
    return stories;
}

Result<QualitySource> quality_source_of_file(const std::string& path) {
    auto file = MappedFile::open(path);
    if (!file) return file.error();
    if ((*file)->bytes().size() > most_bytes)
        return Error{path + " has " + std::to_string((*file)->bytes().size() >> 20) + " MiB", "Give a text of at most 64 MiB."};
    return QualitySource::from_text((*file)->bytes(), fs::path(path).filename().string());
}

}  // namespace kvloupe
