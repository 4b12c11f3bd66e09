// SPDX-License-Identifier: GPL-3.0-or-later
//
// A random life of a paged cache, driven by bytes: options first, then operations. After each operation the manager must
// keep its invariants, agree with NaiveCache, and tell events from which LaneState rebuilds the same pool.
// Used with random bytes by a test and with libFuzzer's by a fuzz target.
#pragma once

#include "engine/record/lane_state.h"
#include "tests/cache/naive_cache.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kvloupe {

class CacheWalk {
public:
    // next: a byte of the input; done: there is none left.
    struct Source {
        std::function<std::uint8_t()> next;
        std::function<bool()> done;
    };

    // What happened, so that a test can see that the walk went everywhere.
    struct Tally {
        std::uint64_t operations = 0;
        std::map<EventKind, std::uint64_t> kinds;
        std::map<Cause, std::uint64_t> causes;  // of events and refusals
    };

    // What went wrong; empty: nothing. operations: at most so many.
    static std::string run(const Source& source, std::uint64_t operations, Tally* tally = nullptr) {
        CacheWalk walk(source);
        std::uint64_t count = 0;
        for (; count < operations && !source.done() && walk.m_failure.empty(); ++count) walk.act();
        if (tally) {
            tally->operations += count;
            for (const auto& [kind, times] : walk.m_tally.kinds) tally->kinds[kind] += times;
            for (const auto& [cause, times] : walk.m_tally.causes) tally->causes[cause] += times;
        }
        return walk.m_failure.empty() ? "" : "operation " + std::to_string(count) + " (" + walk.m_doing + "): " + walk.m_failure;
    }

private:
    struct Living {
        std::vector<TokenId> tokens;
        std::uint32_t prompt = 0, computed = 0, before = 0;  // before: computed before its last growth
        std::string salt, adapter;
        enum Where : std::uint8_t { waiting, running, swapped } where = waiting;
    };

    explicit CacheWalk(const Source& source)
        : m_source(source), m_options(make_options()), m_naive(m_options), m_replay(m_options.blocks, m_options.block_size) {
        auto made = CacheManager::create(m_options);
        if (!made) {
            fail("create: " + made.error().message());
            return;
        }
        m_cache = std::move(*made);
    }

    std::uint32_t roll(std::uint32_t count) { return m_source.next() % count; }

    CacheManagerOptions make_options() {
        CacheManagerOptions options;
        options.blocks = 2 + roll(24);
        options.block_size = 1 + roll(4);
        const std::uint32_t rules = m_source.next();
        options.prefix_caching = rules % 8 != 0;
        options.free_order = rules & 8 ? FreeOrder::append : FreeOrder::vllm;
        options.hash_bits = rules & 16 ? 1 + roll(4) : 256;
        options.compare_tokens = (rules & 32) == 0;
        options.tag_extra_keys = (rules & 64) == 0;
        options.host_blocks = roll(12);
        options.watermark_blocks = roll(4) % (options.blocks - 1);
        options.groups.resize(1 + roll(3));
        for (CacheGroup& group : options.groups) {
            switch (roll(4)) {
            case 0: group.span.window = 1 + roll(9); break;
            case 1: group.span = {1 + roll(9), roll(5), 0}; break;
            case 2: group.span.chunk = 1 + roll(8); break;
            default: break;
            }
        }
        return options;
    }

    void fail(const std::string& what) {
        if (m_failure.empty()) m_failure = what;
    }

    CacheSequence view(std::uint32_t id) const {
        const Living& own = m_living.at(id);
        return {SequenceId{id}, own.tokens, own.prompt, own.tokens.size() + 3, {own.adapter, own.salt}, 0};
    }

    // The roll-th of those in this state, if there is one.
    std::optional<std::uint32_t> pick(Living::Where where) {
        std::vector<std::uint32_t> ids;
        for (const auto& [id, own] : m_living)
            if (own.where == where) ids.push_back(id);
        if (ids.empty()) return std::nullopt;
        return ids[roll(static_cast<std::uint32_t>(ids.size()))];
    }

    void act() {
        switch (roll(16)) {
        case 0: case 1: arrive(); break;
        case 2: case 3: case 4: admit(); break;
        case 5: case 6: case 7: case 8: grow(); break;
        case 9: case 10: fork(); break;
        case 11: release(false); break;
        case 12: release(true); break;
        case 13: roll(2) ? swap_out() : swap_in(); break;
        case 14: swap_in(); break;
        default: roll(8) ? evict() : reset(); break;
        }
        if (m_failure.empty()) compare();
    }

