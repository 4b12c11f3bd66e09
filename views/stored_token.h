// SPDX-License-Identifier: GPL-3.0-or-later
//
// StoredToken: what the cache of a lane keeps of one token in one layer, piece by piece, in the bytes of its layout. For pictures
// that draw a token to scale; nothing of it is measured.
#pragma once

#include "engine/record/recording.h"

#include <QString>

#include <cstdint>
#include <vector>

namespace kvloupe {

struct StoredPiece {
    enum class Kind : std::uint8_t { keys, values, scales, latent, rotary };
    Kind kind = Kind::keys;
    std::uint32_t head = 0;   // first KV head
    std::uint32_t heads = 1;  // that share the row: packs go over several narrow heads
    double bytes = 0;         // of the token; KIVI's scales of a key channel divided over the tokens that share them
};

struct StoredToken {
    std::vector<StoredPiece> pieces;  // head by head: K and its scales, V and its scales
    double bytes = 0;                 // their sum
    bool scales = false;              // some pieces are scales
    bool besideBlocks = false;        // scales per tensor or head, which belong to no token
    bool newestInF16 = false;         // KIVI: the newest tokens lie in pages of f16 until they are quantised

    // Empty without a cache, and where the recording does not say how a layer is stored. layer: the last one where there are fewer.
    static StoredToken of(const LaneInfo& lane, std::uint32_t layer);
    // What the picture of the pieces cannot say: "288 B, black: scales"; dark: on a dark ground they are white.
    QString text(bool dark) const;
};

}  // namespace kvloupe
