// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/chunked_log.h"
#include "tests/support/claims.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

void keepsOrderAcrossChunksAndPages(Check& check) {
    // Chunks of two: a page of 1,024 chunks ends at 2,048 elements.
    ChunkedLog<std::uint32_t, 1> log;
    for (std::uint32_t i = 0; i < 5000; ++i) CHECK_EQUAL(log.push_back(i * 3), std::size_t{i});
    CHECK_EQUAL(log.size(), std::size_t{5000});
    for (std::uint32_t i = 0; i < 5000; ++i) CHECK_EQUAL(log[i], i * 3);
}

void elementsNeverMove(Check& check) {
    ChunkedLog<std::string, 2> log;
    log.push_back("first");
    const std::string* const first = &log[0];
    const char* const text = log[0].data();
    for (int i = 0; i < 1000; ++i) log.push_back(std::string(100, 'x'));
    CHECK_EQUAL(&log[0], first);
    CHECK_EQUAL(log[0].data(), text);
    CHECK_EQUAL(log[0], "first");
}

void destroysWhatItHolds(Check& check) {
    const auto shared = std::make_shared<int>(1);
    {
        ChunkedLog<std::shared_ptr<int>, 3> log;
        for (int i = 0; i < 21; ++i) log.push_back(shared);
        CHECK_EQUAL(shared.use_count(), 22L);
    }
    CHECK_EQUAL(shared.use_count(), 1L);
}

void bytesCountWholeChunks(Check& check) {
    ChunkedLog<std::uint64_t, 4> log;
    CHECK_EQUAL(log.bytes(), std::size_t{0});
    log.push_back(1);
    CHECK_EQUAL(log.bytes(), std::size_t{16 * 8});
    for (int i = 0; i < 16; ++i) log.push_back(2);
    CHECK_EQUAL(log.bytes(), std::size_t{32 * 8});
}

// Run under ThreadSanitizer too: no lock, and yet a reader that stays below size() never races with the writer.
void readersSeeAPrefixWhileItGrows(Check& check) {
    constexpr std::uint64_t count = 200000;
    ChunkedLog<std::uint64_t, 6> log;
    std::atomic<bool> wrong{false};
    std::vector<std::thread> readers;
    for (int r = 0; r < 2; ++r) {
        readers.emplace_back([&] {
            std::size_t seen = 0;
            while (seen < count) {
                const std::size_t size = log.size();
                if (size < seen) wrong = true;
                for (; seen < size; ++seen)
                    if (log[seen] != seen * 7 + 1) wrong = true;
            }
        });
    }
    for (std::uint64_t i = 0; i < count; ++i) log.push_back(i * 7 + 1);
    for (std::thread& reader : readers) reader.join();
    CHECK_THAT(!wrong);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(keepsOrderAcrossChunksAndPages));
    claims.add(CLAIM(elementsNeverMove));
    claims.add(CLAIM(destroysWhatItHolds));
    claims.add(CLAIM(bytesCountWholeChunks));
    claims.add(CLAIM(readersSeeAPrefixWhileItGrows));
    return claims.rows();
}
