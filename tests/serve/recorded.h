// SPDX-License-Identifier: GPL-3.0-or-later
//
// Whether two recordings tell the same, for tests: events, tokens with their logits, counters and block tables, step by step.
#pragma once

#include "engine/record/describe.h"
#include "engine/record/lane_state.h"

#include <algorithm>
#include <bit>
#include <string>

namespace kvloupe::test {

inline bool same_event_but_times(const Event& a, const Event& b) {
    return a.kind == b.kind && a.cause == b.cause && a.flags == b.flags && a.group == b.group && a.sequence == b.sequence && a.block == b.block &&
           a.other == b.other && a.tokens == b.tokens && a.detail == b.detail;
}

// The first difference within the first `steps` steps of two lanes, or "".
inline std::string lane_difference(const LaneRecord& a, const LaneRecord& b, std::size_t steps) {
    for (std::size_t step = 0; step < steps; ++step) {
        const std::string where = a.info().name + ", step " + std::to_string(step) + ": ";
        const StepRecord x = a.step(step), y = b.step(step);
        if (x.events.size() != y.events.size() || x.tokens.size() != y.tokens.size()) return where + "how many events or tokens";
        for (std::uint64_t i = 0; i < x.events.size(); ++i)
            if (!same_event_but_times(a.events()[x.events.begin + i], b.events()[y.events.begin + i])) return where + "event " + std::to_string(i);
        for (std::uint64_t i = 0; i < x.tokens.size(); ++i) {
            const TokenRecord s = a.tokens()[x.tokens.begin + i], t = b.tokens()[y.tokens.begin + i];
            if (s.sequence != t.sequence || s.position != t.position || s.token != t.token || s.rank != t.rank || s.alternative_count != t.alternative_count ||
                std::bit_cast<std::uint32_t>(s.probability) != std::bit_cast<std::uint32_t>(t.probability))
                return where + "token " + std::to_string(i);
            for (std::uint32_t k = 0; k < s.alternative_count; ++k) {
                const Alternative u = a.alternatives()[s.alternatives_begin + k], v = b.alternatives()[t.alternatives_begin + k];
                if (u.token != v.token || u.logit != v.logit) return where + "logit " + std::to_string(k) + " of token " + std::to_string(i);
            }
        }
        if (x.running != y.running || x.waiting != y.waiting || x.used_blocks != y.used_blocks || x.cached_blocks != y.cached_blocks ||
            x.free_blocks != y.free_blocks || x.hit_tokens != y.hit_tokens || x.computed_tokens != y.computed_tokens || x.slots.token != y.slots.token ||
            x.slots.reserved != y.slots.reserved)
            return where + "a counter";
        const LaneState after = a.state_after(step), again = b.state_after(step);
        if (after.free_order() != again.free_order()) return where + "the free queue";
        if (after.sequences().size() != again.sequences().size()) return where + "how many sequences";
        for (std::uint32_t i = 0; i < after.sequences().size(); ++i) {
            const TableState& s = after.table(SequenceId(i), 0);
            const TableState& t = again.table(SequenceId(i), 0);
            if (!std::equal(s.begin(), s.end(), t.begin(), t.end())) return where + "the block table of sequence " + std::to_string(i);
        }
    }
    return {};
}

// The same of two recordings, lane by lane, as far as both go.
inline std::string recorded_difference(const Recording& a, const Recording& b) {
    for (std::size_t i = 0; i < std::min(a.lanes().size(), b.lanes().size()); ++i) {
        const LaneRecord& x = *a.lanes()[i];
        const LaneRecord& y = *b.lanes()[i];
        const std::string difference = lane_difference(x, y, std::min(x.step_count(), y.step_count()));
        if (!difference.empty()) return difference;
    }
    return {};
}

}  // namespace kvloupe::test
