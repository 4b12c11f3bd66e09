// SPDX-License-Identifier: GPL-3.0-or-later
//
// KeySpan: which keys a query sees (CACHE_SEMANTICS 1.9). Pure arithmetic on positions, shared by the backends and by
// whoever counts bytes and operations.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvloupe {

// Keys of one query: positions 0 .. sinks - 1 and begin .. end - 1, with sinks <= begin <= end. What lies between is masked.
struct SeenKeys {
    std::uint32_t sinks = 0;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;  // the query's position + 1

    std::uint32_t count() const { return sinks + (end - begin); }
    bool sees(std::uint32_t key) const { return key < sinks || (key >= begin && key < end); }
};

// All zero: a query at position p sees 0 .. p.
struct KeySpan {
    std::uint32_t window = 0;  // p - window + 1 .. p, and the sinks
    std::uint32_t sinks = 0;   // the first positions; only with a window
    std::uint32_t chunk = 0;   // floor(p / chunk) * chunk .. p; not with a window
    // Distances count the cache's own order instead of the text's (StreamingLLM): a sink key that the window has left
    // behind is read as if it stood right before the window. Only with a window and sinks.
    bool rank = false;

    bool full() const { return window == 0 && chunk == 0; }
    bool operator==(const KeySpan&) const = default;

    SeenKeys seen(std::uint32_t position) const {
        SeenKeys keys;
        keys.end = position + 1;
        if (window > 0 && keys.end > window) keys.begin = keys.end - window;
        if (chunk > 0) keys.begin = position - position % chunk;
        if (window > 0) keys.sinks = std::min(sinks, keys.begin);
        return keys;
    }
    // Positions between sinks and window that a query at `position` no longer sees: by so much a sink key is turned
    // forward when it is read by rank.
    std::uint32_t dropped(std::uint32_t position) const {
        const SeenKeys keys = seen(position);
        return rank && keys.sinks > 0 ? keys.begin - keys.sinks : 0;
    }
};

}  // namespace kvloupe
