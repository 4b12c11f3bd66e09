// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the session's tests share: scenarios in a line, sessions over real models on the CPU, and what they recorded.
#pragma once

#include "engine/record/describe.h"
#include "engine/record/lane_state.h"
#include "engine/serve/session.h"
#include "kernels/make_backend.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace kvloupe::test {

inline const std::string stories = KVLOUPE_SHARED_DATA "/models/stories260K.gguf";
inline const std::string fixtures = KVLOUPE_SOURCE_DIR "/tests/fixtures/";

#define SKIP_WITHOUT(path)                                                                                    \
    if (!file_exists(path)) SKIP_ROW(path + " is not there; this test needs it")

// Throws where the scenario is wrong.
inline Scenario scenario(const std::string& json) {
    auto parsed = parse_scenario(std::as_bytes(std::span(json)), "test.json");
    if (!parsed) throw std::runtime_error(parsed.error().message());
    return *parsed;
}

// Logits by lane, request and output index.
using LogitKey = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
using Logits = std::map<LogitKey, std::vector<float>>;

inline SessionOptions options(Logits* tapped = nullptr) {
    SessionOptions result;
    result.make_backend = [](const std::string& device) { return make_backend(BackendOptions{device, 2}); };
    result.find_model = [](const std::string& model) { return load_model(model); };
    result.debug_poison = true;
    result.audit = true;
    if (tapped)
        result.logit_tap = [tapped](LaneId lane, RequestId request, std::uint32_t index, std::span<const float> logits) {
            (*tapped)[{lane.value, request.value, index}].assign(logits.begin(), logits.end());
        };
    return result;
}

// Output tokens of a request's only sequence in a lane.
inline std::vector<TokenId> outputs(const Recording& recording, LaneId lane_id, const std::string& request) {
    std::vector<TokenId> tokens;
    const LaneRecord& lane = recording.lane(lane_id);
    for (std::size_t i = 0; i < lane.tokens().size(); ++i) {
        const TokenRecord& token = lane.tokens()[i];
        if (token.source != TokenRecord::prompt && sequence_name(recording, lane, token.sequence) == request)
            tokens.push_back(token.token);
    }
    return tokens;
}

// "arrive a", "admit a", "allocate a 1", … of one step.
inline std::vector<std::string> events(const Recording& recording, LaneId lane_id, std::size_t step) {
    std::vector<std::string> lines;
    const LaneRecord& lane = recording.lane(lane_id);
    for (std::uint64_t i = lane.step(step).events.begin; i < lane.step(step).events.end; ++i) {
        const Event& event = lane.events()[i];
        std::string line = std::string(name_of(event.kind)) + ' ' + sequence_name(recording, lane, event.sequence);
        if (event.block.valid()) line += ' ' + std::to_string(event.block.value);
        lines.push_back(std::move(line));
    }
    return lines;
}

// "2: copy_on_write c 3": all events of a kind.
inline std::vector<std::string> all(const Recording& recording, EventKind kind, LaneId id = LaneId{0}) {
    std::vector<std::string> lines;
    const LaneRecord& lane = recording.lane(id);
    for (std::size_t step = 0; step < lane.step_count(); ++step)
        for (const std::string& line : events(recording, id, step))
            if (line.starts_with(std::string(name_of(kind)) + ' ')) lines.push_back(std::to_string(step) + ": " + line);
    return lines;
}

// Times and reasons of a request in a lane at the end of the recording.
inline RequestTimes times(const Recording& recording, LaneId lane_id, const std::string& request) {
    const LaneRecord& lane = recording.lane(lane_id);
    for (std::uint32_t i = 0; i < lane.sequences().size(); ++i)
        if (sequence_name(recording, lane, SequenceId{i}) == request)
            return request_times(recording, lane, SequenceId{i}, lane.step_count() - 1);
    return {};
}

inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size()) return INFINITY;
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(double(a[i]) - double(b[i])));
    return largest;
}

inline const LaneId lane0{0};

// Over the fixture tiny-gqa; throws where the scenario is wrong.
inline std::unique_ptr<Session> session(const std::string& rest, SessionOptions given = options()) {
    Scenario wanted = scenario("{\"version\": 1, \"device\": \"cpu\", " + rest + "}");
    wanted.model = fixtures + "tiny-gqa";
    auto made = Session::create(wanted, std::move(given));
    if (!made) throw std::runtime_error(made.error().message());
    return std::move(*made);
}

// Requests whose output is forced, so that they end when they should.
inline std::string request(const char* id, int prompt, int output, const char* more = "") {
    const auto list = [](int count) {
        std::string text = "[";
        for (int i = 0; i < count; ++i) text += std::to_string(40 + i % 100) + (i + 1 < count ? "," : "");
        return text + "]";
    };
    return std::string("{\"id\": \"") + id + "\", \"prompt_tokens\": " + list(prompt) + ", \"output_tokens\": " + list(output) + more + "}";
}

inline RequestOptions submitted(const char* id, int prompt, int output) {
    RequestOptions result;
    result.id = id;
    result.prompt_tokens = std::vector<TokenId>(std::size_t(prompt), 50);
    result.output_tokens = std::vector<TokenId>(std::size_t(output), 51);
    return result;
}

}  // namespace kvloupe::test
