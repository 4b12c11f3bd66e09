// SPDX-License-Identifier: GPL-3.0-or-later
//
// A device whose stage timers are read late: the stages of a step are read while the next pass runs, stand with the step
// they belong to, and none is missing whenever the session stands still.
#include "tests/serve/failing_backend.h"
#include "tests/serve/support.h"
#include "tests/support/claims.h"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// What the backend saw, in order, shared with the test.
struct Calls {
    struct Reading {
        std::uint64_t set = 0;
        std::uint64_t newest = 0;   // set that had been started by then
        std::size_t marks = 0;      // of the newest set when it was read
        bool waited = false;        // the pass of the newest set had been waited for
    };
    std::vector<Reading> readings;
    std::uint64_t newest = 0;
    std::size_t marks = 0;
    bool waited = false;
    int passes = 0;
};

// Keeps two sets as a device would; a third one takes the oldest away. Durations tell set and place.
class LateBackend final : public WrappingBackend {
public:
    LateBackend(std::unique_ptr<Backend> real, std::shared_ptr<Calls> calls)
        : WrappingBackend(std::move(real)), m_calls(std::move(calls)) {}

    bool late_timings() const override { return true; }
    Result<void> begin_batch(const Batch& batch) override {
        ++m_calls->passes;
        return m_real->begin_batch(batch);
    }
    std::uint64_t start_timing() override {
        m_sets[++m_calls->newest % 2].clear();
        m_calls->marks = 0;
        m_calls->waited = false;
        return m_calls->newest;
    }
    void mark(StageKind kind, std::uint16_t layer) override {
        auto& set = m_sets[m_calls->newest % 2];
        set.push_back({kind, layer, m_calls->newest * 1000 + set.size()});
        ++m_calls->marks;
    }
    std::span<const StageTiming> timings(std::uint64_t set) override {
        m_calls->readings.push_back({set, m_calls->newest, m_calls->marks, m_calls->waited});
        if (set + 2 <= m_calls->newest) return {};  // overwritten
        return m_sets[set % 2];
    }
    Result<void> read(const Buffer& in, std::span<float> destination) override {
        m_calls->waited = true;
        return m_real->read(in, destination);
    }
    Result<void> synchronise() override {
        m_calls->waited = true;
        return m_real->synchronise();
    }

private:
    std::shared_ptr<Calls> m_calls;
    std::array<std::vector<StageTiming>, 2> m_sets;
};

SessionOptions late(const std::shared_ptr<Calls>& calls) {
    SessionOptions given = options();
    given.make_backend = [calls](const std::string& device) -> Result<std::unique_ptr<Backend>> {
        auto real = make_backend(BackendOptions{device, 2});
        if (!real) return real.error();
        return std::unique_ptr<Backend>(std::make_unique<LateBackend>(std::move(*real), calls));
    };
    return given;
}

const StageRecord* find(const LaneRecord& lane, std::size_t step, StageKind kind) {
    const LogRange range = lane.stages_of(step);
    for (std::uint64_t i = range.begin; i < range.end; ++i)
        if (lane.stages()[i].kind == kind) return &lane.stages()[i];
    return nullptr;
}

constexpr std::uint64_t stages_of_two_layers = 23;  // 2 layers of 9, and schedule, embed, output norm, logits, sample

void aSetIsReadAfterTheNextPassWasIssuedAndBeforeItIsWaitedFor(Check& check) {
    const auto calls = std::make_shared<Calls>();
    auto s = session(R"("requests": [)" + request("a", 5, 4) + "]", late(calls));
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(calls->readings.size(), std::size_t(4));
    for (std::size_t i = 0; i + 1 < calls->readings.size(); ++i) {
        const Calls::Reading& reading = calls->readings[i];
        CHECK_EQUAL(reading.set, std::uint64_t(i + 1));
        CHECK_EQUAL(reading.newest, std::uint64_t(i + 2));
        CHECK_EQUAL(reading.marks, std::size_t(stages_of_two_layers - 2));  // all operations of the next pass
        CHECK_THAT(!reading.waited);
    }
    CHECK_EQUAL(calls->readings.back().set, calls->readings.back().newest);  // the last one at the end
}

void stagesStandWithTheStepTheyBelongTo(Check& check) {
    const auto calls = std::make_shared<Calls>();
    auto s = session(R"("record": {"stages_every": 2}, "requests": [)" + request("a", 5, 7) + "]", late(calls));
    CHECK_RESULT(s->run_to_end());
    auto plain = session(R"("record": {"stages_every": 2}, "requests": [)" + request("a", 5, 7) + "]");
    CHECK_RESULT(plain->run_to_end());
    const LaneRecord& lane = s->recording()->lane(lane0);
    const LaneRecord& expected = plain->recording()->lane(lane0);
    CHECK_EQUAL(lane.step_count(), std::size_t(7));
    for (std::size_t step = 0; step < 7; ++step) {
        CHECK_EQUAL(lane.stages_of(step).size(), step % 2 == 0 ? stages_of_two_layers : 0);
        for (std::uint64_t i = 0; i < lane.stages_of(step).size(); ++i) {
            const StageRecord& one = lane.stages()[lane.stages_of(step).begin + i];
            const StageRecord& other = expected.stages()[expected.stages_of(step).begin + i];
            CHECK_EQUAL(int(one.kind), int(other.kind));
            CHECK_EQUAL(one.layer, other.layer);
            CHECK_EQUAL(one.calls, other.calls);
            CHECK_EQUAL(one.bytes, other.bytes);  // of its own step: the context grows, and the first has five rows
            CHECK_EQUAL(one.flops, other.flops);
            if (one.kind == StageKind::schedule || one.kind == StageKind::sample) continue;
            CHECK_EQUAL(one.duration_ns, (step / 2 + 1) * 1000 + i - 1);
        }
    }
}

