// SPDX-License-Identifier: GPL-3.0-or-later
//
// Accounting lanes, contiguous pools, priorities, static batches and a shorter context at the level of a session.
#include <QRegularExpression>
#include <QTest>

#include "tests/serve/support.h"

#include <set>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::unique_ptr<Session> accounting(const QByteArray& rest) {
    auto made = Session::create(scenario("{\"version\": 1, \"model\": \"none\", " + rest + "}"), {});
    if (!made) qFatal("%s", made.error().message().c_str());
    return std::move(*made);
}

}  // namespace

class TestSessionPolicies : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(".*")); }

    void contiguousPoolsAreMadeLargeEnoughForTheirRegions() {
        for (const char* reserve : {"max", "pow2", "oracle", "grow"}) {
            auto s = session("\"lanes\": [{\"cache\": {\"kind\": \"contiguous\", \"reserve\": \"" + QByteArray(reserve) + "\"}}], \"requests\": [" + request("a", 30, 13) + "," + request("b", 9, 30) + "]");
            VERIFY_RESULT(s->run_to_end());
            for (const char* id : {"a", "b"}) QCOMPARE(times(*s->recording(), lane0, id).finish_reason, std::string("length"));
            QVERIFY(all(*s->recording(), EventKind::preempt).isEmpty());
        }
    }

    void anAccountingLaneDoesTheSameWithoutAModel() {
        const QByteArray rest = R"("block_size": 4, "blocks": 13)";
        const QByteArray requests = R"("requests": [)" + request("a", 10, 20) + "," + request("b", 10, 20) + R"(, {"id": "c", "prompt_tokens": [1, 2, 3, 4, 5], "output_tokens": [1, 2, 3, 4, 5, 6, 7, 8], "arrival_step": 3}],
                                    "actions": [{"at_step": 5, "do": "fork", "request": "a", "as": "f"}])";
        auto without = accounting(R"("lanes": [{"cache": {)" + rest + R"(, "bytes_per_token": 100}}], )" + requests);
        auto with = session(R"("lanes": [{"cache": {)" + rest + "}}], " + requests);
        VERIFY_RESULT(without->run_to_end());
        VERIFY_RESULT(with->run_to_end());
        const LaneRecord& a = without->recording()->lane(lane0);
        const LaneRecord& b = with->recording()->lane(lane0);
        QCOMPARE(a.step_count(), b.step_count());
        QCOMPARE(a.events().size(), b.events().size());
        for (std::uint64_t i = 0; i < a.events().size(); ++i) {
            Event x = a.events()[i], y = b.events()[i];
            QCOMPARE(int(x.kind), int(y.kind));
            QCOMPARE(x.sequence.value, y.sequence.value);
            QCOMPARE(x.block.value, y.block.value);
            QCOMPARE(x.other, y.other);
        }
        QVERIFY(!all(*without->recording(), EventKind::preempt).isEmpty());
        QCOMPARE(a.info().bytes_per_token, std::uint64_t(100));
        QCOMPARE(a.step(2).kv_bytes, std::uint64_t(a.step(2).used_blocks) * 400);
        QCOMPARE(a.info().attention_variant, std::string("none"));
        QCOMPARE(a.info().policy.kind, std::string("paged"));
        QVERIFY(without->model(lane0) == nullptr);
    }

    void anAccountingLaneMakesTokensThatNobodyShares() {
        auto s = accounting(R"("requests": [{"id": "a", "prompt_tokens": [1], "max_new_tokens": 5}, {"id": "b", "prompt_tokens": [1], "max_new_tokens": 5, "n": 2}])");
        QCOMPARE(s->recording()->lane(lane0).info().blocks, 1024u);
        RequestOptions more;
        more.id = "c";
        more.prompt_tokens = std::vector<TokenId>{1};
        more.max_new_tokens = 5;
        VERIFY_RESULT(s->submit(more));
        VERIFY_RESULT(s->run_to_end());
        std::set<TokenId> seen;
        for (const char* name : {"a", "b.0", "b.1", "c"}) {
            const auto tokens = outputs(*s->recording(), lane0, name);
            QCOMPARE(tokens.size(), std::size_t(5));
            seen.insert(tokens.begin(), tokens.end());
        }
        QCOMPARE(seen.size(), std::size_t(20));
        more.id = "text";
        more.prompt_tokens.reset();
        more.prompt = "Hello";
        const auto refused = s->submit(more);
        QVERIFY(!refused);
        QVERIFY(refused.error().sentence.find("no tokenizer") != std::string::npos);
    }

    void priorityLetsALaterRequestOvertake() {
        auto s = accounting(R"("lanes": [{"cache": {"block_size": 4, "blocks": 60}, "scheduler": {"policy": "priority", "max_num_seqs": 1}}], "requests": [)" +
                            request("a", 4, 4) + "," + request("b", 4, 4, R"(, "priority": 5)") + "," + request("c", 4, 4, R"(, "priority": -1, "arrival_step": 2)") + "]");
        VERIFY_RESULT(s->run_to_end());
        QCOMPARE(all(*s->recording(), EventKind::finish), (QStringList{"3: finish a", "7: finish c", "11: finish b"}));
    }

    void aStaticBatchKeepsItsBlocksUntilItEnds() {
        auto s = accounting(R"("lanes": [{"cache": {"block_size": 4, "blocks": 60}, "scheduler": {"batching": "static", "max_num_seqs": 2}}], "requests": [)" +
                            request("a", 4, 2) + "," + request("b", 9, 6) + "," + request("c", 4, 2) + "]");
        VERIFY_RESULT(s->run_to_end());
        const Recording& recording = *s->recording();
        const LaneRecord& lane = recording.lane(lane0);
        QCOMPARE(all(recording, EventKind::finish), (QStringList{"1: finish a", "5: finish b", "7: finish c"}));
        QVERIFY(all(recording, EventKind::free).first().startsWith("5: "));
        QCOMPARE(lane.step(3).running, 1u);
        QCOMPARE(lane.state_after(3).used_blocks(), lane.step(3).used_blocks);
        QVERIFY(lane.step(3).slots.internal > 0);           // what a holds and will never write
        QCOMPARE(lane.state_after(lane.step_count() - 1).used_blocks(), 0u);
    }

    void aShorterContextRejects() {
        auto s = session(R"("lanes": [{"cache": {"max_model_len": 20}}], "requests": [)" + request("a", 10, 12) + "," + request("b", 10, 11) + "]");
        VERIFY_RESULT(s->run_to_end());
        QCOMPARE(times(*s->recording(), lane0, "a").finish_reason, std::string("rejected"));
        QCOMPARE(times(*s->recording(), lane0, "b").finish_reason, std::string("length"));
    }
};

QTEST_GUILESS_MAIN(TestSessionPolicies)
#include "tst_session_policies.moc"
