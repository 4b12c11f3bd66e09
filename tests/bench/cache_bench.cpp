// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the cache manager's operations cost: one line each, with the figure it is held against where there is one.
// Times are CPU time of the one thread, which nothing here blocks: what else the machine does does not lengthen them.
// kvloupe_cache_bench [--json]
#include "engine/cache/block_hash.h"
#include "engine/cache/block_pool.h"
#include "engine/cache/cache_manager.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace kvloupe;

namespace {

// Seconds.
double now() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

struct Line {
    std::string key, what;
    double value = 0;
    const char* unit = "";
    double at_most = 0;  // 0: none asked for
    std::string how;
};

class Table {
public:
    void add(Line line) { m_lines.push_back(std::move(line)); }
    void print(bool json) const {
        if (json) std::printf("{\"version\":1,\"measured\":[");
        for (std::size_t i = 0; i < m_lines.size(); ++i) {
            const Line& line = m_lines[i];
            if (json) {
                std::printf("%s{\"key\":\"%s\",\"what\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"at_most\":", i ? "," : "", line.key.c_str(),
                            line.what.c_str(), line.value, line.unit);
                line.at_most > 0 ? std::printf("%g", line.at_most) : std::printf("null");
                std::printf(",\"how\":\"%s\"}", line.how.c_str());
            } else {
                std::printf("%-58s %10.2f %-3s", line.what.c_str(), line.value, line.unit);
                line.at_most > 0 ? std::printf(" of %6g", line.at_most) : std::printf("%10s", "");
                std::printf("  %s\n", line.how.c_str());
            }
        }
        if (json) std::printf("]}\n");
    }

private:
    std::vector<Line> m_lines;
};

std::unique_ptr<CacheManager> paged(std::uint32_t blocks, std::uint32_t block_size, bool caching = true) {
    CacheManagerOptions options;
    options.blocks = blocks;
    options.block_size = block_size;
    options.prefix_caching = caching;
    auto made = CacheManager::create(options);
    if (!made) std::exit(1);
    return std::move(*made);
}

void require(bool done, const char* what) {
    if (done) return;
    std::fprintf(stderr, "cache bench: %s failed\n", what);
    std::exit(1);
}

std::vector<TokenId> tokens_from(TokenId first, std::size_t count) {
    std::vector<TokenId> tokens(count);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
}

void take_and_release(Table& table) {
    constexpr std::uint32_t blocks = 1'000'000, rounds = 200, each = 10'000, outstanding = 4096;
    BlockPool pool(blocks), scattered(blocks, FreeOrder::append);
    std::mt19937 random(1);
    std::vector<BlockId> held;
    for (std::uint32_t i = 0; i < outstanding; ++i) held.push_back(*scattered.take());
    std::vector<double> same, other;
    for (std::uint32_t round = 0; round < rounds; ++round) {
        double start = now();
        for (std::uint32_t i = 0; i < each; ++i) pool.release(*pool.take());
        same.push_back((now() - start) / each);
        start = now();
        for (std::uint32_t i = 0; i < each; ++i) {
            BlockId& block = held[random() % outstanding];
            scattered.release(block);
            block = *scattered.take();
        }
        other.push_back((now() - start) / each);
    }
    table.add({"allocate_free", "block allocated and freed", median(same) * 1e9, "ns", 100, "pool of 1,000,000, the same block"});
    table.add({"allocate_free_scattered", "block allocated and freed, through the whole pool", median(other) * 1e9, "ns", 100,
               "append-only queue, 4,096 held, freed at random"});
}

void hashing(Table& table) {
    const auto tokens = tokens_from(1000, 50'000);
    double best = 1e9;
    for (int round = 0; round < 20; ++round) {
        HashChain chain;
        const double start = now();
        chain.extend({16}, tokens, {}, 3125);
        best = std::min(best, now() - start);
    }
    table.add({"hash_50000", "50,000 tokens hashed, block size 16", best * 1e3, "ms", 1, std::string(hash_code_path()) + ", best of 20"});
}

GrowRequest request_of(const CacheSequence& sequence, std::uint32_t computed, std::uint32_t count) {
    GrowRequest request;
    request.sequence = &sequence;
    request.computed = computed;
    request.new_tokens = count;
    return request;
}

// All blocks of a large pool hold hashed content that nobody owns; every new block evicts one.
void evictions(Table& table) {
    constexpr std::uint32_t blocks = 1'000'001, size = 16, budget = 8192;
    const double built = now();
    auto cache = paged(blocks, size);
    table.add({"pool_1e6", "pool of 1,000,000 blocks made", (now() - built) * 1e3, "ms", 0, ""});
    double worst = 0;
    std::vector<double> spent;  // a block
    TokenId next = 0;
    for (std::uint32_t sequence = 0; sequence < 2 * (blocks - 1) * size / budget + 2; ++sequence) {
        const auto tokens = tokens_from(next, budget);
        next += budget;
        const CacheSequence view{SequenceId{sequence}, tokens, budget, budget, {}, 0};
        const double start = now();
        const PrefixMatch match = cache->match(view);
        GrowRequest request = request_of(view, 0, budget);
        request.match = &match;
        request.admission = true;
        auto events = cache->apply(cache->plan_grow(request));
        const double grown = now();
        require(bool(events), "growing");
        const auto lost = std::count_if(events->begin(), events->end(), [](const Event& e) { return e.kind == EventKind::evict; });
        require(bool(cache->apply(cache->plan_release(view, Cause::sequence_finished, UINT32_MAX))), "releasing");
        const double end = now();
        if (lost != budget / size) continue;
        spent.push_back((grown - start) / static_cast<double>(lost));
        worst = std::max(worst, end - start);
    }
    require(spent.size() > 1000, "filling the pool");
    table.add({"evict_1e6", "block evicted, taken and hashed anew", median(spent) * 1e9, "ns", 0,
               "1,000,000 cached blocks; SHA-256 included"});
    table.add({"evict_step_1e6", "longest step of 8,192 tokens there", worst * 1e3, "ms", 5, std::to_string(spent.size()) + " steps that evict 512"});
    auto plan = cache->plan_reset();
    const double start = now();
    require(plan && cache->apply(*plan), "reset");
    table.add({"reset_1e6", "prefix cache of 1,000,000 blocks cleared", (now() - start) * 1e3, "ms", 0, ""});
}

void admissions(Table& table) {
    auto cache = paged(20'000, 16);
    const auto tokens = tokens_from(0, 2001);
    double match_best = 1e9, grow_best = 1e9;
    for (std::uint32_t i = 0; i < 64; ++i) {
        const CacheSequence view{SequenceId{i}, tokens, 2001, 2001, {}, 0};
        cache->match(view);  // hashed before; the head of the queue is looked up again and again
        const double start = now();
        const PrefixMatch match = cache->match(view);
        const double matched = now();
        GrowRequest request = request_of(view, match.tokens, 2001 - match.tokens);
        request.match = &match;
        request.admission = true;
        require(bool(cache->apply(cache->plan_grow(request))), "growing");
        if (i == 0) continue;
        match_best = std::min(match_best, matched - start);
        grow_best = std::min(grow_best, now() - matched);
    }
    table.add({"match_125", "prefix of 125 blocks looked up", match_best * 1e6, "us", 0, "hashes known, tokens compared"});
    table.add({"admit_125", "… and taken, one new block", grow_best * 1e6, "us", 0, ""});
}

// The cache's part of a step with 256 decoding sequences: plan, apply and note each, then count all slots.
void steps(Table& table, bool shared) {
    constexpr std::uint32_t count = 256, shortest = 1001, rounds = 2000;
    auto cache = paged(200'000, 16);
    std::vector<std::vector<TokenId>> tokens(count);
    const auto prompt_of = [](std::uint32_t i) { return shortest + i % 16; };  // so that blocks fill in different steps
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t prompt = prompt_of(i);
        tokens[i] = tokens_from(shared ? 0 : static_cast<TokenId>(i) * 10'000, prompt);
        const CacheSequence view{SequenceId{i}, tokens[i], prompt, prompt + rounds, {}, 0};
        const PrefixMatch match = cache->match(view);
        GrowRequest request = request_of(view, match.tokens, prompt - match.tokens);
        request.match = &match;
        request.admission = true;
        require(bool(cache->apply(cache->plan_grow(request))), "growing");
    }
    std::vector<double> spent, counting;
    std::vector<SlotHolder> holders(count);
    for (std::uint32_t round = 0; round < rounds; ++round) {
        for (std::uint32_t i = 0; i < count; ++i) tokens[i].push_back(static_cast<TokenId>(round * 7 + i));
        const double start = now();
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint32_t prompt = prompt_of(i);
            const CacheSequence view{SequenceId{i}, tokens[i], prompt, prompt + rounds, {}, 0};
            require(bool(cache->apply(cache->plan_grow(request_of(view, prompt + round, 1)))), "growing");
            cache->note_computed(view, prompt + round + 1);
            holders[i] = {SequenceId{i}, prompt + round + 1, prompt + rounds};
        }
        const double grown = now();
        const SlotCounts slots = cache->count_slots(holders, 0);
        require(slots.token > 0, "counting");
        counting.push_back(now() - grown);
        spent.push_back(now() - start);
    }
    std::sort(spent.begin(), spent.end());
    std::sort(counting.begin(), counting.end());
    const std::string key = shared ? "step_256_shared" : "step_256";
    const std::string what = shared ? "step of 256 decoding that share their prompt" : "step of 256 decoding sequences";
    table.add({key, what + ", cache's part", spent[rounds / 2] * 1e6, "us", 50, "median of 2,000; hashing of full blocks included"});
    table.add({key + "_p95", "… 95th percentile", spent[rounds * 95 / 100] * 1e6, "us", 0, ""});
    table.add({key + "_count", "… of it counting slots", counting[rounds / 2] * 1e6, "us", 0, "median"});
}

}  // namespace

int main(int argc, char** argv) {
    const bool json = argc == 2 && std::strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json) {
        std::fprintf(stderr, "usage: kvloupe_cache_bench [--json]\n");
        return 2;
    }
    Table table;
    take_and_release(table);
    hashing(table);
    evictions(table);
    admissions(table);
    steps(table, false);
    steps(table, true);
    table.print(json);
    return 0;
}
