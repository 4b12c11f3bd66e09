// SPDX-License-Identifier: GPL-3.0-or-later
//
// A lane compared with another one: the cursor's reference, what differs in each view as data.
#include <QTest>

#include "engine/record/writer.h"
#include "tests/support/demo_recording.h"
#include "tests/support/demo_sharing.h"
#include "tests/views/compare_fixture.h"
#include "tests/views/sharing_fixture.h"
#include "views/attention_view.h"
#include "views/pool_difference.h"
#include "views/pool_view.h"
#include "views/reference.h"
#include "views/split_view.h"
#include "views/step_time_view.h"

#include <QRegularExpression>
#include <QSignalSpy>

#include <cmath>
#include <numeric>

using namespace kvloupe;

namespace {

std::shared_ptr<const Recording> pagedAndStatic() {
    DemoSharingOptions options;
    options.lanes = {"paged", "static"};
    options.steps = 120;
    return demo_sharing_recording(options);
}

std::shared_ptr<const Recording> paged(std::uint32_t blocks) {
    DemoSharingOptions options;
    options.lanes = {"paged"};
    options.steps = 120;
    options.blocks = blocks;
    return demo_sharing_recording(options);
}

Event told(EventKind kind, std::uint32_t sequence, std::uint32_t block, std::uint32_t other, std::uint32_t tokens = 0) {
    Event made;
    made.kind = kind;
    made.sequence = SequenceId(sequence);
    if (block > 0) made.block = BlockId(block);
    made.other = other;
    made.tokens = tokens;
    return made;
}

// Eight blocks of 4 slots; sequence 0 holds 10 tokens in blocks 1, 2, 3.
LaneState tenTokens() {
    LaneState state(8, 4);
    state.apply(told(EventKind::arrive, 0, 0, 0, 10));
    state.apply(told(EventKind::admit, 0, 0, 0, 10));
    for (std::uint32_t b = 1; b <= 3; ++b) state.apply(told(EventKind::allocate, 0, b, b - 1));
    state.apply(told(EventKind::prefill, 0, 0, 0, 10));
    return state;
}

}  // namespace

