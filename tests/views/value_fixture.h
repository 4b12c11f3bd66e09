// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the tests of the pictures of stored values share: a recording whose lanes quantise, keep latents and give up blocks, and a
// source that answers with numbers made by hand.
#pragma once

#include "tests/views/memory_fixture.h"
#include "views/block_values_source.h"

#include <limits>

namespace kvloupe {

inline constexpr float notKnown = std::numeric_limits<float>::quiet_NaN();

// Blocks of 4 slots, 19 tokens of one sequence in every lane, two steps:
//   0 "int8"     2 layers, 2 KV heads of 4 channels; blocks 1 … 5
//   1 "MLA"      2 layers, latents of 6 with rotary keys of 2; blocks 1 … 5
//   2 "windows"  layer 0 sees all (group 0, blocks 1 … 5); layers 1 and 2 a window of 6 and 2 sinks by rank (group 1, blocks 6, null,
//                null, 9, 10)
//   3 "bare"     without a cache
inline std::shared_ptr<const Recording> valueRecording() {
    RecordingWriter writer("values", 1 << 20);
    writer.set_time(0);
    auto vocabulary = std::make_shared<VocabularyText>();
    vocabulary->pieces = vocabulary->shown = {"the", "red", "key"};
    LaneInfo info;
    info.block_size = 4;
    info.blocks = 12;
    info.query_heads = 4;
    info.kv_heads = 2;
    info.head_dim = 4;
    info.layers = 2;
    info.vocabulary = 3;
    info.policy.kind = "paged";
    info.policy.positions = "absolute";
    info.policy.groups = {{0, 0, 0, 2}};
    LayerInfo layer;
    layer.query_heads = 4;
    layer.kv_heads = 2;
    layer.key_dim = layer.value_dim = 4;
    layer.keys = layer.values = KvFormat::of(DType::int8);
    layer.key_bytes_per_token = layer.value_bytes_per_token = 16;
    info.name = "int8";
    info.attention_variant = "GQA";
    info.cache_dtype = "int8";
    info.layer_infos = {layer, layer};
    writer.add_lane(info, vocabulary);
    LaneInfo latent = info;
    latent.name = "MLA";
    latent.attention_variant = "MLA";
    latent.query_heads = 3;
    latent.kv_heads = 3;
    latent.latent_rank = 6;
    latent.latent_rotary_dim = 2;
    latent.latent_form = "absorbed";
    for (LayerInfo& each : latent.layer_infos) {
        each.latent = true;
        each.kv_heads = 1;
        each.query_heads = 3;
        each.key_dim = 6;
        each.value_dim = 2;
        each.keys = each.values = KvFormat::of(DType::f16);
    }
    writer.add_lane(latent, vocabulary);
    LaneInfo windows = info;
    windows.name = "windows";
    windows.layers = 3;
    windows.layer_infos = {layer, layer, layer};
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
        windows.layer_infos[i].group = 1;
        windows.layer_infos[i].window = 6;
        windows.layer_infos[i].sinks = 2;
    }
    windows.policy.positions = "rank";
    windows.policy.groups = {{0, 0, 0, 1}, {6, 2, 0, 2}};
    writer.add_lane(windows, vocabulary);
    LaneInfo bare = info;
    bare.name = "bare";
    bare.kv_cache = false;
    bare.blocks = bare.block_size = 0;
    writer.add_lane(bare, vocabulary);
    writer.lanes_complete();
    RequestInfo request;
    request.id = "a";
    for (int i = 0; i < 19; ++i) request.prompt.push_back(i % 3);
    request.max_new_tokens = 8;
    writer.add_request(request);
    for (std::uint32_t lane = 0; lane < 4; ++lane) {
        LaneWriter& own = writer.lane(LaneId(lane));
        own.add_sequence({RequestId(0), {}, 0});
        const auto emit = [&own](EventKind kind, Cause cause, std::uint32_t block, std::uint32_t other, std::uint32_t tokens, std::uint8_t group = 0) {
            Event event;
            event.kind = kind;
            event.cause = cause;
            event.sequence = SequenceId(0);
            if (block > 0) event.block = BlockId(block);
            event.other = other;
            event.tokens = tokens;
            event.group = group;
            own.event(event);
        };
        own.begin_step();
        emit(EventKind::arrive, Cause::submitted, 0, Event{}.other, 19);
        emit(EventKind::admit, Cause::fits_beside_running, 0, Event{}.other, 19);
        for (std::uint32_t i = 0; lane < 3 && i < 5; ++i) emit(EventKind::allocate, Cause::first_slot_of_block, i + 1, i, 0);
        for (std::uint32_t i = 0; lane == 2 && i < 5; ++i) emit(EventKind::allocate, Cause::first_slot_of_block, i + 6, i, 0, 1);
        emit(EventKind::prefill, Cause::whole_prompt, 0, 0, 19);
        own.end_step({});
        own.begin_step();
        for (std::uint32_t i = 1; lane == 2 && i < 3; ++i) {
            emit(EventKind::null_block, Cause::out_of_window, i + 6, i, 0, 1);
            emit(EventKind::free, Cause::out_of_window, i + 6, 0, 0, 1);
        }
        own.end_step({});
    }
    writer.set_phase(Phase::paused);
    return writer.recording();
}