void aPausedSessionHasTheStagesOfItsLastStep(Check& check) {
    const auto calls = std::make_shared<Calls>();
    auto s = session(R"("requests": [)" + request("a", 5, 6) + "]", late(calls));
    for (std::size_t step = 0; step < 3; ++step) {
        s->step();
        s->wait();
        CHECK_EQUAL(s->recording()->lane(lane0).step_count(), step + 1);
        CHECK_EQUAL(s->recording()->lane(lane0).stages_of(step).size(), stages_of_two_layers);
    }
}

void aResetKeepsTheStagesInTheRecordingBeforeIt(Check& check) {
    const auto calls = std::make_shared<Calls>();
    auto s = session(R"("requests": [)" + request("a", 5, 120) + "]", late(calls));
    const auto before = s->recording();
    s->run();
    while (before->lane(lane0).step_count() < 3) std::this_thread::yield();
    s->reset();  // in the middle of the run: nothing paused before it
    s->step();
    s->wait();
    const std::size_t steps = before->lane(lane0).step_count();
    for (std::size_t step = 0; step < steps; ++step) CHECK_EQUAL(before->lane(lane0).stages_of(step).size(), stages_of_two_layers);
    CHECK_EQUAL(s->recording()->lane(lane0).stages_of(0).size(), stages_of_two_layers);
}

void lanesOfOneDeviceDoNotTakeEachOthersSetsAway(Check& check) {
    const auto calls = std::make_shared<Calls>();
    auto s = session(R"("lanes": [{"name": "a"}, {"name": "b", "cache": {"block_size": 4}}, {"name": "c", "kv_cache": false},
                                  {"name": "d", "kv_cache": false, "scheduler": {"max_num_batched_tokens": 2}}],
                         "requests": [)" + request("a", 5, 6) + "," + request("b", 3, 6) + "]", late(calls));
    CHECK_RESULT(s->run_to_end());
    for (const auto& lane : s->recording()->lanes())
        for (std::size_t step = 0; step < lane->step_count(); ++step) {
            CHECK_THAT(lane->step(step).computed_tokens > 0);
            CHECK_EQUAL(lane->stages_of(step).size(), stages_of_two_layers);
        }
    for (const Calls::Reading& reading : calls->readings) CHECK_THAT(reading.set + 2 > reading.newest);
}

void anUncachedStepOfSeveralPassesIsReadPassByPass(Check& check) {
    const auto calls = std::make_shared<Calls>();
    auto s = session(R"("lanes": [{"kv_cache": false, "scheduler": {"max_num_batched_tokens": 4}}], "requests": [)" +
                         request("a", 10, 1) + "]", late(calls));
    CHECK_RESULT(s->run_to_end());
    CHECK_EQUAL(calls->readings.size(), std::size_t(3));  // 4 + 4 + 2 tokens
    for (const Calls::Reading& reading : calls->readings) {
        CHECK_EQUAL(reading.set, reading.newest);
        CHECK_THAT(reading.waited);
    }
    CHECK_EQUAL(find(s->recording()->lane(lane0), 0, StageKind::attention)->calls, 3u);
}

void aFailedStepHasNoStagesAndTheOneBeforeItKeepsIts(Check& check) {
    const auto calls = std::make_shared<Calls>();
    const auto sabotage = std::make_shared<Sabotage>();
    SessionOptions given = late(calls);
    given.make_backend = [make = given.make_backend, sabotage](const std::string& device) -> Result<std::unique_ptr<Backend>> {
        auto real = make(device);
        if (!real) return real.error();
        return std::unique_ptr<Backend>(std::make_unique<FailingBackend>(std::move(*real), sabotage));
    };
    auto s = session(R"("requests": [)" + request("a", 5, 6) + "]", std::move(given));
    sabotage->begin_batch = 2;
    CHECK_THAT(!s->run_to_end());
    const LaneRecord& lane = s->recording()->lane(lane0);
    CHECK_EQUAL(lane.step_count(), std::size_t(3));
    CHECK_EQUAL(lane.stages_of(0).size(), stages_of_two_layers);
    CHECK_EQUAL(lane.stages_of(1).size(), stages_of_two_layers);
    CHECK_EQUAL(lane.stages_of(2).size(), std::uint64_t(0));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aSetIsReadAfterTheNextPassWasIssuedAndBeforeItIsWaitedFor));
    claims.add(CLAIM(stagesStandWithTheStepTheyBelongTo));
    claims.add(CLAIM(aPausedSessionHasTheStagesOfItsLastStep));
    claims.add(CLAIM(aResetKeepsTheStagesInTheRecordingBeforeIt));
    claims.add(CLAIM(lanesOfOneDeviceDoNotTakeEachOthersSetsAway));
    claims.add(CLAIM(anUncachedStepOfSeveralPassesIsReadPassByPass));
    claims.add(CLAIM(aFailedStepHasNoStagesAndTheOneBeforeItKeepsIts));
    return claims.rows();
}
