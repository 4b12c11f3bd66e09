// SPDX-License-Identifier: GPL-3.0-or-later
//
// Which step of another lane stands beside a step: by number, tokens and time; oracles are walks over all steps.
#include "engine/record/step_alignment.h"

#include "engine/record/describe.h"
#include "engine/record/recording_diff.h"
#include "engine/record/writer.h"
#include "tests/support/claims.h"
#include "tests/support/demo_sharing.h"
#include "tests/support/texts.h"

#include <map>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// One lane; per step when it starts (ns) and which sequences are given an output token, by letters: "ab" gives a and b one each.
struct Course {
    std::vector<std::uint64_t> starts;
    std::vector<std::string> gives;
    std::string names = "ab";  // in the order of their ids
};

std::shared_ptr<const Recording> record(const Course& course) {
    RecordingWriter writer("course", 1 << 20);
    LaneInfo info;
    info.name = "lane";
    LaneWriter& lane = writer.add_lane(info, nullptr);
    writer.lanes_complete();
    std::map<char, SequenceId> ids;
    std::map<char, std::uint32_t> positions;
    for (const char name : course.names) {
        RequestInfo request;
        request.id = std::string(1, name);
        request.prompt = {1, 2, 3};
        const RequestId id = writer.add_request(request);
        ids[name] = lane.add_sequence({id, SequenceId::none(), 0});
        for (std::uint32_t p = 0; p < 3; ++p) lane.token({ids[name], p, 1, TokenRecord::prompt});
    }
    for (std::size_t step = 0; step < course.starts.size(); ++step) {
        writer.set_time(course.starts[step]);
        lane.begin_step();
        for (const char name : course.gives[step]) lane.token({ids[name], 3 + positions[name]++, 7, TokenRecord::sampled});
        writer.set_time(course.starts[step] + 1);
        lane.end_step({});
    }
    return writer.recording();
}

const Course quick{{100, 110, 120, 130, 140, 150}, {"", "a", "ab", "ab", "b", "b"}};
// The same requests in another order of ids; it begins later, chunks longer prefills and runs slower.
const Course slow{{1000, 1004, 1031, 1040, 1060}, {"", "", "a", "ba", "b"}, "ba"};

StepAlignment aligned(const std::shared_ptr<const Recording>& a, const std::shared_ptr<const Recording>& b) {
    StepAlignment alignment(a, LaneId(0), b, LaneId(0));
    alignment.read_tokens(SIZE_MAX);
    alignment.same_sequences();
    return alignment;
}

void sequencesAreMatchedByName(Check& check) {
    const auto a = record(quick), b = record(slow);
    const auto same = match_sequences(*a, a->lane(LaneId(0)), *b, b->lane(LaneId(0)));
    CHECK_EQUAL(same.size(), std::size_t{2});
    CHECK_EQUAL(same[0].value, 1u);
    CHECK_EQUAL(same[1].value, 0u);
    Course other = slow;
    other.names = "cb";
    other.gives = {"", "", "c", "bc", "b"};
    const auto c = record(other);
    CHECK_THAT(!match_sequences(*a, a->lane(LaneId(0)), *c, c->lane(LaneId(0)))[0].valid());
}

void byStepTheNumberIsTheSameUpToTheLastOne(Check& check) {
    const auto a = record(quick), b = record(slow);
    const StepAlignment alignment = aligned(a, b);
    const std::size_t expected[] = {0, 1, 2, 3, 4, 4};
    for (std::size_t step = 0; step < 6; ++step) CHECK_EQUAL(*alignment.map(Alignment::step, step, {}), expected[step]);
    CHECK_THAT(!alignment.map(Alignment::step, 6, {}));
}

void byTimeItIsTheLastThatBeganNoLater(Check& check) {
    const auto a = record(quick), b = record(slow);
    const StepAlignment there = aligned(a, b), back = aligned(b, a);
    // Since the first step: 0 10 20 30 40 50 against 0 4 31 40 60.
    const std::size_t expected[] = {0, 1, 1, 1, 3, 3};
    for (std::size_t step = 0; step < 6; ++step) CHECK_EQUAL(*there.map(Alignment::time, step, {}), expected[step]);
    const std::size_t expectedBack[] = {0, 0, 3, 4, 5};
    for (std::size_t step = 0; step < 5; ++step) CHECK_EQUAL(*back.map(Alignment::time, step, {}), expectedBack[step]);
}

void byTokenItIsTheFirstStepWithAsMany(Check& check) {
    const auto a = record(quick), b = record(slow);
    const StepAlignment alignment = aligned(a, b);
    // a has 0 1 2 3 3 3 after the steps; there its tokens come in steps 2 and 3.
    const std::size_t of_a[] = {0, 2, 3, 3, 3, 3};
    for (std::size_t step = 0; step < 6; ++step) CHECK_EQUAL(*alignment.map(Alignment::token, step, SequenceId(0)), of_a[step]);
    // b has 0 0 1 2 3 4; there steps 3 and 4. Before its first token no step that gives it one.
    const std::size_t of_b[] = {0, 1, 3, 4, 4, 4};
    for (std::size_t step = 0; step < 6; ++step) CHECK_EQUAL(*alignment.map(Alignment::token, step, SequenceId(1)), of_b[step]);
    // All: 0 1 3 5 6 7 here, 0 0 1 3 4 there.
    const std::size_t of_all[] = {0, 2, 3, 4, 4, 4};
    for (std::size_t step = 0; step < 6; ++step) CHECK_EQUAL(*alignment.map(Alignment::token, step, {}), of_all[step]);
}

