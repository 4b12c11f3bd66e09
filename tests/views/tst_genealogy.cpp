// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/views/tree_fixture.h"

#include "views/genealogy_view.h"

#include <QRegularExpression>
#include <QUndoStack>

#include <map>
#include <set>

using namespace kvloupe;

class TestGenealogy : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init();
    void ownersAreThoseOfTheState_data() { lanesAsRows({"paged", "swap", "windows", "radix", "max", "oracle"}); }
    void ownersAreThoseOfTheState();
    void copiesLeadBackToTheFirstContent_data() { lanesAsRows({"paged", "swap", "windows", "radix"}); }
    void copiesLeadBackToTheFirstContent();
    void swappedContentComesBack();
    void forksStandBelowTheirParents();
    void cachedTimesEndWithTheHash();
    void savingsAreTheSumOverSharedBlocks_data() { ownersAreThoseOfTheState_data(); }
    void savingsAreTheSumOverSharedBlocks();
    void theBlockCopiedLastIsShownUntilOneIsLocked();
    void tableTellsEveryEvent();
    void everyMomentIsDrawn();
    void keysWalkEvents();
    void zoomIsSharedAndUndone();

private:
    static std::uint64_t endOf(const LaneRecord& lane, int step) { return lane.step(static_cast<std::size_t>(step)).events.end; }
    std::unique_ptr<Cursor> m_cursor;
};

void TestGenealogy::init() {
    QTest::failOnWarning(QRegularExpression(QStringLiteral(".*")));
    m_cursor = std::make_unique<Cursor>();
    m_cursor->setRecording(sharingDemo());
}

void TestGenealogy::ownersAreThoseOfTheState() {
    QFETCH(QString, lane);
    const LaneId id = laneNamed(*sharingDemo(), lane.toLatin1().constData());
    const LaneRecord& record = sharingDemo()->lane(id);
    BlockEvents events;
    events.update(*sharingDemo(), id);
    std::size_t shared = 0;
    for (const int step : momentsOf(*sharingDemo())) {
        const LaneState state = record.state_after(static_cast<std::size_t>(step));
        for (std::uint32_t b = 1; b < state.blocks().size(); ++b) {
            const BlockLineage lineage = BlockLineage::of(events, BlockId(b), endOf(record, step), endOf(record, step));
            std::set<std::uint32_t> now, expected;
            for (const BlockLineage::Hold& hold : lineage.holds())
                if (hold.content == lineage.focus() && hold.end == BlockLineage::open_end && !hold.cached) now.insert(hold.sequence.value);
            for (const SequenceId owner : state.owners_of(BlockId(b))) expected.insert(owner.value);
            QVERIFY2(now == expected, qPrintable(QStringLiteral("block %1, step %2: %3 owners, %4 expected").arg(b).arg(step).arg(now.size()).arg(expected.size())));
            shared += now.size() > 1;
        }
    }
    if (lane == QLatin1String("paged")) QVERIFY(shared > 0);
}

void TestGenealogy::copiesLeadBackToTheFirstContent() {
    QFETCH(QString, lane);
    const LaneId id = laneNamed(*sharingDemo(), lane.toLatin1().constData());
    const LaneRecord& record = sharingDemo()->lane(id);
    BlockEvents events;
    events.update(*sharingDemo(), id);
    QVERIFY(!events.copies().empty());
    for (const std::uint64_t copy : events.copies()) {
        const Event& event = record.events()[copy];
        const BlockLineage lineage = BlockLineage::of(events, BlockId(event.other), copy + 1, copy + 1);
        QVERIFY(lineage.contents().size() >= 2);
        const BlockLineage::Content& content = lineage.contents()[lineage.focus()];
        QCOMPARE(content.birth, copy);
        QCOMPARE(lineage.contents()[content.parent].block, event.block);
        QVERIFY(std::binary_search(lineage.events().begin(), lineage.events().end(), copy));
        // Somebody forked before, else nobody else would have owned it.
        QVERIFY(std::any_of(lineage.events().begin(), lineage.events().end(), [&](std::uint64_t i) { return record.events()[i].kind == EventKind::fork; }));
        QVERIFY(std::is_sorted(lineage.events().begin(), lineage.events().end()));
        QCOMPARE(record.events()[lineage.contents()[0].birth].kind, EventKind::allocate);
    }
}

void TestGenealogy::swappedContentComesBack() {
    const LaneId id = laneNamed(*sharingDemo(), "swap");
    const LaneRecord& record = sharingDemo()->lane(id);
    BlockEvents events;
    events.update(*sharingDemo(), id);
    QVERIFY(!events.swapsIn().empty());
    for (const std::uint64_t in : events.swapsIn()) {
        const Event& event = record.events()[in];
        const BlockLineage lineage = BlockLineage::of(events, event.block, in + 1, in + 1);
        QVERIFY(lineage.contents().size() >= 2);
        QCOMPARE(lineage.contents()[lineage.focus()].birth, in);
        bool left = false;
        for (const std::uint64_t i : lineage.events())
            left |= record.events()[i].kind == EventKind::swap_out && record.events()[i].other == event.other;
        QVERIFY(left);
    }
}

