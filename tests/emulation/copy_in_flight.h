// SPDX-License-Identifier: GPL-3.0-or-later
//
// A copy of cp.async that was begun and not waited for.
#pragma once

namespace kvloupe::emulation {

struct CopyInFlight {
    void* to = nullptr;
    const void* from = nullptr;
    unsigned bytes = 0;
    unsigned group = 0;
};

// Of the running thread. Copies join the group that commit_copies() closes next.
void add_copy(void* to, const void* from, unsigned bytes);
// Takes out the oldest copy of the groups that are complete once all but the last `groups_left` are. False: none is left.
bool take_copy(unsigned groups_left, CopyInFlight& copy);

}  // namespace kvloupe::emulation
