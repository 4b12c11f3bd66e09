// SPDX-License-Identifier: GPL-3.0-or-later
#include <QObject>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "tests/support/demo_recording.h"
#include "views/attention_index.h"
#include "views/inspector_view.h"
#include "views/next_token_view.h"
#include "views/pool_view.h"
#include "views/timeline_view.h"
#include "views/tokens_view.h"
#include "views/view_factory.h"

#include <QMouseEvent>
#include <QRegularExpression>
#include <QSignalSpy>
#include <QTest>

#include <cmath>

using namespace kvloupe;

namespace {

void moveTo(QWidget& widget, const QPointF& point) {
    QMouseEvent event(QEvent::MouseMove, point, widget.mapToGlobal(point), Qt::NoButton, Qt::NoButton, Qt::NoModifier);
    QCoreApplication::sendEvent(&widget, &event);
}

}  // namespace

class TestStepViews : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup() { m_cursor.reset(); }
    void hoverOnATokenNamesItsBlock();
    void hoverOnASlotNamesItsToken();
    void clickLocksAndEscapeClears();
    void arrowsWalkThroughTokens();
    void arrowsWalkThroughBlocks();
    void poolLayoutGivesWayInSteps_data();
    void poolLayoutGivesWayInSteps();
    void everyBlockHasItsOwnPlace();
    void uncachedLaneSaysThatItHasNoPool();
    void attentionIndexFindsEveryRow();
    void nextTokenFollowsTheCursor();
    void clickOnTheTimelineMovesTheCursor();
    void inspectorTellsWhatIsLocked();
    void unrecordedAttentionOffersToWatch();

private:
    std::shared_ptr<const Recording> m_recording;
    std::unique_ptr<Cursor> m_cursor;
};

void TestStepViews::initTestCase() {
    DemoOptions options;
    options.steps = 120;
    m_recording = demo_recording(options);
}

void TestStepViews::init() {
    QTest::failOnWarning(QRegularExpression(QStringLiteral(".*")));
    m_cursor = std::make_unique<Cursor>();
    m_cursor->setRecording(m_recording);
    m_cursor->setLane(LaneId(1));
    m_cursor->setStep(40);
}

void TestStepViews::hoverOnATokenNamesItsBlock() {
    TokensView view(m_cursor.get());
    view.choose(QStringLiteral("shown"), 1);  // the tokens of the sequence in focus
    view.resize(900, 260);
    view.show();
    const auto& table = m_cursor->state()->sequences()[0].table;
    for (const std::uint32_t position : {0u, 17u, 40u, 63u}) {
        const QRectF cell = view.cellRect(position);
        QVERIFY(!cell.isEmpty());
        moveTo(view, cell.center());
        QVERIFY(m_cursor->hover().position == position);
        QVERIFY(m_cursor->hover().block == table[position / 16]);
    }
}

void TestStepViews::hoverOnASlotNamesItsToken() {
    PoolView view(m_cursor.get());
    view.resize(900, 440);
    view.show();
    const BlockId block = m_cursor->state()->sequences()[0].table[1];
    const QRectF cell = view.layoutOfScreen().cell(block.value);
    moveTo(view, QPointF(cell.left() + 4 + (cell.width() - 8) * 5.5 / 16, cell.bottom() - 6));
    QVERIFY(m_cursor->hover().block == block);
    QVERIFY(m_cursor->hover().position == 16u + 5u);
    moveTo(view, QPointF(cell.center().x(), cell.top() + 4));  // above the slots: the block as a whole
    QVERIFY(m_cursor->hover().block == block);
    QVERIFY(!m_cursor->hover().position);
}

void TestStepViews::clickLocksAndEscapeClears() {
    TokensView view(m_cursor.get());
    view.choose(QStringLiteral("shown"), 1);  // the tokens of the sequence in focus
    view.resize(900, 260);
    view.show();
    QTest::mouseClick(&view, Qt::LeftButton, {}, view.cellRect(20).center().toPoint());
    QVERIFY(m_cursor->locked().position == 20u);
    QTest::keyClick(&view, Qt::Key_Escape);
    QVERIFY(m_cursor->locked().empty());
}

void TestStepViews::arrowsWalkThroughTokens() {
    TokensView view(m_cursor.get());
    view.choose(QStringLiteral("shown"), 1);  // the tokens of the sequence in focus
    view.resize(900, 260);
    view.show();
    QTest::keyClick(&view, Qt::Key_Right);
    QVERIFY(m_cursor->hover().position == 0u);
    QTest::keyClick(&view, Qt::Key_Right);
    QTest::keyClick(&view, Qt::Key_Down);
    QVERIFY(m_cursor->hover().position == 17u);
    QTest::keyClick(&view, Qt::Key_Return);
    QVERIFY(m_cursor->locked().position == 17u);
}

void TestStepViews::arrowsWalkThroughBlocks() {
    PoolView view(m_cursor.get());
    view.resize(900, 440);
    view.show();
    QTest::keyClick(&view, Qt::Key_Right);
    QTest::keyClick(&view, Qt::Key_Right);
    QVERIFY(m_cursor->hover().block == BlockId(1));
    QTest::keyClick(&view, Qt::Key_Down);
    QVERIFY(m_cursor->hover().block == BlockId(1 + view.layoutOfScreen().columns));
    QTest::keyClick(&view, Qt::Key_Return);
    QVERIFY(!m_cursor->locked().empty());
}

