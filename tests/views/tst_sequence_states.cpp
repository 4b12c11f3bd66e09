// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the Step tab's views say of sequences that wait, were rejected, are beams or have forced tokens, and of an eviction
// that the user asked for.
#include <QTest>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "engine/record/writer.h"
#include "views/attention_view.h"
#include "views/history_index.h"
#include "views/inspector_view.h"
#include "views/next_token_view.h"
#include "views/timeline_data.h"

#include <QRegularExpression>

#include <algorithm>

using namespace kvloupe;

namespace {

// A view whose sentence can be asked for.
template <typename Shown>
struct Asked : Shown {
    using Shown::emptySentence;
    using Shown::Shown;
};

enum : std::uint32_t { greedy, warm, forced, beam, waiting, rejected };

// One step with one sequence per request; only the last two do not run. Block 1 is stored, left and evicted by an action.
std::shared_ptr<const Recording> states() {
    RecordingWriter writer("states", 1 << 20);
    writer.set_time(0);
    auto vocabulary = std::make_shared<VocabularyText>();
    for (const char* word : {"Tom", " Mia"}) {
        vocabulary->pieces.emplace_back(word);
        vocabulary->shown.emplace_back(word);
    }
    LaneInfo info;
    info.name = "lane";
    info.layers = 1;
    info.query_heads = 1;
    info.kv_heads = 1;
    info.head_dim = 4;
    info.vocabulary = 2;
    info.block_size = 16;
    info.blocks = 9;
    info.block_bytes = 1024;
    info.policy.prefix_caching = true;
    LaneWriter& lane = writer.add_lane(info, vocabulary);
    writer.lanes_complete();
    for (std::uint32_t i = greedy; i <= rejected; ++i) {
        RequestInfo request;
        request.id = std::string(1, static_cast<char>('a' + i));
        request.prompt = {0};
        request.max_new_tokens = 4;
        request.temperature = i == warm ? 1.0f : 0.0f;
        request.beam_width = i == beam ? 2 : 0;
        writer.add_request(request);
        lane.add_sequence({RequestId(i), {}, 0});
    }
    const auto emit = [&lane](EventKind kind, Cause cause, std::uint32_t sequence, BlockId block = {}, std::uint32_t other = Event{}.other,
                              std::uint32_t tokens = 0) {
        Event event;
        event.kind = kind;
        event.cause = cause;
        event.sequence = SequenceId(sequence);
        event.block = block;
        event.other = other;
        event.tokens = tokens;
        lane.event(event);
    };
    lane.begin_step();
    for (std::uint32_t i = greedy; i <= rejected; ++i) {
        emit(EventKind::arrive, Cause::arrival_step_reached, i, {}, Event{}.other, 1);
        lane.token({SequenceId(i), 0, 0, TokenRecord::prompt});
    }
    emit(EventKind::reject, Cause::submitted, rejected);
    const Alternative two[] = {{1, 0.9f, 2}, {0, 0.1f, 1}};
    for (std::uint32_t i = greedy; i <= beam; ++i) {
        emit(EventKind::admit, Cause::fits_beside_running, i, {}, Event{}.other, 1);
        emit(EventKind::allocate, Cause::first_slot_of_block, i, BlockId(i + 1), 0);
        emit(EventKind::prefill, Cause::whole_prompt, i, {}, 0, 1);
        lane.token({SequenceId(i), 1, 1, i == forced ? TokenRecord::forced : TokenRecord::sampled}, two);
    }
    lane.end_step({});
    lane.begin_step();
    emit(EventKind::store, Cause::block_full, greedy, BlockId(1), 7, 9);
    emit(EventKind::finish, Cause::length_reached, greedy, {}, Event{}.other, 1);
    emit(EventKind::free, Cause::sequence_finished, greedy, BlockId(1), 0);
    emit(EventKind::evict, Cause::requested, Index<int>::none_value, BlockId(1));
    lane.end_step({});
    writer.set_phase(Phase::paused);
    return writer.recording();
}

}  // namespace