    void arrive() {
        m_doing = "arrive";
        if (m_living.size() >= 8) return;
        Living& own = m_living[m_next++];
        // Few families of prompts, so that prefixes meet.
        const std::uint32_t family = roll(3), length = 1 + roll(20), differs = roll(24);
        for (std::uint32_t i = 0; i < length; ++i)
            own.tokens.push_back(static_cast<TokenId>(i < differs ? family * 100 + i : 1000 + m_next));
        own.prompt = length;
        const std::uint32_t keys = roll(8);
        if (keys == 0) own.salt = "a";
        if (keys == 1) own.adapter = "a";
    }

    void admit() {
        m_doing = "admit";
        const auto id = pick(Living::waiting);
        if (!id) return;
        const CacheSequence sequence = view(*id);
        const PrefixMatch match = m_cache->match(sequence);
        std::vector<std::vector<std::uint32_t>> hits;
        for (const auto& table : match.blocks) {
            hits.emplace_back();
            for (const BlockId block : table) hits.back().push_back(block.value);
        }
        // Without comparison a collision may be believed in more than one way; else there is one right answer.
        const bool certain = m_options.compare_tokens || m_options.hash_bits == 256;
        if (certain && hits != m_naive.match(sequence)) return fail("the match differs");
        for (std::uint32_t group = 0; group < hits.size(); ++group)
            for (std::uint32_t block = 0; block < hits[group].size(); ++block) {
                const std::uint32_t at = hits[group][block];
                if (at == 0 && m_naive.seen(group, match.tokens, block)) return fail("a block that is seen is missing in the match");
                if (at != 0 && (!m_naive.blocks()[at].content ||
                                m_naive.blocks()[at].content->hash != m_naive.content(sequence, group, block).hash))
                    return fail("a block of the match has another hash");
            }
        NaiveCache::Grow step{match.tokens, 1 + roll(6), 0, true, roll(2) == 1, roll(2) == 1};
        step.count = std::min<std::uint32_t>(step.count, static_cast<std::uint32_t>(sequence.tokens.size()) - match.tokens);
        apply_growth(*id, step, &match, hits);
    }

    void grow() {
        m_doing = "grow";
        const auto id = pick(Living::running);
        if (!id) return;
        Living& own = m_living.at(*id);
        NaiveCache::Grow step{own.computed, 1 + roll(5), roll(8) == 0 ? roll(4) : 0};
        const TokenId token = static_cast<TokenId>(roll(4));
        while (own.tokens.size() < own.computed + step.count) own.tokens.push_back(token);
        apply_growth(*id, step, nullptr, {});
    }

    void apply_growth(std::uint32_t id, const NaiveCache::Grow& step, const PrefixMatch* match,
                      const std::vector<std::vector<std::uint32_t>>& hits) {
        const CacheSequence sequence = view(id);
        const CachePlan plan = m_cache->plan_grow(
            {&sequence, step.computed, step.count, step.lookahead, match, step.admission, step.others, step.whole});
        const Cause refused = m_naive.grow(sequence, step, hits);
        if (plan.refused_because != refused)
            return fail("refused because " + std::to_string(int(plan.refused_because)) + ", not " + std::to_string(int(refused)));
        if (plan.fits() != (plan.needed_blocks <= plan.free_blocks)) return fail("the plan's counts contradict its answer");
        // What can be held alone is not refused to one that is alone.
        const std::uint64_t slots = std::max<std::uint64_t>(sequence.tokens.size(), step.computed + step.count + step.lookahead);
        const bool alone = std::all_of(m_living.begin(), m_living.end(),
                                       [&](const auto& other) { return other.first == id || other.second.where != Living::running; });
        if (!plan.fits() && alone && !step.others && slots <= m_cache->most_slots(sequence.prompt_tokens, step.count + step.lookahead))
            return fail("it is refused, though it is alone and fits");
        if (!plan.fits()) {
            ++m_tally.causes[refused];
            if (m_cache->apply(plan)) fail("a refused plan was applied");
            return;
        }
        if (!apply(plan)) return;
        Living& own = m_living.at(id);
        own.where = Living::running;
        own.before = step.computed;
        own.computed = step.computed + step.count;
        replay(m_cache->note_computed(sequence, own.computed));
    }

