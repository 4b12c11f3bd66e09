// SPDX-License-Identifier: GPL-3.0-or-later
#include <QTest>

#include "engine/record/describe.h"
#include "engine/record/writer.h"
#include "tests/support/demo_recording.h"

#include <set>

using namespace kvloupe;

namespace {

constexpr int cause_count = static_cast<int>(Cause::capacity) + 1;

// Requests a (7 prompt tokens, arrival step 2) and b, a fork c of a with a request of its own, and a child of a.
struct Fixture {
    RecordingWriter writer{"describe", 0};
    LaneWriter* lane = nullptr;

    explicit Fixture(bool kv_cache = true) {
        LaneInfo info;
        info.kv_cache = kv_cache;
        info.block_size = kv_cache ? 16 : 0;
        info.blocks = kv_cache ? 64 : 0;
        info.bytes_per_token = 2048;
        info.block_bytes = 32768;
        lane = &writer.add_lane(info, nullptr);
        writer.lanes_complete();
        for (const char* id : {"a", "b", "c"}) {
            RequestInfo request;
            request.id = id;
            request.arrival_step = 2;
            writer.add_request(request);
        }
        lane->add_sequence({RequestId(0), SequenceId::none(), 0});
        lane->add_sequence({RequestId(1), SequenceId::none(), 0});
        lane->add_sequence({RequestId(2), SequenceId(0), 37});
        lane->add_sequence({RequestId(0), SequenceId(0), 12});
    }

    QString sentence(const Event& event) const {
        return QString::fromStdString(describe_cause(*writer.recording(), lane->record(), event));
    }
};

Event make(EventKind kind, Cause cause, std::uint32_t block, std::uint32_t other, std::uint32_t tokens) {
    Event event;
    event.kind = kind;
    event.cause = cause;
    event.sequence = SequenceId(0);
    if (block != Event{}.other) event.block = BlockId(block);
    event.other = other;
    event.tokens = tokens;
    return event;
}

constexpr std::uint32_t none = 0xFFFFFFFFu;

}  // namespace

class TestDescribe : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void everyKindWithEveryCauseIsASentence();
    void sentencesNameWhoWhereAndWhy_data();
    void sentencesNameWhoWhereAndWhy();
    void lanesWithoutACacheComputeAndDoNotWrite();
    void detailIsAppended();
    void childrenAreNumberedAndForksKeepTheirRequest();
    void bytesAreWhatWasMovedOrTaken();
    void requestTimesComeFromEventsAndStepEnds();
    void requestTimesOfOneAndOfAllAgree();
    void rejectionGivesItsReason();
    void textReplacesInvalidBytes_data();
    void textReplacesInvalidBytes();
    void textLeavesControlTokensAndTheAddedSpaceOut();
};

void TestDescribe::everyKindWithEveryCauseIsASentence() {
    for (const bool cached : {true, false}) {
        const Fixture fixture(cached);
        for (int kind = 0; kind < event_kind_count; ++kind) {
            std::set<QString> sentences;
            for (int cause = 0; cause < cause_count; ++cause) {
                for (const bool bare : {false, true}) {
                    Event event = make(static_cast<EventKind>(kind), static_cast<Cause>(cause), bare ? none : 7,
                                       bare ? none : 2, 3);
                    if (bare) event.sequence = SequenceId::none();
                    const QString text = fixture.sentence(event);
                    const QByteArray row = QByteArray(name_of(event.kind).data()) + " cause " + QByteArray::number(cause);
                    QVERIFY2(text.size() > 6 && text.contains(' '), row.constData());
                    // No missing number shows as all ones.
                    QVERIFY2(!text.contains("4,294,967,295") && !text.contains("4294967295"), row.constData());
                    QVERIFY2(!text.contains("  ") && !text.endsWith(' '), row.constData());
                    if (!bare) sentences.insert(text);
                }
            }
            // Each cause gives words of its own.
            QVERIFY2(sentences.size() >= cause_count - 1, name_of(static_cast<EventKind>(kind)).data());
        }
    }
}

