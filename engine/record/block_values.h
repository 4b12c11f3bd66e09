// SPDX-License-Identifier: GPL-3.0-or-later
//
// BlockValues: what one block of a lane's pool holds of one layer, as numbers. Not part of a recording: it is read from the
// running lane when somebody asks (Session::ask_block), and says after which step that was.
#pragma once

#include "engine/record/block_errors.h"
#include "engine/record/ids.h"
#include "engine/record/kv_format.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe {

struct BlockQuestion {
    LaneId lane;
    std::uint32_t layer = 0;
    BlockId block;

    bool operator==(const BlockQuestion&) const = default;
};

// K or V of the block; with a latent: the latent, or the rotary key beside it.
struct BlockPart {
    KvFormat format;
    std::uint32_t heads = 0;
    std::uint32_t width = 0;      // channels of a head; 0: nothing is kept here
    std::uint32_t tokens = 0;
    std::vector<float> stored;    // (heads, tokens, width) as attention reads it: scales applied, rotation turned back
    // (heads, tokens, width) as it was computed, before it was stored; NaN where a token was stored before anybody asked.
    // Empty: of no token known.
    std::vector<float> before;

    std::size_t at(std::uint32_t head, std::uint32_t token, std::uint32_t channel) const {
        return (std::size_t{head} * tokens + token) * width + channel;
    }
    bool before_known() const;    // of one token at least
};

// What quantisation did to the block in one layer, where values before it are kept.
struct LayerErrors {
    std::uint32_t layer = 0;
    ErrorSum keys, values;
};

struct BlockValues {
    BlockQuestion question;
    std::uint64_t generation = 0; // of the session's recording (Session::generation())
    std::uint64_t step = 0;       // after which it was read
    std::string problem;          // why there is nothing to show, one sentence; then nothing below means anything
    std::uint32_t tokens = 0;     // slots that hold one
    std::uint32_t owners = 0;     // sequences that own the block; 0: its content can only be hit
    SequenceId sequence;          // one of the owners, or none
    // Position of the first slot; none where nobody owns the block, whose hash alone says what prefix it belongs to.
    std::optional<std::uint32_t> first_position;
    bool latent = false;
    bool in_page = false;         // KIVI: still kept in f16 beside the pool
    BlockPart keys, values;
    // Heads that a latent stands for, made from what is stored: formats f32, no `before`. Empty without a latent, or for
    // the sentence in `expansion_problem`.
    BlockPart expanded_keys, expanded_values;
    std::string expansion_problem;
    std::vector<LayerErrors> layers;  // ascending; of the same tokens, where `before` is known and a window has not given them up

    // The copy in f32 that says what values were before they were stored. Without one: `before_problem`, or the cache is kept
    // in f32 itself and nothing can differ.
    std::optional<std::uint64_t> before_since;  // first step whose tokens it has
    std::uint64_t before_bytes = 0;             // measured: of its buffers
    std::string before_problem;
};

}  // namespace kvloupe
