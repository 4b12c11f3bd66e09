// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/views/tree_fixture.h"

#include "views/prefix_tree_view.h"
#include "views/token_track.h"

#include <QRegularExpression>
#include <QUndoStack>

#include <map>
#include <set>

using namespace kvloupe;

class TestPrefixTree : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init();
    void nodesAreTheBlocksOwnedOrCached_data() { lanesAsRows({"paged", "swap", "windows", "radix", "oracle"}); }
    void nodesAreTheBlocksOwnedOrCached();
    void parentsHoldTheTokensBefore_data() { nodesAreTheBlocksOwnedOrCached_data(); }
    void parentsHoldTheTokensBefore();
    void rowsAreChainsWithoutBranches_data() { nodesAreTheBlocksOwnedOrCached_data(); }
    void rowsAreChainsWithoutBranches();
    void hitsAreCountedFromTheEvents_data() { lanesAsRows({"paged", "radix"}); }
    void hitsAreCountedFromTheEvents();
    void whatGoesNextIsTheFreeQueue();
    void nextOfARadixTreeIsAnUnusedLeaf();
    void evictedBlocksStayForAWhile();
    void textIsThatOfTheTokens();
    void hitRateIsTheSumOfTheSteps();
    void tableHasARowPerBlock();
    void everyMomentIsDrawn();
    void pointerAndKeysPickBlocks();
    void aDoubleClickGoesToTheStepOfTheBlock();
    void zoomIsUndone();
    void laneWithoutACacheSaysSo();

private:
    // Calls check(tree, state, step) at several steps, forwards and back.
    template <class Check>
    void atMoments(const char* lane, const Check& check);
    std::unique_ptr<Cursor> m_cursor;
};

void TestPrefixTree::init() {
    QTest::failOnWarning(QRegularExpression(QStringLiteral(".*")));
    m_cursor = std::make_unique<Cursor>();
    m_cursor->setRecording(sharingDemo());
}

template <class Check>
void TestPrefixTree::atMoments(const char* lane, const Check& check) {
    PrefixTreeView view(m_cursor.get());
    m_cursor->setLane(laneNamed(*sharingDemo(), lane));
    for (const int step : momentsOf(*sharingDemo())) {
        m_cursor->setStep(step);
        view.catchUp();
        check(view.tree(), *m_cursor->state(), static_cast<std::uint32_t>(step));
        if (QTest::currentTestFailed()) {
            qInfo("at step %d", step);
            return;
        }
    }
}

void TestPrefixTree::nodesAreTheBlocksOwnedOrCached() {
    QFETCH(QString, lane);
    atMoments(lane.toLatin1().constData(), [](const PrefixTree& tree, const LaneState& state, std::uint32_t) {
        std::set<std::uint32_t> seen;
        for (const PrefixTree::Node& node : tree.nodes()) {
            if (node.evicted) continue;
            const BlockState& block = state.blocks()[node.block.value];
            QVERIFY(seen.insert(node.block.value).second);
            QVERIFY(block.owners > 0 || block.hashed || block.held);
            QCOMPARE(node.owners, block.owners);
            QCOMPARE(node.hashed, block.hashed);
            QCOMPARE(node.filled, block.filled);
            if (block.hashed) QCOMPARE(node.hash, block.hash);
        }
        for (std::uint32_t b = 1; b < state.blocks().size(); ++b) {
            const BlockState& block = state.blocks()[b];
            QCOMPARE(seen.count(b) > 0, block.owners > 0 || block.hashed || block.held);
        }
    });
}

void TestPrefixTree::parentsHoldTheTokensBefore() {
    QFETCH(QString, lane);
    atMoments(lane.toLatin1().constData(), [](const PrefixTree& tree, const LaneState& state, std::uint32_t) {
        for (const PrefixTree::Node& node : tree.nodes()) {
            if (node.parent == PrefixTree::none) {
                QCOMPARE(node.orphan, node.logical > 0);
                continue;
            }
            const PrefixTree::Node& parent = tree.nodes()[node.parent];
            QVERIFY(parent.logical < node.logical);
            QCOMPARE(parent.group, node.group);
            if (node.owners > 0) {
                // The nearest entry before it in its owner's table that is not null.
                const auto& table = state.table(node.owner, node.group);
                std::uint32_t logical = node.logical;
                while (logical > 0 && table[logical - 1] == null_block_id) --logical;
                if (logical > 0) QCOMPARE(parent.block, table[logical - 1]);
            } else {
                QCOMPARE(parent.hash, node.parentHash);
            }
        }
    });
}

