// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rules as pure functions: oracles V21 (hit-rate window) and C4 (v0 admission) of CACHE_SEMANTICS section 2; host pool.
#include "engine/cache/hit_rate_window.h"
#include "engine/cache/host_pool.h"
#include "engine/cache/v0_admission.h"
#include "tests/support/claims.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

void V21_theHitRateCoversTheLastRequests(Check& check) {
    HitRateWindow window(5);
    CHECK_EQUAL(window.rate(), 0.0);
    window.add(1, 20, 9);
    CHECK_EQUAL(window.rate(), 0.45);
    window.add(4, 80, 16);
    CHECK_EQUAL(window.rate(), 0.25);
    window.add(0, 0, 0);
    CHECK_EQUAL(window.rate(), 0.25);
    window.add(1, 10, 2);
    CHECK_EQUAL(window.queried_tokens(), std::uint64_t(90));
    CHECK_EQUAL(window.hit_tokens(), std::uint64_t(18));
    CHECK_EQUAL(window.rate(), 0.2);
}

void V21_aBatchLargerThanTheWindowStaysAlone(Check& check) {
    HitRateWindow window(5);
    window.add(3, 100, 100);
    window.add(11, 20, 10);
    CHECK_EQUAL(window.rate(), 0.5);
    CHECK_EQUAL(window.requests(), std::uint64_t(11));
    window.add(1, 10, 0);
    CHECK_EQUAL(window.rate(), 0.0);
}

struct C4_v0AdmitsByThreeInequalitiesCase {
    int blocks, free, needed, watermark;
    V0Admission answer;
};
Cases<C4_v0AdmitsByThreeInequalitiesCase> C4_v0AdmitsByThreeInequalities_cases() {
    Cases<C4_v0AdmitsByThreeInequalitiesCase> cases;
    cases.add("total - required < watermark", {100, 100, 100, 1, V0Admission::never});
    cases.add("larger than the pool", {100, 100, 101, 0, V0Admission::never});
    cases.add("free - required >= watermark", {100, 51, 50, 1, V0Admission::ok});
    cases.add("fits an empty pool exactly", {100, 100, 99, 1, V0Admission::ok});
    cases.add("one block too few", {100, 50, 50, 1, V0Admission::later});
    cases.add("more than is free", {100, 10, 50, 1, V0Admission::later});
    return cases;
}
void C4_v0AdmitsByThreeInequalities(Check& check, const C4_v0AdmitsByThreeInequalitiesCase& row) {
    CHECK_EQUAL(v0_admission(std::uint64_t(row.blocks), std::uint64_t(row.free), std::uint64_t(row.needed), std::uint64_t(row.watermark)), row.answer);
}

void hostBlocksAreReused(Check& check) {
    HostPool pool(3);
    CHECK_EQUAL(pool.free(), 3u);
    CHECK_EQUAL(pool.take(), 0u);
    CHECK_EQUAL(pool.take(), 1u);
    CHECK_EQUAL(pool.used(), 2u);
    pool.give_back(0);
    CHECK_EQUAL(pool.free(), 2u);
    CHECK_EQUAL(pool.take(), 0u);
    CHECK_EQUAL(pool.take(), 2u);
    CHECK_EQUAL(pool.free(), 0u);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(V21_theHitRateCoversTheLastRequests));
    claims.add(CLAIM(V21_aBatchLargerThanTheWindowStaysAlone));
    claims.add(CLAIM(C4_v0AdmitsByThreeInequalities), C4_v0AdmitsByThreeInequalities_cases());
    claims.add(CLAIM(hostBlocksAreReused));
    return claims.rows();
}
