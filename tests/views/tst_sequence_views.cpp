// SPDX-License-Identifier: GPL-3.0-or-later
#include <QObject>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "tests/support/demo_sharing.h"
#include "tests/support/demo_recording.h"
#include "tests/views/sharing_fixture.h"
#include "views/inspector_view.h"
#include "views/requests_view.h"
#include "views/request_timeline.h"
#include "views/sequence_facts.h"
#include "views/tokens_view.h"

#include <QMouseEvent>
#include <QRegularExpression>
#include <QTest>

using namespace kvloupe;

namespace {

void moveTo(QWidget& widget, const QPointF& point) {
    QMouseEvent event(QEvent::MouseMove, point, widget.mapToGlobal(point), Qt::NoButton, Qt::NoButton, Qt::NoModifier);
    QCoreApplication::sendEvent(&widget, &event);
}

QString valueOf(const InspectorView& view, const QString& label) {
    for (const InspectorView::Row& row : view.rows())
        if (row.label == label) return row.text;
    return {};
}

QString sentences(const InspectorView& view) {
    QStringList all;
    for (const InspectorView::Row& row : view.rows())
        if (row.kind == InspectorView::Row::sentence) all << row.text;
    return all.join(QLatin1Char('\n'));
}

}  // namespace

class TestSequenceViews : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { m_recording = SharingFixture().record(); }

    void init() {
        QTest::failOnWarning(QRegularExpression(QStringLiteral(".*")));
        m_cursor = std::make_unique<Cursor>();
        m_cursor->setRecording(m_recording);
        m_cursor->setStep(2);
    }

    // Tokens: block tables side by side.

    void oneHolderShowsItsTokensSeveralShowTheirTables() {
        TokensView view(m_cursor.get());
        view.resize(880, 260);
        view.show();
        m_cursor->setStep(0);
        QVERIFY(!view.tablesShown());
        m_cursor->setStep(2);
        QVERIFY(view.tablesShown());
        QVERIFY2(view.subtitle().contains(QStringLiteral("3 sequences")), qPrintable(view.subtitle()));
        view.choose(QStringLiteral("shown"), 1);
        QVERIFY(!view.tablesShown());
        QTest::keyClick(&view, Qt::Key_C);
        QVERIFY(view.tablesShown());
    }

    void aForkStandsBelowItsParentAndSharedBlocksInOneColumn() {
        TokensView view(m_cursor.get());
        view.resize(880, 260);
        view.show();
        const auto& rows = view.tables().rows();
        QCOMPARE(static_cast<int>(rows.size()), 3);
        QVERIFY(rows[0].sequence == SequenceId(0));
        QVERIFY(rows[1].sequence == SequenceId(2));
        QCOMPARE(rows[1].depth, 1);
        QVERIFY(rows[2].sequence == SequenceId(1));
        for (const std::uint32_t logical : {0u, 1u}) {
            QVERIFY(rows[0].table[logical] == rows[1].table[logical]);
            QCOMPARE(view.tableCell(0, logical).left(), view.tableCell(1, logical).left());
        }
        QCOMPARE(rows[1].shared, 2u);
        QCOMPARE(static_cast<int>(view.tables().copies().size()), 1);
        QVERIFY(view.tables().copies().front().contains(QStringLiteral("3 slots of block 3 to block 6")));
    }

    void hitTokensAreReusedAndNullBlocksAreEmpty() {
        TokensView view(m_cursor.get());
        view.resize(880, 300);
        view.show();
        m_cursor->setStep(4);
        const QString csv = view.csv();
        QVERIFY2(csv.contains(QStringLiteral("\r\n3 (d),0,0,1,2,4,4,4,")), qPrintable(csv));   // hit: all four slots reused
        QVERIFY2(csv.contains(QStringLiteral("\r\n3 (d),0,2,8,1,2,0,4,")), qPrintable(csv));   // computed by itself
        QVERIFY2(csv.contains(QStringLiteral("\r\n2 (c),0,0,0,0,0,0,4,\r\n")), qPrintable(csv));  // left its window
    }

    void pointingAtACellMeansItsSequence() {
        TokensView view(m_cursor.get());
        view.resize(880, 300);
        view.show();
        moveTo(view, view.tableCell(1, 0).center());
        QVERIFY(m_cursor->hover().block == BlockId(1));
        QVERIFY(m_cursor->hover().sequence == SequenceId(2));
        const QRectF cell = view.tableCell(1, 2);
        moveTo(view, QPointF(cell.right() - 8, cell.bottom() - 5));
        QVERIFY(m_cursor->hover().position == 11u);
        QTest::mouseClick(&view, Qt::LeftButton, {}, cell.center().toPoint());
        QVERIFY(m_cursor->locked().block == BlockId(3));
        QVERIFY(m_cursor->sequence() == SequenceId(2));
    }

    void arrowsWalkThroughTables() {
        TokensView view(m_cursor.get());
        view.resize(880, 300);
        view.show();
        QTest::keyClick(&view, Qt::Key_Right);
        QVERIFY(m_cursor->hover().block == BlockId(1) && m_cursor->hover().sequence == SequenceId(0));
        QTest::keyClick(&view, Qt::Key_Right);
        QTest::keyClick(&view, Qt::Key_Right);
        QVERIFY(m_cursor->hover().block == BlockId(6));
        QTest::keyClick(&view, Qt::Key_Down);
        QVERIFY(m_cursor->hover().block == BlockId(3) && m_cursor->hover().sequence == SequenceId(2));
        QTest::keyClick(&view, Qt::Key_Return);
        QVERIFY(m_cursor->locked().block == BlockId(3));
    }

    void cellsOfLongTablesNeverOverlap_data() {
        QTest::addColumn<int>("width");
        for (const int width : {300, 440, 880, 1600}) QTest::addRow("%d", width) << width;
    }

    void cellsOfLongTablesNeverOverlap() {
        QFETCH(int, width);
        const auto recording = demo_sharing_recording();
        m_cursor->setRecording(recording);
        m_cursor->setStep(40);
        SequenceFacts facts;
        facts.update(m_cursor->sharedRecording(), m_cursor->lane());
        BlockTables tables;
        tables.update(*m_cursor, facts);
        tables.layOut(width, 1);
        std::vector<QRectF> cells;
        for (std::size_t row = 0; row < tables.rows().size(); ++row)
            for (std::uint32_t logical = 0; logical < tables.rows()[row].table.size(); ++logical) {
                const QRectF box = tables.cell(row, logical);
                QVERIFY(box.right() <= width && box.bottom() <= tables.height());
                const auto place = tables.placeAt(box.center());
                QVERIFY(place && place->row == row && place->logical == logical);
                cells.push_back(box);
            }
        QVERIFY(cells.size() > 40);
        for (std::size_t i = 0; i < cells.size(); ++i)
            for (std::size_t j = i + 1; j < cells.size(); ++j) QVERIFY(!cells[i].intersects(cells[j]));
    }

    // Inspector.

    void theInspectorSaysWhyABlockIsThere() {
        InspectorView view(m_cursor.get());
        view.resize(260, 500);
        view.show();
        Pick pick;
        pick.lane = LaneId(0);
        pick.block = BlockId(6);
        m_cursor->lock(pick);
        QVERIFY2(sentences(view).contains(QStringLiteral("Step 2: a copied 3 slots of block 3 to block 6")), qPrintable(sentences(view)));
        QCOMPARE(valueOf(view, QStringLiteral("Content since step")), QStringLiteral("2"));
        pick.block = BlockId(1);
        m_cursor->lock(pick);
        QCOMPARE(valueOf(view, QStringLiteral("Reference count")), QStringLiteral("2"));
        QCOMPARE(valueOf(view, QStringLiteral("Hash")), QStringLiteral("c9d58b01…"));
        QCOMPARE(valueOf(view, QStringLiteral("Bytes saved by sharing")), QStringLiteral("1,024 B"));
        pick.block = BlockId(4);
        m_cursor->setStep(5);
        m_cursor->lock(pick);
        QVERIFY2(sentences(view).contains(QStringLiteral("Step 5: block 4 lost its hash")), qPrintable(sentences(view)));
    }

    void theInspectorKnowsWhereASequenceComesFrom() {
        InspectorView view(m_cursor.get());
        view.resize(260, 500);
        view.show();
        m_cursor->setStep(4);
        m_cursor->lock([&] {
            Pick pick;
            pick.lane = LaneId(0);
            pick.sequence = SequenceId(2);
            return pick;
        }());
        QCOMPARE(valueOf(view, QStringLiteral("Parent")), QStringLiteral("0 (a)"));
        QCOMPARE(valueOf(view, QStringLiteral("Forked at position")), QStringLiteral("11"));
        QCOMPARE(valueOf(view, QStringLiteral("Blocks out of its window")), QStringLiteral("1"));
        QVERIFY2(sentences(view).contains(QStringLiteral("null, 2, 3, 7")), qPrintable(sentences(view)));
        // Position 14 of a limit of 29 is the next: the last block has two slots left that it may still write.
        QCOMPARE(valueOf(view, QStringLiteral("reserved for its tokens")), QStringLiteral("2"));
        QCOMPARE(valueOf(view, QStringLiteral("never to be written")), QStringLiteral("0"));
    }

    void theInspectorNamesBothBlocksOfACopy() {
        InspectorView view(m_cursor.get());
        view.resize(260, 500);
        view.show();
        const LaneRecord& lane = m_recording->lane(LaneId(0));
        Pick pick;
        pick.lane = LaneId(0);
        for (std::uint64_t i = 0; i < lane.events().size(); ++i)
            if (lane.events()[i].kind == EventKind::copy_on_write) pick.event = i;
        m_cursor->lock(pick);
        QCOMPARE(valueOf(view, QStringLiteral("Source block")), QStringLiteral("3"));
        QCOMPARE(valueOf(view, QStringLiteral("Destination block")), QStringLiteral("6"));
        QCOMPARE(valueOf(view, QStringLiteral("Cause")), QStringLiteral("shared block written"));
        QCOMPARE(valueOf(view, QStringLiteral("Slots")), QStringLiteral("3"));
    }

    // Requests and what they waste.

    void childrenStandBelowTheirParentWithItsPosition() {
        RequestsView view(m_cursor.get());
        view.resize(260, 400);
        view.show();
        QCOMPARE(view.entry(1).name, QStringLiteral("a"));
        QCOMPARE(view.entry(2).name, QStringLiteral("c"));
        QCOMPARE(view.entry(2).depth, 1);
        QCOMPARE(view.entry(2).parentName, QStringLiteral("a"));
        QCOMPARE(view.entry(2).forkedAt, 11u);
        QCOMPARE(view.entry(3).name, QStringLiteral("b"));
        QCOMPARE(view.entry(3).depth, 0);
        m_cursor->setStep(3);
        std::size_t b = 0;
        while (b < view.count() && view.entry(b).name != QStringLiteral("b")) ++b;
        QVERIFY(b < view.count());
        QVERIFY(view.entry(b).group == RequestsView::Group::waiting);
        QVERIFY(view.entry(b).phase.contains(QStringLiteral("preempted")));
    }

    void whoWastesMostStandsFirst() {
        const auto recording = demo_sharing_recording();
        m_cursor->setRecording(recording);
        m_cursor->setStep(60);
        RequestsView view(m_cursor.get());
        view.resize(260, 400);
        view.show();
        view.choose(QStringLiteral("order"), 1);
        QVERIFY(view.entry(0).heading.contains(QStringLiteral("wasted slots")));
        std::uint64_t most = 0;
        for (const SequenceWaste& waste : wasteOf(*recording, recording->lane(LaneId(0)), *m_cursor->state()))
            most = std::max(most, waste.total());
        QVERIFY(most > 0);
        QCOMPARE(view.entry(1).waste.total(), most);
        for (std::size_t i = 2; i < view.count(); ++i) QVERIFY(view.entry(i).waste.total() <= view.entry(i - 1).waste.total());
    }

    void wasteOfTheSequencesIsThatOfTheLane() {
        const auto recording = demo_sharing_recording();
        const LaneRecord& lane = recording->lane(LaneId(0));
        int compared = 0;
        for (std::size_t step = 0; step < lane.step_count(); step += 3) {
            const LaneState state = lane.state_after(step);
            if (state.used_blocks() != lane.step(step).used_blocks) continue;  // the step released blocks after it counted
            std::uint64_t wasted = 0;
            for (const SequenceWaste& waste : wasteOf(*recording, lane, state)) wasted += waste.total();
            QCOMPARE(wasted, lane.step(step).slots.reserved + lane.step(step).slots.internal);
            ++compared;
        }
        QVERIFY(compared > 40);
    }

    // What one pass keeps says the same at every step as reading the events up to it.
    void timesAtAnyStepAreThoseOfReadingUpToIt_data() {
        QTest::addColumn<int>("kind");
        QTest::newRow("shared by hand") << 0;
        QTest::newRow("forks, preemptions, swaps") << 1;
        QTest::newRow("chunks, rejection, waiting") << 2;
    }
    void timesAtAnyStepAreThoseOfReadingUpToIt() {
        QFETCH(int, kind);
        const auto recording = kind == 0 ? m_recording : kind == 1 ? demo_sharing_recording() : demo_recording();
        for (std::uint32_t l = 0; l < recording->lanes().size(); ++l) {
            const LaneRecord& lane = recording->lane(LaneId(l));
            RequestTimeline timeline;
            timeline.update(*recording, LaneId(l), std::atomic<bool>(false));
            QCOMPARE(timeline.steps(), lane.step_count());
            for (std::size_t step = 0; step < lane.step_count(); step += 7) {
                const auto expected = all_request_times(*recording, lane, step);
                for (std::uint32_t s = 0; s < expected.size(); ++s) {
                    const RequestTimes times = timeline.at(SequenceId(s), step, true);
                    QCOMPARE(times.queue_ms, expected[s].queue_ms);
                    QCOMPARE(times.time_to_first_token_ms, expected[s].time_to_first_token_ms);
                    QCOMPARE(times.inter_token_ms, expected[s].inter_token_ms);
                    QCOMPARE(times.output_tokens, expected[s].output_tokens);
                    QCOMPARE(times.finish_reason, expected[s].finish_reason);
                    QCOMPARE(times.reason, expected[s].reason);
                    QCOMPARE(times.dropped, expected[s].dropped);
                }
            }
        }
    }

    void countsOfASequenceFollowTheCursor() {
        SequenceFacts facts;
        facts.update(m_recording, LaneId(0));
        QCOMPARE(facts.upTo(SequenceId(0), 1).copies, 0u);
        QCOMPARE(facts.upTo(SequenceId(0), 2).copies, 1u);
        QCOMPARE(facts.upTo(SequenceId(0), 6).copied_slots, 3u);
        QCOMPARE(facts.upTo(SequenceId(1), 2).preemptions, 0u);
        QCOMPARE(facts.upTo(SequenceId(1), 3).preemptions, 1u);
        QCOMPARE(facts.upTo(SequenceId(3), 4).hit_tokens, 8u);
        QCOMPARE(facts.upTo(SequenceId(2), 4).nulled, 1u);
    }

private:
    std::shared_ptr<const Recording> m_recording;
    std::unique_ptr<Cursor> m_cursor;
};

QTEST_MAIN(TestSequenceViews)
#include "tst_sequence_views.moc"
