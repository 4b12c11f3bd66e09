// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/session_setup.h"

#include "engine/serve/branch.h"
#include "engine/serve/cache_shape.h"
#include "engine/serve/pool_size.h"

#include <algorithm>
#include <map>

namespace kvloupe {

namespace {

std::string shown_model(const std::string& model) {
    const std::size_t slash = model.find_last_of("/\\");
    return slash == std::string::npos || slash + 1 == model.size() ? model : model.substr(slash + 1);
}

// Models and weights are shared by the lanes that name the same ones.
class Shelf {
public:
    Shelf(const Scenario& scenario, const SessionOptions& options) : m_scenario(scenario), m_options(options) {}

    Result<std::shared_ptr<const Model>> model(const LaneOptions& lane) {
        auto loaded = loaded_model(model_name(lane));
        if (!loaded || !lane.convert) return loaded;
        auto& model = m_models[converted_name(lane)];
        if (model) return model;
        const std::string text = lane.convert->text();
        if (!m_options.convert_model) return Error{"convert: this session converts no models " + text, "Leave the key out."};
        tell("Converting " + shown_model(model_name(lane)) + " " + text);
        LoadOptions run;
        run.stop = m_options.stop;
        run.progress = [this](double fraction, const std::string& what) { tell(what, fraction); };
        auto converted = m_options.convert_model(*loaded, *lane.convert, run);
        if (!converted) return Error{"convert: " + converted.error().sentence, converted.error().hint};
        model = std::move(*converted);
        return model;
    }

    Result<std::shared_ptr<Backend>> backend(const LaneOptions& lane) {
        auto& backend = m_backends[device_name(lane)];
        if (backend) return backend;
        auto made = m_options.make_backend(device_name(lane));
        if (!made) return made.error();
        backend = std::move(*made);
        return backend;
    }

    // Of a lane whose model and backend are there.
    Result<std::shared_ptr<DeviceModel>> device_model(const LaneOptions& lane) {
        auto& device_model = m_device_models[{converted_name(lane), device_name(lane)}];
        if (device_model) return device_model;
        const std::shared_ptr<Backend>& backend = m_backends.at(device_name(lane));
        if (m_options.release_memory && !m_released && backend->info().own_memory) {
            m_released = true;
            m_options.release_memory();
        }
        const std::uint64_t before = backend->memory().weights;
        auto created = DeviceModel::create(m_models.at(converted_name(lane)), backend);
        if (!created) return created.error();
        device_model = std::move(*created);
        m_allocated[device_model.get()] = backend->memory().weights - before;
        return device_model;
    }

    // Measured: what its device's allocator gave for the weights.
    std::uint64_t allocated(const DeviceModel& device_model) const { return m_allocated.at(&device_model); }

private:
    // within: how much of the model at hand is done.
    void tell(const std::string& what, double within = 0) const {
        if (!m_options.progress) return;
        std::size_t most = m_scenario.lanes.size();  // models, if no two lanes share one
        for (const LaneOptions& lane : m_scenario.lanes) most += lane.convert ? 1 : 0;
        m_options.progress((double(m_models.size()) - 1 + within) / double(most), what);
    }

    Result<std::shared_ptr<const Model>> loaded_model(const std::string& name) {
        auto& model = m_models[name];
        if (model) return model;
        tell("Loading " + shown_model(name));
        auto found = m_options.find_model(name);
        if (!found) return found.error();
        model = std::move(*found);
        return model;
    }

    // The model's name and, where the lane converts it, to what; names hold no line breaks of ours.
    std::string converted_name(const LaneOptions& lane) const {
        return model_name(lane) + (lane.convert ? "\n" + lane.convert->text() : std::string());
    }
    const std::string& model_name(const LaneOptions& lane) const { return lane.model.empty() ? m_scenario.model : lane.model; }
    const std::string& device_name(const LaneOptions& lane) const { return lane.device.empty() ? m_scenario.device : lane.device; }

