// SPDX-License-Identifier: GPL-3.0-or-later
//
// Models whose attention was converted: fewer heads, and latents whose keys are turned late.
#include "engine/model/convert_model.h"
#include "engine/model/converted_tensors.h"
#include "engine/model/generate_model.h"
#include "tests/serve/decoder_runs.h"
#include "tests/serve/reference_model.h"
#include "tests/support/claims.h"

#include <cstring>
#include <numeric>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

using Target = ConvertOptions::Target;

const std::string family = KVLOUPE_SOURCE_DIR "/tests/fixtures/tiny-family/";

std::shared_ptr<const Model> loaded(const std::string& name) {
    auto model = load_model(family + name);
    if (!model) throw std::runtime_error(model.error().message());
    return *model;
}

std::shared_ptr<const Model> generated(DType type = DType::f32, std::uint32_t kv_heads = 4) {
    GenerateOptions options;
    options.shape.layers = 3;
    options.shape.hidden = 32;
    options.shape.query_heads = 4;
    options.shape.kv_heads = kv_heads;
    options.shape.head_dim = 8;
    options.shape.intermediate = 32;
    options.shape.vocabulary = 64;
    options.shape.context_length = 256;
    options.matrices = type;
    options.seed = 11;
    auto model = generate_model(options);
    if (!model) throw std::runtime_error(model.error().message());
    return *model;
}

ConvertOptions to_heads(std::uint32_t heads) { return {heads == 1 ? Target::mqa : Target::gqa, heads, 0, 0, {}}; }
ConvertOptions to_width(std::uint32_t width) { return {Target::mla, 0, width, 0, {}}; }
ConvertOptions to_budget(std::uint32_t budget) { return {Target::mla, 0, 0, budget, {}}; }

std::vector<TokenId> tokens_of(std::uint32_t count) {
    std::vector<TokenId> tokens;
    for (std::uint32_t i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(2 + (i * 29 + 5) % 60));
    return tokens;
}

std::uint32_t rank_of(const ModelConfig& config) { return std::min(config.hidden, 2 * config.kv_heads * config.head_dim); }

// A twin with ordinary heads whose K and V projections are the latents' products, computed in double.
struct Twin {
    std::shared_ptr<Model> model = std::make_shared<Model>();
    std::vector<std::vector<float>> storage;

    Twin(const Model& source, const Model& latents) {
        *model = source;
        for (std::uint32_t layer = 0; layer < source.config.layers; ++layer) {
            const LatentWeights& weights = latents.layers[layer].latent;
            const std::vector<float> down = elements_of(weights.key_value_down), up = elements_of(weights.key_value_up);
            const std::uint64_t head = source.config.head_dim, width = weights.key_value_down.rows, hidden = source.config.hidden;
            for (const std::uint64_t part : {0u, 1u}) {
                Tensor& tensor = part == 0 ? model->layers[layer].key : model->layers[layer].value;
                std::vector<float>& values = storage.emplace_back(tensor.rows * hidden);
                for (std::uint64_t row = 0; row < tensor.rows; ++row)
                    for (std::uint64_t c = 0; c < hidden; ++c) {
                        double sum = 0;
                        for (std::uint64_t i = 0; i < width; ++i)
                            sum += static_cast<double>(up[((row / head * 2 + part) * head + row % head) * width + i]) *
                                   static_cast<double>(down[i * hidden + c]);
                        values[row * hidden + c] = static_cast<float>(sum);
                    }
            }
        }
        std::size_t next = 0;
        for (LayerWeights& layer : model->layers)
            for (Tensor* tensor : {&layer.key, &layer.value}) {
                tensor->dtype = DType::f32;
                tensor->data = reinterpret_cast<const std::byte*>(storage[next++].data());
            }
    }
};

Cases<std::string> families() {
    Cases<std::string> cases;
    for (const char* name : {"mistral", "mixtral", "qwen2", "qwen3", "llama3-rope", "llama-yarn", "gemma2", "gemma3"}) cases.add(name, name);
    return cases;
}

// The others have one KV head already.
Cases<std::string> families_with_heads() {
    Cases<std::string> cases;
    for (const char* name : {"mistral", "mixtral", "qwen2", "qwen3", "llama3-rope", "llama-yarn"}) cases.add(name, name);
    return cases;
}