void TestDescribe::sentencesNameWhoWhereAndWhy_data() {
    QTest::addColumn<int>("kind");
    QTest::addColumn<int>("cause");
    QTest::addColumn<unsigned>("block");
    QTest::addColumn<unsigned>("other");
    QTest::addColumn<unsigned>("tokens");
    QTest::addColumn<QString>("sentence");
    const auto row = [](EventKind kind, Cause cause, unsigned block, unsigned other, unsigned tokens,
                        const char* sentence) {
        QTest::addRow("%s %d", name_of(kind).data(), static_cast<int>(cause))
            << static_cast<int>(kind) << static_cast<int>(cause) << block << other << tokens
            << QString::fromUtf8(sentence);
    };
    row(EventKind::arrive, Cause::arrival_step_reached, none, none, 37,
        "a arrived with a prompt of 37 tokens because step 2, its arrival step, was reached");
    row(EventKind::admit, Cause::fits_beside_running, none, none, 1,
        "a was admitted with a prompt of 1 token because all it may need fits beside the requests that run");
    row(EventKind::refuse, Cause::pool_too_full, none, 1, 6,
        "a waits because it may need 6 blocks and only 1 is left beside what the running requests may need");
    row(EventKind::refuse, Cause::batch_full, none, none, 0,
        "a waits because as many requests run as the batch may hold (max_num_seqs)");
    row(EventKind::reject, Cause::exceeds_pool, none, 544, 1399,
        "a was rejected because its prompt and new tokens need 1,399 slots and the pool has 544");
    row(EventKind::reject, Cause::exceeds_context, none, 512, 600,
        "a was rejected because its prompt and new tokens need 600 positions and the model's context holds 512");
    row(EventKind::allocate, Cause::first_slot_of_block, 7, 1, 0,
        "a opened block 7 because position 16 begins logical block 1");
    row(EventKind::fork, Cause::requested, none, 1, 37,
        "a forked from b at position 37: 3 blocks shared, nothing copied because it was asked for");
    row(EventKind::copy_on_write, Cause::duplicate_owner, 16, 53, 5,
        "a copied 5 slots of block 16 to block 53 because the block has another owner");
    row(EventKind::evict, Cause::block_needed, 53, none, 0,
        "block 53 lost its hash because a block was needed and it was first in the free queue");
    row(EventKind::free, Cause::sequence_finished, 7, 0, 0,
        "a gave back block 7 because a is finished; it went to the tail of the free queue");
    row(EventKind::free, Cause::sequence_cancelled, 7, 2, 0,
        "a left block 7 because a was cancelled; 2 other sequences still own it");
    row(EventKind::prefill, Cause::token_budget, none, 32, 18,
        "18 tokens of a written to positions 32–49 because the token budget of the step allowed no more of its prompt");
    row(EventKind::decode, Cause::next_token, none, 37, 1,
        "a computed and wrote position 37 because the token sampled last is the next to compute");
    row(EventKind::finish, Cause::end_of_sequence, none, none, 12,
        "a ended after 12 output tokens because it sampled an end-of-sequence token");
    row(EventKind::null_block, Cause::out_of_window, 9, 3, 0,
        "a points logical block 3 at the null block in place of block 9 because its positions lie before the attention "
        "window");
}

void TestDescribe::sentencesNameWhoWhereAndWhy() {
    QFETCH(int, kind);
    QFETCH(int, cause);
    QFETCH(unsigned, block);
    QFETCH(unsigned, other);
    QFETCH(unsigned, tokens);
    QFETCH(QString, sentence);
    QCOMPARE(Fixture().sentence(make(static_cast<EventKind>(kind), static_cast<Cause>(cause), block, other, tokens)),
             sentence);
}

void TestDescribe::lanesWithoutACacheComputeAndDoNotWrite() {
    const Event event = make(EventKind::prefill, Cause::no_kv_cache, none, 0, 9);
    QCOMPARE(Fixture(false).sentence(event),
             QString::fromUtf8("9 tokens of a recomputed at positions 0–8 because a lane without a KV cache keeps "
                               "nothing of the steps before"));
}