void TestPrefixTree::rowsAreChainsWithoutBranches() {
    QFETCH(QString, lane);
    atMoments(lane.toLatin1().constData(), [](const PrefixTree& tree, const LaneState&, std::uint32_t) {
        QCOMPARE(tree.order().size(), tree.nodes().size());
        QCOMPARE(std::set<std::uint32_t>(tree.order().begin(), tree.order().end()).size(), tree.nodes().size());
        std::vector<std::uint32_t> children(tree.nodes().size(), 0);
        for (const PrefixTree::Node& node : tree.nodes())
            if (node.parent != PrefixTree::none) ++children[node.parent];
        std::uint32_t place = 0;
        for (std::size_t r = 0; r < tree.rows().size(); ++r) {
            const PrefixTree::Row& row = tree.rows()[r];
            QCOMPARE(row.begin, place);
            QVERIFY(row.end > row.begin);
            place = row.end;
            for (std::uint32_t i = row.begin; i + 1 < row.end; ++i) {
                QCOMPARE(children[tree.order()[i]], 1u);
                QCOMPARE(tree.nodes()[tree.order()[i + 1]].parent, tree.order()[i]);
            }
            QVERIFY(children[tree.order()[row.end - 1]] != 1);
            const std::uint32_t parent = tree.nodes()[tree.order()[row.begin]].parent;
            QCOMPARE(parent == PrefixTree::none, row.parentRow == PrefixTree::none);
            if (row.parentRow != PrefixTree::none) QCOMPARE(tree.order()[tree.rows()[row.parentRow].end - 1], parent);
            QCOMPARE(std::size_t{tree.rowOf(tree.order()[row.begin])}, r);
        }
        QCOMPARE(std::size_t{place}, tree.order().size());
    });
}

void TestPrefixTree::hitsAreCountedFromTheEvents() {
    QFETCH(QString, lane);
    const LaneRecord& record = sharingDemo()->lane(laneNamed(*sharingDemo(), lane.toLatin1().constData()));
    std::uint64_t all = 0;
    atMoments(lane.toLatin1().constData(), [&](const PrefixTree& tree, const LaneState&, std::uint32_t step) {
        std::map<std::uint32_t, std::uint32_t> hits;
        for (std::uint64_t i = 0; i < record.step(step).events.end; ++i) {
            const Event& event = record.events()[i];
            if (event.kind == EventKind::allocate || event.kind == EventKind::swap_in) hits[event.block.value] = 0;
            if (event.kind == EventKind::copy_on_write) hits[event.other] = 0;
            if (event.kind == EventKind::prefix_hit && event.cause != Cause::duplicate_owner) ++hits[event.block.value];
        }
        for (const PrefixTree::Node& node : tree.nodes()) {
            if (node.evicted) continue;
            QCOMPARE(node.hits, hits[node.block.value]);
            all += node.hits;
        }
    });
    QVERIFY(all > 0);
}

void TestPrefixTree::whatGoesNextIsTheFreeQueue() {
    std::size_t ranked = 0;
    atMoments("paged", [&](const PrefixTree& tree, const LaneState& state, std::uint32_t) {
        QVERIFY(!tree.predicted());
        std::map<std::uint32_t, std::uint32_t> place;
        std::uint32_t count = 0;
        for (const BlockId block : state.free_order()) place[block.value] = ++count;
        for (const PrefixTree::Node& node : tree.nodes()) {
            if (node.evicted) {
                QCOMPARE(node.next, 0u);
                continue;
            }
            QCOMPARE(node.next, place[node.block.value]);
            ranked += node.next > 0;
        }
    });
    QVERIFY(ranked > 0);
}

void TestPrefixTree::nextOfARadixTreeIsAnUnusedLeaf() {
    std::size_t ranked = 0;
    atMoments("radix", [&](const PrefixTree& tree, const LaneState& state, std::uint32_t) {
        QVERIFY(tree.predicted());
        for (std::uint32_t n = 0; n < tree.nodes().size(); ++n) {
            const PrefixTree::Node& node = tree.nodes()[n];
            if (node.next == 0) continue;
            ++ranked;
            QVERIFY(state.blocks()[node.block.value].held);
            for (const PrefixTree::Node& child : tree.nodes())  // what hangs below it goes before or with it
                if (child.parent == n && !child.evicted) QVERIFY(child.next > 0 && child.next <= node.next);
        }
    });
    QVERIFY(ranked > 0);
}

