// SPDX-License-Identifier: GPL-3.0-or-later
//
// EventFilter: what the filter line of the event list means: "seq:3 step:200-206 kind:allocate block:12 owners".
// Words with a known key narrow; several kinds are alternatives; words without a key are searched in the cause.
#pragma once

#include "engine/record/recording.h"

#include <QString>
#include <QStringList>

#include <bitset>
#include <optional>

namespace kvloupe {

struct EventFilter {
    QString sequence;                       // number or name, "" for all
    std::optional<std::uint32_t> firstStep, lastStep;
    std::optional<std::uint32_t> block;
    std::bitset<event_kind_count> kinds;    // none set: all
    QStringList words;
    QString error;                          // a sentence where the line is not understood

    static EventFilter parse(const QString& line);

    // `sequence` is compared with the event's sequence number and name; words with its cause, regardless of case.
    bool matches(const Recording& recording, const LaneRecord& lane, const Event& event, std::uint32_t step) const;
};

}  // namespace kvloupe
