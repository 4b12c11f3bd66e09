// SPDX-License-Identifier: GPL-3.0-or-later
//
// A LaneState as bytes and back: what the key frames of a recording file hold (README, "The recording file"). Numbers are
// unsigned LEB128, column by column, so that equal columns cost next to nothing once they are compressed; hashes are eight bytes.
#pragma once

#include "engine/record/lane_state.h"
#include "engine/record/result.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvloupe {

// How a state is told differently: by a file that begins in the middle of a recording, or that hides what was hashed.
struct StateChange {
    std::uint32_t first_step = 0;  // steps count from here; what was earlier becomes 0
    std::uint64_t hash_key = 0;    // hashes become other numbers, equal ones equal numbers; 0: they stay

    std::uint32_t step(std::uint32_t step) const {
        return step == BlockState::no_step ? step : step - std::min(step, first_step);
    }
    std::uint64_t hash(std::uint64_t hash) const;
};

class LaneStateCode {
public:
    static std::string encode(const LaneState& state, const StateChange& change = {});

    // Errors: bytes that no encode() wrote, or a state of another pool (`blocks` blocks of `block_size` slots, as the lane has
    // them). What comes back keeps the invariants that LaneState relies on: indices lie inside, lists end.
    static Result<LaneState> decode(std::string_view bytes, std::uint32_t blocks, std::uint32_t block_size);

private:
    static constexpr std::uint64_t newest_version = 2;  // 1 had hashes and neighbours in the queue as numbers; it still reads

    class Reader;
    static bool read_blocks(Reader& in, LaneState& state, std::uint32_t blocks, std::uint64_t version);
    static bool read_order(Reader& in, LaneState& state, std::uint32_t blocks);
    static bool read_links(Reader& in, LaneState& state, std::uint32_t blocks);
    static bool read_owners(Reader& in, LaneState& state);
    static bool read_sequences(Reader& in, LaneState& state, std::uint32_t blocks);
    static bool read_holders(Reader& in, LaneState& state);
    static bool lists_end(const LaneState& state);
};

}  // namespace kvloupe
