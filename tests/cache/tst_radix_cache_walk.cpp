// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracle R12 through the manager: random steps of a scheduler over a radix tree. A model keeps what lies in every slot, a
// name of the whole prefix up to its token, moves it as the events say, and looks after every step whether each sequence
// reads its own prefix. Audit and replay come with the driver.
#include "tests/cache/cache_driver.h"
#include "tests/support/claims.h"

#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr std::uint32_t block_size = 4, pool_blocks = 28, host_blocks = 12;

// What a slot holds: its prefix, tokens and keys (never 0: nothing was written).
std::uint64_t prefix_name(const CacheDriver::Sequence& sequence, std::uint32_t position) {
    std::uint64_t name = std::hash<std::string>{}(sequence.salt) | 1;
    for (std::uint32_t at = 0; at <= position; ++at)
        name = (name ^ static_cast<std::uint32_t>(sequence.tokens[at])) * 0x100000001B3u + 0x9E3779B97F4A7C15u;
    return name | 1;
}

struct Walk {
    Walk(Check& found, RadixEviction eviction)
        : check(found), driver(options(eviction)), content(pool_blocks), host(host_blocks) {
        driver.notes = false;
    }
    static CacheManagerOptions options(RadixEviction eviction) {
        CacheManagerOptions result = CacheDriver::paged(pool_blocks, block_size);
        result.prefix_index = PrefixIndexKind::radix;
        result.radix_eviction = eviction;
        result.host_blocks = host_blocks;
        return result;
    }

    using Slots = std::array<std::uint64_t, block_size>;
    struct Running {
        std::uint32_t id = 0;
        std::uint32_t length = 0;     // ends when so many tokens are computed
        std::uint32_t before = 0;     // computed when the step began
        bool scheduled = false;
        bool swapped = false;
    };

    std::uint32_t pick(std::uint32_t below) { return std::uniform_int_distribution<std::uint32_t>(0, below - 1)(random); }
    CacheDriver::Sequence& of(const Running& one) { return driver.sequences[one.id]; }

    // Applies what the last change did to content.
    void move_content() {
        for (const Event& event : driver.events) {
            switch (event.kind) {
            case EventKind::allocate: content[event.block.value] = {}; break;
            case EventKind::copy_on_write:
                content[event.other] = {};
                std::copy_n(content[event.block.value].begin(), event.tokens, content[event.other].begin());
                ++copies;
                break;
            case EventKind::swap_out: host[event.other] = content[event.block.value]; break;
            case EventKind::swap_in: content[event.block.value] = host[event.other]; break;
            case EventKind::evict: ++evictions; break;
            case EventKind::prefix_hit: (event.cause == Cause::duplicate_owner ? duplicates : hits) += 1; break;
            default: break;
            }
        }
        driver.events.clear();
    }

    void arrive() {
        const std::uint32_t id = next++;
        std::vector<TokenId> tokens = tokens_from(TokenId(100 * pick(3)), 1 + pick(24));
        if (tokens.size() > 6 && pick(2)) tokens[tokens.size() / 2] = 7;  // a branch
        driver.add(id, tokens, pick(4) == 0 ? "salt" : "").priority = int(pick(3));
        waiting.push_back({id, std::uint32_t(tokens.size()) + pick(14), 0, false, false});
    }

    bool admit(Running one) {
        if (one.swapped) {
            const CachePlan plan = driver.cache->plan_swap_in(driver.view(one.id));
            if (!plan.fits()) return false;
            driver.apply(plan);
            one.swapped = false;
            move_content();
        } else {
            driver.whole_prompt = pick(2);
            if (!driver.admit(one.id, 1 + pick(12))) return false;
            move_content();
            one.before = driver.hit_tokens;
            one.scheduled = true;
        }
        running.push_back(one);
        return true;
    }

    void take_away(std::size_t index) {
        Running one = running[index];
        running.erase(running.begin() + std::ptrdiff_t(index));
        CacheDriver::Sequence& sequence = of(one);
        const std::uint32_t valid = one.scheduled ? one.before : sequence.computed;
        one.scheduled = false;
        if (const CachePlan plan = driver.cache->plan_swap_out(driver.view(one.id), valid); valid > 0 && plan.fits() && pick(2)) {
            driver.apply(plan);
            sequence.computed = valid;
            one.swapped = true;
            ++swaps;
        } else {
            driver.release(one.id, Cause::sequence_preempted, valid);
        }
        move_content();
        waiting.insert(waiting.begin(), one);
    }

    void schedule(std::size_t index) {
        Running& one = running[index];
        CacheDriver::Sequence& sequence = of(one);
        one.before = sequence.computed;
        if (sequence.computed == sequence.tokens.size()) sequence.tokens.push_back(TokenId(pick(3)));  // sampled before
        if (driver.compute(one.id, 1 + pick(6))) {
            one.scheduled = true;
            move_content();
        } else {
            take_away(pick(std::uint32_t(running.size())));
        }
    }

