// SPDX-License-Identifier: GPL-3.0-or-later
//
// A recording of seven steps, written by hand, in which sequences share, copy, evict and lose blocks; blocks of 4 slots.
//   step 0  a (prompt 10) is admitted: blocks 1, 2, 3; blocks 1 and 2 are stored under their hashes
//   step 1  b (prompt 6) is admitted: blocks 4, 5; a writes position 10
//   step 2  c forks from a at 11 and shares 1, 2, 3; a appends first and copies block 3 to 6 (3 slots); c writes in place
//   step 3  b is preempted (5 to the head of the free queue, 4, which has a hash, to its tail); a takes 5, c takes 7
//   step 4  d, with a's prompt, hits 1 and 2 and takes 8; c's first block leaves its window: null block
//   step 5  block 4 loses its hash because d needs a block and takes it
//   step 6  a finishes and gives its blocks back
#pragma once

#include "engine/record/writer.h"

#include <memory>

namespace kvloupe {

class SharingFixture {
public:
    static constexpr std::uint32_t block_size = 4, blocks = 10;

    explicit SharingFixture(std::string kind = "paged") : m_writer("sharing", 1u << 24) {
        m_writer.set_time(0);
        auto vocabulary = std::make_shared<VocabularyText>();
        for (const char* word : {"Tom", " has", " a", " red", " ball", ".", " Mia", " the", " big", " dog", " and", " cat"}) {
            vocabulary->pieces.emplace_back(word);
            vocabulary->shown.emplace_back(word);
        }
        LaneInfo info;
        info.name = "cached";
        info.model_name = "demo";
        info.attention_variant = "GQA";
        info.cache_dtype = "f16";
        info.layers = 2;
        info.query_heads = 2;
        info.kv_heads = 1;
        info.head_dim = 16;
        info.vocabulary = 12;
        info.blocks = blocks;
        info.block_size = block_size;
        info.bytes_per_token = 256;
        info.block_bytes = 1024;
        info.pool_bytes = blocks * 1024;
        info.policy.kind = std::move(kind);
        info.policy.prefix_caching = true;
        m_lane = &m_writer.add_lane(info, vocabulary);
        m_writer.lanes_complete();
        request("a", 10, 20, 0);
        request("b", 6, 20, 1);
        request("d", 10, 20, 4);
    }

    std::shared_ptr<const Recording> record() {
        begin();
        const SequenceId a = sequence(0, "");
        admit(a, 10);
        allocate(a, 1, 0), allocate(a, 2, 1), allocate(a, 3, 2);
        store(1, a), store(2, a);
        prefill(a, 0, 10), tokens(a, 10, 1);
        end(3);
        begin();
        const SequenceId b = sequence(1, "");
        admit(b, 6);
        allocate(b, 4, 0), allocate(b, 5, 1);
        store(4, b);
        decode(a, 10), tokens(a, 11, 1);
        prefill(b, 0, 6), tokens(b, 6, 1);
        end(5);
        begin();
        const SequenceId c = fork(a, "c", 11);
        copy(a, 3, 6, 3);
        decode(a, 11), decode(c, 11), decode(b, 6);
        tokens(a, 12, 1), tokens(c, 12, 1), tokens(b, 7, 1);
        end(6);
        begin();
        preempt(b, 7, a);
        release(b, 5, Cause::sequence_preempted, Event::flag_front), release(b, 4, Cause::sequence_preempted, 0);
        allocate(a, 5, 3), allocate(c, 7, 3);
        decode(a, 12), decode(c, 12);
        tokens(a, 13, 1), tokens(c, 13, 1);
        end(6);
        begin();
        const SequenceId d = sequence(2, "");
        hit(d, 1), hit(d, 2);
        admit(d, 10);
        allocate(d, 8, 2);
        null(c, 1, 0);
        prefill(d, 8, 2), decode(a, 13), decode(c, 13);
        tokens(d, 10, 1), tokens(a, 14, 1), tokens(c, 14, 1);
        end(7);
        begin();
        Event evict = event(EventKind::evict, Cause::block_needed, d);
        evict.block = BlockId(4);
        m_lane->event(evict);
        allocate(d, 4, 3);
        decode(d, 10), decode(a, 14), decode(c, 14);
        tokens(d, 11, 1), tokens(a, 15, 1), tokens(c, 15, 1);
        end(8);
        begin();
        Event finish = event(EventKind::finish, Cause::length_reached, a);
        finish.tokens = 5;
        m_lane->event(finish);
        for (const std::uint32_t block : {5u, 6u, 2u, 1u}) release(a, block, Cause::sequence_finished, Event::flag_front);
        decode(c, 15), tokens(c, 16, 1);
        end(6);
        m_writer.set_phase(Phase::paused, "Paused at breakpoint: copy_on_write in lane cached.");
        return m_writer.recording();
    }

    RecordingWriter& writer() { return m_writer; }

private:
    void request(const char* id, std::uint32_t prompt, std::uint32_t most, std::uint32_t arrival) {
        RequestInfo info;
        info.id = id;
        for (std::uint32_t i = 0; i < prompt; ++i) info.prompt.push_back(static_cast<TokenId>(i % 12));
        info.max_new_tokens = most;
        info.arrival_step = arrival;
        m_writer.add_request(info);
    }

