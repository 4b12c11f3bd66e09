// SPDX-License-Identifier: GPL-3.0-or-later
//
// Kinds and causes of events by name: for menus, filter lines and breakpoints.
#pragma once

#include "engine/record/event.h"

#include <QString>

#include <optional>

namespace kvloupe {

QString kindName(EventKind kind);    // "copy_on_write": as in events.csv and scenarios
QString kindLabel(EventKind kind);   // "copy-on-write": as on the screen
QString causeName(Cause cause);      // "shared_block_written"
QString causeLabel(Cause cause);     // "shared block written"
std::optional<Cause> causeFromName(const QString& name);

// The kinds from the rare and telling to the frequent: the order of chips and lists.
const EventKind* kindsByTelling();   // event_kind_count of them

}  // namespace kvloupe
