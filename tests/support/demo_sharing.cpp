// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/demo_sharing.h"

#include "tests/support/demo_contiguous.h"
#include "tests/support/demo_paged.h"

#include <algorithm>
#include <bit>

namespace kvloupe {

namespace {

constexpr std::uint32_t vocabulary_size = 500;

std::shared_ptr<const VocabularyText> vocabulary() {
    auto text = std::make_shared<VocabularyText>();
    for (std::uint32_t i = 0; i < vocabulary_size; ++i) {
        const std::string word = i < 3 ? "" : " w" + std::to_string(i);
        text->pieces.push_back(word);
        text->shown.push_back(i < 3 ? "<s" + std::to_string(i) + ">" : word);
    }
    return text;
}

bool is_contiguous(const std::string& name) {
    return name == "max" || name == "oracle" || name == "pow2" || name == "grow";
}

LaneInfo lane_info(const DemoSharingOptions& options, const std::string& name) {
    LaneInfo info;
    info.name = name;
    info.model_name = "none";
    info.device = "no device";
    info.attention_variant = "none";
    info.cache_dtype = "f16";
    info.layers = 4;
    info.query_heads = 8;
    info.kv_heads = 4;
    info.head_dim = 32;
    info.vocabulary = vocabulary_size;
    info.context_length = 4096;
    info.blocks = options.blocks;
    info.block_size = options.block_size;
    info.bytes_per_token = 2048;
    info.block_bytes = info.bytes_per_token * info.block_size;
    info.pool_bytes = info.block_bytes * info.blocks;
    const bool contiguous = is_contiguous(name);
    CachePolicy& policy = info.policy;
    policy.kind = contiguous ? "contiguous" : "paged";
    policy.prefix_caching = !contiguous;
    policy.positions = "absolute";
    policy.batching = name == "static" ? "static" : "continuous";
    policy.scheduling = "fcfs";
    policy.preemption = name == "swap" ? "swap" : "recompute";
    policy.victim = "vllm";
    policy.max_num_seqs = options.max_num_seqs;
    policy.max_num_batched_tokens = options.token_budget;
    policy.groups.push_back({0, 0, 0, name == "windows" ? 2u : 4u});
    if (name == "windows") policy.groups.push_back({options.window, 0, 0, 2});
    if (contiguous) {
        policy.reserve = name;
        policy.max_model_len = std::min<std::uint32_t>(384, std::bit_floor(options.blocks - 1) * options.block_size);
    } else {
        policy.prefix_index = name == "radix" ? "radix" : "hash";
        policy.free_order = "vllm";
        policy.host_blocks = name == "swap" ? std::max(options.blocks / 2, 1u) : 0;
        if (name == "radix") policy.radix_eviction = "lru";
    }
    return info;
}

// A prompt of one of many beginnings and an end of its own.
RequestInfo request(std::string id, std::uint64_t beginning, std::uint32_t shared, std::uint32_t own,
                    std::uint32_t new_tokens, std::uint32_t arrival) {
    RequestInfo info;
    info.prompt.reserve(shared + own);
    const auto token = [](std::uint64_t hash) { return static_cast<TokenId>(3 + hash % (vocabulary_size - 3)); };
    for (std::uint32_t i = 0; i < shared; ++i) info.prompt.push_back(token(demo_mix(beginning, i)));
    std::uint64_t mine = 7;
    for (const char c : id) mine = demo_mix(mine, static_cast<std::uint64_t>(c));
    for (std::uint32_t i = 0; i < own; ++i) info.prompt.push_back(token(demo_mix(mine, i)));
    info.id = std::move(id);
    info.max_new_tokens = new_tokens;
    info.arrival_step = arrival;
    return info;
}

}  // namespace

DemoSharingOptions DemoSharingOptions::large(std::uint32_t steps, std::uint32_t blocks) {
    DemoSharingOptions options;
    options.steps = steps;
    options.blocks = blocks;
    options.cast = false;
    options.tokens = false;
    options.lanes = {"paged"};
    options.token_budget = 8192;
    options.max_num_seqs = 256;
    options.every = 1;
    options.arrivals = 2;
    options.prompt = 1100;
    options.new_tokens = 120;
    return options;
}

DemoSharingSession::DemoSharingSession(const DemoSharingOptions& options)
    : m_options(options), m_writer("sharing demo", std::uint64_t{256} << 20) {
    m_writer.set_time(0);
    const auto text = vocabulary();
    for (const std::string& name : options.lanes) {
        LaneWriter& lane = m_writer.add_lane(lane_info(options, name), text);
        if (is_contiguous(name))
            m_lanes.push_back(std::make_unique<DemoContiguous>(m_writer, lane, m_options));
        else m_lanes.push_back(std::make_unique<DemoPaged>(m_writer, lane, m_options));
    }
    m_writer.lanes_complete();
    std::vector<RequestInfo> requests;
    if (options.cast) {
        requests.push_back(request("a", 1, 64, 20, 60, 0));
        requests.push_back(request("b", 1, 64, 13, 40, 4));
        requests.push_back(request("d", 1, 64, 9, 30, 8));
        requests.back().n = 3;
        requests.push_back(request("e", 2, 0, 200, 60, 12));
        requests.push_back(request("f", 3, 0, 150, 220, 26));
        requests.push_back(request("g", 5, 0, 130, 250, 28));
        requests.push_back(request("h", 4, 0, 600, options.blocks * options.block_size, 30));
    }
    std::uint32_t extra = 0;
    for (std::uint32_t arrival = options.cast ? 40 : 0; arrival < options.steps; arrival += options.every) {
        if (options.cast && arrival % 80 >= 40) continue;  // a pause in which those who wait come in
        for (std::uint32_t i = 0; i < options.arrivals; ++i, ++extra) {
            const std::uint64_t hash = demo_mix(extra, 5);
            const std::uint32_t shared = options.prompt / 2 / options.block_size * options.block_size;
            const auto own = static_cast<std::uint32_t>(1 + hash % std::max(options.prompt - shared, 1u));
            const auto more = static_cast<std::uint32_t>(1 + (hash >> 20) % (2 * std::max(options.new_tokens, 1u)));
            requests.push_back(request("r" + std::to_string(extra), 100 + extra % 4, shared, own, more, arrival));
            if (extra % 8 == 7) requests.back().priority = -1;
        }
    }
    for (RequestInfo& info : requests) m_writer.add_request(std::move(info));
    m_writer.set_phase(Phase::paused);
}

DemoSharingSession::~DemoSharingSession() = default;

bool DemoSharingSession::step() {
    if (m_step >= m_options.steps) return false;
    for (auto& lane : m_lanes) m_time_ns = lane->step(m_time_ns) + 1000;
    return ++m_step < m_options.steps;
}

void DemoSharingSession::run() {
    m_writer.set_phase(Phase::running);
    while (step()) {
    }
    m_writer.set_phase(Phase::paused, "Paused after " + std::to_string(m_step) + " steps.");
}

std::shared_ptr<const Recording> demo_sharing_recording(const DemoSharingOptions& options) {
    DemoSharingSession session(options);
    session.run();
    return session.recording();
}

}  // namespace kvloupe
