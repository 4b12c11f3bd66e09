// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/demo_recording.h"

#include "tests/support/demo_lane.h"

#include <algorithm>
#include <array>

namespace kvloupe {

namespace {

constexpr std::array words = {
    "Tom",   " has",  " a",     " red",  " ball",  ".",     " Mia",   " the",  " big",   " dog",  " and",
    " sees", " in",   " house", " blue", " boat",  " was",  " small", " it",   " loves", " runs", " to",
    " park", " cat",  " green", " tree", " saw",   " bird", " sang",  " song", " day",   ",",     " one",
    " then", " they", " were",  " old",  " story", " with", " his",   " her",  " key",   "\n",    "\xE4\xBD\xA0",
    "\xE5\xA5\xBD"};

std::shared_ptr<const VocabularyText> demo_vocabulary() {
    auto vocabulary = std::make_shared<VocabularyText>();
    const auto add = [&](std::string piece, std::string shown) {
        vocabulary->pieces.push_back(std::move(piece));
        vocabulary->shown.push_back(std::move(shown));
    };
    add("", "<s>");
    add("", "</s>");
    add("\xE4", "<0xE4>");
    for (const char* word : words) add(word, word);
    return vocabulary;
}

LaneInfo lane_info(const DemoOptions& options, const char* name, std::uint32_t kv_heads, std::uint32_t blocks) {
    LaneInfo info;
    info.name = name;
    info.attention_variant = kv_heads == options.query_heads ? "MHA" : kv_heads == 1 ? "MQA" : "GQA";
    info.model_name = "demo:" + info.attention_variant;
    info.architecture = "llama";
    info.device = "demo device";
    info.layers = options.layers;
    info.query_heads = options.query_heads;
    info.kv_heads = kv_heads;
    info.head_dim = 16;
    info.vocabulary = static_cast<std::uint32_t>(words.size() + 3);
    info.context_length = 4096;
    info.weights_id = kv_heads;
    const std::uint64_t hidden = std::uint64_t{options.query_heads} * info.head_dim;
    info.parameters = hidden * info.vocabulary +
                      options.layers * (hidden * hidden * 2 + 2 * hidden * kv_heads * info.head_dim + 9 * hidden * hidden);
    info.weight_bytes = info.parameters * 2;
    info.kv_cache = blocks > 0;
    info.cache_dtype = blocks > 0 ? "f16" : "none";
    info.blocks = blocks;
    info.block_size = blocks > 0 ? options.block_size : 0;
    info.bytes_per_token = 2ull * options.layers * kv_heads * info.head_dim * 2;
    info.block_bytes = info.bytes_per_token * info.block_size;
    info.pool_bytes = info.block_bytes * blocks;
    return info;
}

RequestInfo request(std::string id, std::uint32_t prompt, std::uint32_t max_new, std::uint32_t arrival) {
    RequestInfo info;
    info.prompt.push_back(0);
    for (std::uint32_t i = 1; i < prompt; ++i)
        info.prompt.push_back(static_cast<TokenId>(3 + (i * 7 + id.front()) % words.size()));
    info.id = std::move(id);
    info.max_new_tokens = max_new;
    info.arrival_step = arrival;
    return info;
}

}  // namespace

DemoSession::DemoSession(const DemoOptions& options) : m_options(options), m_writer("demo", options.memory_budget) {
    m_writer.set_time(0);
    const std::uint32_t long_lived = std::min<std::uint32_t>(options.steps + 200, 400);
    const std::uint32_t blocks =
        options.blocks ? options.blocks : (20 + long_lived) / options.block_size + 8 * 16 / options.block_size + 1;
    const auto vocabulary = demo_vocabulary();
    std::vector<LaneInfo> infos;
    infos.push_back(lane_info(options, "MHA", options.query_heads, blocks));
    infos.push_back(lane_info(options, "GQA", 2, blocks));
    infos.push_back(lane_info(options, "MQA", 1, blocks));
    infos.push_back(lane_info(options, "GQA uncached", 2, 0));
    for (LaneInfo& info : infos) {
        if (options.one_lane && info.name != "GQA") continue;
        LaneWriter& lane = m_writer.add_lane(std::move(info), vocabulary);
        m_lanes.push_back(std::make_unique<DemoLane>(m_writer, lane, options));
    }
    m_writer.lanes_complete();
    m_writer.add_request(request("a", 37, 60, 0));
    m_writer.add_request(request("b", 20, long_lived, 4));
    m_writer.add_request(request("c", 50, 40, 10));
    m_writer.add_request(request("d", 400, 1000, 12));
    std::uint32_t extra = 0;
    for (std::uint32_t arrival = 220; arrival + 40 < options.steps; arrival += 60, ++extra)
        m_writer.add_request(request("r" + std::to_string(extra), 16 + extra % 5 * 8, 20 + extra % 7 * 10, arrival));
    m_writer.add_request(request("e", 60, std::min<std::uint32_t>(130, (blocks - 1) * options.block_size - 59),
                                 std::max<std::uint32_t>(options.steps, 20) - 20));
    m_writer.set_phase(Phase::paused);
}

DemoSession::~DemoSession() = default;

bool DemoSession::step() {
    if (m_step >= m_options.steps) return false;
    for (auto& lane : m_lanes) m_time_ns = lane->step(m_time_ns) + 1000;
    return ++m_step < m_options.steps;
}

void DemoSession::run() {
    m_writer.set_phase(Phase::running);
    while (step()) {
    }
    m_writer.set_phase(Phase::paused, "Paused after " + std::to_string(m_step) + " steps.");
}

std::shared_ptr<const Recording> demo_recording(const DemoOptions& options) {
    DemoSession session(options);
    session.run();
    return session.recording();
}

std::shared_ptr<const Recording> demo_empty_recording(const DemoOptions& options) {
    return DemoSession(options).recording();
}

}  // namespace kvloupe