void aLaneWithoutStepsStandsBesideNothing(Check& check) {
    const auto a = record(quick), b = record({});
    const StepAlignment alignment = aligned(a, b);
    for (const Alignment by : {Alignment::step, Alignment::token, Alignment::time}) CHECK_THAT(!alignment.map(by, 0, SequenceId(0)));
}

void tokensAreReadInPieces(Check& check) {
    DemoSharingOptions options;
    options.lanes = {"paged", "static"};
    const auto recording = demo_sharing_recording(options);
    StepAlignment pieces(recording, LaneId(0), recording, LaneId(1)), whole(recording, LaneId(0), recording, LaneId(1));
    int calls = 1;
    while (!pieces.read_tokens(50)) ++calls;
    CHECK_THAT(calls > 10);
    CHECK_THAT(whole.read_tokens(SIZE_MAX));
    for (StepAlignment* each : {&pieces, &whole}) each->same_sequences();
    for (std::size_t step = 0; step < recording->lane(LaneId(0)).step_count(); ++step)
        for (std::uint32_t s = 0; s < 6; ++s)
            CHECK_THAT(pieces.map(Alignment::token, step, SequenceId(s)) == whole.map(Alignment::token, step, SequenceId(s)));
}

// Walks over the whole token logs: so many of the sequence up to the step here, the first step with so many there.
void tokensOfRealLanesAlign(Check& check) {
    DemoSharingOptions options;
    options.lanes = {"paged", "static"};
    const auto recording = demo_sharing_recording(options);
    const LaneRecord &here = recording->lane(LaneId(0)), &there = recording->lane(LaneId(1));
    const StepAlignment alignment = aligned(recording, recording);
    StepAlignment across(recording, LaneId(0), recording, LaneId(1));
    across.read_tokens(SIZE_MAX);
    std::size_t compared = 0;
    for (std::uint32_t s = 0; s < 8; ++s) {
        const SequenceId other = across.same_sequence(SequenceId(s));
        if (!other.valid()) continue;
        CHECK_EQUAL(sequence_name(*recording, here, SequenceId(s)), sequence_name(*recording, there, other));
        const auto tokens = [](const LaneRecord& lane, SequenceId id) {
            std::vector<std::size_t> steps;
            for (std::size_t step = 0; step < lane.step_count(); ++step)
                for (std::uint64_t i = lane.step(step).tokens.begin; i < lane.step(step).tokens.end; ++i)
                    if (lane.tokens()[i].sequence == id && lane.tokens()[i].source != TokenRecord::prompt) steps.push_back(step);
            return steps;
        };
        const auto ours = tokens(here, SequenceId(s)), theirs = tokens(there, other);
        if (theirs.empty()) continue;
        for (std::size_t n = 0; n < ours.size(); ++n) {
            if (n + 1 < ours.size() && ours[n + 1] == ours[n]) continue;  // two of one step
            CHECK_EQUAL(*across.map(Alignment::token, ours[n], SequenceId(s)), theirs[std::min(n, theirs.size() - 1)]);
            ++compared;
        }
    }
    CHECK_THAT(compared > 100);
    // A lane beside itself: the step in which the sequence was given its last token so far.
    CHECK_EQUAL(*alignment.map(Alignment::token, 30, SequenceId(0)), std::size_t{30});
}

void whatIsAppendedIsSeen(Check& check) {
    DemoSharingOptions options;
    options.lanes = {"paged", "swap"};
    options.steps = 60;
    DemoSharingSession session(options);
    StepAlignment alignment(session.recording(), LaneId(0), session.recording(), LaneId(1));
    CHECK_THAT(!alignment.map(Alignment::step, 0, {}));
    while (session.step()) {
        const std::size_t last = session.recording()->lane(LaneId(0)).step_count() - 1;
        CHECK_THAT(alignment.read_tokens(SIZE_MAX));
        alignment.same_sequences();
        CHECK_EQUAL(*alignment.map(Alignment::step, last, {}), last);
        // Nobody is preempted so early: both lanes do the same, and a decodes in every step.
        if (last < 50) CHECK_EQUAL(*alignment.map(Alignment::token, last, SequenceId(0)), last);
    }
}

