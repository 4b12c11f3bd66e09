// SPDX-License-Identifier: GPL-3.0-or-later
//
// 100,000 random operations on paged caches of all kinds against a naive model (cache_walk.h).
#include "tests/cache/cache_walk.h"
#include "tests/support/claims.h"

#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

void aRandomWalkAgreesWithTheNaiveModel(Check& check) {
    constexpr std::uint64_t all = 100'000, each = 250;
    CacheWalk::Tally tally;
    for (std::uint32_t seed = 0; tally.operations < all; ++seed) {
        std::mt19937 random(seed);
        const std::string failure = CacheWalk::run({[&] { return std::uint8_t(random()); }, [] { return false; }}, each, &tally);
        CHECK_OR_SAY(failure.empty(), "seed " + std::to_string(seed) + ", " + failure);
    }
    CHECK_EQUAL(tally.operations, all);
    for (const EventKind kind : {EventKind::prefix_hit, EventKind::allocate, EventKind::fork, EventKind::copy_on_write,
                                 EventKind::evict, EventKind::free, EventKind::swap_out, EventKind::swap_in,
                                 EventKind::null_block, EventKind::store, EventKind::reset})
        CHECK_OR_SAY(tally.kinds[kind] >= 50, std::string(name_of(kind)));
    for (const Cause cause : {Cause::pool_too_full, Cause::prompt_too_long_now, Cause::below_watermark, Cause::block_needed,
                              Cause::out_of_window, Cause::out_of_chunk, Cause::last_owner_writes, Cause::sequence_preempted,
                              Cause::requested})
        CHECK_OR_SAY(tally.causes[cause] >= 50, std::to_string(int(cause)));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aRandomWalkAgreesWithTheNaiveModel));
    return claims.rows();
}
