// SPDX-License-Identifier: GPL-3.0-or-later
//
// Drives a CacheManager as a scheduler would, with tokens of its own per sequence. After every change it audits the
// manager and replays the events through LaneState: tables, owners, free queue and hashes must agree, else it throws.
#pragma once

#include "engine/cache/cache_manager.h"
#include "engine/record/lane_state.h"
#include "tests/support/texts.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvloupe {

inline std::string text(std::span<const BlockId> blocks) {
    std::string line;
    for (const BlockId id : blocks) line += std::to_string(id.value) + ' ';
    return test::trimmed(line);
}

// first, first + 1, …
inline std::vector<TokenId> tokens_from(TokenId first, std::size_t count) {
    std::vector<TokenId> tokens(count);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
}

inline std::vector<TokenId> joined(std::vector<TokenId> first, const std::vector<TokenId>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

class CacheDriver {
public:
    struct Sequence {
        std::vector<TokenId> tokens;
        std::uint32_t prompt = 0;
        std::uint32_t computed = 0;
        std::string salt, adapter;
        std::uint64_t final_slots = 0;
        std::int32_t priority = 0;
    };

    explicit CacheDriver(CacheManagerOptions options) {
        auto made = CacheManager::create(options);
        if (!made) throw std::runtime_error(made.error().message());
        cache = std::move(*made);
        replay = LaneState(options.blocks, options.block_size);
        seed_replay(options);
    }

    static CacheManagerOptions paged(std::uint32_t blocks, std::uint32_t block_size, bool caching = true) {
        CacheManagerOptions options;
        options.blocks = blocks;
        options.block_size = block_size;
        options.prefix_caching = caching;
        return options;
    }

    Sequence& add(std::uint32_t id, std::vector<TokenId> tokens, std::string salt = {}, std::string adapter = {}) {
        Sequence& sequence = sequences[id];
        sequence = {std::move(tokens), 0, 0, std::move(salt), std::move(adapter), 0, 0};
        sequence.prompt = static_cast<std::uint32_t>(sequence.tokens.size());
        return sequence;
    }

    CacheSequence view(std::uint32_t id) const {
        const Sequence& sequence = sequences.at(id);
        return {SequenceId{id}, sequence.tokens, sequence.prompt, sequence.final_slots, {sequence.adapter, sequence.salt},
                sequence.priority};
    }

    std::uint32_t hit(std::uint32_t id) { return cache->match(view(id)).tokens; }

    // Admits with hits and computes `count` tokens (default: the rest). False if refused; `refused` says why.
    bool admit(std::uint32_t id, std::uint32_t count = UINT32_MAX) {
        const CacheSequence sequence = view(id);
        const PrefixMatch match = cache->match(sequence);
        GrowRequest request;
        request.sequence = &sequence;
        request.computed = match.tokens;
        request.new_tokens = std::min<std::uint32_t>(count, std::uint32_t(sequence.tokens.size()) - match.tokens);
        request.match = &match;
        request.admission = true;
        request.whole_prompt = whole_prompt;
        request.others_scheduled = others_scheduled;
        hit_tokens = match.tokens;
        return grow(id, request);
    }

    // Computes `count` more tokens that are there already.
    bool compute(std::uint32_t id, std::uint32_t count = UINT32_MAX, std::uint32_t lookahead = 0) {
        const CacheSequence sequence = view(id);
        GrowRequest request;
        request.sequence = &sequence;
        request.computed = sequences[id].computed;
        request.new_tokens = std::min<std::uint32_t>(count, std::uint32_t(sequence.tokens.size()) - request.computed);
        request.lookahead = lookahead;
        return grow(id, request);
    }

    // Appends tokens and computes them in one step.
    bool append(std::uint32_t id, const std::vector<TokenId>& more) {
        Sequence& sequence = sequences[id];
        sequence.tokens = joined(sequence.tokens, more);
        return compute(id);
    }

    bool grow(std::uint32_t id, const GrowRequest& request) {
        plan = cache->plan_grow(request);
        refused = plan.refused_because;
        if (!plan.fits()) {
            if (cache->apply(plan)) throw std::runtime_error("a refused plan was applied");
            return false;
        }
        if (!apply(plan)) return false;
        Sequence& sequence = sequences[id];
        sequence.computed = request.computed + request.new_tokens;
        if (notes) note(id);
        return true;
    }

    // The step has run.
    void note(std::uint32_t id) { replay_events(cache->note_computed(view(id), sequences[id].computed)); }

    void release(std::uint32_t id, Cause cause = Cause::sequence_finished, std::uint32_t valid = UINT32_MAX) {
        apply(cache->plan_release(view(id), cause, valid));
        sequences[id].computed = 0;
    }

    // The child's tokens: the parent's first `position`, then `more`.
    bool fork(std::uint32_t child, std::uint32_t parent, std::uint32_t position, const std::vector<TokenId>& more = {}) {
        Sequence made = sequences.at(parent);
        made.tokens.resize(position);
        made.tokens = joined(made.tokens, more);
        made.computed = position;
        sequences[child] = made;
        auto forked = cache->plan_fork(view(child), SequenceId{parent}, position);
        if (!forked) {
            error = forked.error().message();
            return false;
        }
        return apply(*forked);
    }

    bool apply(const CachePlan& change) {
        auto done = cache->apply(change);
        if (!done) {
            error = done.error().message();
            return false;
        }
        replay_events(*done);
        return true;
    }

    std::size_t count(EventKind kind) const {
        return std::size_t(std::count_if(events.begin(), events.end(), [&](const Event& event) { return event.kind == kind; }));
    }
    std::string table(std::uint32_t id, std::uint32_t group = 0) const { return text(cache->table(SequenceId{id}, group)); }
    std::string free_order() const { return text(cache->free_order()); }
    std::uint32_t available() const { return cache->usable_blocks() - cache->used_blocks(); }
    bool hashed(std::uint32_t block) const { return cache->hash(BlockId{block}).has_value(); }

    std::unique_ptr<CacheManager> cache;
    LaneState replay;
    std::map<std::uint32_t, Sequence> sequences;
    std::vector<Event> events;  // of the last change
    CachePlan plan;             // the last to grow
    Cause refused = Cause::none;
    std::string error;
    std::uint32_t hit_tokens = 0;
    bool whole_prompt = true;
    bool others_scheduled = false;
    bool notes = true;          // a step has run as soon as it is planned

private:
    // LaneState starts with an ascending queue: take all blocks and give them back in the seeded order.
    void seed_replay(const CacheManagerOptions& options) {
        if (options.free_queue.empty()) return;
        Event event;
        event.sequence = SequenceId{4000};
        event.kind = EventKind::allocate;
        for (std::uint32_t block = 1; block < options.blocks; ++block) {
            event.block = BlockId{block};
            replay.apply(event);
        }
        event.kind = EventKind::free;
        for (const BlockId block : cache->free_order(SIZE_MAX)) {
            event.block = block;
            replay.apply(event);
        }
    }

    void replay_events(const std::vector<Event>& list) {
        if (!list.empty()) events = list;
        replay.apply(list);
        if (const auto sound = cache->audit(); !sound) throw std::runtime_error(sound.error().message());
        const auto differs = [](const char* what, const std::string& ours, const std::string& theirs) {
            if (ours != theirs)
                throw std::runtime_error(std::string("replayed ") + what + ": " + theirs + ", but the manager says: " + ours);
        };
        differs("free queue", free_order(), text(replay.free_order()));
        differs("cached blocks", std::to_string(cache->cached_blocks()), std::to_string(replay.cached_blocks()));
        for (std::uint32_t block = 1; block < cache->options().blocks; ++block) {
            const BlockState& state = replay.blocks()[block];
            if (state.owners != cache->owners(BlockId{block}) || state.hashed != hashed(block))
                throw std::runtime_error(test::printed("replayed block %u: %u owners, hashed %d; the manager says %u, %d", block, state.owners,
                                                       state.hashed, cache->owners(BlockId{block}), hashed(block)));
        }
        for (const auto& [id, sequence] : sequences)
            for (std::uint32_t group = 0; group < cache->group_count(); ++group) {
                std::vector<BlockId> ours(cache->table(SequenceId{id}, group).begin(), cache->table(SequenceId{id}, group).end());
                while (!ours.empty() && ours.back() == null_block_id) ours.pop_back();
                differs("table", text(ours), text(replayed_table(id, group)));
            }
    }

    std::vector<BlockId> replayed_table(std::uint32_t id, std::uint32_t group) const {
        std::vector<BlockId> table;
        if (id >= replay.sequences().size()) return table;
        for (const BlockId block : replay.table(SequenceId{id}, std::uint8_t(group))) table.push_back(block);
        while (!table.empty() && table.back() == null_block_id) table.pop_back();
        return table;
    }
};

}  // namespace kvloupe