void latentsOfFullWidthComeToWhatTheModelDoes(Check& check, const std::string& name) {
    const auto model = loaded(name);
    const auto converted = convert_model(model, to_width(rank_of(model->config)));
    CHECK_RESULT(converted);
    const std::vector<TokenId> tokens = tokens_of(26);
    DecoderRun original(on_the_cpu(model), {}, {tokens});
    const DecodedRows expected = original.run(26);
    for (const std::uint32_t piece : {26u, 1u, 7u}) {
        DecoderRun run(on_the_cpu(*converted), {}, {tokens});
        CHECK_BELOW(largest_gap(run.run(piece), expected), 1e-4);
    }
}

void narrowLatentsComeToWhatHeadsOfTheirProductDo(Check& check, const std::string& name) {
    const auto model = loaded(name);
    const auto converted = convert_model(model, to_width(5));
    CHECK_RESULT(converted);
    const Twin twin(*model, **converted);
    const std::vector<TokenId> tokens = tokens_of(26), shorter(tokens.begin() + 3, tokens.begin() + 14);
    DecoderRun heads(on_the_cpu(twin.model), {}, {tokens, shorter}), latents(on_the_cpu(*converted), {}, {tokens, shorter});
    for (DecoderRun* run : {&heads, &latents}) {
        run->step({10, 4});
        run->step({1, 1});
        run->step({0, 2});
        run->run(4);
    }
    CHECK_BELOW(largest_gap(latents.logits(0), heads.logits(0)), 1e-4);
    CHECK_BELOW(largest_gap(latents.logits(1), heads.logits(1)), 1e-4);
}

Cases<ConvertOptions> possible() {
    Cases<ConvertOptions> cases;
    cases.add("GQA", to_heads(2));
    cases.add("MQA", to_heads(1));
    cases.add("latents of one width", to_width(9));
    cases.add("latents that share a budget", to_budget(23));
    return cases;
}

void aConfigurationIsKnownBeforeTheModelIsMade(Check& check, const ConvertOptions& options) {
    const auto model = generated();
    const auto predicted = converted_config(model->config, options);
    CHECK_RESULT(predicted);
    const auto converted = convert_model(model, options);
    CHECK_RESULT(converted);
    const ModelConfig& made = (*converted)->config;
    CHECK_EQUAL(predicted->attention_variant(), made.attention_variant());
    CHECK_EQUAL(predicted->kv_heads, made.kv_heads);
    std::uint32_t in_all = 0, made_in_all = 0;
    for (std::uint32_t layer = 0; layer < 3; ++layer) {
        CHECK_EQUAL(predicted->layer_shapes[layer].kv_heads, made.layer_shapes[layer].kv_heads);
        in_all += predicted->latent_width(layer);
        made_in_all += made.latent_width(layer);
    }
    CHECK_EQUAL(in_all, made_in_all);
    if (options.budget == 0) CHECK_THAT(predicted->latent == made.latent);
}

void onlyLatentsAreCached(Check& check) {
    const auto converted = convert_model(generated(), to_budget(20));
    CHECK_RESULT(converted);
    DecoderRun run(on_the_cpu(*converted), {}, {tokens_of(9)}, 4);
    const KvCacheShape& shape = run.cache().shape();
    std::uint32_t sum = 0, widest = 0;
    for (const KvLayerShape& layer : shape.layers) {
        CHECK_THAT(layer.latent && layer.kv_heads == 1 && layer.value_dim == 0);
        sum += layer.key_dim;
        widest = std::max(widest, layer.key_dim);
    }
    CHECK_EQUAL(sum, 20u);
    CHECK_EQUAL((*converted)->config.latent.kv_rank, widest);
    CHECK_EQUAL(run.cache().bytes(), std::uint64_t{shape.blocks} * 4 * 20 * 4);
    DecoderRun at_once(on_the_cpu(*converted), {}, {tokens_of(9)}, 4);
    const DecodedRows expected = at_once.run(9);
    CHECK_BELOW(largest_gap(run.run(2), expected), 1e-5);
}