class TestSequenceStates : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() {
        QTest::failOnWarning(QRegularExpression(QStringLiteral(".*")));
        m_recording = states();
        m_cursor = std::make_unique<Cursor>();
        m_cursor->setRecording(m_recording);
        m_cursor->setLane(LaneId(0));
        m_cursor->setStep(0);
    }

    void cleanup() { m_cursor.reset(); }

    void theNextTokenSaysHowItWasTaken_data() {
        QTest::addColumn<int>("sequence");
        QTest::addColumn<QString>("way");
        QTest::newRow("greedy") << int{greedy} << "sampled, greedy";
        QTest::newRow("temperature 1") << int{warm} << "sampled";
        QTest::newRow("forced") << int{forced} << "forced";
        QTest::newRow("beam") << int{beam} << "beam";
    }

    void theNextTokenSaysHowItWasTaken() {
        QFETCH(int, sequence);
        QFETCH(QString, way);
        choose(sequence);
        NextTokenView view(m_cursor.get());
        view.resize(440, 200);
        view.show();
        QCOMPARE(view.takenBy(), way);
    }

    void whatNeverRanSaysWhy_data() {
        QTest::addColumn<int>("sequence");
        QTest::addColumn<QString>("why");
        QTest::newRow("waiting") << int{waiting} << "waits to be admitted";
        QTest::newRow("rejected") << int{rejected} << "was rejected";
    }

    void whatNeverRanSaysWhy() {
        QFETCH(int, sequence);
        QFETCH(QString, why);
        choose(sequence);
        Asked<NextTokenView> next(m_cursor.get());
        next.resize(440, 200);
        next.show();
        QVERIFY2(next.emptySentence().contains(why), qPrintable(next.emptySentence()));
        Asked<AttentionView> attention(m_cursor.get());
        attention.resize(440, 400);
        attention.show();
        QVERIFY2(attention.emptySentence().contains(why), qPrintable(attention.emptySentence()));
    }

    void anEvictionByAnActionHasItsMark() {
        HistoryIndex index(m_recording, LaneId(0));
        index.advance(2, std::atomic<bool>(false));
        QCOMPARE(index.marks().size(), std::size_t{1});
        QCOMPARE(index.marks()[0].block, 1u);
        QVERIFY(m_recording->lane(LaneId(0)).events()[index.marks()[0].event].kind == EventKind::evict);
    }

    void aCopyOutweighsItsForkOnTheTimeline() {
        for (const EventKind other : {EventKind::fork, EventKind::evict, EventKind::preempt, EventKind::prefix_hit, EventKind::arrive})
            QVERIFY(TimelineData::weight(EventKind::copy_on_write) > TimelineData::weight(other));
    }

    // The step's counters say nothing about the queue at its end.
    void aPlaceInTheFreeQueueIsWithinTheQueue() {
        m_cursor->setStep(1);
        const std::vector<BlockId> order = m_cursor->state()->free_order();
        Pick pick;
        pick.lane = LaneId(0);
        pick.block = order.back();
        m_cursor->lock(pick);
        InspectorView view(m_cursor.get());
        view.resize(260, 380);
        view.show();
        const auto place = std::find_if(view.rows().begin(), view.rows().end(), [](const InspectorView::Row& row) {
            return row.label == QStringLiteral("Place in the free queue");
        });
        QVERIFY(place != view.rows().end());
        QVERIFY2(place->text.contains(QStringLiteral("%1 of %1").arg(order.size())), qPrintable(place->text));
    }

private:
    void choose(int sequence) { m_cursor->setSequence(SequenceId(static_cast<std::uint32_t>(sequence))); }

    std::shared_ptr<const Recording> m_recording;
    std::unique_ptr<Cursor> m_cursor;
};

QTEST_MAIN(TestSequenceStates)
#include "tst_sequence_states.moc"
