// SPDX-License-Identifier: GPL-3.0-or-later
//
// Sessions over generated models whose layers may see different windows, and what they recorded.
#pragma once

#include "engine/model/generate_model.h"
#include "tests/serve/support.h"

namespace kvloupe::test {

// windows (layers): 0 sees all.
inline std::shared_ptr<const Model> generated_model(const std::vector<std::uint32_t>& windows, std::uint32_t kv_heads = 2) {
    GenerateOptions options;
    ModelConfig& shape = options.shape;
    shape.layers = static_cast<std::uint32_t>(windows.size());
    shape.hidden = 64;
    shape.query_heads = 4;
    shape.kv_heads = kv_heads;
    shape.head_dim = 32;
    shape.intermediate = 64;
    shape.vocabulary = 96;
    shape.context_length = 512;
    shape.make_uniform();
    for (std::size_t i = 0; i < windows.size(); ++i) shape.layer_shapes[i].window = windows[i];
    options.matrices = DType::f32;
    options.seed = 7;
    auto made = generate_model(options);
    if (!made) throw std::runtime_error(made.error().message());
    return *made;
}

// The lanes and requests of `rest` over that model, on the CPU.
inline Result<std::unique_ptr<Session>> make_session(std::shared_ptr<const Model> model, const std::string& rest,
                                                     SessionOptions given = options()) {
    given.find_model = [model](const std::string&) -> Result<std::shared_ptr<const Model>> { return model; };
    return Session::create(scenario("{\"version\": 1, \"device\": \"cpu\", " + rest + "}"), std::move(given));
}

inline std::unique_ptr<Session> session_of(std::shared_ptr<const Model> model, const std::string& rest, SessionOptions given = options()) {
    auto made = make_session(std::move(model), rest, std::move(given));
    if (!made) throw std::runtime_error(made.error().message());
    return std::move(*made);
}

// A request of `prompt` and `output` tokens that generated models know.
inline std::string small_request(const char* id, int prompt, int output, const char* more = "") {
    const auto list = [](int count, int from) {
        std::string text = "[";
        for (int i = 0; i < count; ++i) text += std::to_string(1 + (from + i * 7) % 95) + (i + 1 < count ? "," : "");
        return text + "]";
    };
    return std::string("{\"id\": \"") + id + "\", \"prompt_tokens\": " + list(prompt, 3) + ", \"output_tokens\": " + list(output, 50) + more + "}";
}

}  // namespace kvloupe::test