void headsAreMeansOfTheirNeighbours(Check& check, const DType& type) {
    const auto model = generated(type);
    const auto converted = convert_model(model, to_heads(2));
    CHECK_RESULT(converted);
    const Model& m = **converted;
    CHECK_EQUAL(m.config.kv_heads, 2u);
    CHECK_EQUAL(m.config.attention_variant(), "GQA");
    const DType stored = is_float(type) ? type : DType::f16;
    for (std::size_t layer = 0; layer < 3; ++layer) {
        CHECK_THAT(m.layers[layer].key.rows == 16 && m.layers[layer].value.rows == 16 && m.layers[layer].value.dtype == stored);
        CHECK_THAT(m.layers[layer].query.data == model->layers[layer].query.data);
        for (Tensor LayerWeights::*const part : {&LayerWeights::key, &LayerWeights::value}) {
            const Tensor *const from = &(model->layers[layer].*part), *const to = &(m.layers[layer].*part);
            const std::vector<float> before = elements_of(*from), after = elements_of(*to);
            for (std::size_t i = 0; i < after.size(); ++i) {
                const std::size_t head = i / (8 * 32), rest = i % (8 * 32);
                const float first = before[2 * head * 8 * 32 + rest], second = before[(2 * head + 1) * 8 * 32 + rest];
                const double mean = (static_cast<double>(first) + static_cast<double>(second)) / 2;
                CHECK_BELOW(std::abs(static_cast<double>(after[i]) - mean), stored == DType::f32 ? 1e-7 : 1e-3);
            }
        }
    }
}

Cases<DType> types() {
    Cases<DType> cases;
    for (const DType type : {DType::f32, DType::f16, DType::q8_0}) cases.add(std::string(name_of(type)), type);
    return cases;
}

void fewerHeadsAreAnOrdinaryModel(Check& check, const std::string& name) {
    const auto model = loaded(name);
    const auto converted = convert_model(model, to_heads(1));
    CHECK_RESULT(converted);
    CHECK_EQUAL((*converted)->config.attention_variant(), "MQA");
    const std::vector<TokenId> tokens = tokens_of(20);
    DecoderRun run(on_the_cpu(*converted), {}, {tokens});
    CHECK_BELOW(largest_gap(run.run(6), ReferenceModel(**converted).logits(tokens)), 1e-4);
}

void theSourceMayGo(Check& check) {
    auto model = generated();
    const auto id = model->weights_id;
    auto converted = convert_model(model, to_heads(2)), again = convert_model(model, to_heads(2)), other = convert_model(model, to_heads(1));
    CHECK_THAT(converted && again && other);
    CHECK_EQUAL((*converted)->weights_id, (*again)->weights_id);
    CHECK_THAT((*converted)->weights_id != id && (*converted)->weights_id != (*other)->weights_id);
    CHECK_EQUAL((*converted)->config.parameters, model->config.parameters - 3 * 2 * 16 * 32);
    CHECK_EQUAL((*converted)->config.weight_bytes, model->config.weight_bytes - 4 * 3 * 2 * 16 * 32);
    model.reset();
    DecoderRun run(on_the_cpu(*converted), {}, {tokens_of(5)});
    CHECK_EQUAL(run.run(5).size(), std::size_t{5});
}

void exposedInputsAreTheModel(Check& check) {
    const auto model = generated();
    const auto inputs = expose_inputs(model);
    CHECK_RESULT(inputs);
    DecoderRun a(on_the_cpu(model), {}, {tokens_of(12)}), b(on_the_cpu(*inputs), {}, {tokens_of(12)});
    CHECK_BELOW(largest_gap(a.run(5), b.run(5)), 1e-4);
    CHECK_EQUAL(b.cache().shape().layers[0].key_dim, 32u);
}

