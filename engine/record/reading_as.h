// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a thread reads a recording's file for. Each kind comes through a connection of its own, so that a reader whom somebody waits
// for never stands behind one that reads ahead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace kvloupe {

enum class Reading : std::uint8_t {
    asked,   // somebody waits for it: what a thread does unless it says otherwise
    ahead,   // nobody waits: a job in the background
    beside,  // for a thread that waits and reads something else meanwhile
};
inline constexpr std::size_t reading_kinds = 3;

class ReadingAs {
public:
    explicit ReadingAs(Reading kind) : m_before(std::exchange(s_kind, kind)) {}
    ~ReadingAs() { s_kind = m_before; }
    ReadingAs(const ReadingAs&) = delete;
    ReadingAs& operator=(const ReadingAs&) = delete;

    // Of the calling thread.
    static Reading here() { return s_kind; }

private:
    static inline thread_local Reading s_kind = Reading::asked;
    Reading m_before;
};

}  // namespace kvloupe
