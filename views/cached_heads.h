// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a lane keeps of a token and layer, in words: heads, or with multi-head latent attention a latent and a rotary key.
#pragma once

#include "engine/record/recording.h"
#include "views/format.h"

#include <QCoreApplication>

namespace kvloupe {

// "8", "latent 32 + 16"
inline QString cachedHeads(const LaneInfo& info) {
    if (info.latent_rank == 0) return formatCount(info.kv_heads);
    return QCoreApplication::translate("CachedHeads", "latent %1 + %2").arg(info.latent_rank).arg(info.latent_rotary_dim);
}

// "2 KV heads for 8 query heads"
inline QString cachedHeadsSentence(const LaneInfo& info) {
    if (info.latent_rank == 0)
        return (info.kv_heads == 1 ? QCoreApplication::translate("CachedHeads", "%1 KV head for %2 query heads")
                                   : QCoreApplication::translate("CachedHeads", "%1 KV heads for %2 query heads"))
            .arg(info.kv_heads)
            .arg(info.query_heads);
    return QCoreApplication::translate("CachedHeads", "one latent of %1 values and a rotary key of %2 for %3 query heads")
        .arg(info.latent_rank)
        .arg(info.latent_rotary_dim)
        .arg(info.query_heads);
}

}  // namespace kvloupe