// The loss is a function of the widths that is known here: layer 1 is the only one that costs anything.
void sensitiveLayersGetTheBudget(Check& check) {
    ConvertCalibration calibration;
    for (int layer = 0; layer < 3; ++layer) {
        calibration.covariances.emplace_back(32 * 32, 0.0);
        for (std::size_t i = 0; i < 32; ++i) calibration.covariances.back()[i * 33] = 1;
    }
    calibration.loss = [](std::shared_ptr<const Model> model) -> Result<double> { return 1 + (32 - model->config.latent_width(1)) * 0.1; };
    ConvertOptions options = to_budget(48);
    options.by = ConvertOptions::Measure::sensitivity;
    const auto converted = convert_model(generated(), options, {}, &calibration);
    CHECK_RESULT(converted);
    CHECK_EQUAL((*converted)->config.latent_width(1), 32u);
    CHECK_EQUAL((*converted)->config.latent_width(0) + (*converted)->config.latent_width(2), 16u);
    calibration.loss = [](std::shared_ptr<const Model>) -> Result<double> { return Error{"Measuring was cancelled", ""}; };
    const auto stopped = convert_model(generated(), options, {}, &calibration);
    CHECK_THAT(!stopped);
    CHECK_EQUAL(stopped.error().sentence, "Measuring was cancelled");
}

struct Refused {
    ConvertOptions options;
    std::string sentence;
};

Cases<Refused> refused() {
    Cases<Refused> cases;
    cases.add("heads that do not divide", {to_heads(3), "kv_heads: 3 does not divide the 4 KV heads of layer 0"});
    cases.add("more heads", {to_heads(8), "kv_heads: 8 does not divide"});
    cases.add("as many heads", {to_heads(4), "4 KV heads already"});
    cases.add("a width beyond the projection", {to_width(33), "width: 33 is beyond the projection, whose rank is at most 32"});
    cases.add("a budget below the layers", {to_budget(2), "budget: 2 values for 3 layers is out of range"});
    cases.add("a budget beyond the projections", {to_budget(97), "budget: 97 values"});
    Refused unmeasured{to_width(8), "by: 'sensitivity' needs a text"};
    unmeasured.options.by = ConvertOptions::Measure::sensitivity;
    cases.add("sensitivity without a text", unmeasured);
    return cases;
}

void whatCannotBeIsRefused(Check& check, const Refused& given) {
    const auto converted = convert_model(generated(), given.options);
    CHECK_THAT(!converted);
    CHECK_OR_SAY(converted.error().sentence.find(given.sentence) != std::string::npos, converted.error().sentence);
}

void latentsAreNotConvertedAgain(Check& check) {
    const auto once = convert_model(generated(), to_width(8));
    CHECK_RESULT(once);
    for (const auto& options : {to_width(4), to_heads(1)}) {
        const auto twice = convert_model(*once, options);
        CHECK_THAT(!twice);
        CHECK_OR_SAY(twice.error().sentence.find("keeps latents already") != std::string::npos, twice.error().sentence);
    }
}

void aConversionCanBeCancelled(Check& check) {
    for (const auto& options : {to_heads(2), to_width(8), to_budget(24)}) {
        std::stop_source stop;
        LoadOptions run;
        run.stop = stop.get_token();
        int told = 0;
        run.progress = [&](double fraction, const std::string&) {
            if (fraction < 1 && ++told == 2) stop.request_stop();
        };
        const auto converted = convert_model(generated(), options, run);
        CHECK_THAT(!converted);
        CHECK_EQUAL(converted.error().sentence, "Converting was cancelled");
        CHECK_EQUAL(told, 2);
    }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(latentsOfFullWidthComeToWhatTheModelDoes), families());
    claims.add(CLAIM(narrowLatentsComeToWhatHeadsOfTheirProductDo), families());
    claims.add(CLAIM(aConfigurationIsKnownBeforeTheModelIsMade), possible());
    claims.add(CLAIM(onlyLatentsAreCached));
    claims.add(CLAIM(headsAreMeansOfTheirNeighbours), types());
    claims.add(CLAIM(fewerHeadsAreAnOrdinaryModel), families_with_heads());
    claims.add(CLAIM(theSourceMayGo));
    claims.add(CLAIM(exposedInputsAreTheModel));
    claims.add(CLAIM(sensitiveLayersGetTheBudget));
    claims.add(CLAIM(whatCannotBeIsRefused), refused());
    claims.add(CLAIM(latentsAreNotConvertedAgain));
    claims.add(CLAIM(aConversionCanBeCancelled));
    return claims.rows();
}