void TestStepViews::poolLayoutGivesWayInSteps_data() {
    QTest::addColumn<int>("blocks");
    QTest::addColumn<bool>("slotBar");
    QTest::addColumn<bool>("id");
    QTest::addColumn<bool>("image");
    QTest::addColumn<bool>("folded");
    QTest::newRow("small") << 96 << true << true << false << false;
    QTest::newRow("no slot bar") << 500 << false << true << false << false;
    QTest::newRow("no id") << 1500 << false << false << false << false;
    QTest::newRow("one image") << 10000 << false << false << true << false;
    QTest::newRow("folded") << 1000000 << false << false << true << true;
}

void TestStepViews::poolLayoutGivesWayInSteps() {
    QFETCH(int, blocks);
    QFETCH(bool, slotBar);
    QFETCH(bool, id);
    QFETCH(bool, image);
    QFETCH(bool, folded);
    const PoolLayout layout = PoolLayout::compute(QRectF(0, 0, 900, 440), static_cast<std::uint32_t>(blocks), 4, 1.0);
    QCOMPARE(layout.slotBar, slotBar);
    QCOMPARE(layout.id, id);
    QCOMPARE(layout.image, image);
    QCOMPARE(layout.blocksPerDot > 1, folded);
}

void TestStepViews::everyBlockHasItsOwnPlace() {
    for (const std::uint32_t blocks : {1u, 35u, 96u, 777u, 5000u, 40000u}) {
        const PoolLayout layout = PoolLayout::compute(QRectF(0, 0, 885, 430), blocks, 5, 1.0);
        for (std::uint32_t block = 0; block < blocks; block += 1 + blocks / 50) {
            const QRectF cell = layout.cell(block);
            QVERIFY(layout.grid.adjusted(-1, -1, 1, 1).contains(cell));
            if (layout.blocksPerDot == 1) QVERIFY(layout.blockAt(cell.center()) == block);
        }
    }
}

void TestStepViews::uncachedLaneSaysThatItHasNoPool() {
    m_cursor->setLane(LaneId(3));
    PoolView view(m_cursor.get());
    view.resize(600, 300);
    view.catchUp();
    QVERIFY(view.accessibleDescription().contains(QStringLiteral("no KV cache")));
}

void TestStepViews::attentionIndexFindsEveryRow() {
    AttentionIndex index;
    index.update(m_cursor->sharedRecording(), LaneId(1), SequenceId(0));
    const LaneRecord& lane = *m_cursor->laneRecord();
    for (const std::size_t step : {3u, 25u, 40u}) {
        const auto rows = index.rows(2, 5, step);
        const std::uint32_t computed = lane.state_after(step).sequences()[0].computed_tokens;
        QCOMPARE(rows.size(), std::size_t{computed});
        for (const AttentionRow* row : rows) {
            QVERIFY(row);
            double sum = 0;
            for (std::uint32_t key = 0; key < row->key_count; ++key) sum += static_cast<double>(index.weight(*row, key));
            QVERIFY(std::abs(sum - 1.0) < 1e-4);
        }
    }
}

void TestStepViews::nextTokenFollowsTheCursor() {
    NextTokenView view(m_cursor.get());
    view.resize(440, 200);
    view.show();
    QVERIFY(view.shownRecord());
    const std::uint32_t now = view.shownRecord()->position;
    m_cursor->setStep(39);
    QCOMPARE(view.shownRecord()->position, now - 1);
    Pick pick = Pick{};
    pick.lane = LaneId(1);
    pick.sequence = SequenceId(0);
    pick.position = 40;
    m_cursor->lock(pick);
    QCOMPARE(view.shownRecord()->position, 40u);
}

void TestStepViews::clickOnTheTimelineMovesTheCursor() {
    TimelineView view(m_cursor.get());
    view.resize(1000, 120);
    view.show();
    QTest::mouseClick(&view, Qt::LeftButton, {}, QPoint(qRound(view.xOfStep(100.5)), 60));
    QCOMPARE(m_cursor->step(), 100);
    QTest::keyClick(&view, Qt::Key_Left);
    QCOMPARE(m_cursor->step(), 99);
    QTest::keyClick(&view, Qt::Key_Home);
    QCOMPARE(m_cursor->step(), 0);
}

void TestStepViews::inspectorTellsWhatIsLocked() {
    InspectorView view(m_cursor.get());
    view.resize(260, 380);
    view.show();
    QVERIFY(view.subtitle().contains(QStringLiteral("step 40")));
    Pick pick;
    pick.lane = LaneId(1);
    pick.block = m_cursor->state()->sequences()[0].table[0];
    m_cursor->lock(pick);
    QVERIFY(view.subtitle().contains(QStringLiteral("block %1").arg(pick.block->value)));
    QVERIFY(view.subtitle().contains(QStringLiteral("Esc")));
    const auto held = std::find_if(view.rows().begin(), view.rows().end(),
                                   [](const InspectorView::Row& row) { return row.label == QLatin1String("Bytes held"); });
    QVERIFY(held != view.rows().end());
    QVERIFY(held->origin == Origin::measured);
}

void TestStepViews::unrecordedAttentionOffersToWatch() {
    DemoOptions options;
    options.attention = false;
    options.steps = 10;
    m_cursor->setRecording(demo_recording(options));
    m_cursor->setHead(3, 0);
    const auto view = createView(QStringLiteral("attention"), m_cursor.get());
    view->resize(400, 400);
    view->show();
    QSignalSpy asked(view.get(), &View::emptyAction);
    auto* button = view->findChild<QWidget*>(QString(), Qt::FindDirectChildrenOnly);
    QVERIFY(button && button->isVisible());
    QTest::mouseClick(button, Qt::LeftButton);
    QCOMPARE(asked.count(), 1);
    QCOMPARE(asked.first().first().toString(), QStringLiteral("watch:3"));
}

QTEST_MAIN(TestStepViews)
#include "tst_step_views.moc"
