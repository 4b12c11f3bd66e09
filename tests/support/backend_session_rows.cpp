// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/convert_model.h"
#include "engine/record/describe.h"
#include "engine/serve/session.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/backend_rows.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <tuple>

namespace kvloupe::test {

namespace {

// Where the sources lie; a bundle names its own folder.
std::string fixtures() {
    const char* given = std::getenv("KVLOUPE_FIXTURES");
    return std::string(given != nullptr ? given : KVLOUPE_FIXTURES) + "/";
}

// lane, request, index of the output
using LogitKey = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;

struct Run {
    std::string problem;
    std::map<std::string, std::vector<TokenId>> tokens;  // by lane and sequence
    std::map<LogitKey, std::vector<float>> logits;
    std::map<EventKind, int> events;
    std::uint64_t hit_tokens = 0;
};

// restarts: at its end the session is put back from a key frame to a step in the middle, and goes on from there.
Run run(const std::string& model, const std::string& json, const BackendFactory& make, bool restarts = false) {
    Run result;
    const std::string text = "{\"version\": 1, \"device\": \"cpu\", " + json + "}";
    auto scenario = parse_scenario(std::as_bytes(std::span(text.data(), text.size())), "test.json");
    if (!scenario) return result.problem = scenario.error().message(), result;
    scenario->model = fixtures() + model;
    scenario->record.stages_every = 5;  // steps with stage marks between steps that a device may record and replay
    SessionOptions options;
    options.make_backend = make;
    options.find_model = [](const std::string& path) { return load_model(path); };
    options.convert_model = [](std::shared_ptr<const Model> source, const ConvertOptions& convert, const LoadOptions& run) {
        return convert_model(std::move(source), convert, run);
    };
    options.debug_poison = true;
    options.audit = true;
    options.logit_tap = [&result](LaneId lane, RequestId request, std::uint32_t index, std::span<const float> logits) {
        result.logits[{lane.value, request.value, index}].assign(logits.begin(), logits.end());
    };
    options.frames.least_steps = 7;
    options.frames.least_work = {};
    options.frames.most_share = restarts ? 1e9 : 0;
    auto session = Session::create(*scenario, std::move(options));
    if (!session) return result.problem = session.error().message(), result;
    if (auto done = (*session)->run_to_end(); !done) return result.problem = done.error().message(), result;
    if (restarts) {
        const auto steps = static_cast<std::uint32_t>((*session)->recording()->lane(LaneId{0}).step_count());
        if (auto back = (*session)->restart(steps / 2); !back) return result.problem = back.error().message(), result;
        (*session)->wait();
        const ReplayReport report = (*session)->replay_report().value_or(ReplayReport{});
        if (report.computed_from == 0) return result.problem = "it was computed from the start", result;
        if (!report.same()) return result.problem = report.sentence(), result;
        if (auto done = (*session)->run_to_end(); !done) return result.problem = done.error().message(), result;
    }
    const auto recording = (*session)->recording();
    for (std::uint32_t l = 0; l < recording->lanes().size(); ++l) {
        const LaneRecord& lane = recording->lane(LaneId{l});
        for (std::size_t i = 0; i < lane.tokens().size(); ++i) {
            const TokenRecord& token = lane.tokens()[i];
            if (token.source != TokenRecord::prompt)
                result.tokens[std::to_string(l) + " " + sequence_name(*recording, lane, token.sequence)].push_back(token.token);
        }
        for (std::size_t i = 0; i < lane.events().size(); ++i) ++result.events[lane.events()[i].kind];
        for (std::size_t i = 0; i < lane.step_count(); ++i) result.hit_tokens += lane.step(i).hit_tokens;
    }
    return result;
}

struct Story {
    std::string name, model, json;
    double tolerance = 2e-5;              // of logits, relative to the largest
    std::vector<EventKind> happens = {};  // what the run must show, or it tests nothing
    bool hits = false;
    bool restarts = false;                // on the device alone
};

void story_row(const BackendSubject& subject, const Story& story, Check& check) {
    if (!make_subject(subject, check)) return;
    const Run got = run(story.model, story.json, [&](const std::string&) { return subject.make(); }, story.restarts);
    const Run want = run(story.model, story.json, [](const std::string&) { return cpu::make_cpu_backend(2); });
    CHECK_EQUAL(got.problem, std::string());
    CHECK_EQUAL(want.problem, std::string());
    CHECK_THAT(!want.tokens.empty() && !want.logits.empty());
    std::string happened;
    for (const auto& event : got.events) happened += std::string(name_of(event.first)) + " " + std::to_string(event.second) + " ";
    check.note(happened);
    for (const EventKind kind : story.happens) {
        const auto found = got.events.find(kind);
        CHECK_THAT(found != got.events.end() && found->second > 0);
    }
    CHECK_THAT(!story.hits || got.hit_tokens > 0);
    CHECK_THAT(got.events == want.events);
    CHECK_EQUAL(got.logits.size(), want.logits.size());
    double largest = 0, scale = 0;
    for (const auto& entry : want.logits) {
        const auto found = got.logits.find(entry.first);
        CHECK_THAT(found != got.logits.end() && found->second.size() == entry.second.size());
        for (std::size_t i = 0; i < entry.second.size(); ++i) {
            largest = std::max(largest, std::abs(static_cast<double>(found->second[i]) - static_cast<double>(entry.second[i])));
            scale = std::max(scale, std::abs(static_cast<double>(entry.second[i])));
        }
    }
    check.note("largest difference of logits " + shown(largest) + " of " + shown(scale));
    CHECK_BELOW(largest / scale, story.tolerance);
    CHECK_THAT(got.tokens == want.tokens);
}

std::string prompt(int first, int count) {
    std::string text = "[";
    for (int i = 0; i < count; ++i) text += (i > 0 ? "," : "") + std::to_string(40 + (first * 17 + i * i + 3 * i) % 100);
    return text + "]";
}

std::string request(const std::string& id, int first, int count, int output, const std::string& more = "") {
    return "{\"id\": \"" + id + "\", \"prompt_tokens\": " + prompt(first, count) + ", \"max_new_tokens\": " + std::to_string(output) + more + "}";
}

std::string lanes(const std::string& cache, const std::string& scheduler = "{}") {
    return "\"lanes\": [{\"name\": \"a\", \"cache\": " + cache + ", \"scheduler\": " + scheduler + "}]";
}

std::string requests(const std::vector<std::string>& all) {
    std::string text = ", \"requests\": [";
    for (std::size_t i = 0; i < all.size(); ++i) text += (i > 0 ? ", " : "") + all[i];
    return text + "]";
}

// What follows is given: only logits are compared.
std::string given(const std::string& id, int first, int count, int output, const std::string& more = "") {
    return "{\"id\": \"" + id + "\", \"prompt_tokens\": " + prompt(first, count) + ", \"output_tokens\": " + prompt(first + 5, output) + more + "}";
}

std::vector<std::string> forced_requests() {
    return {given("a", 1, 11, 14), given("b", 2, 5, 18), given("c", 3, 17, 9, ", \"arrival_step\": 4")};
}

std::string plain_cache(const std::string& type) { return "{\"dtype\": \"" + type + "\", \"blocks\": 64, \"block_size\": 8}"; }

std::vector<Row> rows_of(const BackendSubject& subject, const std::vector<Story>& stories) {
    std::vector<Row> rows;
    for (const Story& story : stories)
        rows.push_back({"a session gives the tokens and logits of the CPU: " + story.name,
                        [=](Check& check) { story_row(subject, story, check); }});
    return rows;
}

}  // namespace

// Windows of 8 tokens are left behind by all three requests, whose contexts go from 5 to 26 tokens.
std::vector<Row> family_rows(const BackendSubject& subject) {
    const std::string f32 = plain_cache("f32");
    const auto lane = [&](const std::string& name, const std::string& more) {
        return "{\"name\": \"" + name + "\", \"cache\": " + f32 + more + "}";
    };
    std::vector<Story> stories;
    for (const char* model : {"gemma2", "gemma3", "qwen2", "qwen2-window", "qwen3", "mistral", "llama3-rope", "llama-yarn", "mixtral", "deepseek-v2-dense",
                              "deepseek-v2", "deepseek-v2-groups", "deepseek-v3"})
        stories.push_back({std::string("the family of ") + model, std::string("tiny-family/") + model, lanes(f32) + requests(forced_requests())});
    stories.push_back({"latents absorbed and expanded, tiled and whole, cached and not", "tiny-family/deepseek-v2-dense",
                       "\"lanes\": [" + lane("absorbed", "") + ", " + lane("expanded", ", \"mla\": \"expanded\"") + ", " +
                           lane("whole", ", \"attention\": \"materialised\"") + ", {\"name\": \"uncached\", \"kv_cache\": false}]" +
                           requests(forced_requests())});
    stories.push_back({"caps and windows with whole scores", "tiny-family/gemma2",
                       "\"lanes\": [" + lane("whole", ", \"attention\": \"materialised\"") + "]" + requests(forced_requests())});
    stories.push_back({"latents in f16", "tiny-family/deepseek-v3", lanes(plain_cache("f16")) + requests(forced_requests()), 2e-3});
    stories.push_back({"heads converted to latents", "tiny-gqa",
                       "\"lanes\": [" + lane("latents", ", \"convert\": {\"to\": \"mla\", \"width\": 16}") + ", " +
                           lane("one head", ", \"convert\": {\"to\": \"mqa\"}") + "]" + requests(forced_requests())});
    stories.push_back({"a window of 12 with 3 sinks over latents", "tiny-family/deepseek-v2-dense",
                       lanes("{\"dtype\": \"f32\", \"blocks\": 64, \"block_size\": 8, \"window\": 12, \"sinks\": 3}") + requests(forced_requests())});
    return rows_of(subject, stories);
}

std::vector<Row> session_rows(const BackendSubject& subject) {
    const std::string f32 = plain_cache("f32");
    // Weights of less than f32 meet activations of their own precision on a card where several rows are multiplied, so two
    // equally good tokens may change places: what follows is given, and its logits are compared.
    const std::vector<std::string> forced = forced_requests();
    const std::vector<std::string> three{request("a", 1, 11, 14), request("b", 2, 5, 18), request("c", 3, 17, 9, ", \"arrival_step\": 4")};
    std::vector<Story> stories;
    for (const char* model : {"tiny-gqa", "tiny-mha", "tiny-wide-heads"})
        stories.push_back({std::string("the model ") + model, model, lanes(f32) + requests(three)});
    for (const char* model : {"tiny-mha-tied", "tiny-mqa"})
        stories.push_back({std::string("the model ") + model, model, lanes(f32) + requests(forced), 4e-2});
    for (const char* type : {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"})
        stories.push_back({std::string("weights in ") + type, std::string("tiny-gqa/tiny-gqa.") + type + ".gguf", lanes(f32) + requests(forced),
                           std::string(type) == "BF16" ? 4e-2 : std::string(type) == "F32" ? 2e-5 : 4e-3});
    for (const char* type : {"f16", "bf16"})
        stories.push_back({std::string("a cache in ") + type, "tiny-gqa",
                           lanes(plain_cache(type)) + requests(three),
                           std::string(type) == "f16" ? 1e-3 : 8e-3});
    stories.push_back({"a shared beginning is taken from the cache", "tiny-gqa",
                       lanes(f32) + requests({request("a", 1, 24, 6), request("b", 1, 24, 8, ", \"arrival_step\": 3"),
                                              request("c", 1, 24, 4, ", \"arrival_step\": 5")}), 2e-5, {EventKind::prefix_hit}, true});
    stories.push_back({"a fork copies when it writes", "tiny-gqa",
                       lanes(f32) + requests({request("a", 1, 13, 20)}) +
                           ", \"actions\": [{\"at_step\": 6, \"do\": \"fork\", \"request\": \"a\", \"as\": \"b\", \"prompt_tokens\": [50, 51]}]",
                       2e-5, {EventKind::fork, EventKind::copy_on_write}});
    stories.push_back({"samples share their prompt", "tiny-gqa",
                       lanes(f32) + requests({request("a", 1, 13, 10, ", \"n\": 3, \"temperature\": 0.7")}), 2e-5, {EventKind::fork}});
    stories.push_back({"what does not fit is swapped out and comes back", "tiny-gqa",
                       lanes("{\"dtype\": \"f32\", \"blocks\": 9, \"block_size\": 8, \"prefix_caching\": false}",
                             "{\"preemption\": \"swap\", \"swap_blocks\": 16}") +
                           requests({request("a", 1, 20, 24), request("b", 2, 20, 24)}), 2e-5, {EventKind::swap_out, EventKind::swap_in}});
    stories.push_back({"what does not fit is computed again", "tiny-gqa",
                       lanes("{\"dtype\": \"f32\", \"blocks\": 9, \"block_size\": 8, \"prefix_caching\": false}") +
                           requests({request("a", 1, 20, 24), request("b", 2, 20, 24)}), 2e-5, {EventKind::preempt}});
    stories.push_back({"a session that swaps is put back to a key frame", "tiny-gqa",
                       lanes("{\"dtype\": \"f32\", \"blocks\": 9, \"block_size\": 8}", "{\"preemption\": \"swap\", \"swap_blocks\": 16}") +
                           requests({request("a", 1, 20, 24), request("b", 2, 20, 24)}), 2e-5, {EventKind::swap_out, EventKind::swap_in}, false, true});
    stories.push_back({"a window of 12", "tiny-gqa", lanes("{\"dtype\": \"f32\", \"blocks\": 64, \"block_size\": 8, \"window\": 12}") + requests(three)});
    stories.push_back({"a window of 12 with 3 sinks", "tiny-gqa",
                       lanes("{\"dtype\": \"f32\", \"blocks\": 64, \"block_size\": 8, \"window\": 12, \"sinks\": 3}") + requests(three)});
    stories.push_back({"sinks read by rank", "tiny-gqa",
                       lanes("{\"dtype\": \"f32\", \"blocks\": 64, \"block_size\": 8, \"window\": 12, \"sinks\": 3, \"positions\": \"rank\"}") +
                           requests(three)});
    stories.push_back({"attention in chunks of 16", "tiny-gqa",
                       lanes("{\"dtype\": \"f32\", \"blocks\": 64, \"block_size\": 8, \"attention_chunk\": 16}") + requests(three)});
    stories.push_back({"prompts in small chunks beside decodes", "tiny-gqa",
                       lanes(f32, "{\"max_num_batched_tokens\": 8}") + requests(three)});
    stories.push_back({"a cached and an uncached lane", "tiny-gqa",
                       "\"lanes\": [{\"name\": \"cached\", \"cache\": " + f32 + "}, {\"name\": \"uncached\", \"kv_cache\": false}]" + requests(three)});
    stories.push_back({"watched attention", "tiny-gqa",
                       lanes(f32) + requests(three) + ", \"record\": {\"attention\": [{\"layer\": 1, \"heads\": [0, 2]}]}"});
    return rows_of(subject, stories);
}

}  // namespace kvloupe::test
