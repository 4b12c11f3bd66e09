// SPDX-License-Identifier: GPL-3.0-or-later
//
// A recording for the views of a profile: a lane shaped like a small Llama (30 layers, 9 query heads and 3 KV heads of 64,
// f16) whose stages take the time that their bytes ask for at a set bandwidth, and one layer that takes more. Step 0
// computes a prompt of 256 tokens; each later step decodes one token per sequence. Nothing of it is a measurement.
#pragma once

#include "engine/record/ceilings.h"
#include "engine/record/writer.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe {

struct ProfileOptions {
    std::uint16_t layers = 30;
    std::uint32_t steps = 64;            // the prefill's included
    std::uint32_t stride = 128;          // tokens of context that each step adds
    std::uint32_t stages_every = 1;      // steps that are no multiple of it have no stages
    int slow_layer = 17;                 // -1: none
    std::uint64_t slow_ns = 10'000;      // that its attention takes longer
    double bandwidth = 88e9;             // bytes per second that the stages reach
    std::uint64_t between_ns = 40'000;   // of a step, outside its stages
    std::uint64_t drift_ns = 0;          // of a step, outside its stages, for each step before it
    std::uint32_t sequences = 1;
    bool kv_cache = true;
    std::string attention_variant = "GQA";
    std::string device = "CPU, 16 threads";
};

class ProfileRecording {
public:
    explicit ProfileRecording(ProfileOptions options = {}) : m_options(std::move(options)), m_writer("profile", 1 << 20) {
        m_writer.set_time(0);
        LaneInfo info;
        info.name = "GQA";
        info.model_name = "a small Llama";
        info.device = m_options.device;
        info.attention_variant = m_options.attention_variant;
        info.cache_dtype = "f16";
        info.layers = m_options.layers;
        info.query_heads = 9;
        info.kv_heads = 3;
        info.head_dim = 64;
        info.vocabulary = vocabulary;
        info.kv_cache = m_options.kv_cache;
        info.block_size = 16;
        info.blocks = 4096;
        info.bytes_per_token = 2 * std::uint64_t{m_options.layers} * kv_width * 2;
        info.weight_bytes = layer_weights * m_options.layers + std::uint64_t{vocabulary} * hidden * 2;
        m_writer.add_lane(info, std::make_shared<VocabularyText>());
        m_writer.lanes_complete();
        m_writer.set_phase(Phase::paused);
    }

    // The whole recording.
    static std::shared_ptr<const Recording> make(const ProfileOptions& options = {}) {
        ProfileRecording fixture(options);
        for (std::uint32_t i = 0; i < options.steps; ++i) fixture.step();
        return fixture.recording();
    }
    std::shared_ptr<const Recording> recording() const { return m_writer.recording(); }
    void set_phase(Phase phase) { m_writer.set_phase(phase); }

    // One step more.
    void step() {
        LaneWriter& lane = m_writer.lane(LaneId(0));
        const std::uint64_t index = lane.next_step();
        const bool prefill = index == 0;
        StepRecord record;
        record.running = m_options.sequences;
        (prefill ? record.prefill_tokens : record.decode_tokens) = prefill ? prompt : m_options.sequences;
        record.computed_tokens = prefill ? prompt : m_options.sequences;
        m_context = prefill ? prompt : m_context + m_options.stride;
        record.context_tokens = m_context;
        const std::vector<StageRecord> stages = stages_of(index, record.computed_tokens);
        std::uint64_t sum = 0;
        for (const StageRecord& stage : stages) sum += stage.duration_ns;
        lane.begin_step();
        if (index % m_options.stages_every == 0) lane.stages(index, stages);
        m_time += sum + m_options.between_ns + m_options.drift_ns * index;
        m_writer.set_time(m_time);
        lane.end_step(record);
    }

    static constexpr std::uint32_t prompt = 256;

private:
    static constexpr std::uint64_t hidden = 576, kv_width = 192, ffn = 1536;
    static constexpr std::uint32_t vocabulary = 49152;
    static constexpr std::uint64_t layer_weights =
        (hidden * (hidden + 2 * kv_width) + hidden * hidden + 3 * hidden * ffn) * 2;

    std::vector<StageRecord> stages_of(std::uint64_t index, std::uint64_t rows) const {
        std::vector<StageRecord> stages;
        const auto add = [&](StageKind kind, std::uint16_t layer, std::uint64_t bytes, std::uint64_t flops) {
            StageRecord stage;
            stage.kind = kind;
            stage.layer = layer;
            stage.calls = 1;
            stage.bytes = bytes;
            stage.flops = flops;
            const double moved = static_cast<double>(bytes) / m_options.bandwidth,
                         computed = static_cast<double>(flops) / 1.4e12;
            // A spread of a few percent that differs from stage to stage and is the same in every run.
            const std::uint64_t spread =
                (index * 31 + std::uint64_t{layer} * 17 + static_cast<std::uint64_t>(kind) * 7) % 13;
            stage.duration_ns = 300 + static_cast<std::uint64_t>(std::max(moved, computed) * 1e9 *
                                                                 (1 + 0.002 * static_cast<double>(spread)));
            if (kind == StageKind::attention && layer == m_options.slow_layer) stage.duration_ns += m_options.slow_ns;
            stages.push_back(stage);
        };
        const auto product = [&](StageKind kind, std::uint16_t layer, std::uint64_t out, std::uint64_t in) {
            add(kind, layer, out * in * 2 + rows * (out + in) * 4, 2 * rows * out * in);
        };
        constexpr std::uint16_t none = StageRecord::no_layer;
        add(StageKind::schedule, none, 0, 0);
        add(StageKind::embed, none, rows * hidden * 6, 0);
        for (std::uint16_t layer = 0; layer < m_options.layers; ++layer) {
            add(StageKind::attention_norm, layer, rows * hidden * 8, rows * hidden * 4);
            product(StageKind::qkv, layer, hidden + 2 * kv_width, hidden);
            add(StageKind::rotary_store, layer, rows * (hidden + 3 * kv_width) * 4, rows * hidden * 6);
            // A prompt's keys are read once for many queries.
            add(StageKind::attention, layer, m_context * 2 * kv_width * 2 + rows * hidden * 8,
                4 * (rows > m_options.sequences ? rows * m_context / 2 : m_context) * hidden);
            product(StageKind::attention_out, layer, hidden, hidden);
            add(StageKind::ffn_norm, layer, rows * hidden * 8, rows * hidden * 4);
            product(StageKind::gate_up, layer, 2 * ffn, hidden);
            add(StageKind::activation, layer, rows * ffn * 12, rows * ffn * 5);
            product(StageKind::down, layer, hidden, ffn);
        }
        add(StageKind::output_norm, none, rows * hidden * 8, rows * hidden * 4);
        add(StageKind::logits, none, std::uint64_t{vocabulary} * hidden * 2, 2 * std::uint64_t{vocabulary} * hidden);
        add(StageKind::sample, none, std::uint64_t{vocabulary} * 4, vocabulary);
        return stages;
    }

    ProfileOptions m_options;
    RecordingWriter m_writer;
    std::uint64_t m_time = 0;
    std::uint32_t m_context = 0;
};

inline Ceilings profileCeilings() {
    Ceilings ceilings;
    ceilings.read_bandwidth = 96.4e9;
    ceilings.copy_bandwidth = 71e9;
    ceilings.matrix_rate = 1.62e12;
    ceilings.measured_on = "2026-11-30";
    return ceilings;
}

}  // namespace kvloupe
