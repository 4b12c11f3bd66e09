// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/demo_lane.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace kvloupe {

namespace {

// A hash of four numbers (Vigna's SplitMix64 finaliser): everything made up comes from it.
std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0, std::uint64_t d = 0) {
    std::uint64_t x = a * 0x9E3779B97F4A7C15u + b * 0xC2B2AE3D27D4EB4Fu + c * 0x165667B19E3779F9u + d + 1;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

double unit(std::uint64_t hash) { return static_cast<double>(hash >> 11) / 9007199254740992.0; }

}  // namespace

DemoLane::DemoLane(RecordingWriter& writer, LaneWriter& lane, const DemoOptions& options)
    : m_writer(writer), m_lane(lane), m_options(options), m_info(lane.record().info()) {
    for (std::uint32_t block = 1; block < m_info.blocks; ++block) m_free.push_back(block);
}

void DemoLane::pass(std::uint64_t nanoseconds) { m_writer.set_time(m_now += nanoseconds); }

void DemoLane::emit(Event event) {
    pass(150);
    m_lane.event(event);
}

std::uint32_t DemoLane::blocks_for(std::uint64_t tokens) const {
    if (!m_info.kv_cache) return 0;
    return static_cast<std::uint32_t>((tokens + m_info.block_size - 1) / m_info.block_size);
}

std::uint32_t DemoLane::may_need(const Running& running) const {
    return blocks_for(std::uint64_t{running.prompt} + running.max_new - 1);
}

void DemoLane::arrive(std::uint32_t step) {
    const auto& requests = m_writer.recording()->requests();
    for (; m_next_request < requests.size(); ++m_next_request) {
        const std::uint32_t i = m_next_request;
        const RequestInfo& info = requests[i];
        if (info.arrival_step > step) return;
        Running arrival;
        arrival.request = RequestId(i);
        arrival.sequence = m_lane.add_sequence({RequestId(i), SequenceId::none(), 0});
        arrival.prompt = static_cast<std::uint32_t>(info.prompt.size());
        arrival.max_new = info.max_new_tokens;
        arrival.tokens = info.prompt;
        Event event;
        event.kind = EventKind::arrive;
        event.cause = Cause::arrival_step_reached;
        event.sequence = arrival.sequence;
        event.tokens = arrival.prompt;
        emit(event);
        const std::uint64_t needed = std::uint64_t{arrival.prompt} + arrival.max_new - 1;
        const std::uint64_t slots = std::uint64_t{m_info.blocks - 1} * m_info.block_size;
        if ((m_info.kv_cache && needed > slots) || needed > 1200) {
            event.kind = EventKind::reject;
            event.cause = m_info.kv_cache ? Cause::exceeds_pool : Cause::exceeds_context;
            event.tokens = static_cast<std::uint32_t>(needed);
            event.other = m_info.kv_cache ? static_cast<std::uint32_t>(slots) : 1200;
            emit(event);
            continue;
        }
        for (std::uint32_t position = 0; position < arrival.prompt; ++position) {
            TokenRecord token;
            token.sequence = arrival.sequence;
            token.position = position;
            token.token = info.prompt[position];
            m_lane.token(token);
        }
        m_waiting.push_back(std::move(arrival));
    }
}

void DemoLane::admit() {
    while (!m_waiting.empty()) {
        Running& head = m_waiting.front();
        std::uint32_t promised = 0;
        for (const Running& running : m_running) promised += may_need(running);
        const std::uint32_t left = m_info.kv_cache ? m_info.blocks - 1 - promised : 0;
        Event event;
        event.sequence = head.sequence;
        event.tokens = head.prompt;
        event.kind = EventKind::admit;
        event.cause = Cause::fits_beside_running;
        if (m_info.kv_cache && may_need(head) > left) {
            event.kind = EventKind::refuse;
            event.cause = Cause::pool_too_full;
            event.tokens = may_need(head);
            event.other = left;
            emit(event);
            return;
        }
        emit(event);
        m_running.push_back(std::move(head));
        m_waiting.pop_front();
    }
}

void DemoLane::hold_blocks(Running& running) {
    while (running.table.size() < blocks_for(running.computed)) {
        Event event;
        event.kind = EventKind::allocate;
        event.cause = Cause::first_slot_of_block;
        event.sequence = running.sequence;
        event.block = BlockId(m_free.front());
        event.other = static_cast<std::uint32_t>(running.table.size());
        m_free.pop_front();
        running.table.push_back(event.block.value);
        emit(event);
    }
}

