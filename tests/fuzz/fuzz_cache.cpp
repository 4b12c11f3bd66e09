// SPDX-License-Identifier: GPL-3.0-or-later
//
// Any bytes are a random life of a paged cache (tests/cache/cache_walk.h): its invariants, a naive model and the replayed
// events must agree after every operation.
#include "tests/cache/cache_walk.h"
#include "tests/fuzz/require.h"

#include <cstdint>

using namespace kvloupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::size_t at = 0;
    const CacheWalk::Source source{[&]() -> std::uint8_t { return at < size ? data[at++] : 0; }, [&] { return at >= size; }};
    const std::string failure = CacheWalk::run(source, 2000);
    if (!failure.empty()) std::fprintf(stderr, "%s\n", failure.c_str());
    KVLOUPE_REQUIRE(failure.empty());
    return 0;
}
