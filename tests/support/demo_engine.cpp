// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/demo_engine.h"

#include <algorithm>
#include <utility>

namespace kvloupe {

std::uint64_t demo_mix(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
    std::uint64_t x = a * 0x9E3779B97F4A7C15u + b * 0xC2B2AE3D27D4EB4Fu + c * 0x165667B19E3779F9u + d + 1;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

DemoEngine::DemoEngine(RecordingWriter& writer, LaneWriter& lane, const DemoSharingOptions& options)
    : m_writer(writer), m_lane(lane), m_options(options), m_info(lane.record().info()) {}

void DemoEngine::pass(std::uint64_t nanoseconds) { m_writer.set_time(m_now += nanoseconds); }

Event DemoEngine::event(EventKind kind, Cause cause, SequenceId sequence) {
    Event event;
    event.kind = kind;
    event.cause = cause;
    event.sequence = sequence;
    return event;
}

void DemoEngine::emit(Event event) {
    pass(150);
    if (event.kind == EventKind::copy_on_write || event.kind == EventKind::swap_out || event.kind == EventKind::swap_in)
        event.duration_ns = 400 + 20 * event.tokens;
    pass(event.duration_ns);
    m_lane.event(event);
}

std::uint32_t DemoEngine::blocks_for(std::uint64_t tokens) const {
    return static_cast<std::uint32_t>((tokens + m_info.block_size - 1) / m_info.block_size);
}

void DemoEngine::refuse(Sequence& sequence, Cause cause, std::uint64_t needed, std::uint64_t available) {
    if (std::exchange(sequence.refused, cause) == cause) return;
    Event one = event(EventKind::refuse, cause, sequence.id);
    one.tokens = static_cast<std::uint32_t>(needed);
    one.other = static_cast<std::uint32_t>(available);
    emit(one);
}

DemoEngine::Sequence DemoEngine::make(RequestId request, SequenceInfo info) {
    const RequestInfo& asked = m_writer.recording()->requests()[request.value];
    Sequence sequence;
    sequence.request = request;
    sequence.prompt = static_cast<std::uint32_t>(asked.prompt.size());
    sequence.max_new = asked.max_new_tokens;
    sequence.order = m_order++;
    sequence.tokens = asked.prompt;
    info.request = request;
    info.prompt_tokens = sequence.prompt;
    sequence.id = m_lane.add_sequence(std::move(info));
    return sequence;
}

void DemoEngine::note_prompt(const Sequence& sequence) {
    for (std::uint32_t position = 0; position < sequence.prompt && m_options.tokens; ++position) {
        TokenRecord token;
        token.sequence = sequence.id;
        token.position = position;
        token.token = sequence.tokens[position];
        m_lane.token(token);
    }
}

// What the script asks for: c forks from a in step 20; one request in sixteen is cancelled some time after it arrived.
void DemoEngine::act(std::uint32_t step) {
    const auto& requests = m_writer.recording()->requests();
    for (std::size_t i = 0; i < m_running.size(); ++i) {
        const std::string& id = requests[m_running[i].request.value].id;
        if (m_options.cast && id == "a" && step == 20 && m_lane.record().sequences()[m_running[i].id.value].name.empty()) {
            if (!can_fork()) {
                Event one = event(EventKind::refuse, Cause::action_refused, m_running[i].id);
                one.tokens = 0;
                one.detail = m_lane.intern("a cannot be forked: a contiguous cache cannot share");
                emit(one);
            } else if (const std::uint32_t position = m_running[i].prompt + 1; position <= m_running[i].computed) {
                fork(i, position, {m_running[i].request, m_running[i].id, position, position + 5, "c"}, Cause::requested);
                Sequence& child = m_running.back();
                child.tokens.resize(position);
                for (std::uint64_t t = 0; t < 5; ++t)
                    child.tokens.push_back(static_cast<TokenId>(3 + demo_mix(99, t) % (m_info.vocabulary - 3)));
                child.prompt = position + 5;
                child.max_new = 30;
                child.output = 0;
                note_prompt(child);
                child.hashes.resize(std::min<std::size_t>(child.hashes.size(), position / m_info.block_size));
                for (std::uint32_t& stored : child.stored) stored = std::min(stored, position / m_info.block_size);
            }
        }
        if (m_running[i].request.value % 16 == 15 && m_running[i].output > 4) {
            m_running[i].cancelled = true;
            Event end = event(EventKind::finish, Cause::sequence_cancelled, m_running[i].id);
            end.tokens = m_running[i].output;
            emit(end);
            release(m_running[i], Cause::sequence_cancelled);
        }
    }
    std::erase_if(m_running, [](const Sequence& one) { return one.cancelled; });
}

void DemoEngine::arrive(std::uint32_t step) {
    const auto& requests = m_writer.recording()->requests();
    for (; m_next_request < requests.size(); ++m_next_request) {
        const RequestInfo& info = requests[m_next_request];
        if (info.arrival_step > step) return;
        const std::uint32_t copies = can_fork() ? 1 : std::max(info.n, 1u);  // without sharing each computes the prompt
        SequenceId root;
        for (std::uint32_t copy = 0; copy < copies; ++copy) {
            SequenceInfo named;
            if (info.n > 1) named.name = info.id + "." + std::to_string(copy);
            if (copy > 0) named.parent = root;
            Sequence sequence = make(RequestId(m_next_request), named);
            if (copy == 0) root = sequence.id;
            sequence.samples = can_fork() ? std::max(info.n, 1u) : 1;
            Event one = event(EventKind::arrive, Cause::arrival_step_reached, sequence.id);
            one.tokens = sequence.prompt;
            emit(one);
            if (sequence.final_slots() > most_slots()) {
                one = event(EventKind::reject, Cause::exceeds_pool, sequence.id);
                one.tokens = static_cast<std::uint32_t>(sequence.final_slots());
                one.other = static_cast<std::uint32_t>(most_slots());
                emit(one);
                continue;
            }
            note_prompt(sequence);
            m_waiting.push_back(std::move(sequence));
        }
    }
}

void DemoEngine::take_from_running(std::size_t index) {
    m_preempted = true;
    m_running[index].refused = Cause::none;
    m_waiting.push_front(std::move(m_running[index]));
    m_running.erase(m_running.begin() + static_cast<std::ptrdiff_t>(index));
}

// Tells what of the sequence is computed in this step.
void DemoEngine::told(Sequence& sequence, std::uint32_t count, StepRecord& counters) {
    const bool decodes = sequence.computed + 1 == sequence.tokens.size() && sequence.output > 0;
    Event one = event(decodes ? EventKind::decode : EventKind::prefill, Cause::next_token, sequence.id);
    one.tokens = count;
    one.other = sequence.computed;
    if (!decodes) one.cause = count < sequence.to_do() ? Cause::token_budget : Cause::whole_prompt;
    emit(one);
    (decodes ? counters.decode_tokens : counters.prefill_tokens) += count;
    sequence.first = sequence.computed;
    sequence.computed += count;
    counters.context_tokens += sequence.computed;
}

void DemoEngine::schedule(StepRecord& counters) {
    std::uint32_t budget = m_options.token_budget;
    for (Sequence& one : m_running) one.first = one.computed;
    for (std::size_t i = 0; i < m_running.size() && budget > 0;) {
        const std::uint32_t count = std::min(m_running[i].to_do(), budget);
        const SequenceId id = m_running[i].id;
        if (count == 0 || !grow(i, count)) {
            if (i < m_running.size() && m_running[i].id == id) ++i;
            continue;
        }
        told(m_running[i], count, counters);
        budget -= count;
        ++i;
    }
    const bool closed = m_info.policy.batching == "static" && (!m_running.empty() || !m_ended.empty());
    while (!m_waiting.empty() && !m_preempted && budget > 0) {
        Sequence& head = m_waiting.front();
        if (closed) {
            refuse(head, Cause::batch_running, 0, 0xFFFFFFFFu);
            break;
        }
        if (m_running.size() >= m_options.max_num_seqs) {
            refuse(head, Cause::batch_full, 0, 0xFFFFFFFFu);
            break;
        }
        std::uint32_t count = 0;
        if (!admit(head, budget, count)) break;
        head.started = true;
        m_running.push_back(std::move(head));
        m_waiting.pop_front();
        Sequence& admitted = m_running.back();
        admitted.first = admitted.computed;
        if (count == 0) continue;
        told(admitted, count, counters);
        budget -= count;
    }
}

void DemoEngine::give_token(Sequence& sequence) {
    TokenRecord token;
    token.sequence = sequence.id;
    token.position = static_cast<std::uint32_t>(sequence.tokens.size());
    token.source = TokenRecord::forced;
    const std::uint64_t who = demo_mix(sequence.request.value, m_lane.record().sequences()[sequence.id.value].name.empty()
                                                                   ? 0
                                                                   : 1 + std::uint64_t{sequence.order});
    token.token = static_cast<TokenId>(3 + demo_mix(who, token.position) % (m_info.vocabulary - 3));
    if (m_options.tokens) m_lane.token(token);
    sequence.tokens.push_back(token.token);
    ++sequence.output;
}

void DemoEngine::fork(std::size_t parent, std::uint32_t position, SequenceInfo info, Cause cause) {
    Sequence child = m_running[parent];
    child.order = m_order++;
    child.samples = 1;
    child.computed = child.first = position;
    child.id = m_lane.add_sequence(std::move(info));
    Event one = event(EventKind::fork, cause, child.id);
    one.other = m_running[parent].id.value;
    one.tokens = position;
    emit(one);
    m_running.push_back(std::move(child));
}

void DemoEngine::fork_samples(std::size_t index) {
    const RequestInfo& info = m_writer.recording()->requests()[m_running[index].request.value];
    const std::uint32_t count = std::exchange(m_running[index].samples, 1);
    for (std::uint32_t i = 1; i < count; ++i) {
        const Sequence& root = m_running[index];
        fork(index, root.computed, {root.request, root.id, root.computed, root.prompt, info.id + "." + std::to_string(i)},
             Cause::parallel_sampling);
        m_running.back().tokens.resize(root.computed);
        m_running.back().output = 0;
        note_prompt(m_running.back());
        give_token(m_running.back());
    }
}

void DemoEngine::sample() {
    const std::size_t count = m_running.size();
    for (std::size_t i = 0; i < count; ++i) {
        if (m_running[i].computed > m_running[i].first) computed(m_running[i]);
        if (m_running[i].computed == m_running[i].first || m_running[i].to_do() > 0) continue;
        give_token(m_running[i]);
        if (m_running[i].samples > 1) fork_samples(i);
    }
}

void DemoEngine::finish(StepRecord& counters) {
    counters.running = static_cast<std::uint32_t>(m_running.size());
    counters.waiting = static_cast<std::uint32_t>(m_waiting.size());
    for (Sequence& sequence : m_running) {
        if (sequence.output < sequence.max_new) continue;
        Event end = event(EventKind::finish, Cause::forced_tokens_used_up, sequence.id);
        end.tokens = sequence.output;
        emit(end);
        if (m_info.policy.batching == "static") m_ended.push_back(sequence);
        else release(sequence, Cause::sequence_finished);
    }
    std::erase_if(m_running, [](const Sequence& one) { return one.output >= one.max_new; });
    if (!m_running.empty()) return;
    for (Sequence& sequence : m_ended) release(sequence, Cause::batch_ended);
    m_ended.clear();
}

std::uint64_t DemoEngine::step(std::uint64_t start_ns) {
    const auto step = static_cast<std::uint32_t>(m_lane.next_step());
    m_now = start_ns;
    m_writer.set_time(m_now);
    m_lane.begin_step();
    m_preempted = false;
    m_hit = m_queried = m_preempted_hit = m_preempted_queried = 0;
    StepRecord counters;
    act(step);
    arrive(step);
    schedule(counters);
    counters.computed_tokens = std::uint64_t{counters.prefill_tokens} + counters.decode_tokens;
    pass(2000 + 900 * counters.computed_tokens + 3 * counters.context_tokens);
    sample();
    counters.hit_tokens = m_hit;
    counters.queried_tokens = m_queried;
    counters.preempted_hit_tokens = m_preempted_hit;
    counters.preempted_queried_tokens = m_preempted_queried;
    counters.used_blocks = state().used_blocks();
    counters.cached_blocks = state().cached_blocks();
    counters.free_blocks = m_info.blocks - 1 - counters.used_blocks - counters.cached_blocks;
    counters.host_blocks = state().host_blocks();
    counters.kv_bytes = counters.used_blocks * m_info.block_bytes;
    count(counters.slots, counters);
    finish(counters);
    m_lane.end_step(counters);
    return m_now;
}

}  // namespace kvloupe