void DemoLane::schedule() {
    std::uint32_t budget = m_options.token_budget;
    for (Running& running : m_running) {
        const auto known = static_cast<std::uint32_t>(running.tokens.size());
        running.first = running.computed;
        if (!m_info.kv_cache) running.first = 0;
        const std::uint32_t wanted = known - running.first;
        const std::uint32_t count = m_info.kv_cache ? std::min(wanted, budget) : wanted;
        running.computed = running.first + count;
        if (count == 0) continue;
        if (m_info.kv_cache) budget -= count;
        hold_blocks(running);
        Event event;
        event.sequence = running.sequence;
        event.other = running.first;
        event.tokens = count;
        if (running.output == 0) {
            event.kind = EventKind::prefill;
            event.cause = count < wanted ? Cause::token_budget : Cause::whole_prompt;
        } else {
            if (!m_info.kv_cache) {  // all but the newest token were computed before
                event.kind = EventKind::prefill;
                event.cause = Cause::no_kv_cache;
                event.tokens = count - 1;
                emit(event);
            }
            event.kind = EventKind::decode;
            event.cause = Cause::next_token;
            event.other = running.computed - 1;
            event.tokens = 1;
        }
        emit(event);
    }
}

void DemoLane::sample(StepRecord& counters) {
    constexpr std::size_t top = 10;
    for (Running& running : m_running) {
        const std::uint32_t count = running.computed - running.first;
        if (count == 0) continue;
        counters.decode_tokens += running.output > 0 ? 1 : 0;
        counters.prefill_tokens += running.output > 0 ? count - 1 : count;
        counters.context_tokens += running.computed;
        attend(running);
        if (running.computed < running.tokens.size()) continue;
        const std::uint64_t seed = mix(m_info.weights_id, running.request.value, running.tokens.size());
        std::array<Alternative, top> alternatives;
        const auto vocabulary = static_cast<std::uint64_t>(m_info.vocabulary);
        double sum = 0;
        for (std::size_t i = 0; i < top; ++i) {
            alternatives[i].token = static_cast<TokenId>(3 + (seed + i * 5) % (vocabulary - 3));
            alternatives[i].logit = static_cast<float>(8.0 - 0.9 * static_cast<double>(i) - unit(mix(seed, i)) * 0.8);
            sum += std::exp(static_cast<double>(alternatives[i].logit));
        }
        sum += std::exp(1.0) * static_cast<double>(vocabulary - top);  // the rest of the vocabulary
        for (Alternative& alternative : alternatives)
            alternative.probability = static_cast<float>(std::exp(static_cast<double>(alternative.logit)) / sum);
        TokenRecord token;
        token.sequence = running.sequence;
        token.position = static_cast<std::uint32_t>(running.tokens.size());
        token.source = TokenRecord::sampled;
        token.rank = seed % 9 == 0 ? 1 : 0;
        token.token = alternatives[token.rank].token;
        token.probability = alternatives[token.rank].probability;
        m_lane.token(token, alternatives);
        running.tokens.push_back(token.token);
        ++running.output;
    }
}

// Rows that look like heads do: one leans on the first token, one on the neighbours, one on a token some way back.
void DemoLane::attend(Running& running) {
    if (!m_options.attention) return;
    const std::uint32_t first = running.attended;
    running.attended = running.computed;
    std::vector<float> weights;
    for (std::uint32_t layer = 0; layer < m_info.layers; ++layer) {
        for (std::uint32_t head = 0; head < m_info.query_heads; ++head) {
            for (std::uint32_t position = first; position < running.computed; ++position) {
                weights.resize(position + std::size_t{1});
                double sum = 0;
                for (std::uint32_t key = 0; key <= position; ++key) {
                    const double distance = position - key;
                    const std::uint64_t kind = mix(layer, head) % 3;
                    double score = unit(mix(head, key, layer, running.sequence.value)) * 1.5;
                    if (kind == 0) score += key == 0 ? 6.0 : -distance * 0.01;
                    if (kind == 1) score += 4.0 - distance * 0.7;
                    if (kind == 2) score += std::abs(distance - 3.0 * (layer + 2)) < 0.5 ? 5.0 : 0.0;
                    weights[key] = static_cast<float>(std::exp(score));
                    sum += static_cast<double>(weights[key]);
                }
                for (float& weight : weights) weight = static_cast<float>(static_cast<double>(weight) / sum);
                AttentionRow row;
                row.sequence = running.sequence;
                row.layer = static_cast<std::uint16_t>(layer);
                row.head = static_cast<std::uint16_t>(head);
                row.position = position;
                m_lane.attention_row(row, weights);
            }
        }
    }
}

