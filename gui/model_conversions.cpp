// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/model_conversions.h"

#include "engine/serve/calibration.h"

namespace kvloupe {

Result<std::shared_ptr<const Model>> ModelConversions::get(std::shared_ptr<const Model> model, const ConvertOptions& options,
                                                           const LoadOptions& run) {
    const std::lock_guard lock(m_mutex);
    auto& held = m_made[{model->weights_id, options.text()}];
    if (auto made = held.lock()) return made;
    auto converted = convert(std::move(model), options, run);
    if (converted) held = *converted;
    return converted;
}

Result<std::shared_ptr<const Model>> ModelConversions::convert(std::shared_ptr<const Model> model, const ConvertOptions& options,
                                                               const LoadOptions& run) const {
    if (options.to != ConvertOptions::Target::mla || options.by != ConvertOptions::Measure::sensitivity)
        return convert_model(std::move(model), options, run);
    if (auto possible = converted_config(model->config, options); !possible) return possible.error();
    if (!model->tokenizer)
        return Error{"by: 'sensitivity' measures the model on a text, but '" + model->config.name + "' has no tokenizer",
                     "Give \"by\": \"energy\"."};
    auto source = calibration_source(*model, m_stories);
    if (!source) return source.error();
    auto items = quality_items(*source, *model->tokenizer, model->config.context_length);
    if (!items) return items.error();
    std::vector<std::vector<TokenId>> texts;
    for (QualityItem& item : *items) texts.push_back(std::move(item.tokens));
    auto backend = m_make_backend("cpu");
    if (!backend) return backend.error();
    auto calibration = calibrate(model, std::shared_ptr<Backend>(std::move(*backend)), std::move(texts), run);
    if (!calibration) return calibration.error();
    return convert_model(std::move(model), options, run, &*calibration);
}

}  // namespace kvloupe
