// SPDX-License-Identifier: GPL-3.0-or-later
//
// ModelConversions: models whose attention was converted, made once and shared as long as a session uses them; and what a
// conversion by sensitivity needs besides the model, a text (quality_source.h) and a device, the CPU, because latents with late
// rotation run there alone. One conversion at a time.
#pragma once

#include "engine/model/convert_options.h"
#include "engine/serve/session.h"
#include "gui/quality_source.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace kvloupe {

class ModelConversions {
public:
    // stories: how many a model of the bundled family is measured on.
    explicit ModelConversions(BackendFactory make_backend, std::uint32_t stories = calibration_stories)
        : m_make_backend(std::move(make_backend)), m_stories(stories) {}

    // Errors: convert_model()'s and calibrate()'s; where sensitivity is asked for, a model without a tokenizer or a text too short.
    Result<std::shared_ptr<const Model>> get(std::shared_ptr<const Model> model, const ConvertOptions& options,
                                             const LoadOptions& run);

private:
    Result<std::shared_ptr<const Model>> convert(std::shared_ptr<const Model> model, const ConvertOptions& options,
                                                 const LoadOptions& run) const;

    BackendFactory m_make_backend;
    std::uint32_t m_stories;
    std::mutex m_mutex;
    std::map<std::pair<std::uint64_t, std::string>, std::weak_ptr<const Model>> m_made;  // by the source's weights and the options
};

}  // namespace kvloupe