void TestPrefixTree::evictedBlocksStayForAWhile() {
    const LaneRecord& record = sharingDemo()->lane(laneNamed(*sharingDemo(), "paged"));
    const std::uint32_t recent = PrefixTree::Options().recentSteps;
    std::size_t shown = 0;
    atMoments("paged", [&](const PrefixTree& tree, const LaneState& state, std::uint32_t step) {
        std::set<std::uint64_t> hashes;
        for (std::uint32_t b = 1; b < state.blocks().size(); ++b)
            if (state.blocks()[b].hashed) hashes.insert(state.blocks()[b].hash);
        std::set<std::uint64_t> evicted;
        for (const PrefixTree::Node& node : tree.nodes()) {
            if (!node.evicted) continue;
            ++shown;
            QVERIFY(hashes.count(node.hash) == 0);
            QVERIFY(evicted.insert(node.hash).second);
            QVERIFY(node.evictedAt <= step && node.evictedAt + recent > step);
            const Event& event = record.events()[node.event];
            QVERIFY(event.kind == EventKind::evict && event.block == node.block);
            QVERIFY(node.event >= record.step(node.evictedAt).events.begin && node.event < record.step(node.evictedAt).events.end);
        }
    });
    QVERIFY(shown > 0);
}

void TestPrefixTree::textIsThatOfTheTokens() {
    m_cursor->setLane(laneNamed(*sharingDemo(), "paged"));
    m_cursor->setStep(150);
    const LaneRecord& lane = *m_cursor->laneRecord();
    SequenceTokens tokens;
    tokens.update(*sharingDemo(), m_cursor->lane());
    std::size_t compared = 0;
    for (std::uint32_t s = 0; s < lane.sequences().size(); ++s) {
        if (lane.sequences()[s].parent.valid()) continue;
        TokenTrack track;
        track.update(sharingDemo(), m_cursor->lane(), SequenceId(s), 150);
        for (std::uint32_t position = 0; position < track.tokens().size(); ++position, ++compared)
            QVERIFY(tokens.token(SequenceId(s), position) == track.tokens()[position].token);
    }
    QVERIFY(compared > 1000);
    // A fork has its parent's tokens before the fork.
    for (std::uint32_t position = 0; position < 85; ++position)
        QVERIFY(tokens.token(SequenceId(6), position) == tokens.token(SequenceId(0), position));
    QVERIFY(!tokens.token(SequenceId(0), 1000000).has_value());
    QVERIFY(!tokens.token(SequenceId(100000), 0).has_value());
}

void TestPrefixTree::hitRateIsTheSumOfTheSteps() {
    const LaneId lane = laneNamed(*sharingDemo(), "paged");
    PrefixHistory history;
    history.update(*sharingDemo(), lane);
    std::uint64_t hit = 0, queried = 0, resumed = 0;
    for (std::uint32_t s = 0; s < history.steps(); ++s) {
        const StepRecord& step = sharingDemo()->lane(lane).step(s);
        hit += step.hit_tokens;
        queried += step.queried_tokens;
        resumed += step.preempted_queried_tokens;
        const PrefixHistory::HitRate rate = history.hitRate(s);
        QCOMPARE(rate.hit, hit);
        QCOMPARE(rate.queried, queried);
        QCOMPARE(rate.resumedQueried, resumed);
    }
    QVERIFY(hit > 0 && resumed > 0);
}

void TestPrefixTree::tableHasARowPerBlock() {
    PrefixTreeView view(m_cursor.get());
    for (const char* lane : {"paged", "radix", "windows"}) {
        m_cursor->setLane(laneNamed(*sharingDemo(), lane));
        for (const int step : momentsOf(*sharingDemo())) {
            m_cursor->setStep(step);
            view.catchUp();
            const auto rows = csvRows(view.csv());
            QCOMPARE(rows.size(), view.tree().nodes().size() + 1);
            for (std::size_t r = 1; r < rows.size(); ++r) {
                const PrefixTree::Node& node = view.tree().nodes()[view.tree().order()[r - 1]];
                QCOMPARE(rows[r].size(), rows[0].size());
                QCOMPARE(rows[r][3].toUInt(), node.block.value);
                QCOMPARE(rows[r][7].toUInt(), node.owners);
                QCOMPARE(rows[r][11].toUInt(), node.hits);
                if (node.hashed) QCOMPARE(rows[r][9].toULongLong(nullptr, 16), qulonglong(node.hash));
            }
        }
    }
}