void twoLanesOfOneRecordingDifferAsTheirOwnRecordingsDo(Check& check) {
    DemoSharingOptions options;
    options.lanes = {"paged", "static"};
    const auto both = demo_sharing_recording(options);
    options.lanes = {"paged"};
    const auto paged = demo_sharing_recording(options);
    options.lanes = {"static"};
    const auto batched = demo_sharing_recording(options);
    // Without times: lanes of one recording share its clock.
    const RecordingDiff whole = diff_recordings(*paged, *batched, false), lanes = diff_lanes(*both, LaneId(0), *both, LaneId(1), false);
    CHECK_EQUAL(lanes.configuration.size() + 1, whole.configuration.size());  // which lanes there are is a recording's matter
    CHECK_EQUAL(lanes.first.size(), whole.first.size());
    CHECK_EQUAL(lanes.numbers.size(), whole.numbers.size());
    for (std::size_t i = 0; i < std::min(lanes.numbers.size(), whole.numbers.size()); ++i) {
        CHECK_EQUAL(lanes.numbers[i].name, whole.numbers[i].name);
        CHECK_EQUAL(lanes.numbers[i].a, whole.numbers[i].a);
        CHECK_EQUAL(lanes.numbers[i].b, whole.numbers[i].b);
    }
    CHECK_THAT(diff_lanes(*both, LaneId(0), *both, LaneId(0)).same());
    bool derived = false;
    for (const DiffValue& value : lanes.numbers)
        if (value.name == "kv.waste_percent") derived = value.origin == Origin::derived;
    CHECK_THAT(derived);
}

// Tables are compared only where events touch them: the step found is the first of all, by comparing every table in every step.
void theFirstOtherTableIsTheFirst(Check& check) {
    DemoSharingOptions options;
    options.lanes = {"paged", "swap", "static"};
    const auto recording = demo_sharing_recording(options);
    for (const std::uint32_t other : {1u, 2u}) {
        const LaneRecord &a = recording->lane(LaneId(0)), &b = recording->lane(LaneId(other));
        const auto same = match_sequences(*recording, a, *recording, b);
        std::size_t expected = SIZE_MAX;
        for (std::size_t step = 0; step < std::min(a.step_count(), b.step_count()) && expected == SIZE_MAX; ++step) {
            const LaneState x = a.state_after(step), y = b.state_after(step);
            for (std::uint32_t s = 0; s < x.sequences().size(); ++s)
                if (same[s].valid() && x.table(SequenceId(s)).to_vector() != y.table(same[s]).to_vector()) expected = step;
        }
        const RecordingDiff diff = diff_lanes(*recording, LaneId(0), *recording, LaneId(other));
        std::size_t found = SIZE_MAX;
        for (const Parting& first : diff.first)
            if (first.kind == Parting::table) {
                found = first.step_a;
                CHECK_THAT(first.sequence.valid());
                CHECK_THAT(contains(first.sentence, "step " + std::to_string(found) + ": sequence " + sequence_name(*recording, a, first.sequence)));
                const LaneState state = a.state_after(found);
                const TableState& table = state.table(first.sequence);
                const std::size_t logical = first.position / a.info().block_size;
                CHECK_THAT(logical >= table.size() ? !first.block.valid() : table[logical] == first.block);
            }
        CHECK_EQUAL(found, expected);
    }
}

void layersThatDifferAlikeAreToldOnce(Check& check) {
    const auto of = [](const std::vector<DType>& keys) {
        RecordingWriter writer("layers", 1 << 20);
        LaneInfo info;
        info.name = "lane";
        for (const DType type : keys) {
            LayerInfo layer;
            layer.keys.dtype = type;
            info.layer_infos.push_back(layer);
        }
        writer.add_lane(info, nullptr);
        writer.lanes_complete();
        return writer.recording();
    };
    const auto a = of({DType::f16, DType::f16, DType::f16, DType::f16, DType::f16});
    const auto b = of({DType::f32, DType::f32, DType::f16, DType::f32, DType::bf16});
    std::vector<std::string> names;
    for (const DiffValue& value : diff_lanes(*a, LaneId(0), *b, LaneId(0)).configuration)
        if (contains(value.name, ".keys.dtype")) names.push_back(value.name + " " + value.b);
    CHECK_EQUAL(names.size(), std::size_t{3});
    CHECK_EQUAL(names[0], std::string("layer_infos.0-1.keys.dtype f32"));
    CHECK_EQUAL(names[1], std::string("layer_infos.3.keys.dtype f32"));
    CHECK_EQUAL(names[2], std::string("layer_infos.4.keys.dtype bf16"));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(sequencesAreMatchedByName));
    claims.add(CLAIM(byStepTheNumberIsTheSameUpToTheLastOne));
    claims.add(CLAIM(byTimeItIsTheLastThatBeganNoLater));
    claims.add(CLAIM(byTokenItIsTheFirstStepWithAsMany));
    claims.add(CLAIM(aLaneWithoutStepsStandsBesideNothing));
    claims.add(CLAIM(tokensAreReadInPieces));
    claims.add(CLAIM(tokensOfRealLanesAlign));
    claims.add(CLAIM(whatIsAppendedIsSeen));
    claims.add(CLAIM(twoLanesOfOneRecordingDifferAsTheirOwnRecordingsDo));
    claims.add(CLAIM(theFirstOtherTableIsTheFirst));
    claims.add(CLAIM(layersThatDifferAlikeAreToldOnce));
    return claims.rows();
}