void TestDescribe::detailIsAppended() {
    Fixture fixture;
    Event event = make(EventKind::finish, Cause::sequence_failed, none, none, 2);
    event.detail = fixture.lane->intern("layer 1 gave logits that are not finite");
    QCOMPARE(fixture.sentence(event),
             QString("a ended after 2 output tokens because a failed: layer 1 gave logits that are not finite"));
    Event reject = make(EventKind::reject, Cause::exceeds_pool, none, 12, 43);
    reject.detail = fixture.lane->intern("request 'a' needs 43 slots (40 prompt + 4 new tokens - 1)");
    QCOMPARE(fixture.sentence(reject), QString("a was rejected: request 'a' needs 43 slots (40 prompt + 4 new tokens - 1)"));
    QCOMPARE(event_reason(*fixture.writer.recording(), fixture.lane->record(), event),
             std::string("layer 1 gave logits that are not finite"));
}

void TestDescribe::childrenAreNumberedAndForksKeepTheirRequest() {
    const Fixture fixture;
    const Recording& recording = *fixture.writer.recording();
    const LaneRecord& lane = fixture.lane->record();
    QCOMPARE(sequence_name(recording, lane, SequenceId(0)), std::string("a"));
    QCOMPARE(sequence_name(recording, lane, SequenceId(1)), std::string("b"));
    QCOMPARE(sequence_name(recording, lane, SequenceId(2)), std::string("c"));
    QCOMPARE(sequence_name(recording, lane, SequenceId(3)), std::string("a.1"));
    QCOMPARE(sequence_name(recording, lane, SequenceId(9)), std::string("sequence 9"));
    QCOMPARE(sequence_name(recording, lane, SequenceId::none()), std::string("no sequence"));
}

void TestDescribe::bytesAreWhatWasMovedOrTaken() {
    const Fixture fixture;
    const LaneRecord& lane = fixture.lane->record();
    const auto bytes = [&](EventKind kind) { return event_bytes(lane, make(kind, Cause::none, 1, 2, 5)); };
    QCOMPARE(bytes(EventKind::allocate), std::uint64_t{32768});
    QCOMPARE(bytes(EventKind::copy_on_write), std::uint64_t{10240});
    QCOMPARE(bytes(EventKind::prefill), std::uint64_t{10240});
    QCOMPARE(bytes(EventKind::fork), std::uint64_t{0});
    QCOMPARE(bytes(EventKind::evict), std::uint64_t{0});
    const Fixture uncached(false);
    QCOMPARE(event_bytes(uncached.lane->record(), make(EventKind::prefill, Cause::no_kv_cache, none, 0, 5)),
             std::uint64_t{0});
}

// Steps of 10 ms with 1 ms between them; a arrives in step 0, is admitted in step 1, samples in steps 2, 3 and 5.
void TestDescribe::requestTimesComeFromEventsAndStepEnds() {
    Fixture fixture;
    constexpr std::uint64_t ms = 1000000;
    for (std::uint64_t step = 0; step < 7; ++step) {
        fixture.writer.set_time(step * 11 * ms);
        fixture.lane->begin_step();
        fixture.writer.set_time(step * 11 * ms + 2 * ms);
        if (step == 0) fixture.lane->event(make(EventKind::arrive, Cause::none, none, none, 4));
        if (step == 1) fixture.lane->event(make(EventKind::admit, Cause::none, none, none, 4));
        if (step == 2 || step == 3 || step == 5) {
            TokenRecord token;
            token.sequence = SequenceId(0);
            token.source = step == 3 ? TokenRecord::forced : TokenRecord::sampled;
            fixture.lane->token(token);
        }
        if (step == 5) fixture.lane->event(make(EventKind::finish, Cause::end_of_sequence, none, none, 3));
        fixture.writer.set_time(step * 11 * ms + 10 * ms);
        fixture.lane->end_step({});
    }
    const auto times = [&](std::size_t last) {
        return request_times(*fixture.writer.recording(), fixture.lane->record(), SequenceId(0), last);
    };
    QVERIFY(!times(0).queue_ms);
    QCOMPARE(times(1).queue_ms.value(), 11.0);
    QVERIFY(!times(1).time_to_first_token_ms);
    QCOMPARE(times(2).time_to_first_token_ms.value(), 30.0);  // 2 ms to 32 ms
    QVERIFY(times(2).inter_token_ms.empty());
    QCOMPARE(times(6).inter_token_ms, std::vector<double>({11.0, 22.0}));
    QCOMPARE(times(6).output_tokens, 3u);
    QCOMPARE(times(4).finish_reason, std::string());
    QCOMPARE(times(6).finish_reason, std::string("stop"));
}