void TestPrefixTree::everyMomentIsDrawn() {
    PrefixTreeView view(m_cursor.get());
    for (const char* lane : {"paged", "windows", "radix", "oracle"}) {
        m_cursor->setLane(laneNamed(*sharingDemo(), lane));
        paintsEverywhere(view, *m_cursor);
    }
}

void TestPrefixTree::pointerAndKeysPickBlocks() {
    PrefixTreeView view(m_cursor.get());
    m_cursor->setLane(laneNamed(*sharingDemo(), "paged"));
    m_cursor->setStep(24);
    showFor(view, {900, 500});
    const PrefixTree& tree = view.tree();
    const BlockId third = m_cursor->state()->table(SequenceId(0))[2];
    const QRectF cell = view.cellRect(tree.nodeOf(third));
    QVERIFY(!cell.isEmpty());
    moveTo(view, cell.center());
    QVERIFY(m_cursor->hover().block == third);
    clickAt(view, cell.center());
    QVERIFY(m_cursor->locked().block == third);
    QTest::keyClick(&view, Qt::Key_Escape);
    m_cursor->setHover({});
    moveTo(view, QPointF(5, 2));  // above the rows
    QTest::keyClick(&view, Qt::Key_Down);
    QVERIFY(m_cursor->hover().block == tree.nodes()[tree.order()[0]].block);
    QTest::keyClick(&view, Qt::Key_Right);
    QTest::keyClick(&view, Qt::Key_Right);
    QVERIFY(m_cursor->hover().block == tree.nodes()[tree.order()[2]].block);
    QTest::keyClick(&view, Qt::Key_Left);
    QTest::keyClick(&view, Qt::Key_Return);
    QVERIFY(m_cursor->locked().block == tree.nodes()[tree.order()[1]].block);
}

void TestPrefixTree::aDoubleClickGoesToTheStepOfTheBlock() {
    m_cursor->setLane(laneNamed(*sharingDemo(), "paged"));
    m_cursor->setStep(150);
    PrefixTreeView view(m_cursor.get());
    view.resize(900, 600);
    view.show();
    std::set<int> reached;
    for (std::uint32_t n = 0; n < view.tree().nodes().size() && reached.size() < 3; ++n) {
        const QRectF cell = view.cellRect(n);
        if (cell.isEmpty() || view.tree().nodes()[n].event == UINT64_MAX) continue;
        const std::uint64_t event = view.tree().nodes()[n].event;
        QTest::mouseDClick(&view, Qt::LeftButton, {}, cell.center().toPoint());
        const LogRange events = m_cursor->laneRecord()->step(static_cast<std::size_t>(m_cursor->step())).events;
        QVERIFY(event >= events.begin && event < events.end);
        reached.insert(m_cursor->step());
        m_cursor->setStep(150);
        view.catchUp();
    }
    QVERIFY(reached.size() > 1);
}

void TestPrefixTree::zoomIsUndone() {
    PrefixTreeView view(m_cursor.get());
    m_cursor->setStep(150);
    showFor(view, {900, 500});
    wheelAt(view, QPointF(300, 200), 3, Qt::ControlModifier);
    QVERIFY(view.zoomState().isValid());
    QCOMPARE(m_cursor->zoomStack()->count(), 1);
    m_cursor->zoomStack()->undo();
    QVERIFY(!view.zoomState().isValid());
    m_cursor->zoomStack()->redo();
    QVERIFY(view.zoomState().isValid());
    QTest::keyClick(&view, Qt::Key_F);
    QVERIFY(!view.zoomState().isValid());
}

void TestPrefixTree::laneWithoutACacheSaysSo() {
    class Open : public PrefixTreeView {
    public:
        using PrefixTreeView::PrefixTreeView;
        using View::emptySentence;
    };
    Open view(m_cursor.get());
    m_cursor->setRecording(nullptr);
    view.catchUp();
    QVERIFY(!view.emptySentence().isEmpty());
    m_cursor->setRecording(sharingDemo());
    view.catchUp();
    QVERIFY(view.emptySentence().isEmpty());
    QVERIFY(view.subtitle().contains(QStringLiteral("one cell per block")));
}

QTEST_MAIN(TestPrefixTree)
#include "tst_prefix_tree.moc"
