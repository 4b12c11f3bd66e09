// SPDX-License-Identifier: GPL-3.0-or-later
//
// EventFilter: what the filter line of the event list means: "seq:3 step:200-206 kind:allocate block:12 owners".
// Words with a known key narrow; several kinds or causes are alternatives; words without a key are searched in the
// sentence. A value with spaces stands in quotes: cause:"two owners". A cause is one by name, or words of the sentence.
#pragma once

#include "engine/record/recording.h"

#include <QString>
#include <QStringList>

#include <bitset>
#include <optional>

namespace kvloupe {

struct EventFilter {
    QString sequence;                       // number or name, "" for all
    QString request;                        // id: its sequence, forks, samples and beams
    std::optional<std::uint32_t> firstStep, lastStep;
    std::optional<std::uint32_t> block;
    std::bitset<event_kind_count> kinds;    // none set: all
    std::bitset<cause_count> causes;        // none set: all
    QStringList causeWords;                 // searched in the sentence
    QStringList words;                      // the same, and in the kind
    QString error;                          // a sentence where the line is not understood

    static EventFilter parse(const QString& line);
    bool empty() const;

    // `sequence` is compared with the event's sequence number and name; words with its cause, regardless of case.
    bool matches(const Recording& recording, const LaneRecord& lane, const Event& event, std::uint32_t step) const;
};

}  // namespace kvloupe