    void fork() {
        if (running.empty() || running.size() > 8) return;
        const Running& parent = running[pick(std::uint32_t(running.size()))];
        const std::uint32_t computed = of(parent).computed;
        if (computed == 0) return;
        const std::uint32_t position = pick(3) ? computed : 1 + pick(computed);
        const std::uint32_t id = next++;
        std::vector<TokenId> more(1 + pick(5));
        for (TokenId& token : more) token = TokenId(pick(3));
        CHECK_THAT(driver.fork(id, parent.id, position, more));
        running.push_back({id, position + std::uint32_t(more.size()) + pick(8), position, false, false});
    }

    void actions() {
        if (pick(4) == 0) fork();
        if (pick(20) == 0)
            if (const auto plan = driver.cache->plan_evict(BlockId(1 + pick(pool_blocks - 1))); plan) driver.apply(*plan);
        if (pick(60) == 0)
            if (const auto plan = driver.cache->plan_reset(); plan) driver.apply(*plan);
        move_content();
    }

    void step() {
        actions();
        if (pick(3) == 0) arrive();
        for (std::size_t index = 0; index < running.size(); ++index)
            if (pick(5)) schedule(index);
        while (!waiting.empty() && running.size() < 9 && admit(waiting.front())) waiting.erase(waiting.begin());
        for (const Running& one : running)
            if (one.scheduled) write(one);
        for (const Running& one : running) read(one);
        for (Running& one : running) {
            if (one.scheduled) driver.note(one.id);
            one.scheduled = false;
        }
        move_content();
        for (std::size_t index = running.size(); index-- > 0;) {
            const Running one = running[index];
            if (of(one).computed < one.length && pick(50)) continue;
            driver.release(one.id, pick(9) ? Cause::sequence_finished : Cause::sequence_cancelled);
            running.erase(running.begin() + std::ptrdiff_t(index));
            move_content();
        }
        for (const Running& one : running) read(one);  // duplicates have given way
    }

    void write(const Running& one) {
        const auto table = driver.cache->table(SequenceId(one.id));
        for (std::uint32_t at = one.before; at < of(one).computed; ++at) {
            std::uint64_t& slot = content[table[at / block_size].value][at % block_size];
            CHECK_OR_SAY(slot == 0 || slot == prefix_name(of(one), at) || driver.cache->owners(table[at / block_size]) == 1, "a slot that others read is overwritten");
            slot = prefix_name(of(one), at);
        }
    }
    void read(const Running& one) {
        const auto table = driver.cache->table(SequenceId(one.id));
        for (std::uint32_t at = 0; at < of(one).computed; ++at)
            CHECK_EQUAL(content[table[at / block_size].value][at % block_size], prefix_name(of(one), at));
    }

    Check& check;
    CacheDriver driver;
    std::vector<Slots> content, host;
    std::vector<Running> running, waiting;
    std::uint32_t next = 0;
    int hits = 0, duplicates = 0, copies = 0, evictions = 0, swaps = 0;
    std::mt19937_64 random{20260716};
};

Cases<int> R12_everySequenceReadsItsOwnPrefix_cases() {
    Cases<int> cases;
    cases.add("lru", int(RadixEviction::lru));
    cases.add("lfu", int(RadixEviction::lfu));
    cases.add("fifo", int(RadixEviction::fifo));
    cases.add("priority", int(RadixEviction::priority));
    return cases;
}
void R12_everySequenceReadsItsOwnPrefix(Check& check, int eviction) {
    Walk walk(check, RadixEviction(eviction));
    for (int step = 0; step < 1500; ++step) {
        walk.step();
        if (!check.good()) FAIL_ROW("in step " + std::to_string(step));
    }
    // Everything happened often.
    CHECK_THAT(walk.hits > 250);
    CHECK_THAT(walk.duplicates > 40);
    CHECK_THAT(walk.copies > 50);
    CHECK_THAT(walk.evictions > 250);
    CHECK_THAT(walk.swaps > 25);
    for (const Walk::Running& one : walk.running) walk.driver.release(one.id);
    CHECK_EQUAL(walk.driver.cache->used_blocks(), 0u);
    CHECK_EQUAL(walk.driver.cache->free_blocks() + walk.driver.cache->cached_blocks(), pool_blocks - 1);
    CHECK_THAT(walk.driver.apply(*walk.driver.cache->plan_reset()));
    CHECK_EQUAL(walk.driver.cache->free_blocks(), pool_blocks - 1);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(R12_everySequenceReadsItsOwnPrefix), R12_everySequenceReadsItsOwnPrefix_cases());
    return claims.rows();
}
