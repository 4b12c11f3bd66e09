// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>

#include "engine/record/cow_vector.h"

#include <algorithm>
#include <random>
#include <thread>

using namespace kvloupe;

using Small = CowVector<std::uint32_t, 2>;  // four elements a page

class TestCowVector : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void aCopyKeepsWhatItWasWhenTheOriginalIsWritten();
    void aWriteMakesOnePageOnce();
    void equalElementsAreOnePageUntilTheyAreWritten();
    void growsAndShrinksLikeAVector();
    void iteratesBothWays();
    void copiesAreReadAndWrittenByTwoThreads();
};

void TestCowVector::aCopyKeepsWhatItWasWhenTheOriginalIsWritten() {
    std::uint64_t made = 0;
    Small original;
    for (std::uint32_t i = 0; i < 10; ++i) original.push_back(i, made);
    const Small copy = original;
    QVERIFY(copy == original);
    original.edit(5, made) = 100;
    original.pop_back();
    QCOMPARE(copy[5], 5u);
    QCOMPARE(copy.size(), std::size_t{10});
    QCOMPARE(copy.back(), 9u);
    QCOMPARE(original[5], 100u);
    QCOMPARE(original.size(), std::size_t{9});
    QVERIFY(!(copy == original));
}

void TestCowVector::aWriteMakesOnePageOnce() {
    std::uint64_t made = 0;
    Small original(64, 7u);
    {
        const Small copy = original;
        original.edit(0, made) = 1;
        QCOMPARE(made, std::uint64_t{Small::page_bytes});
        original.edit(3, made) = 1;
        QCOMPARE(made, std::uint64_t{Small::page_bytes});
        original.edit(4, made) = 1;
        QCOMPARE(made, std::uint64_t{2 * Small::page_bytes});
        QCOMPARE(copy[0], 7u);
    }
    made = 0;
    original.edit(1, made) = 2;  // the copy is gone: the page is its own
    QCOMPARE(made, std::uint64_t{0});
}

void TestCowVector::equalElementsAreOnePageUntilTheyAreWritten() {
    std::uint64_t made = 0;
    CowVector<std::uint64_t, 7> many(1000000, 3u);
    many.edit(999999, made) = 4;
    QCOMPARE(made, std::uint64_t{decltype(many)::page_bytes});
    QCOMPARE(many[999998], 3u);
    QCOMPARE(many[0], 3u);
}

void TestCowVector::growsAndShrinksLikeAVector() {
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
        QCOMPARE(vector.size(), expected.size());
    }
    QVERIFY(vector.to_vector() == expected);
    QVERIFY(copies.size() > 10);
    for (const auto& [copy, was] : copies) QVERIFY(copy.to_vector() == was);
    Small moved = std::move(vector);
    QVERIFY(moved.to_vector() == expected);
    vector = Small(3, 7u);  // a moved-from one may be used again
    QCOMPARE(vector.size(), std::size_t{3});
    vector.clear();
    QVERIFY(vector.empty() && vector.begin() == vector.end());
}

void TestCowVector::iteratesBothWays() {
    std::uint64_t made = 0;
    Small vector;
    for (std::uint32_t i = 0; i < 9; ++i) vector.push_back(i * i, made);
    std::uint32_t sum = 0;
    for (const std::uint32_t value : vector) sum += value;
    QCOMPARE(sum, 204u);
    QCOMPARE(*std::find(vector.rbegin(), vector.rend(), 49u), 49u);
    QCOMPARE(std::lower_bound(vector.begin(), vector.end(), 30u) - vector.begin(), std::ptrdiff_t{6});
}

void TestCowVector::copiesAreReadAndWrittenByTwoThreads() {
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
    QCOMPARE(wrong, std::uint64_t{0});
    QCOMPARE(original[17], std::uint64_t{1});
}

QTEST_GUILESS_MAIN(TestCowVector)
#include "tst_cow_vector.moc"