    const Scenario& m_scenario;
    const SessionOptions& m_options;
    std::map<std::string, std::shared_ptr<const Model>> m_models;
    std::map<std::string, std::shared_ptr<Backend>> m_backends;
    std::map<std::pair<std::string, std::string>, std::shared_ptr<DeviceModel>> m_device_models;
    std::map<const DeviceModel*, std::uint64_t> m_allocated;  // bytes
    bool m_released = false;
};

Error error_of(const LaneOptions& lane, const Error& error) {
    return {"Lane '" + lane.name + "': " + error.sentence, error.hint};
}

// In tokens: the model's, or less where the lane says so; 0: no limit.
std::uint32_t context_of(const LaneSetup& setup) {
    const std::uint32_t model = setup.device ? setup.device->model->config.context_length : 0;
    const std::uint32_t given = setup.options.cache.max_model_len;
    return given > 0 && (model == 0 || given < model) ? given : model;
}

std::uint32_t query_heads_of(const ModelConfig& config, std::uint32_t layer) {
    return layer < config.layer_shapes.size() ? config.layer_shapes[layer].query_heads : config.query_heads;
}

Result<void> check_watch(const std::vector<AttentionWatch>& watch, const std::vector<LaneSetup>& lanes) {
    for (const AttentionWatch& entry : watch) {
        std::uint32_t layers = 0, heads = 0;
        for (const LaneSetup& lane : lanes) {
            if (!lane.device) continue;
            layers = std::max(layers, lane.device->model->config.layers);
            heads = std::max(heads, query_heads_of(lane.device->model->config, entry.layer));
        }
        if (layers == 0)
            return Error{"record.attention: no lane has a model", "Remove the key, or give a lane a model."};
        if (entry.layer >= layers)
            return Error{"record.attention: there is no layer " + std::to_string(entry.layer),
                         "The model has layers 0 to " + std::to_string(layers - 1) + "."};
        for (const std::uint32_t head : entry.heads)
            if (head >= heads)
                return Error{"record.attention: there is no query head " + std::to_string(head) + " in layer " +
                                 std::to_string(entry.layer),
                             "The model has heads 0 to " + std::to_string(heads - 1) + "."};
    }
    return {};
}

}  // namespace

namespace {

// Outside of what the model knows; a lane without one takes any ids.
Result<void> check_tokens(const std::vector<TokenId>& tokens, const Model* model, const std::string& what) {
    for (const TokenId token : tokens)
        if (token < 0 || (model && static_cast<std::uint32_t>(token) >= model->config.vocabulary))
            return Error{what + " holds token " + std::to_string(token) + ", but the vocabulary of '" +
                             (model ? model->config.name : "none") + "' has " +
                             std::to_string(model ? model->config.vocabulary : 0) + " tokens",
                         "Give ids from 0 to " + std::to_string(model ? model->config.vocabulary - 1 : 0) + "."};
    return {};
}

}  // namespace

Result<void> check_action(const ScenarioAction& action, const LaneSetup& lane, const std::string& where) {
    const Model* model = lane.device ? lane.device->model.get() : nullptr;
    if (action.prompt && !(model && model->tokenizer))
        return Error{where + ".prompt: lane '" + lane.options.name + "' has no tokenizer", "Give prompt_tokens."};
    if (auto good = check_tokens(action.prompt_tokens.value_or(std::vector<TokenId>()), model, where + ".prompt_tokens"); !good)
        return good;
    if (auto good = check_tokens(action.output_tokens.value_or(std::vector<TokenId>()), model, where + ".output_tokens"); !good)
        return good;
    if (action.kind == ActionKind::evict && action.block.value_or(0) >= std::max(lane.blocks, 1u))
        return Error{where + ".block: lane '" + lane.options.name + "' has no block " + std::to_string(action.block.value_or(0)),
                     "Its blocks are 1 to " + std::to_string(std::max(lane.blocks, 2u) - 1) + "."};
    return {};
}

namespace {

// What a branch needs of the lane that it continues, when pools are sized and models known.
Result<void> prepare_branches(const Scenario& scenario, std::vector<LaneSetup>& lanes) {
    for (LaneSetup& lane : lanes) {
        const auto& branch = lane.options.branch;
        if (!branch) continue;
        const auto parent = std::find_if(lanes.begin(), lanes.end(), [&](const LaneSetup& each) { return each.options.name == branch->of; });
        if (parent == lanes.end() || parent->options.name == lane.options.name)
            return Error{"Lane '" + lane.options.name + "' continues lane '" + branch->of + "', which is not there", "Name a lane that stands before it."};
        const Model* model = lane.device ? lane.device->model.get() : nullptr;
        if (model && parent->device && parent->device->model->config.vocabulary != model->config.vocabulary)
            return Error{"Lane '" + lane.options.name + "': its model has " + std::to_string(model->config.vocabulary) + " tokens, that of '" +
                             branch->of + "' " + std::to_string(parent->device->model->config.vocabulary),
                         "A branch takes its parent's tokens: give both models of one vocabulary."};
        if (branch->token)
            if (auto good = check_tokens({*branch->token}, model, "Lane '" + lane.options.name + "': branch.token"); !good) return good;
        lane.rules = rules_of(scenario, lane.options);
        if (switches_rules(parent->options, lane.options)) lane.blocks = parent->blocks;  // also where both are automatic
    }
    return {};
}

}  // namespace

RequestInfo request_info(const RequestOptions& options, const Request& request) {
    RequestInfo info;
    info.id = options.id;
    info.prompt = request.tokens;
    info.max_new_tokens = request.new_tokens();
    info.arrival_step = options.arrival_step;
    info.temperature = options.temperature;
    info.top_k = options.top_k;
    info.top_p = options.top_p;
    info.priority = options.priority;
    info.salt = options.salt;
    info.adapter = options.adapter;
    info.n = options.n;
    info.beam_width = options.beam_width;
    return info;
}

Result<Request> make_request(const RequestOptions& options, const Model* model, std::uint64_t seed, std::uint64_t& generated) {
    Request request;
    request.name = request.family = options.id;
    request.max_new_tokens = options.max_new_tokens;
    request.arrival_step = options.arrival_step;
    request.sampling = {options.temperature, options.top_k, options.top_p, Sampler::request_seed(seed, options.id)};
    request.priority = options.priority;
    request.salt = options.salt;
    request.adapter = options.adapter;
    request.submitted = options.submitted;
    request.beam = options.beam_width > 0;
    request.width = request.beam ? options.beam_width : options.n;
    const std::string who = "Request '" + options.id + "': ";
    if (options.prompt && !model)
        return Error{who + "a lane without a model has no tokenizer, so its prompt cannot be a text", "Give prompt_tokens."};
    if (options.prompt && !model->tokenizer)
        return Error{who + "the model '" + model->config.name + "' has no tokenizer", "Give its prompt as token ids."};
    if (request.beam && !model) return Error{who + "beam search needs a model", "Remove beam_width, or give the lane a model."};
    if (options.prompt_tokens) request.tokens = *options.prompt_tokens;
    else if (options.prompt) request.tokens = model->tokenizer->encode_prompt(*options.prompt);
    if (options.output_tokens) request.forced = *options.output_tokens;
    if (request.tokens.empty()) return Error{who + "the prompt has no tokens", "Give it at least one character or token."};
    if (request.tokens.size() > UINT32_MAX / 4)
        return Error{who + "the prompt has " + std::to_string(request.tokens.size()) + " tokens", "Give it a shorter prompt."};
    request.prompt_tokens = request.size();
    if (auto good = check_tokens(request.tokens, model, who + (options.prompt_tokens ? "prompt_tokens" : "the prompt")); !good)
        return good.error();
    if (auto good = check_tokens(request.forced, model, who + "output_tokens"); !good) return good.error();
    if (model || options.output_tokens) return request;
    const std::uint64_t taken = std::uint64_t{options.max_new_tokens} * options.n;
    if (generated + taken > INT32_MAX)
        return Error{who + "together with the others it asks for more tokens than there are ids left", "Give it fewer new tokens."};
    request.generated_from = static_cast<TokenId>(generated);
    generated += taken;
    return request;
}

std::vector<AttentionWatch> watch_of(const std::vector<AttentionWatch>& watch, const ModelConfig& config) {
    std::vector<AttentionWatch> result;
    for (const AttentionWatch& entry : watch) {
        if (entry.layer >= config.layers) continue;
        AttentionWatch kept{entry.layer, {}};
        for (const std::uint32_t head : entry.heads)
            if (head < query_heads_of(config, entry.layer)) kept.heads.push_back(head);
        if (kept.heads.empty() == entry.heads.empty()) result.push_back(std::move(kept));
    }
    return result;
}

Result<PreparedSession> prepare_session(const Scenario& scenario, const SessionOptions& options) {
    if (scenario.lanes.empty()) return Error{"The scenario has no lane", "Add an entry to 'lanes', or leave the key out."};
    PreparedSession prepared;
    Shelf shelf(scenario, options);
    std::map<const Tokenizer*, std::shared_ptr<const VocabularyText>> vocabularies;
    for (const LaneOptions& lane : scenario.lanes) {
        if (options.stop.stop_requested()) return Error{"Loading was cancelled", ""};
        LaneSetup setup;
        setup.options = lane;
        std::shared_ptr<const Model> found;
        if (!is_accounting(scenario, lane)) {
            auto loaded = shelf.model(lane);
            if (!loaded) return error_of(lane, loaded.error());
            if (auto backend = shelf.backend(lane); !backend) return error_of(lane, backend.error());
            found = *loaded;
            if (auto shape = CacheShape::of(found->config, lane); !shape) return error_of(lane, shape.error());
            setup.options.latent_expanded = lane.latent_expanded || found->config.latent.late_rotation;
        }
        const Model* model = found.get();
        setup.model_name = shown_model(lane.model.empty() ? scenario.model : lane.model);
        setup.seed = scenario.seed;
        setup.poison = options.debug_poison;
        setup.audit = options.audit;
        setup.actions = scenario.actions;
        std::vector<Request> requests;
        std::uint64_t generated = first_generated_token;
        for (const RequestOptions& request : scenario.requests) {
            auto made = make_request(request, model, scenario.seed, generated);
            if (!made) return made.error();
            requests.push_back(std::move(*made));
        }
        prepared.generated = std::max(prepared.generated, generated);
        const Tokenizer* tokenizer = model ? model->tokenizer.get() : nullptr;
        auto& vocabulary = vocabularies[tokenizer];
        if (!vocabulary) vocabulary = tokenizer ? tokenizer->vocabulary_text() : std::make_shared<const VocabularyText>();
        prepared.vocabularies.push_back(vocabulary);
        prepared.requests.push_back(std::move(requests));
        prepared.lanes.push_back(std::move(setup));
    }
    for (LaneSetup& setup : prepared.lanes) {
        if (!is_accounting(scenario, setup.options)) {
            if (options.stop.stop_requested()) return Error{"Loading was cancelled", ""};
            auto device = shelf.device_model(setup.options);
            if (!device) return error_of(setup.options, device.error());
            setup.device = std::move(*device);
            setup.weights_allocated = shelf.allocated(*setup.device);
        }
        setup.context_length = context_of(setup);
    }
    if (auto sized = size_pools(prepared.lanes, prepared.requests); !sized) return sized.error();
    if (auto ready = prepare_branches(scenario, prepared.lanes); !ready) return ready.error();
    for (const LaneSetup& setup : prepared.lanes)
        for (std::size_t i = 0; i < scenario.actions.size(); ++i)
            if (auto good = check_action(scenario.actions[i], setup, "actions[" + std::to_string(i) + "]"); !good) return good.error();
    if (scenario.record.attention) {
        prepared.watch = *scenario.record.attention;
        if (auto good = check_watch(prepared.watch, prepared.lanes); !good) return good.error();
    } else if (options.default_attention) {
        prepared.watch = *options.default_attention;
    }
    return prepared;
}

}  // namespace kvloupe
