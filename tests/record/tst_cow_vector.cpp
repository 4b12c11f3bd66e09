// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/cow_vector.h"
#include "tests/support/claims.h"

#include <algorithm>
#include <random>
#include <thread>

using namespace kvloupe;
using namespace kvloupe::test;

using Small = CowVector<std::uint32_t, 2>;  // four elements a page

namespace {

void aCopyKeepsWhatItWasWhenTheOriginalIsWritten(Check& check) {
    std::uint64_t made = 0;
    Small original;
    for (std::uint32_t i = 0; i < 10; ++i) original.push_back(i, made);
    const Small copy = original;
    CHECK_THAT(copy == original);
    original.edit(5, made) = 100;
    original.pop_back();
    CHECK_EQUAL(copy[5], 5u);
    CHECK_EQUAL(copy.size(), std::size_t{10});
    CHECK_EQUAL(copy.back(), 9u);
    CHECK_EQUAL(original[5], 100u);
    CHECK_EQUAL(original.size(), std::size_t{9});
    CHECK_THAT(!(copy == original));
}

void aWriteMakesOnePageOnce(Check& check) {
    std::uint64_t made = 0;
    Small original(64, 7u);
    {
        const Small copy = original;
        original.edit(0, made) = 1;
        CHECK_EQUAL(made, std::uint64_t{Small::page_bytes});
        original.edit(3, made) = 1;
        CHECK_EQUAL(made, std::uint64_t{Small::page_bytes});
        original.edit(4, made) = 1;
        CHECK_EQUAL(made, std::uint64_t{2 * Small::page_bytes});
        CHECK_EQUAL(copy[0], 7u);
    }
    made = 0;
    original.edit(1, made) = 2;  // the copy is gone: the page is its own
    CHECK_EQUAL(made, std::uint64_t{0});
}

void equalElementsAreOnePageUntilTheyAreWritten(Check& check) {
    std::uint64_t made = 0;
    CowVector<std::uint64_t, 7> many(1000000, 3u);
    many.edit(999999, made) = 4;
    CHECK_EQUAL(made, std::uint64_t{decltype(many)::page_bytes});
    CHECK_EQUAL(many[999998], 3u);
    CHECK_EQUAL(many[0], 3u);
}

void growsAndShrinksLikeAVector(Check& check) {
    std::mt19937 random(5);
    std::vector<std::uint32_t> expected;
    Small vector;
    std::uint64_t made = 0;
    std::vector<std::pair<Small, std::vector<std::uint32_t>>> copies;
    for (int i = 0; i < 5000; ++i) {
        const auto what = random() % 8;
        if (what < 4) {
            expected.push_back(random());
            vector.push_back(expected.back(), made);
        } else if (what < 6 && !expected.empty()) {
            expected.pop_back();
            vector.pop_back();
        } else if (what == 6 && !expected.empty()) {
            const auto at = random() % expected.size();
            vector.edit(at, made) = expected[at] = random();
        } else if (random() % 20 == 0) {
            const auto size = random() % 40;
            expected.resize(size, 9);
            vector.resize(size, 9, made);
        } else if (random() % 20 == 0) {
            copies.emplace_back(vector, expected);
        }
        CHECK_EQUAL(vector.size(), expected.size());
    }
    CHECK_THAT(vector.to_vector() == expected);
    CHECK_THAT(copies.size() > 10);
    for (const auto& [copy, was] : copies) CHECK_THAT(copy.to_vector() == was);
    Small moved = std::move(vector);
    CHECK_THAT(moved.to_vector() == expected);
    vector = Small(3, 7u);  // a moved-from one may be used again
    CHECK_EQUAL(vector.size(), std::size_t{3});
    vector.clear();
    CHECK_THAT(vector.empty() && vector.begin() == vector.end());
}

void iteratesBothWays(Check& check) {
    std::uint64_t made = 0;
    Small vector;
    for (std::uint32_t i = 0; i < 9; ++i) vector.push_back(i * i, made);
    std::uint32_t sum = 0;
    for (const std::uint32_t value : vector) sum += value;
    CHECK_EQUAL(sum, 204u);
    CHECK_EQUAL(*std::find(vector.rbegin(), vector.rend(), 49u), 49u);
    CHECK_EQUAL(std::lower_bound(vector.begin(), vector.end(), 30u) - vector.begin(), std::ptrdiff_t{6});
}

void copiesAreReadAndWrittenByTwoThreads(Check& check) {
    CowVector<std::uint64_t, 6> original(10000, 1u);
    std::uint64_t wrong = 0;
    for (int round = 0; round < 20; ++round) {
        CowVector<std::uint64_t, 6> copy = original;
        std::uint64_t sum = 0, made = 0;
        std::thread reader([mine = std::move(copy), &sum]() mutable {
            for (const std::uint64_t value : mine) sum += value;
            std::uint64_t pages = 0;
            mine.edit(17, pages) = 5;  // and writes its own
        });
        for (std::size_t i = 0; i < original.size(); i += 3) ++original.edit(i, made);
        reader.join();
        wrong += sum != 10000u + std::uint64_t(round) * 3334u;
    }
    CHECK_EQUAL(wrong, std::uint64_t{0});
    CHECK_EQUAL(original[17], std::uint64_t{1});
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aCopyKeepsWhatItWasWhenTheOriginalIsWritten));
    claims.add(CLAIM(aWriteMakesOnePageOnce));
    claims.add(CLAIM(equalElementsAreOnePageUntilTheyAreWritten));
    claims.add(CLAIM(growsAndShrinksLikeAVector));
    claims.add(CLAIM(iteratesBothWays));
    claims.add(CLAIM(copiesAreReadAndWrittenByTwoThreads));
    return claims.rows();
}
