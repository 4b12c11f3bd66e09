// SPDX-License-Identifier: GPL-3.0-or-later
//
// Views on a long recording: what is read for a step follows from the cursor's neighbourhood, and what needs every step is read in
// the background and says so. Records are counted, not times.
#include <QObject>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "engine/record/kvt_writer.h"
#include "engine/record/open_recording.h"
#include "engine/record/writer.h"
#include "views/attention_index.h"
#include "views/background_job.h"
#include "views/prefix_tree_view.h"
#include "views/schedule_view.h"
#include "views/step_scrubber.h"
#include "views/token_track.h"
#include "views/tokens_view.h"

#include <QRegularExpression>
#include <QTemporaryDir>
#include <QTest>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

using namespace kvloupe;

namespace {

constexpr std::uint32_t life = 50, sequences = 1500, together = 4;
constexpr std::uint32_t stride = life / together;          // steps between two arrivals
constexpr std::uint32_t step_total = sequences * stride + life;

// Sequences of a prompt of 4 tokens and 49 sampled ones, each of which decodes in the steps after its arrival; four live at a time.
// A block of 64 slots each. Layer 0 has a row of one head per token.
std::shared_ptr<const Recording> longRecording() {
    RecordingWriter writer("long", std::uint64_t{1} << 28);
    writer.set_time(0);
    LaneInfo info;
    info.name = "long";
    info.cache_dtype = "f16";
    info.layers = info.query_heads = info.kv_heads = 1;
    info.head_dim = 16;
    info.block_size = 64;
    info.blocks = together + 3;
    info.policy.kind = "paged";
    LaneWriter& lane = writer.add_lane(info, std::make_shared<VocabularyText>());
    writer.lanes_complete();
    for (std::uint32_t s = 0; s < sequences; ++s) {
        RequestInfo request;
        request.id = "r" + std::to_string(s);
        request.prompt = {1, 2, 3, static_cast<TokenId>(s)};
        request.max_new_tokens = life - 1;
        request.arrival_step = s * stride;
        writer.add_request(std::move(request));
    }
    const float weights[life + 4] = {1};
    std::vector<std::uint32_t> alive;
    std::vector<std::uint32_t> free{1, 2, 3, 4, 5, 6}, blockOf(sequences);
    for (std::uint32_t step = 0; step < step_total; ++step) {
        lane.begin_step();
        const auto event = [&](EventKind kind, std::uint32_t sequence, std::uint32_t tokens, std::uint32_t other) {
            Event each;
            each.kind = kind;
            each.sequence = SequenceId(sequence);
            each.tokens = tokens;
            each.other = other;
            return each;
        };
        if (step % stride == 0 && step / stride < sequences) {
            const std::uint32_t s = step / stride;
            lane.add_sequence({RequestId(s), {}, 0, 0});
            lane.event(event(EventKind::arrive, s, 4, Index<int>::none_value));
            lane.event(event(EventKind::admit, s, 4, Index<int>::none_value));
            Event block = event(EventKind::allocate, s, 0, 0);
            block.block = BlockId(blockOf[s] = free.back());
            free.pop_back();
            lane.event(block);
            lane.event(event(EventKind::prefill, s, 4, 0));
            alive.push_back(s);
        }
        std::vector<std::uint32_t> going;
        for (const std::uint32_t s : alive) {
            const std::uint32_t age = step - s * stride;
            if (age > 0) lane.event(event(EventKind::decode, s, 1, 3 + age));
            lane.attention_row({SequenceId(s), 0, 0, 3 + age, 4 + age}, {weights, std::size_t{4} + age});
            if (age + 1 < life) {
                TokenRecord token;
                token.sequence = SequenceId(s);
                token.position = 4 + age;
                token.token = static_cast<TokenId>(s + age);
                token.source = TokenRecord::sampled;
                lane.token(token);
                going.push_back(s);
                continue;
            }
            lane.event(event(EventKind::finish, s, life - 1, Index<int>::none_value));
            Event given = event(EventKind::free, s, 0, 0);
            given.block = BlockId(blockOf[s]);
            lane.event(given);
            free.push_back(blockOf[s]);
        }
        alive = going;
        lane.end_step({});
    }
    writer.set_phase(Phase::finished);
    return writer.recording();
}

const std::shared_ptr<const Recording>& recording() {
    static const std::shared_ptr<const Recording> kept = longRecording();
    return kept;
}

const LaneRecord& lane() { return recording()->lane(LaneId(0)); }

// Records that a life has: steps, events, tokens, rows of all that live with it.
constexpr std::uint64_t records_of_a_life = (life + stride + 1) * (1 + (together + 2) * 3 + 6);

}  // namespace

