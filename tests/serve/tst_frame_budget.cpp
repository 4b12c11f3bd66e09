// SPDX-License-Identifier: GPL-3.0-or-later
//
// When key frames of the engine are made and which are kept.
#include "engine/serve/engine_frame.h"
#include "tests/support/rows.h"

#include <algorithm>
#include <set>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::unique_ptr<const EngineFrame> frame_after(std::uint32_t steps, std::uint64_t bytes) {
    auto frame = std::make_unique<EngineFrame>(EngineFrame{{}, LogitComparison({}), "", 0, {}, bytes});
    frame->lanes.resize(2);
    frame->lanes[0].life.m_step = steps;
    frame->lanes[1].life.m_step = steps / 2;
    return frame;
}

void framesBeyondTheBudgetAreThinnedOut(Check& check) {
    EngineFramePolicy policy;
    policy.least_steps = 3;
    policy.least_work = std::chrono::milliseconds(3);
    policy.memory_bytes = 1000;
    EngineFrames frames(policy);
    std::size_t most = 0;
    for (std::uint32_t step = 1; step <= 1000; ++step) {
        frames.note_step(std::chrono::milliseconds(1));
        if (frames.due()) frames.keep(frame_after(step, 100), {});
        most = std::max(most, frames.count());
        CHECK_THAT(frames.bytes() <= 1000 && frames.bytes() == frames.count() * 100);
    }
    CHECK_EQUAL(most, std::size_t(10));
    CHECK_THAT(frames.count() >= 5);
    std::set<std::uint32_t> distances;
    std::uint32_t end = 1000;
    while (const EngineFrame* frame = frames.go_back(end - 1, {})) {
        CHECK_THAT(frame->end_step() <= end && frame->first_step() == frame->end_step() / 2);
        distances.insert(end - frame->end_step());
        end = frame->end_step() - 1;
    }
    CHECK_EQUAL(frames.bytes(), std::uint64_t(0));
    CHECK_THAT(*distances.rbegin() <= 200 && end <= 200);  // spread over the run
}

void aFrameIsDueWhenItIsWorthItsCost(Check& check) {
    using std::chrono::milliseconds;
    EngineFrames frames{EngineFramePolicy{}};
    const auto steps = [&](int count, milliseconds each) {
        for (int i = 0; i < count; ++i) frames.note_step(each);
        return frames.due();
    };
    CHECK_THAT(!steps(15, milliseconds(500)));  // long, but few
    CHECK_THAT(steps(1, milliseconds(1)));
    frames.keep(frame_after(16, 1), milliseconds(50));
    CHECK_THAT(!steps(100, milliseconds(9)));   // many, but short
    CHECK_THAT(!steps(12, milliseconds(10)));   // a second, but one in a hundred would be five
    CHECK_THAT(steps(400, milliseconds(10)));
    CHECK_THAT(frames.affords(256u << 20) && !frames.affords((256u << 20) + 1));
    // Not one that knows of more than is asked for now.
    auto asked = std::make_unique<EngineFrame>(EngineFrame{{}, LogitComparison({}), "", 0, {1, 0}, 1});
    asked->lanes.resize(1);
    asked->lanes[0].life.m_step = 20;
    frames.keep(std::move(asked), {});
    CHECK_EQUAL(frames.go_back(30, {1, 0})->end_step(), 20u);
    CHECK_EQUAL(frames.go_back(30, {0, 0})->end_step(), 16u);
    frames.keep(std::make_unique<EngineFrame>(EngineFrame{{}, LogitComparison({}), "", 0, {0, 1}, 1}), {});
    CHECK_EQUAL(frames.go_back(30, {0, 0})->end_step(), 16u);
    CHECK_THAT(frames.go_back(14, {}) == nullptr);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    return {{"frames beyond the budget are thinned out", framesBeyondTheBudgetAreThinnedOut},
            {"a frame is due when it is worth its cost", aFrameIsDueWhenItIsWorthItsCost}};
}
