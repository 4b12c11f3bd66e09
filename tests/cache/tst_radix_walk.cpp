// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oracle R12: available + evictable + protected = total after any sequence of insert, match, lock and evict. A random walk
// against a model that knows nothing but a set of prefixes.
#include "engine/cache/radix_tree.h"
#include "tests/cache/radix_test_hash.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <map>
#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

using Tokens = std::vector<TokenId>;

struct Page {
    BlockId block;
    int locks = 0;
};

// Every page of the tree under the key and the tokens from the start to its end.
using Model = std::map<std::pair<std::string, Tokens>, Page>;

struct Walk {
    static constexpr std::uint32_t pool_pages = 300;

    Walk(Check& found, std::uint32_t page_size, RadixEviction policy) : check(found), page(page_size), tree(page_size, policy) {
        for (std::uint32_t id = pool_pages; id >= 1; --id) available.emplace_back(id);
    }

    // A page differs from the usual one in about three of ten cases, so that prefixes meet often.
    Tokens tokens() {
        Tokens result(std::uniform_int_distribution<std::size_t>(0, 12 * page)(random));
        std::bernoulli_distribution other(0.3 / page);
        for (TokenId& token : result) token = other(random) ? 2 : 1;
        return result;
    }
    std::string adapter() { return std::string(std::uniform_int_distribution<std::size_t>(0, 2)(random), 'x'); }

    std::size_t longest(const std::string& extra, const Tokens& tokens) const {
        std::size_t length = 0;
        while (length + page <= tokens.size() &&
               model.contains({extra, Tokens(tokens.begin(), tokens.begin() + std::ptrdiff_t(length + page))}))
            length += page;
        return length;
    }

    void insert() {
        const Tokens key = tokens();
        const std::string extra = adapter();
        const std::size_t pages = key.size() / page;
        if (pages > available.size()) return evict();
        std::vector<BlockId> blocks(available.end() - std::ptrdiff_t(pages), available.end());
        available.resize(available.size() - pages);
        const std::size_t present = longest(extra, key);
        const auto inserted = tree.insert({key, {extra, {}}}, blocks, page_hashes({key, {extra, {}}}, page),
                                          std::uniform_int_distribution(-2, 2)(random));
        CHECK_EQUAL(std::size_t{inserted.present}, present);
        for (std::size_t index = 0; index < pages; ++index) {
            if (index * page < present) available.push_back(blocks[index]);  // the caller's duplicate
            else
                model[{extra, Tokens(key.begin(), key.begin() + std::ptrdiff_t((index + 1) * page))}] = {blocks[index], 0};
        }
    }

    void match() {
        const Tokens key = tokens();
        const std::string extra = adapter();
        const std::size_t length = longest(extra, key);
        CHECK_EQUAL(std::size_t{tree.matching_tokens({key, {extra, {}}})}, length);
        const auto match = tree.match({key, {extra, {}}});
        CHECK_EQUAL(match.pages.size() * page, length);
        CHECK_EQUAL(tree.path_pages(match.node), match.pages);
        for (std::size_t index = 0; index < match.pages.size(); ++index)
            CHECK_EQUAL(match.pages[index],
                        model.at({extra, Tokens(key.begin(), key.begin() + std::ptrdiff_t((index + 1) * page))}).block);
        if (std::uniform_int_distribution(0, 2)(random) == 0) return;
        tree.lock(match.node);
        tree.count_hit(match.node);
        locked.push_back({match.node, {extra, Tokens(key.begin(), key.begin() + std::ptrdiff_t(length))}});
        change_locks(locked.back().second, 1);
    }

    void unlock() {
        if (locked.empty()) return;
        const std::size_t index = std::uniform_int_distribution<std::size_t>(0, locked.size() - 1)(random);
        tree.unlock(locked[index].first);
        change_locks(locked[index].second, -1);
        locked.erase(locked.begin() + std::ptrdiff_t(index));
    }

    void change_locks(const std::pair<std::string, Tokens>& key, int change) {
        for (std::size_t length = page; length <= key.second.size(); length += page)
            model.at({key.first, Tokens(key.second.begin(), key.second.begin() + std::ptrdiff_t(length))}).locks += change;
    }

    void evict() {
        const std::uint64_t wanted = std::uniform_int_distribution<std::uint64_t>(1, 20 * page)(random);
        const std::uint64_t evictable = tree.evictable_tokens();
        forget(tree.evict(wanted), std::min(wanted, evictable));
    }

