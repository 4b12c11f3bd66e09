// SPDX-License-Identifier: GPL-3.0-or-later
#include <QObject>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "tests/support/demo_recording.h"
#include "tests/views/sharing_fixture.h"
#include "views/pool_view.h"

#include <QMouseEvent>
#include <QRegularExpression>
#include <QSignalSpy>
#include <QTest>

#include <cmath>

using namespace kvloupe;

class TestPoolView : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { m_recording = SharingFixture().record(); }

    void init() {
        QTest::failOnWarning(QRegularExpression(QStringLiteral(".*")));
        m_cursor = std::make_unique<Cursor>();
        m_cursor->setRecording(m_recording);
        m_view = std::make_unique<PoolView>(m_cursor.get());
        m_view->resize(900, 480);
        m_view->show();
    }

    void cleanup() {
        m_view.reset();
        m_cursor.reset();
    }

    void ownersOfEveryBlockAreThoseOfTheTables() {
        for (int step = 0; step < m_cursor->stepCount(); ++step) {
            m_cursor->setStep(step);
            const LaneState& state = *m_cursor->state();
            for (std::uint32_t block = 0; block < state.blocks().size(); ++block) {
                const auto fast = m_view->blocks().owners(block);
                const auto slow = ownersOf(state, BlockId(block));
                QCOMPARE(fast.size(), slow.size());
                if (block > 0) QCOMPARE(static_cast<std::uint32_t>(fast.size()), state.blocks()[block].owners);
                for (std::size_t i = 0; i < slow.size(); ++i) {
                    QVERIFY(fast[i].sequence == slow[i].sequence);
                    QCOMPARE(fast[i].logical, slow[i].logical);
                }
            }
        }
    }

    void aCopyIsShownInItsStepAlone() {
        m_cursor->setStep(2);
        QCOMPARE(static_cast<int>(m_view->blocks().copies().size()), 1);
        const PoolCopy& copy = m_view->blocks().copies().front();
        QCOMPARE(copy.source.value, 3u);
        QCOMPARE(copy.destination.value, 6u);
        QCOMPARE(copy.slots, 3u);
        QCOMPARE(m_view->calloutTitle(), QStringLiteral("Copy-on-write: block 3 → block 6"));
        QVERIFY2(m_view->calloutCause().contains(QStringLiteral("another owner")), qPrintable(m_view->calloutCause()));
        for (const int step : {1, 3}) {
            m_cursor->setStep(step);
            QVERIFY(m_view->blocks().copies().empty());
        }
    }

    void theCalloutLeadsToTheForkThatShared() {
        m_cursor->setStep(2);
        const QRectF link = m_view->layoutOfScreen().calloutLink;
        QVERIFY(!link.isEmpty());
        QTest::mouseClick(m_view.get(), Qt::LeftButton, {}, link.center().toPoint());
        QVERIFY(m_cursor->locked().event.has_value());
        QVERIFY(m_cursor->laneRecord()->events()[*m_cursor->locked().event].kind == EventKind::fork);
    }

    void anEvictedBlockIsMarkedInItsStepAlone() {
        m_cursor->setStep(5);
        QVERIFY(m_view->blocks().evicted(4));
        QVERIFY(m_view->csv().contains(QRegularExpression(QStringLiteral("\r\n4,used,1,[^\r]*,yes,"))));
        m_cursor->setStep(6);
        QVERIFY(!m_view->blocks().evicted(4));
    }

    void everyColourHasItsNumber_data() {
        QTest::addColumn<int>("colour");
        QTest::addColumn<int>("step");
        QTest::addColumn<int>("block");
        QTest::addColumn<double>("value");
        QTest::newRow("shared by two") << static_cast<int>(PoolColour::count) << 2 << 1 << 2.0;
        QTest::newRow("alone") << static_cast<int>(PoolColour::count) << 2 << 6 << 1.0;
        QTest::newRow("nobody") << static_cast<int>(PoolColour::count) << 2 << 9 << 0.0;
    }

    void everyColourHasItsNumber() {
        QFETCH(int, colour);
        QFETCH(int, step);
        QFETCH(int, block);
        QFETCH(double, value);
        m_view->choose(QStringLiteral("colour"), colour);
        m_cursor->setStep(step);
        const auto shown = m_view->blocks().value(static_cast<std::uint32_t>(block));
        QVERIFY(shown.has_value());
        QCOMPARE(*shown, value);
    }

    void attentionMassOfTheBlocksOfASequenceSumsToOne() {
        DemoOptions options;
        options.steps = 40;
        m_cursor->setRecording(demo_recording(options));
        m_cursor->setLane(LaneId(1));
        m_cursor->setHead(2, 5);
        m_cursor->setStep(20);
        m_view->choose(QStringLiteral("colour"), static_cast<int>(PoolColour::mass));
        const LaneState& state = *m_cursor->state();
        double sum = 0;
        for (const BlockId block : state.sequences()[0].table) sum += m_view->blocks().value(block.value).value_or(0);
        QVERIFY2(std::abs(sum - 1.0) < 1e-4, qPrintable(QString::number(sum)));
        m_cursor->setHead(3, 1);
        double other = 0;
        for (const BlockId block : state.sequences()[0].table) other += m_view->blocks().value(block.value).value_or(0);
        QVERIFY(std::abs(other - 1.0) < 1e-4);
    }

    void theColourIsReachedByTheKeyboardAndToldInTheHead() {
        m_cursor->setStep(2);
        QSignalSpy changed(m_view.get(), &View::choiceChanged);
        QTest::keyClick(m_view.get(), Qt::Key_C);
        QCOMPARE(changed.count(), 1);
        QVERIFY(m_view->colour() == PoolColour::count);
        QVERIFY(m_view->subtitle().contains(QStringLiteral("owner count")));
        for (int i = 1; i < pool_colour_count; ++i) QTest::keyClick(m_view.get(), Qt::Key_C);
        QVERIFY(m_view->colour() == PoolColour::owner);
        QTest::keyClick(m_view.get(), Qt::Key_C, Qt::ShiftModifier);
        QCOMPARE(m_view->choices().back().current, 1);
    }

    void theFreeQueueStandsInTheTableInItsOrder() {
        m_cursor->setStep(3);  // 8, 9, then 4 at the tail
        const QString csv = m_view->csv();
        const auto placeOf = [&csv](int block) {
            for (const QString& line : csv.split(QStringLiteral("\r\n")))
                if (line.startsWith(QString::number(block) + QLatin1Char(','))) return line.section(QLatin1Char(','), 11, 11);
            return QString();
        };
        QCOMPARE(placeOf(8), QStringLiteral("1"));
        QCOMPARE(placeOf(9), QStringLiteral("2"));
        QCOMPARE(placeOf(4), QStringLiteral("3"));
        QCOMPARE(placeOf(1), QString());
    }

    void aContiguousLaneShowsRegions() {
        m_cursor->setRecording(SharingFixture("contiguous").record());
        m_cursor->setStep(1);
        QCOMPARE(static_cast<int>(m_view->blocks().regions().size()), 2);
        QCOMPARE(m_view->blocks().regions()[0].first, 1u);
        QCOMPARE(m_view->blocks().regions()[0].count, 3u);
        QCOMPARE(m_view->blocks().regions()[1].first, 4u);
        QCOMPARE(m_view->blocks().regions()[1].count, 2u);
    }

    void theCopyArrowIsDrawnInTheFocusColour() {
        m_cursor->setStep(2);
        // Below the row of cells there is nothing but the arrow and what it says.
        const QRectF cells = m_view->layoutOfScreen().cell(3).united(m_view->layoutOfScreen().cell(6));
        const QRect below(qRound(cells.left()), qRound(cells.bottom()) + 6, qRound(cells.width()), 18);
        const QRgb focus = Palette::of(m_view.get()).focus.rgb();
        const auto count = [&] {
            const QImage image = m_view->grab(below).toImage();
            int pixels = 0;
            for (int y = 0; y < image.height(); ++y)
                for (int x = 0; x < image.width(); ++x) pixels += image.pixel(x, y) == focus;
            return pixels;
        };
        QVERIFY2(count() > 30, qPrintable(QString::number(count())));
        m_cursor->setStep(1);
        QCOMPARE(count(), 0);
    }

    void theContextMenuIsAskedForWithWhatIsMeant() {
        m_cursor->setStep(2);
        QSignalSpy asked(m_view.get(), &View::menuRequested);
        const QPoint point = m_view->layoutOfScreen().cell(6).center().toPoint();
        QMouseEvent move(QEvent::MouseMove, point, m_view->mapToGlobal(point), Qt::NoButton, Qt::NoButton, Qt::NoModifier);
        QCoreApplication::sendEvent(m_view.get(), &move);
        QContextMenuEvent menu(QContextMenuEvent::Mouse, point, m_view->mapToGlobal(point));
        QCoreApplication::sendEvent(m_view.get(), &menu);
        QCOMPARE(asked.count(), 1);
        QVERIFY(m_cursor->hover().block == BlockId(6));
    }

private:
    std::shared_ptr<const Recording> m_recording;
    std::unique_ptr<Cursor> m_cursor;
    std::unique_ptr<PoolView> m_view;
};

QTEST_MAIN(TestPoolView)
#include "tst_pool_view.moc"
