// SPDX-License-Identifier: GPL-3.0-or-later
//
// ReplayCheck: is what is computed again the same as what was recorded? Step by step and lane by lane: events, tokens, and the logits
// that were recorded with the tokens. A lane is followed to its first other token or event; other logits alone go on being measured.
#pragma once

#include "engine/record/recording.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe {

struct ReplayReport {
    std::uint64_t computed_from = 0;                  // the first step that was computed again; those before it were kept
    std::uint64_t steps = 0, tokens = 0, logits = 0;  // that were compared, of all lanes
    std::string first_difference;                     // of tokens or events, else of logits; a sentence, or ""
    double largest_logit_difference = 0;              // up to there
    bool tokens_differ = false;                       // tokens or events: what follows is another run
    bool unfinished = false;                          // it was paused before its last step
    std::string damage;                               // why parts of the old recording could not be read

    bool same() const { return first_difference.empty() && damage.empty(); }
    // One sentence for the user; "" where all is the same.
    std::string sentence() const;
};

class ReplayCheck {
public:
    // Lanes are held against those of the same name; others are not compared. Steps that `now` has already are copies and are not
    // compared either.
    ReplayCheck(std::shared_ptr<const Recording> before, const Recording& now);

    const Recording& before() const { return *m_before; }
    // Steps that were published since.
    void compare(const Recording& now);
    const ReplayReport& report() const { return m_report; }
    ReplayReport end(bool unfinished);

private:
    struct Pair {
        std::uint32_t before = 0, now = 0;  // lanes
        std::size_t compared = 0;           // steps
        bool parted = false;
    };
    void compare_step(Pair& pair, const LaneRecord& was, const LaneRecord& is, std::size_t step, const Recording& now);
    void note(const LaneRecord& lane, std::size_t step, const std::string& what);

    std::shared_ptr<const Recording> m_before;
    std::vector<Pair> m_pairs;
    ReplayReport m_report;
};

}  // namespace kvloupe