    void fork() {
        m_doing = "fork";
        const auto parent = pick(Living::running);
        if (!parent || m_living.size() >= 8) return;
        const std::uint32_t child = m_next++;
        Living made = m_living.at(*parent);
        const std::uint32_t position = roll(2) ? made.computed : roll(made.computed + 1);
        const bool again = roll(4) == 0 && position > 0;
        made.tokens.resize(position);
        made.computed = made.before = position - again;
        m_living[child] = made;
        const auto plan = m_cache->plan_fork(view(child), SequenceId{*parent}, position);
        bool kept = true;  // all that the position before the fork sees
        const auto& tables = m_naive.sequences().at(*parent).tables;
        for (std::uint32_t group = 0; group < tables.size(); ++group)
            for (std::uint32_t block = 0; block * m_options.block_size < position; ++block)
                kept = kept && (tables[group][block] != 0 || !m_naive.seen(group, position - 1, block));
        if (kept != bool(plan)) return fail(kept ? "a fork was refused" : "a fork beyond the window was planned");
        if (!plan) {
            m_living.erase(child);
            return;
        }
        m_naive.fork(child, *parent, position);
        apply(*plan);
    }

    void release(bool preempt) {
        m_doing = preempt ? "preempt" : "release";
        const auto id = pick(preempt || roll(4) ? Living::running : Living::swapped);
        if (!id) return;
        Living& own = m_living.at(*id);
        const std::uint32_t valid = !preempt ? UINT32_MAX : roll(2) ? own.before : own.computed;
        m_naive.release(*id, valid);
        if (!apply(m_cache->plan_release(view(*id), preempt ? Cause::sequence_preempted : Cause::sequence_finished, valid))) return;
        own.where = Living::waiting;
        own.computed = own.before = 0;
        if (preempt) return;
        m_living.erase(*id);
        Event finish;  // the scheduler's; it ends what lies in host memory
        finish.kind = EventKind::finish;
        finish.sequence = SequenceId{*id};
        m_replay.apply(finish);
    }

    void swap_out() {
        m_doing = "swap out";
        const auto id = pick(Living::running);
        if (!id) return;
        Living& own = m_living.at(*id);
        const std::uint32_t computed = roll(4) ? own.computed : own.before;
        const CachePlan plan = m_cache->plan_swap_out(view(*id), computed);
        NaiveCache tried = m_naive;
        tried.swap_out(*id, computed);
        const bool fits = tried.host_used() <= m_options.host_blocks;
        if (plan.fits() != fits) return fail("swapping out fits differently");
        if (!fits) return;
        m_naive = std::move(tried);
        if (!apply(plan)) return;
        own.where = Living::swapped;
        own.computed = own.before = computed;
    }

    void swap_in() {
        m_doing = "swap in";
        const auto id = pick(Living::swapped);
        if (!id) return;
        const CachePlan plan = m_cache->plan_swap_in(view(*id));
        if (plan.fits() != m_naive.swap_in(*id)) return fail("swapping in fits differently");
        if (!plan.fits() || !apply(plan)) return;
        m_living.at(*id).where = Living::running;
    }

    void evict() {
        m_doing = "evict";
        const std::uint32_t block = roll(m_options.blocks + 1);
        const auto plan = m_cache->plan_evict(BlockId{block});
        const bool may = block > 0 && block < m_options.blocks && m_naive.blocks()[block].references == 0 &&
                         m_naive.blocks()[block].content;
        if (bool(plan) != may) return fail("evicting is allowed differently");
        if (!plan) return;
        m_naive.evict(block);
        apply(*plan);
    }

    void reset() {
        m_doing = "reset";
        const auto plan = m_cache->plan_reset();
        if (bool(plan) != (m_naive.queue().size() + 1 == m_options.blocks)) return fail("resetting is allowed differently");
        if (!plan) return;
        m_naive.reset();
        apply(*plan);
    }

    bool apply(const CachePlan& plan) {
        auto events = m_cache->apply(plan);
        if (!events) {
            fail(events.error().message());
            return false;
        }
        replay(*events);
        if (m_cache->apply(plan)) fail("a plan was applied twice");
        return true;
    }

    void replay(const std::vector<Event>& events) {
        m_replay.apply(events);
        for (const Event& event : events) ++m_tally.kinds[event.kind], ++m_tally.causes[event.cause];
    }

    void compare();
    SlotCounts count_by_hand(const std::vector<SlotHolder>& holders) const;

    Source m_source;
    CacheManagerOptions m_options;
    std::unique_ptr<CacheManager> m_cache;
    NaiveCache m_naive;
    LaneState m_replay;
    std::map<std::uint32_t, Living> m_living;
    std::uint32_t m_next = 0;
    Tally m_tally;
    std::string m_doing = "create", m_failure;
};

}  // namespace kvloupe