void TestGenealogy::forksStandBelowTheirParents() {
    const LaneId id = laneNamed(*sharingDemo(), "paged");
    const LaneRecord& record = sharingDemo()->lane(id);
    BlockEvents events;
    events.update(*sharingDemo(), id);
    // The first block of the system prompt at step 24: a, its fork c, b, d.0 and its two samples.
    const BlockId first = record.state_after(24).table(SequenceId(0))[0];
    const BlockLineage lineage = BlockLineage::of(events, first, endOf(record, 24), endOf(record, 24));
    QCOMPARE(lineage.lines().size(), std::size_t{6});
    for (std::size_t i = 0; i < lineage.lines().size(); ++i) {
        const BlockLineage::Line& line = lineage.lines()[i];
        const SequenceId parent = record.sequences()[line.sequence.value].parent;
        QCOMPARE(line.parent != BlockLineage::none, parent.valid());
        if (!parent.valid()) continue;
        QVERIFY(line.parent < i);
        QCOMPARE(lineage.lines()[line.parent].sequence, parent);
        QCOMPARE(line.depth, lineage.lines()[line.parent].depth + 1);
    }
}

void TestGenealogy::cachedTimesEndWithTheHash() {
    const LaneId id = laneNamed(*sharingDemo(), "paged");
    const LaneRecord& record = sharingDemo()->lane(id);
    BlockEvents events;
    events.update(*sharingDemo(), id);
    std::size_t cached = 0;
    for (const int step : momentsOf(*sharingDemo())) {
        const LaneState state = record.state_after(static_cast<std::size_t>(step));
        for (std::uint32_t b = 1; b < state.blocks().size(); ++b) {
            const BlockLineage lineage = BlockLineage::of(events, BlockId(b), endOf(record, step), endOf(record, step));
            bool open = false;
            for (const BlockLineage::Hold& hold : lineage.holds())
                open |= hold.content == lineage.focus() && hold.cached && hold.end == BlockLineage::open_end;
            QVERIFY2(open == state.blocks()[b].cached(), qPrintable(QStringLiteral("block %1, step %2").arg(b).arg(step)));
            cached += open;
        }
    }
    QVERIFY(cached > 0);
}

void TestGenealogy::savingsAreTheSumOverSharedBlocks() {
    QFETCH(QString, lane);
    const LaneRecord& record = sharingDemo()->lane(laneNamed(*sharingDemo(), lane.toLatin1().constData()));
    for (const int step : momentsOf(*sharingDemo())) {
        const LaneState state = record.state_after(static_cast<std::size_t>(step));
        // Table entries beyond the first of each block, and slots that an owner has of a block beyond its fullest owner.
        std::map<std::uint32_t, std::vector<std::uint64_t>> owners;
        for (std::uint32_t s = 0; s < state.sequences().size(); ++s)
            for (std::uint8_t group = 0; group < state.groups(); ++group) {
                const auto& table = state.table(SequenceId(s), group);
                for (std::size_t i = 0; i < table.size(); ++i) {
                    if (table[i] == null_block_id) continue;
                    const std::int64_t written = std::int64_t{state.sequences()[s].computed_tokens} - static_cast<std::int64_t>(i * state.block_size());
                    owners[table[i].value].push_back(static_cast<std::uint64_t>(std::clamp<std::int64_t>(written, 0, state.block_size())));
                }
            }
        std::uint64_t blocks = 0, bytes = 0, slots = 0;
        for (const auto& [block, written] : owners) {
            blocks += written.size() > 1;
            bytes += (written.size() - 1) * record.info().block_bytes;
            std::uint64_t sum = 0, most = 0;
            for (const std::uint64_t count : written) {
                sum += count;
                most = std::max(most, count);
            }
            slots += sum - most;
        }
        const SharingSaved saved = sharingSaved(record.info(), state);
        QCOMPARE(saved.blocks, blocks);
        QCOMPARE(saved.bytes, bytes);
        QCOMPARE(saved.slotBytes, slots * record.info().bytes_per_token);
        if (step == 24 && lane == QLatin1String("paged")) QVERIFY(bytes > 0);
    }
}