    void evict_page() {
        const BlockId block(std::uniform_int_distribution<std::uint32_t>(1, pool_pages)(random));
        const auto found = std::find_if(model.begin(), model.end(), [&](const auto& entry) { return entry.second.block == block; });
        std::uint64_t behind = 0;
        if (found != model.end() && found->second.locks == 0)
            for (const auto& [key, entry] : model)
                if (key.first == found->first.first && key.second.size() >= found->first.second.size() &&
                    std::equal(found->first.second.begin(), found->first.second.end(), key.second.begin()))
                    behind += page;
        const std::vector<BlockId> pages = tree.evict_page(block);
        CHECK_EQUAL(std::uint64_t{pages.size() * page}, behind);
        forget(pages, behind);
    }

    // Pages go from the end of a prefix, and never locked ones.
    void forget(const std::vector<BlockId>& pages, std::uint64_t at_least) {
        CHECK_THAT(pages.size() * page >= at_least);
        for (const BlockId block : pages) {
            const auto found = std::find_if(model.begin(), model.end(), [&](const auto& entry) { return entry.second.block == block; });
            CHECK_THAT(found != model.end());
            CHECK_EQUAL(found->second.locks, 0);
            // In a map ordered by tokens, what continues a prefix stands right behind it.
            const auto next = std::next(found);
            CHECK_THAT(next == model.end() || next->first.first != found->first.first ||
                       next->first.second.size() <= found->first.second.size() ||
                       !std::equal(found->first.second.begin(), found->first.second.end(), next->first.second.begin()));
            model.erase(found);
            available.push_back(block);
        }
    }

    void verify() const {
        const auto sound = tree.audit();
        CHECK_RESULT(sound);
        std::uint64_t locked_tokens = 0;
        for (const auto& [key, entry] : model) locked_tokens += entry.locks > 0 ? page : 0;
        CHECK_EQUAL(tree.protected_tokens(), locked_tokens);
        CHECK_EQUAL(tree.total_tokens(), std::uint64_t{model.size() * page});
        CHECK_EQUAL(available.size() * page + tree.evictable_tokens() + tree.protected_tokens(),
                    std::uint64_t{pool_pages} * page);
    }

    Check& check;
    std::uint32_t page;
    RadixTree tree;
    Model model;
    std::vector<BlockId> available;
    std::vector<std::pair<RadixNodeId, std::pair<std::string, Tokens>>> locked;
    std::mt19937_64 random{20260617};
};

struct R12_availableEvictableAndProtectedAreTheTotalCase {
    int page, policy;
};
Cases<R12_availableEvictableAndProtectedAreTheTotalCase> r12_availableEvictableAndProtectedAreTheTotal_cases() {
    Cases<R12_availableEvictableAndProtectedAreTheTotalCase> cases;
    cases.add("page 1, lru", {1, int(RadixEviction::lru)});
    cases.add("page 3, lfu", {3, int(RadixEviction::lfu)});
    cases.add("page 4, fifo", {4, int(RadixEviction::fifo)});
    cases.add("page 16, priority", {16, int(RadixEviction::priority)});
    return cases;
}
void r12_availableEvictableAndProtectedAreTheTotal(Check& check, const R12_availableEvictableAndProtectedAreTheTotalCase& row) {
    Walk walk(check, static_cast<std::uint32_t>(row.page), RadixEviction(row.policy));
    std::discrete_distribution<int> operation{40, 25, 25, 6, 4};
    for (int step = 0; step < 5000; ++step) {
        switch (operation(walk.random)) {
        case 0: walk.insert(); break;
        case 1: walk.match(); break;
        case 2: walk.unlock(); break;
        case 3: walk.evict(); break;
        case 4: walk.evict_page(); break;
        }
        walk.verify();
        if (!check.good()) FAIL_ROW("at operation " + std::to_string(step));
    }
    while (!walk.locked.empty()) walk.unlock();
    walk.forget(walk.tree.evict(UINT64_MAX), 0);
    walk.verify();
    CHECK_EQUAL(walk.available.size(), std::size_t{Walk::pool_pages});  // nothing leaked
    CHECK_EQUAL(walk.tree.walk().size(), std::size_t{1});
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(r12_availableEvictableAndProtectedAreTheTotal), r12_availableEvictableAndProtectedAreTheTotal_cases());
    return claims.rows();
}
