// SPDX-License-Identifier: GPL-3.0-or-later
//
// Times scheduler, prefix tree and genealogy on a long recording at 1600 x 900: the first reading, and then a frame from the
// input to the end of painting, for moves of the cursor and the pointer and for zooming.
// kvloupe_tree_bench [STEPS BLOCKS]; runs without a display (QT_QPA_PLATFORM=offscreen is set where it is not given).
#include "tests/support/demo_sharing.h"
#include "views/view.h"
#include "views/view_factory.h"

#include <QApplication>
#include <QElapsedTimer>
#include <QWheelEvent>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

namespace {

using namespace kvloupe;

// CPU time of this thread, in milliseconds: what a frame costs where other programs take the processor away.
double threadMilliseconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

template <class F>
void measure(const QString& name, QWidget& view, int count, F&& move) {
    std::vector<double> frames;
    for (int i = 0; i < count; ++i) {
        const double before = threadMilliseconds();
        move(i);
        view.update();
        QApplication::processEvents();
        frames.push_back(threadMilliseconds() - before);
    }
    std::sort(frames.begin(), frames.end());
    std::printf("  %-28s %3d frames  p50 %8.2f  p95 %8.2f  max %8.2f ms of CPU\n", qPrintable(name), count, frames[frames.size() / 2],
                frames[frames.size() * 95 / 100], frames.back());
}

void wheel(QWidget& view, const QPointF& point, int delta, Qt::KeyboardModifiers modifiers) {
    QWheelEvent event(point, view.mapToGlobal(point), {}, QPoint(0, delta), Qt::NoButton, modifiers, Qt::NoScrollPhase, false);
    QCoreApplication::sendEvent(&view, &event);
}

}  // namespace

int main(int argc, char** argv) {
    if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
    QApplication app(argc, argv);
    const auto steps = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[1]) : 10000);
    const auto blocks = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 1000000);
    const auto recording = demo_sharing_recording(DemoSharingOptions::large(steps, blocks));
    const LaneRecord& lane = recording->lane(LaneId(0));
    std::printf("%u steps, %u blocks: %zu events, %zu sequences\n", steps, blocks, lane.events().size(), lane.sequences().size());
    for (const char* id : {"schedule", "prefix-tree", "genealogy"}) {
        Cursor cursor;
        cursor.setRecording(recording);
        const int middle = static_cast<int>(steps) * 3 / 5;
        cursor.setStep(middle);
        cursor.state();
        if (QLatin1String(id) == QLatin1String("genealogy")) {  // the block with the most owners
            Pick pick;
            pick.block = BlockId(1);
            for (std::uint32_t b = 1; b < cursor.state()->blocks().size(); ++b)
                if (cursor.state()->blocks()[b].owners > cursor.state()->blocks()[pick.block->value].owners) pick.block = BlockId(b);
            cursor.lock(pick);
        }
        const auto view = createView(QLatin1String(id), &cursor);
        view->resize(1600, 900);
        const double before = threadMilliseconds();
        view->show();
        QApplication::processEvents();
        std::printf("%s: read and drawn in %.0f ms of CPU\n", id, threadMilliseconds() - before);
        measure(QStringLiteral("nothing changes"), *view, 20, [](int) {});
        measure(QStringLiteral("the cursor moves by a step"), *view, 20, [&](int i) { cursor.setStep(middle + i); });
        measure(QStringLiteral("the pointer moves"), *view, 40, [&](int i) {
            Pick pick;
            pick.lane = LaneId(0);
            pick.sequence = SequenceId(static_cast<std::uint32_t>(i));
            cursor.setHover(pick);
        });
        measure(QStringLiteral("zoom in, steps or tokens"), *view, 24, [&](int) {
            wheel(*view, QPointF(900, 12), 60, QLatin1String(id) == QLatin1String("prefix-tree") ? Qt::ControlModifier : Qt::NoModifier);
        });
        measure(QStringLiteral("zoom in, rows"), *view, 40, [&](int) { wheel(*view, QPointF(900, 300), 60, Qt::ControlModifier); });
        measure(QStringLiteral("the cursor moves, zoomed"), *view, 20, [&](int i) { cursor.setStep(middle + i); });
    }
    return 0;
}