class TestLongRecording : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { QVERIFY(lane().events().size() > GrowingData<PrefixHistory>::read_at_once / 3); }
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral("^(?!This plugin does not support)"))); }

    void tokensOfASequenceCostItsLife() {
        TokenTrack track;
        for (const std::uint32_t s : {0u, 700u, sequences - 1}) {
            const std::size_t begin = std::size_t{s} * stride;
            track.update(recording(), LaneId(0), SequenceId(s), begin);
            QCOMPARE(track.tokens().size(), std::size_t{5});
            const std::uint64_t looked = track.looked();
            QVERIFY2(looked <= records_of_a_life, qPrintable(QString::number(looked)));
            for (std::size_t step = begin; step < begin + life - 1; ++step) {  // forwards and back it looks at nothing more
                track.update(recording(), LaneId(0), SequenceId(s), step);
                QCOMPARE(track.tokens().size(), 5 + step - begin);
                QCOMPARE(track.tokens().back().token, static_cast<TokenId>(s + step - begin));
                QVERIFY(!track.reading());
            }
            track.update(recording(), LaneId(0), SequenceId(s), lane().step_count() - 1);  // long after its end
            QCOMPARE(track.tokens().size(), std::size_t{life + 3});
            QCOMPARE(track.looked(), looked);
        }
    }

    void attentionOfASequenceCostsItsLife() {
        AttentionIndex index;
        for (const std::uint32_t s : {0u, 700u, sequences - 1}) {
            index.update(recording(), LaneId(0), SequenceId(s));
            QVERIFY2(index.looked() <= records_of_a_life, qPrintable(QString::number(index.looked())));
            QVERIFY(!index.reading(lane().step_count() - 1));
            const auto rows = index.rows(0, 0, std::size_t{s} * stride + 10);
            QCOMPARE(rows.size(), std::size_t{14});  // the prompt's last token and ten more
            for (std::size_t position = 3; position < rows.size(); ++position) QVERIFY(rows[position] && rows[position]->position == position);
        }
    }

    void theNewestRowIsTheLastOfTheIndex() {
        const std::size_t step = 700 * stride + 20;
        const std::vector<std::uint32_t> holders = lane().state_after(step).holders();
        QVERIFY(holders.size() >= together);
        const NewestRows newest = newestRows(lane(), step, 0, holders);
        QCOMPARE(newest.size(), holders.size());
        for (const std::uint32_t holder : holders) {
            AttentionIndex index;
            index.update(recording(), LaneId(0), SequenceId(holder));
            QCOMPARE(newest.at({holder, 0}), index.rows(0, 0, step).back());
        }
        QVERIFY(newestRows(lane(), step, 1, holders).empty());
    }

    void stepsOfTheTokensViewReadLittleOfAFile() {
        QTemporaryDir folder;
        KvtOptions options;
        options.path = folder.filePath(QStringLiteral("long.kvt")).toStdString();
        const auto written = write_kvt(recording(), options);
        QVERIFY2(written, written ? "" : written.error().message().c_str());
        const auto stored = open_recording(options.path);
        QVERIFY2(stored, stored ? "" : stored.error().message().c_str());
        const LaneRecord& record = stored->recording->lane(LaneId(0));
        const std::size_t chunk = ChunkedLog<TokenRecord>::chunk_size * sizeof(TokenRecord);
        QVERIFY(record.tokens().size() > 10 * ChunkedLog<TokenRecord>::chunk_size);
        Cursor cursor;
        cursor.setRecording(stored->recording);
        cursor.setStep(700 * stride);
        cursor.setSequence(SequenceId(700));
        TokensView view(&cursor);
        view.resize(600, 300);
        view.show();
        for (std::uint32_t age = 0; age < life - 1; ++age) {
            cursor.setStep(static_cast<int>(700 * stride + age));
            view.catchUp();
            QCOMPARE(view.tokenCount(), std::size_t{5 + age});
        }
        QVERIFY2(record.tokens().bytes() <= 2 * chunk, qPrintable(QString::number(record.tokens().bytes() / chunk)));
    }

    void whatNeedsEveryStepIsReadInTheBackgroundAndSaysSo() {
        GrowingData<PrefixHistory, 1000> history;
        bool ready = false;
        QVERIFY(!history.follow(recording(), LaneId(0), [&ready] { ready = true; }));
        QVERIFY(history.reading());
        QCOMPARE(history->steps(), 0u);  // nothing of it was read here
        QTRY_VERIFY(ready);
        PrefixHistory once;
        once.update(*recording(), LaneId(0));
        QCOMPARE(history->steps(), once.steps());
        for (std::uint32_t block = 1; block < 7; ++block)
            for (const std::size_t step : {100u, 5000u, 15000u}) {
                const std::uint64_t end = lane().step(step).events.end;
                QCOMPARE(history->content(BlockId(block), end).event, once.content(BlockId(block), end).event);
            }
    }

    void aSchedulerThatIsReadInPiecesIsTheSame() {
        ScheduleData once, cancelled;
        once.update(*recording(), LaneId(0));
        cancelled.update(*recording(), LaneId(0), std::atomic<bool>(true));
        QCOMPARE(cancelled.steps(), 0u);
        GrowingData<ScheduleData, 1000> grown;
        QVERIFY(!grown.follow(recording(), LaneId(0), {}));
        grown.settle();
        QCOMPARE(grown->steps(), once.steps());
        QCOMPARE(grown->rows().size(), once.rows().size());
        for (std::uint32_t s = 0; s < sequences; ++s) {
            QCOMPARE(grown->rows()[s].last, once.rows()[s].last);
            QCOMPARE(grown->rows()[s].decoded, life - 1);
        }
    }

    void aScrubberWithoutMarksSaysWhy() {
        Cursor cursor;
        cursor.setRecording(recording());
        StepScrubber marked(&cursor), unmarked(&cursor, nullptr, 1000);
        QVERIFY(!marked.tipFor(100).contains(QStringLiteral("1,000 events")));
        QVERIFY(unmarked.tipFor(100).contains(QStringLiteral("more than 1,000 events")));
        unmarked.resize(600, 22);
        marked.resize(600, 22);
        QVERIFY(unmarked.grab().toImage() != marked.grab().toImage());
    }

    // Jobs leave a processor to those who draw; one that waits for its turn ends when nobody wants it any more.
    void jobsWaitForTheirTurn() {
        const int places = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) - 1);
        std::atomic<int> running{0}, most{0}, done{0};
        std::atomic<bool> go{false};
        std::vector<std::unique_ptr<BackgroundJob>> jobs;
        for (int i = 0; i < places + 3; ++i) {
            jobs.push_back(std::make_unique<BackgroundJob>());
            jobs.back()->start([&](const BackgroundJob::Cancelled& cancelled) {
                const int now = ++running;
                for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {}
                while (!go && !cancelled) std::this_thread::yield();
                --running;
            }, [&] { ++done; });
        }
        QTRY_COMPARE(most.load(), places);
        jobs.back()->cancel();  // it has not begun, and need not wait for the others
        QVERIFY(!jobs.back()->running());
        go = true;
        QTRY_COMPARE(done.load(), places + 2);
        QCOMPARE(most.load(), places);
    }
};

QTEST_MAIN(TestLongRecording)
#include "tst_long_recording.moc"