class TestDifferenceViews : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral(".*"))); }

    void theReferenceFollowsTheCursor() {
        const auto recording = pagedAndStatic();
        Cursor cursor;
        cursor.setRecording(recording);
        QVERIFY(!cursor.reference());
        QSignalSpy changed(&cursor, &Cursor::referenceChanged);
        cursor.compareWith(recording, LaneId(1), Alignment::step);
        QCOMPARE(changed.count(), 1);
        QVERIFY(cursor.reference());
        for (const int step : {0, 40, 119}) {
            cursor.setStep(step);
            QCOMPARE(cursor.reference()->step(), step);
            const LaneState expected = recording->lane(LaneId(1)).state_after(static_cast<std::size_t>(step));
            QCOMPARE(cursor.reference()->state()->used_blocks(), expected.used_blocks());
        }
        cursor.setLane(LaneId(1));
        QVERIFY(cursor.reference()->isSameLane());
        cursor.stopComparing();
        QVERIFY(!cursor.reference());
        QCOMPARE(changed.count(), 2);
    }

    void theReferenceEndsWithTheRecording() {
        Cursor cursor;
        cursor.setRecording(pagedAndStatic());
        cursor.compareWith(cursor.sharedRecording(), LaneId(1), Alignment::token);
        QSignalSpy changed(&cursor, &Cursor::referenceChanged);
        cursor.setRecording(nullptr);
        QVERIFY(!cursor.reference());
        QCOMPARE(changed.count(), 1);
    }

    void aReferenceThatDoesNotExistIsNone() {
        Cursor cursor;
        cursor.compareWith(pagedAndStatic(), LaneId(1), Alignment::step);  // nothing is shown
        QVERIFY(!cursor.reference());
        cursor.setRecording(pagedAndStatic());
        cursor.compareWith(cursor.sharedRecording(), LaneId(7), Alignment::step);
        QVERIFY(!cursor.reference());
    }

    void byTokenTheSequenceInFocusAligns() {
        const auto recording = pagedAndStatic();
        Cursor cursor;
        cursor.setRecording(recording);
        cursor.compareWith(recording, LaneId(1), Alignment::token);
        cursor.reference()->settle();
        StepAlignment oracle(recording, LaneId(0), recording, LaneId(1));
        QVERIFY(oracle.read_tokens(SIZE_MAX));
        for (const std::uint32_t sequence : {0u, 1u, 4u}) {
            cursor.setSequence(SequenceId(sequence));
            oracle.same_sequences();
            for (int step = 0; step < 120; step += 7) {
                cursor.setStep(step);
                QCOMPARE(cursor.reference()->step(),
                         static_cast<int>(*oracle.map(Alignment::token, static_cast<std::size_t>(step), SequenceId(sequence))));
            }
        }
    }

    void equalPoolsDoNotDiffer() {
        const PoolDifference difference = poolDifference(tenTokens(), tenTokens(), {SequenceId(0)}, true);
        QCOMPARE(difference.count(BlockChange::same), 7u);
        QCOMPARE(difference.blocks.size(), std::size_t{8});
    }

    void blocksDifferByOwnerCountFillStateAndContent() {
        LaneState here = tenTokens(), there = tenTokens();
        // Here a takes block 4; there b holds block 5 in full, shares nothing, and block 1 is hashed in both, but not alike.
        here.apply(told(EventKind::prefill, 0, 0, 10, 2));
        here.apply(told(EventKind::allocate, 0, 4, 3));
        here.apply(told(EventKind::decode, 0, 0, 12, 1));
        there.apply(told(EventKind::arrive, 1, 0, 0, 4));
        there.apply(told(EventKind::allocate, 1, 5, 0));
        there.apply(told(EventKind::prefill, 1, 0, 0, 4));
        here.apply(told(EventKind::store, 0, 1, 0xAAu, 1));
        there.apply(told(EventKind::store, 0, 1, 0xBBu, 1));
        const PoolDifference difference = poolDifference(here, there, {SequenceId(0)}, true);
        QCOMPARE(difference.at(1), BlockChange::differs);  // another hash
        QCOMPARE(difference.at(2), BlockChange::same);
        QCOMPARE(difference.at(3), BlockChange::differs);  // 4 slots filled, 2 there
        QCOMPARE(difference.at(4), BlockChange::here);
        QCOMPARE(difference.at(5), BlockChange::there);
        QCOMPARE(difference.at(6), BlockChange::same);
        QCOMPARE(difference.count(BlockChange::differs), 2u);
        // Lanes that do not hash alike: what the hash says is no difference.
        QCOMPARE(poolDifference(here, there, {SequenceId(0)}, false).at(1), BlockChange::same);
        // Who has no sequence of that name there is another owner.
        QCOMPARE(poolDifference(here, there, {SequenceId()}, false).at(2), BlockChange::differs);
        // Names decide, not numbers: there the same sequence may have another number.
        QCOMPARE(poolDifference(here, there, {SequenceId(1)}, false).at(2), BlockChange::differs);
    }

    // Where a branch parts, the block that is being filled is the first to differ: it has no hash yet.
    void aBlockThatIsNotFullDiffersByItsTokens() {
        // Prompt 1, 2, 3 and two sampled tokens: positions 3 and 4, of which the cache holds the first, in a block of 4 slots.
        const auto run = [](TokenId prompt, TokenId sampled) {
            RecordingWriter writer("t", 0);
            LaneInfo info;
            info.block_size = 4;
            info.blocks = 3;
            info.policy.kind = "paged";
            LaneWriter& lane = writer.add_lane(info, nullptr);
            writer.lanes_complete();
            RequestInfo request;
            request.prompt = {1, 2, prompt};
            writer.add_request(request);
            lane.begin_step();
            lane.add_sequence({RequestId(0), {}, 0, 0});
            TokenRecord token;
            token.sequence = SequenceId(0);
            token.position = 3;
            token.token = sampled;
            token.source = TokenRecord::sampled;
            lane.token(token);
            lane.end_step({});
            return writer.recording();
        };
        LaneState state(3, 4);
        state.apply(told(EventKind::arrive, 0, 0, 0, 3));
        state.apply(told(EventKind::allocate, 0, 1, 0));
        state.apply(told(EventKind::prefill, 0, 0, 0, 3));
        LaneState longer = state;
        longer.apply(told(EventKind::decode, 0, 0, 3, 1));
        const auto compared = [](const LaneState& at, const std::shared_ptr<const Recording>& here, const std::shared_ptr<const Recording>& there) {
            PoolDifference difference = poolDifference(at, at, {SequenceId(0)}, true);
            compareTokens(difference, at, RecentTokens(*here, here->lane(LaneId(0)), 0, 8), at, RecentTokens(*there, there->lane(LaneId(0)), 0, 8));
            return difference;
        };
        QCOMPARE(compared(longer, run(3, 7), run(3, 7)).at(1), BlockChange::same);
        QCOMPARE(compared(longer, run(3, 7), run(3, 8)).at(1), BlockChange::differs);
        QCOMPARE(compared(longer, run(3, 7), run(3, 8)).count(BlockChange::differs), 1u);
        QCOMPARE(compared(longer, run(3, 7), run(3, 8)).count(BlockChange::same), 1u);
        QCOMPARE(compared(state, run(3, 7), run(3, 8)).at(1), BlockChange::same);   // the other token is not in the cache yet
        QCOMPARE(compared(state, run(3, 7), run(9, 7)).at(1), BlockChange::differs);  // another prompt
    }

    void freeButCachedDiffersFromInUseAndFromEmpty() {
        LaneState here = tenTokens(), there = tenTokens();
        for (LaneState* state : {&here, &there}) state->apply(told(EventKind::store, 0, 1, 0xAAu, 1));
        here.apply(told(EventKind::free, 0, 1, 0));
        here.apply(told(EventKind::free, 0, 2, 0));
        QCOMPARE(poolDifference(here, there, {SequenceId(0)}, true).at(1), BlockChange::differs);  // cached here, in use there
        QCOMPARE(poolDifference(here, there, {SequenceId(0)}, true).at(2), BlockChange::there);
    }

    void aLargerPoolHasBlocksOfItsOwn() {
        LaneState large(12, 4);
        large.apply(told(EventKind::arrive, 0, 0, 0, 4));
        large.apply(told(EventKind::allocate, 0, 11, 0));
        large.apply(told(EventKind::prefill, 0, 0, 0, 4));
        const LaneState small(8, 4);
        QCOMPARE(poolDifference(small, large, {SequenceId(0)}, true).at(11), BlockChange::there);
        QCOMPARE(poolDifference(large, small, {SequenceId(0)}, true).at(11), BlockChange::here);
        QCOMPARE(poolDifference(large, small, {SequenceId(0)}, true).count(BlockChange::same), 10u);
    }

    void thePoolShowsAndTellsTheDifference() {
        const auto a = paged(80), b = paged(60);
        Cursor cursor;
        cursor.setRecording(a);
        cursor.setStep(100);
        auto view = shown<PoolView>(cursor);
        QCOMPARE(view->choices().size(), std::size_t{2});
        QVERIFY(view->difference().blocks.empty());
        const QImage plain = view->image();
        cursor.compareWith(b, LaneId(0), Alignment::step, QStringLiteral("small.kvt"));
        view->catchUp();
        QCOMPARE(view->choices().size(), std::size_t{3});
        const PoolDifference expected =
            poolDifference(a->lane(LaneId(0)).state_after(100), b->lane(LaneId(0)).state_after(100),
                           match_sequences(*a, a->lane(LaneId(0)), *b, b->lane(LaneId(0))), true);
        QCOMPARE(view->difference().blocks, expected.blocks);
        QVERIFY(expected.count(BlockChange::same) < 79);
        QVERIFY(view->image() != plain);
        QVERIFY2(view->subtitle().contains(QStringLiteral("lane paged of small.kvt")), qPrintable(view->subtitle()));
        const QList<QStringList> rows = rowsOf(view->csv());
        const qsizetype column = rows.front().indexOf(QStringLiteral("difference"));
        QVERIFY(column > 0);
        for (std::uint32_t block = 0; block < 80; ++block) {
            const char* names[] = {"same", "only here", "only there", "differs"};
            QCOMPARE(rows[static_cast<qsizetype>(block) + 1][column], QLatin1String(names[static_cast<int>(expected.at(block))]));
        }
        view->choose(QLatin1String(difference_key), 0);
        view->catchUp();
        QVERIFY(view->difference().blocks.empty());
        QCOMPARE(view->image(), plain);
    }

    void sharesThatDifferSumToZero() {
        const auto a = paged(80), b = paged(60);
        Cursor cursor;
        cursor.setRecording(a);
        cursor.compareWith(b, LaneId(0), Alignment::step, QStringLiteral("small.kvt"));
        auto view = shown<SplitView>(cursor);
        QVERIFY(view->thereSeries());
        double largest = 0;
        for (std::size_t step = 0; step < 120; ++step) {
            const auto difference = view->differenceOf(step, step + 1);
            QVERIFY(difference);
            QVERIFY(std::abs(std::accumulate(difference->begin(), difference->end(), 0.0)) < 1e-12);
            const SlotCounts &here = view->series()->at(step), &there = view->thereSeries()->at(step);
            const double token = static_cast<double>(here.token) / (79 * 16) - static_cast<double>(there.token) / (59 * 16);
            QVERIFY(std::abs((*difference)[0] - token) < 1e-12);
            largest = std::max(largest, std::abs(token));
        }
        QVERIFY(largest > 0.05);
        // A column of several steps is the mean of each.
        const auto wide = view->differenceOf(10, 20);
        double mean = 0;
        for (std::size_t step = 10; step < 20; ++step) mean += (*view->differenceOf(step, step + 1))[0] / 10;
        QVERIFY(std::abs((*wide)[0] - mean) < 1e-12);
        QCOMPARE(rowsOf(view->csv()).size(), 121);
        view->choose(QLatin1String(difference_key), 0);
        QVERIFY(!view->thereSeries());
    }

    void stepTimesStandBesideEachOther() {
        const auto recording = demo_recording(plainOptions());
        Cursor cursor;
        cursor.setRecording(recording);
        cursor.compareWith(recording, LaneId(3), Alignment::step);
        auto view = shown<StepTimeView>(cursor);
        QVERIFY(view->compares());
        const LaneRecord &here = recording->lane(LaneId(0)), &there = recording->lane(LaneId(3));
        std::size_t compared = 0;
        LaneProgress a(recording.get(), LaneId(0)), b(recording.get(), LaneId(3));
        a.advance(), b.advance();
        for (std::size_t step = 0; step < here.step_count(); ++step) {
            const auto pair = StepTimeView::timesOf(a, step, b, static_cast<int>(step), false);
            QCOMPARE(std::isfinite(pair.difference()), a.at(step).decodes() && b.at(step).decodes());
            if (!std::isfinite(pair.difference())) continue;
            ++compared;
            QCOMPARE(pair.difference(), static_cast<double>(here.step(step).duration_ns) - static_cast<double>(there.step(step).duration_ns));
            QCOMPARE(*view->plot()->valueAt(view->differenceCurve(), static_cast<double>(step)), pair.difference());
            QCOMPARE(*view->plot()->valueAt(view->thereCurve(), static_cast<double>(step)), pair.there);
        }
        QVERIFY(compared > 50);
        const auto sums = StepTimeView::timesOf(a, 9, b, 9, true);
        QCOMPARE(sums.here, static_cast<double>(a.at(9).totalNs));
        QVERIFY(std::isnan(StepTimeView::timesOf(a, 0, b, -1, true).there));
        QCOMPARE(rowsOf(view->csv()).size(), static_cast<qsizetype>(here.step_count()) + 1);
        // The reference itself in focus: lanes as before.
        cursor.setLane(LaneId(3));
        view->catchUp();
        QVERIFY(!view->compares());
        cursor.setLane(LaneId(1));
        view->catchUp();
        QVERIFY(view->compares());
        QCOMPARE(*view->plot()->valueAt(view->hereCurve(), 199), static_cast<double>(recording->lane(LaneId(1)).step(199).duration_ns));
    }

    void attentionDiffersRowByRow() {
        DemoOptions options;
        options.steps = 30;
        const auto recording = demo_recording(options);
        Cursor cursor;
        cursor.setRecording(recording);
        cursor.setStep(20);
        cursor.setHead(1, 2);
        auto view = shown<AttentionView>(cursor);
        const QImage plain = view->image();
        cursor.compareWith(recording, LaneId(1), Alignment::step);
        view->catchUp();
        QVERIFY(view->compares());
        QVERIFY(view->image() != plain);
        AttentionIndex here, there;
        here.update(recording, LaneId(0), SequenceId(0));
        there.update(recording, LaneId(1), SequenceId(0));
        const auto a = here.rows(1, 2, 20), b = there.rows(1, 2, 20);
        QVERIFY(a.size() > 10 && a.size() == b.size());
        double sum = 0;
        for (std::uint32_t key = 0; key < a.back()->key_count; ++key) {
            const auto difference = attentionDifference(here, *a.back(), there, *b.back(), key);
            QVERIFY(difference);
            QCOMPARE(*difference, here.weight(*a.back(), key) - there.weight(*b.back(), key));
            sum += static_cast<double>(*difference);
        }
        QVERIFY(std::abs(sum) < 1e-3);  // both rows sum to 1
        QVERIFY(!attentionDifference(here, *a.back(), there, *b.back(), a.back()->key_count));
        const QString head = view->csv().section(QStringLiteral("\r\n"), 0, 0);
        QVERIFY(head.endsWith(QStringLiteral("weight_measured,reference_weight_measured,difference_derived")));
    }

    void attentionSaysWhatTheOtherLaneLacks() {
        DemoOptions options;
        options.steps = 30;
        const auto recording = demo_recording(options);
        Cursor cursor;
        cursor.setRecording(recording);
        options.attention = false;
        cursor.compareWith(demo_recording(options), LaneId(0), Alignment::step, QStringLiteral("plain.kvt"));
        auto view = shown<AttentionView>(cursor);
        QVERIFY(!view->compares());
        QVERIFY2(view->accessibleDescription().contains(QStringLiteral("is recorded in lane MHA of plain.kvt")),
                 qPrintable(view->accessibleDescription()));
        view->choose(QLatin1String(difference_key), 0);
        view->catchUp();
        QVERIFY(!view->csv().section(QStringLiteral("\r\n"), 1, 1).isEmpty());
    }

    void coloursOfTheDifferenceKeepApart() {
        for (const Palette* palette : {&Palette::light(), &Palette::darkTheme()}) {
            QCOMPARE(palette->differenceColour(0), palette->panel);
            QCOMPARE(palette->differenceColour(1), palette->difference.back());
            QCOMPARE(palette->differenceColour(-1), palette->difference.front());
            QCOMPARE(palette->differenceColour(7), palette->difference.back());
            QVERIFY(palette->differenceColour(0.5) != palette->differenceColour(-0.5));
        }
    }
};

QTEST_MAIN(TestDifferenceViews)
#include "tst_difference_views.moc"
