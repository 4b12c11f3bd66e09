// SPDX-License-Identifier: GPL-3.0-or-later
//
// Any bytes as a memory snapshot: either an error with a sentence, or lanes whose slots and blocks add up.
#include "engine/record/lane_state.h"
#include "engine/record/memory_snapshot.h"
#include "tests/fuzz/require.h"

#include <cstdint>

using namespace kvloupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto stored = memory_snapshot({reinterpret_cast<const char*>(data), size}, "input", {4096, 100'000, 200});
    if (!stored) {
        KVLOUPE_REQUIRE(stored.error().sentence.rfind("input: ", 0) == 0 && stored.error().sentence.size() > 15);
        return 0;
    }
    KVLOUPE_REQUIRE(!stored->recording->lanes().empty());
    for (const auto& lane : stored->recording->lanes()) {
        KVLOUPE_REQUIRE(lane->info().blocks <= 4097 && lane->step_count() > 0 && lane->step_count() <= 202);
        const std::uint64_t slots = std::uint64_t{lane->info().blocks - 1} * lane->info().block_size;
        for (std::size_t i = 0; i < lane->step_count(); ++i) {
            const SlotCounts& one = lane->step(i).slots;
            KVLOUPE_REQUIRE(one.external + one.free <= slots);
            KVLOUPE_REQUIRE(lane->step(i).used_blocks < lane->info().blocks);
        }
        (void)lane->state_after(lane->step_count() - 1);
    }
    return 0;
}