void TestGenealogy::theBlockCopiedLastIsShownUntilOneIsLocked() {
    GenealogyView view(m_cursor.get());
    m_cursor->setLane(laneNamed(*sharingDemo(), "paged"));
    const LaneRecord& lane = *m_cursor->laneRecord();
    for (const int step : momentsOf(*sharingDemo())) {
        m_cursor->setStep(step);
        view.catchUp();
        BlockId last;
        for (std::uint64_t i = 0; i < endOf(lane, step); ++i)
            if (lane.events()[i].kind == EventKind::copy_on_write) last = BlockId(lane.events()[i].other);
        QCOMPARE(view.block(), last);
        QCOMPARE(view.lineage().empty(), !last.valid());
        if (last.valid()) QVERIFY(view.subtitle().contains(QStringLiteral("copied last")));
    }
    m_cursor->setStep(24);
    showFor(view, {900, 500});
    Pick pick;
    pick.lane = m_cursor->lane();
    pick.block = m_cursor->state()->table(SequenceId(0))[0];
    m_cursor->setHover(pick);
    QVERIFY(view.block() != *pick.block);  // hover moves nothing
    m_cursor->lock(pick);
    QCOMPARE(view.block(), *pick.block);
    QVERIFY(view.subtitle().contains(QStringLiteral("locked")));
    QTest::keyClick(&view, Qt::Key_Escape);
    QVERIFY(view.block() != *pick.block);
}

void TestGenealogy::tableTellsEveryEvent() {
    GenealogyView view(m_cursor.get());
    m_cursor->setLane(laneNamed(*sharingDemo(), "paged"));
    const LaneRecord& lane = *m_cursor->laneRecord();
    std::size_t copies = 0;
    for (const int step : momentsOf(*sharingDemo())) {
        m_cursor->setStep(step);
        view.catchUp();
        const auto rows = csvRows(view.csv());
        if (view.lineage().empty()) continue;
        QCOMPARE(rows.size(), view.lineage().events().size() + 3);
        for (std::size_t r = 1; r + 2 < rows.size(); ++r) {
            const std::uint64_t index = view.lineage().events()[r - 1];
            const Event& event = lane.events()[index];
            const std::uint32_t at = rows[r][0].toUInt();
            QVERIFY(index >= lane.step(at).events.begin && index < lane.step(at).events.end && at <= static_cast<std::uint32_t>(step));
            QCOMPARE(rows[r][1].toStdString(), std::string(name_of(event.kind)));
            if (event.kind != EventKind::copy_on_write) continue;
            ++copies;
            QCOMPARE(rows[r][4].toUInt(), event.block.value);
            QCOMPARE(rows[r][5].toUInt(), event.other);
            QCOMPARE(rows[r][7].toUInt(), event.tokens);
            QCOMPARE(rows[r][8].toULongLong(), event.tokens * lane.info().bytes_per_token);
            // c forked from a at 85: it copies what lies before that position in the block.
            if (event.sequence == SequenceId(6)) QCOMPARE(rows[r][6].toUInt(), 85u);
        }
        QCOMPARE(rows[rows.size() - 2][1], QStringLiteral("sharing_saves_blocks"));
        QCOMPARE(rows[rows.size() - 2][8].toULongLong(), sharingSaved(lane.info(), *m_cursor->state()).bytes);
    }
    QVERIFY(copies > 0);
}

void TestGenealogy::everyMomentIsDrawn() {
    GenealogyView view(m_cursor.get());
    for (const char* lane : {"paged", "swap", "max"}) {
        m_cursor->setLane(laneNamed(*sharingDemo(), lane));
        paintsEverywhere(view, *m_cursor);
    }
}

void TestGenealogy::keysWalkEvents() {
    GenealogyView view(m_cursor.get());
    m_cursor->setLane(laneNamed(*sharingDemo(), "paged"));
    m_cursor->setStep(24);
    showFor(view, {900, 500});
    const std::vector<std::uint64_t> events = view.lineage().events();
    QVERIFY(events.size() >= 3);
    QTest::keyClick(&view, Qt::Key_Down);
    QVERIFY(m_cursor->hover().event == events[0]);
    QTest::keyClick(&view, Qt::Key_Down);
    QTest::keyClick(&view, Qt::Key_Down);
    QVERIFY(m_cursor->hover().event == events[2]);
    QTest::keyClick(&view, Qt::Key_Return);
    QVERIFY(m_cursor->locked().event == events[2]);
    QVERIFY(view.lineage().events() == events);  // the same lineage
    QTest::keyClick(&view, Qt::Key_Left);
    QCOMPARE(m_cursor->step(), 23);
}

void TestGenealogy::zoomIsSharedAndUndone() {
    GenealogyView view(m_cursor.get()), other(m_cursor.get());
    m_cursor->setLane(laneNamed(*sharingDemo(), "paged"));
    m_cursor->setStep(24);
    showFor(view, {900, 500});
    wheelAt(view, QPointF(400, 20), 3);
    QVERIFY(view.zoomState().isValid());
    QVERIFY(other.range() == view.range());
    QCOMPARE(m_cursor->zoomStack()->count(), 1);
    m_cursor->zoomStack()->undo();
    QVERIFY(!view.zoomState().isValid());
    QVERIFY(!other.zoomState().isValid());
}

QTEST_MAIN(TestGenealogy)
#include "tst_genealogy.moc"