    Event event(EventKind kind, Cause cause, SequenceId sequence) {
        m_writer.set_time(m_now += 200);
        Event made;
        made.kind = kind;
        made.cause = cause;
        made.sequence = sequence;
        return made;
    }

    void begin() {
        m_writer.set_time(m_now += 1000);
        m_lane->begin_step();
    }

    void end(std::uint32_t used) {
        StepRecord counters;
        counters.used_blocks = used;
        counters.free_blocks = blocks - 1 - used;
        m_writer.set_time(m_now += 5000);
        m_lane->end_step(counters);
    }

    SequenceId sequence(std::uint32_t request, std::string name) {
        SequenceInfo info{RequestId(request), SequenceId::none(), 0};
        info.name = std::move(name);
        const SequenceId id = m_lane->add_sequence(info);
        Event arrive = event(EventKind::arrive, Cause::arrival_step_reached, id);
        const auto& prompt = m_writer.recording()->requests()[request].prompt;
        arrive.tokens = static_cast<std::uint32_t>(prompt.size());
        m_lane->event(arrive);
        for (std::uint32_t p = 0; p < prompt.size(); ++p) m_lane->token({id, p, prompt[p], TokenRecord::prompt});
        return id;
    }

    void admit(SequenceId id, std::uint32_t prompt) {
        Event made = event(EventKind::admit, Cause::fits_beside_running, id);
        made.tokens = prompt;
        m_lane->event(made);
    }

    void allocate(SequenceId id, std::uint32_t block, std::uint32_t logical) {
        Event made = event(EventKind::allocate, Cause::first_slot_of_block, id);
        made.block = BlockId(block);
        made.other = logical;
        m_lane->event(made);
    }

    void store(std::uint32_t block, SequenceId id) {
        Event made = event(EventKind::store, Cause::block_full, id);
        made.block = BlockId(block);
        made.other = 0xC9D58B00u + block;  // bits 63-32 of the hash
        made.tokens = 0x695280D6u;
        m_lane->event(made);
    }

    void prefill(SequenceId id, std::uint32_t first, std::uint32_t count) {
        Event made = event(EventKind::prefill, Cause::whole_prompt, id);
        made.other = first;
        made.tokens = count;
        m_lane->event(made);
    }

    void decode(SequenceId id, std::uint32_t position) {
        Event made = event(EventKind::decode, Cause::next_token, id);
        made.other = position;
        made.tokens = 1;
        m_lane->event(made);
    }

    void tokens(SequenceId id, std::uint32_t first, std::uint32_t count) {
        for (std::uint32_t p = first; p < first + count; ++p)
            m_lane->token({id, p, static_cast<TokenId>((p * 7 + id.value) % 12), TokenRecord::sampled});
    }

    SequenceId fork(SequenceId parent, std::string name, std::uint32_t position) {
        SequenceInfo info{RequestId(0), parent, position};
        info.name = std::move(name);
        const SequenceId id = m_lane->add_sequence(info);
        Event made = event(EventKind::fork, Cause::requested, id);
        made.other = parent.value;
        made.tokens = position;
        m_lane->event(made);
        for (std::uint32_t p = 0; p < position; ++p) m_lane->token({id, p, static_cast<TokenId>(p % 12), TokenRecord::prompt});
        m_lane->token({id, position, 3, TokenRecord::sampled});
        return id;
    }

    void copy(SequenceId id, std::uint32_t from, std::uint32_t to, std::uint32_t slots) {
        Event made = event(EventKind::copy_on_write, Cause::shared_block_written, id);
        made.block = BlockId(from);
        made.other = to;
        made.tokens = slots;
        made.duration_ns = 2900;
        m_lane->event(made);
    }

    void preempt(SequenceId id, std::uint32_t computed, SequenceId needed) {
        Event made = event(EventKind::preempt, Cause::last_running, id);
        made.tokens = computed;
        made.other = needed.value;
        m_lane->event(made);
    }

    void release(SequenceId id, std::uint32_t block, Cause cause, std::uint8_t flags) {
        Event made = event(EventKind::free, cause, id);
        made.block = BlockId(block);
        made.other = 0;
        made.flags = flags;
        m_lane->event(made);
    }

    void hit(SequenceId id, std::uint32_t block) {
        Event made = event(EventKind::prefix_hit, Cause::prefix_shared, id);
        made.block = BlockId(block);
        made.tokens = block_size;
        m_lane->event(made);
    }

    void null(SequenceId id, std::uint32_t block, std::uint32_t logical) {
        Event made = event(EventKind::null_block, Cause::out_of_window, id);
        made.block = BlockId(block);
        made.other = logical;
        m_lane->event(made);
        release(id, block, Cause::out_of_window, 0);
    }

    RecordingWriter m_writer;
    LaneWriter* m_lane = nullptr;
    std::uint64_t m_now = 0;
};

}  // namespace kvloupe