void TestDescribe::requestTimesOfOneAndOfAllAgree() {
    DemoOptions options;
    options.attention = false;
    const auto recording = demo_recording(options);
    for (const auto& lane : recording->lanes()) {
        const std::size_t last = lane->step_count() - 1;
        const auto all = all_request_times(*recording, *lane, last);
        QCOMPARE(all.size(), lane->sequences().size());
        for (std::uint32_t i = 0; i < all.size(); ++i) {
            const RequestTimes one = request_times(*recording, *lane, SequenceId(i), last);
            QCOMPARE(one.queue_ms, all[i].queue_ms);
            QCOMPARE(one.time_to_first_token_ms, all[i].time_to_first_token_ms);
            QCOMPARE(one.inter_token_ms, all[i].inter_token_ms);
            QCOMPARE(one.finish_reason, all[i].finish_reason);
            QCOMPARE(one.reason, all[i].reason);
        }
    }
}

void TestDescribe::rejectionGivesItsReason() {
    DemoOptions options;
    options.attention = false;
    options.one_lane = true;
    const auto recording = demo_recording(options);
    const LaneRecord& lane = *recording->lanes().front();
    const RequestTimes times = request_times(*recording, lane, SequenceId(3), lane.step_count() - 1);
    QCOMPARE(times.finish_reason, std::string("rejected"));
    QVERIFY(times.reason.find("d was rejected because") == 0);
    QVERIFY(!times.queue_ms);
    QCOMPARE(times.output_tokens, 0u);
}

void TestDescribe::textReplacesInvalidBytes_data() {
    QTest::addColumn<QByteArray>("bytes");
    QTest::addColumn<QByteArray>("text");
    const QByteArray bad = "\xEF\xBF\xBD";
    QTest::newRow("plain") << QByteArray("caf\xC3\xA9") << QByteArray("caf\xC3\xA9");
    QTest::newRow("chinese") << QByteArray("\xE4\xBD\xA0\xE5\xA5\xBD") << QByteArray("\xE4\xBD\xA0\xE5\xA5\xBD");
    QTest::newRow("emoji") << QByteArray("\xF0\x9F\x98\x80") << QByteArray("\xF0\x9F\x98\x80");
    QTest::newRow("lone continuation") << QByteArray("a\x80z") << QByteArray("a" + bad + "z");
    QTest::newRow("cut character at the end") << QByteArray("a\xE4\xBD") << QByteArray("a" + bad);
    QTest::newRow("cut character, then text") << QByteArray("\xF0\x9Fx") << QByteArray(bad + "x");
    QTest::newRow("overlong") << QByteArray("\xC0\xAF") << QByteArray(bad + bad);
    QTest::newRow("surrogate") << QByteArray("\xED\xA0\x80") << QByteArray(bad + bad + bad);
    QTest::newRow("beyond Unicode") << QByteArray("\xF4\x90\x80\x80") << QByteArray(bad + bad + bad + bad);
    QTest::newRow("never a lead byte") << QByteArray("\xFF") << bad;
}

void TestDescribe::textReplacesInvalidBytes() {
    QFETCH(QByteArray, bytes);
    QFETCH(QByteArray, text);
    VocabularyText vocabulary;
    std::vector<TokenId> tokens;
    for (const char byte : bytes) {  // one token a byte: characters cross token borders
        tokens.push_back(static_cast<TokenId>(vocabulary.pieces.size()));
        vocabulary.pieces.emplace_back(1, byte);
    }
    QCOMPARE(QByteArray::fromStdString(text_of(vocabulary, tokens)), text);
}

void TestDescribe::textLeavesControlTokensAndTheAddedSpaceOut() {
    VocabularyText vocabulary;
    vocabulary.pieces = {"", " one", " two"};
    QCOMPARE(text_of(vocabulary, std::vector<TokenId>{0, 1, 2}), std::string(" one two"));
    vocabulary.strips_leading_space = true;
    QCOMPARE(text_of(vocabulary, std::vector<TokenId>{0, 1, 2}), std::string("one two"));
    QCOMPARE(text_of(vocabulary, std::vector<TokenId>{-1, 7, 2}), std::string("two"));
    QCOMPARE(text_of(vocabulary, {}), std::string());
}

QTEST_GUILESS_MAIN(TestDescribe)
#include "tst_describe.moc"