void DemoLane::stages(const StepRecord& counters) {
    const std::uint64_t rows = counters.prefill_tokens + counters.decode_tokens;
    const std::uint64_t hidden = std::uint64_t{m_info.query_heads} * m_info.head_dim;
    const std::uint64_t step = m_lane.next_step();
    const bool kept = m_options.stages_every > 0 && step % m_options.stages_every == 0;
    std::vector<StageRecord> kept_stages;
    const auto stage = [&](StageKind kind, std::uint16_t layer, std::uint64_t bytes, std::uint64_t flops) {
        StageRecord record;
        record.kind = kind;
        record.layer = layer;
        record.calls = 1;
        record.bytes = bytes;
        record.flops = flops;
        record.duration_ns = 800 + bytes / 20 + flops / 60 + mix(step, layer, static_cast<std::uint64_t>(kind)) % 300;
        pass(record.duration_ns);
        if (kept) kept_stages.push_back(record);
    };
    constexpr std::uint16_t none = StageRecord::no_layer;
    stage(StageKind::schedule, none, 0, 0);
    if (rows == 0) return m_lane.stages(step, kept_stages);
    const std::uint64_t kv_width = std::uint64_t{m_info.kv_heads} * m_info.head_dim;
    const std::uint64_t kv_bytes = counters.context_tokens * 2 * kv_width * 2;
    const auto product = [&](StageKind kind, std::uint16_t layer, std::uint64_t out, std::uint64_t in) {
        stage(kind, layer, out * in * 2 + rows * (out + in) * 4, 2 * rows * out * in);
    };
    stage(StageKind::embed, none, rows * hidden * 6, 0);
    for (std::uint16_t layer = 0; layer < m_info.layers; ++layer) {
        stage(StageKind::attention_norm, layer, rows * hidden * 8, rows * hidden * 4);
        product(StageKind::qkv, layer, hidden + 2 * kv_width, hidden);
        stage(StageKind::rotary_store, layer, rows * (hidden + 3 * kv_width) * 4, rows * hidden * 6);
        stage(StageKind::attention, layer, kv_bytes, 4 * rows * counters.context_tokens * hidden);
        product(StageKind::attention_out, layer, hidden, hidden);
        stage(StageKind::ffn_norm, layer, rows * hidden * 8, rows * hidden * 4);
        product(StageKind::gate_up, layer, 6 * hidden, hidden);
        stage(StageKind::activation, layer, rows * hidden * 36, rows * hidden * 15);
        product(StageKind::down, layer, hidden, 3 * hidden);
    }
    stage(StageKind::output_norm, none, rows * hidden * 8, rows * hidden * 4);
    product(StageKind::logits, none, m_info.vocabulary, hidden);
    stage(StageKind::sample, none, std::uint64_t{m_info.vocabulary} * 4, m_info.vocabulary);
    m_lane.stages(step, kept_stages);
}

void DemoLane::count(StepRecord& counters) const {
    counters.computed_tokens = counters.prefill_tokens + counters.decode_tokens;
    if (!m_info.kv_cache) return;
    counters.used_blocks = m_lane.state().used_blocks();
    counters.free_blocks = m_info.blocks - 1 - counters.used_blocks;
    counters.kv_bytes = counters.used_blocks * m_info.block_bytes;
    SlotCounts& slots = counters.slots;
    for (const Running& running : m_running) {
        const std::uint64_t held = running.table.size() * std::uint64_t{m_info.block_size};
        const std::uint64_t written_in_the_end =
            std::min<std::uint64_t>(held, std::uint64_t{running.prompt} + running.max_new - 1);
        slots.token += running.computed;
        slots.reserved += written_in_the_end - running.computed;
        slots.internal += held - written_in_the_end;
    }
    slots.free = std::uint64_t{counters.free_blocks} * m_info.block_size;
}

void DemoLane::release() {
    for (std::size_t i = 0; i < m_running.size();) {
        Running& running = m_running[i];
        if (running.output < running.max_new) {
            ++i;
            continue;
        }
        Event event;
        event.kind = EventKind::finish;
        event.cause = Cause::length_reached;
        event.sequence = running.sequence;
        event.tokens = running.output;
        emit(event);
        for (; !running.table.empty(); running.table.pop_back()) {
            event.kind = EventKind::free;
            event.cause = Cause::sequence_finished;
            event.block = BlockId(running.table.back());
            event.other = 0;
            event.tokens = 0;
            event.flags = Event::flag_front;
            m_free.push_front(event.block.value);
            emit(event);
        }
        m_running.erase(m_running.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

std::uint64_t DemoLane::step(std::uint64_t start_ns) {
    const auto step = static_cast<std::uint32_t>(m_lane.next_step());
    if (!m_info.kv_cache && m_options.uncached_steps > 0 && step >= m_options.uncached_steps) return start_ns;
    m_now = start_ns;
    m_writer.set_time(m_now);
    m_lane.begin_step();
    StepRecord counters;
    arrive(step);
    admit();
    counters.running = static_cast<std::uint32_t>(m_running.size());
    schedule();
    sample(counters);
    stages(counters);
    count(counters);
    if (!m_info.kv_cache && counters.computed_tokens > 0)
        counters.logit_difference = static_cast<float>(1e-6 * (1.0 + 4.0 * unit(mix(step, 77))));
    release();
    counters.waiting = static_cast<std::uint32_t>(m_waiting.size());
    m_lane.end_step(counters);
    return m_now;
}

}  // namespace kvloupe