// Answers at once, or when it is told to.
class HandMadeSource : public BlockValuesSource {
public:
    void ask(const BlockQuestion& question) override {
        ++asked;
        last = question;
        if (!later) make();
    }
    std::shared_ptr<const BlockValues> answer() const override { return m_answer; }
    void deliver() {
        make();
        Q_EMIT answered();
    }

    // stored = head + token / 10 + channel / 100; before = stored + 0.5 in channel 1 of head 1, equal elsewhere; the block's first
    // token was stored before anybody asked. Values are the negatives.
    static std::shared_ptr<BlockValues> values(const BlockQuestion& question) {
        auto made = std::make_shared<BlockValues>();
        made->question = question;
        made->step = 1;
        made->sequence = SequenceId(0);
        made->owners = 1;
        const bool latent = question.lane == LaneId(1);
        made->latent = latent;
        made->first_position = (question.block.value - 1) * 4;
        made->tokens = question.block.value == 5 ? 3 : 4;
        made->before_since = 0;
        made->before_bytes = 4096;
        const auto fill = [&](BlockPart& part, std::uint32_t heads, std::uint32_t width, float sign, bool known) {
            part.heads = heads;
            part.width = width;
            part.tokens = made->tokens;
            part.format = KvFormat::of(latent ? DType::f16 : DType::int8);
            for (std::uint32_t head = 0; head < heads; ++head)
                for (std::uint32_t token = 0; token < made->tokens; ++token)
                    for (std::uint32_t channel = 0; channel < width; ++channel) {
                        const float value = sign * (static_cast<float>(head) + static_cast<float>(token) / 10 + static_cast<float>(channel) / 100);
                        part.stored.push_back(value);
                        if (known) part.before.push_back(token == 0 ? notKnown : value + (head == 1 && channel == 1 ? 0.5f : 0.0f));
                    }
        };
        fill(made->keys, latent ? 1 : 2, latent ? 6 : 4, 1, true);
        fill(made->values, latent ? 1 : 2, latent ? 2 : 4, -1, true);
        if (latent) {
            fill(made->expanded_keys, 3, 5, 1, false);
            fill(made->expanded_values, 3, 3, -1, false);
        }
        for (std::uint32_t layer = 0; layer < 2; ++layer)
            made->layers.push_back({layer, errors_of(made->keys, 0).total, errors_of(made->values, 0).total});
        return made;
    }

    bool later = false;
    int asked = 0;
    std::optional<BlockQuestion> last;
    std::string problem;

private:
    void make() {
        auto made = values(*last);
        made->problem = problem;
        m_answer = made;
    }
    std::shared_ptr<const BlockValues> m_answer;
};

}  // namespace kvloupe
