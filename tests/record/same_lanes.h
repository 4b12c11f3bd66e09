// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the tests of recording files share: how a file is written, and whether two lanes say the same.
#pragma once

#include "engine/record/kvt_writer.h"
#include "engine/record/lane_state_code.h"
#include "tests/support/claims.h"
#include "tests/support/demo_sharing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

namespace kvloupe::test {

inline KvtOptions options_for(const std::string& path) {
    KvtOptions options;
    options.path = path;
    options.program = "a test";
    options.scenario = "{\"version\": 1}";
    options.commit_interval = std::chrono::milliseconds(1);
    return options;
}

// One lane in which blocks are short, so that key frames come every few hundred steps and evictions between them.
inline std::shared_ptr<const Recording> one_busy_lane(std::uint32_t steps) {
    DemoSharingOptions options;
    options.steps = steps;
    options.blocks = 400;
    options.arrivals = 3;
    options.lanes = {"paged"};
    return demo_sharing_recording(options);
}

inline bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// The first `steps` steps of both lanes say the same.
inline void same_lanes(Check& check, const LaneRecord& a, const LaneRecord& b, std::size_t steps) {
    CHECK_THAT(b.step_count() >= steps);
    if (b.step_count() < steps || steps == 0) return;
    const StepRecord& last = a.step(steps - 1);
    std::size_t different = 0;
    for (std::uint64_t i = 0; i < last.events.end; ++i)
        different += std::memcmp(&a.events()[i], &b.events()[i], sizeof(Event)) != 0;
    CHECK_EQUAL(different, std::size_t{0});
    for (std::uint64_t i = 0; i < last.tokens.end; ++i) {
        const TokenRecord &x = a.tokens()[i], &y = b.tokens()[i];
        different += !(x.sequence == y.sequence && x.position == y.position && x.token == y.token && x.source == y.source &&
                       x.rank == y.rank && same(x.probability, y.probability) && x.alternative_count == y.alternative_count);
        for (std::uint64_t k = 0; k < x.alternative_count; ++k) {
            const Alternative &m = a.alternatives()[x.alternatives_begin + k], &n = b.alternatives()[y.alternatives_begin + k];
            different += !(m.token == n.token && same(m.probability, n.probability) && same(m.logit, n.logit));
        }
    }
    CHECK_EQUAL(different, std::size_t{0});
    for (std::uint64_t i = 0; i < last.attention.end; ++i) {
        const AttentionRow &x = a.attention()[i], &y = b.attention()[i];
        different += !(x.sequence == y.sequence && x.layer == y.layer && x.head == y.head && x.position == y.position &&
                       x.key_count == y.key_count);
        for (std::uint64_t k = 0; k < std::min(x.key_count, y.key_count); ++k)
            different += a.attention_weights()[x.weights_begin + k] != b.attention_weights()[y.weights_begin + k];
    }
    CHECK_EQUAL(different, std::size_t{0});
    for (std::size_t step = 0; step < steps; step += std::max<std::size_t>(steps / 50, 1))
        CHECK_THAT(LaneStateCode::encode(a.state_after(step)) == LaneStateCode::encode(b.state_after(step)));
}

}  // namespace kvloupe::test
