// SPDX-License-Identifier: GPL-3.0-or-later
//
// Pans and zooms the block history of 1,000,000 blocks x 10,000 steps at 1600 x 900 and prints how long a frame takes:
// from the input to the end of painting, in the window's thread, while jobs count tiles in the background; one frame
// every 16 ms.
// kvloupe_history_bench [BLOCKS STEPS]; runs without a display (QT_QPA_PLATFORM=offscreen is set where it is not given).
#include "engine/record/writer.h"
#include "views/history_view.h"

#include <QApplication>
#include <QElapsedTimer>
#include <QThread>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <vector>

namespace {

using namespace kvloupe;

// Sequences of a thousand blocks: half of them taken by the prompt, the rest one by one while it decodes; freed blocks
// stay cached and are evicted when they are taken again, first in first out.
class Workload {
public:
    Workload(std::uint32_t blocks, std::uint32_t steps) : m_writer("bench", 1 << 20), m_blocks(blocks), m_steps(steps) {
        LaneInfo info;
        info.name = "paged";
        info.cache_dtype = "f16";
        info.attention_variant = "GQA";
        info.block_size = 16;
        info.blocks = blocks;
        info.block_bytes = 32768;
        m_writer.add_lane(info, std::make_shared<VocabularyText>());
        m_writer.lanes_complete();
        RequestInfo request;
        request.id = "r";
        m_writer.add_request(request);
        for (std::uint32_t block = 1; block < blocks; ++block) m_free.push_back(block);
        m_cached.assign(blocks, false);
    }

    std::shared_ptr<const Recording> run() {
        const std::uint32_t alive = std::max(1u, m_blocks / per_sequence);
        const std::uint32_t life = std::max(1u, m_steps / generations);
        std::deque<Sequence> running;
        LaneWriter& lane = m_writer.lane(LaneId(0));
        std::uint64_t arrived = 0;
        for (std::uint32_t step = 0; step < m_steps; ++step) {
            lane.begin_step();
            for (Sequence& sequence : running)
                if ((step - sequence.began) % (life / (per_sequence / 2) + 1) == 0) take(sequence);
            while (!running.empty() && step - running.front().began >= life) {
                release(running.front());
                running.pop_front();
            }
            for (; arrived * life < std::uint64_t{step + 1} * alive && running.size() < alive; ++arrived) {
                running.push_back({lane.add_sequence({RequestId(0), {}, 0}), step, {}});
                for (std::uint32_t i = 0; i < per_sequence / 2; ++i) take(running.back());
            }
            StepRecord counters;
            counters.running = static_cast<std::uint32_t>(running.size());
            lane.end_step(counters);
        }
        m_writer.set_phase(Phase::paused);
        return m_writer.recording();
    }

private:
    static constexpr std::uint32_t per_sequence = 1000, generations = 5;
    struct Sequence {
        SequenceId id;
        std::uint32_t began = 0;
        std::vector<std::uint32_t> table;
    };
    void emit(EventKind kind, Cause cause, SequenceId sequence, std::uint32_t block, std::uint32_t other = Event{}.other) {
        Event event;
        event.kind = kind;
        event.cause = cause;
        event.sequence = sequence;
        event.block = BlockId(block);
        event.other = other;
        m_writer.lane(LaneId(0)).event(event);
    }
    void take(Sequence& sequence) {
        if (m_free.empty()) return;
        const std::uint32_t block = m_free.front();
        m_free.pop_front();
        if (m_cached[block]) emit(EventKind::evict, Cause::block_needed, sequence.id, block);
        m_cached[block] = false;
        emit(EventKind::allocate, Cause::first_slot_of_block, sequence.id, block, static_cast<std::uint32_t>(sequence.table.size()));
        sequence.table.push_back(block);
    }
    void release(Sequence& sequence) {
        for (std::size_t i = sequence.table.size(); i-- > 0;) {
            const std::uint32_t block = sequence.table[i];
            if (i % 4 != 0) {
                emit(EventKind::store, Cause::block_full, sequence.id, block, block);
                m_cached[block] = true;
            }
            emit(EventKind::free, Cause::sequence_finished, sequence.id, block, 0);
            m_free.push_back(block);
        }
    }

    RecordingWriter m_writer;
    std::uint32_t m_blocks, m_steps;
    std::deque<std::uint32_t> m_free;
    std::vector<bool> m_cached;
};

double milliseconds(const QElapsedTimer& timer) { return static_cast<double>(timer.nsecsElapsed()) / 1e6; }

// CPU time of this thread, nanoseconds: what a frame costs where other programs take the processor away.
double threadMilliseconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

double at(std::vector<double>& frames, double share) {
    std::sort(frames.begin(), frames.end());
    return frames[static_cast<std::size_t>(share * static_cast<double>(frames.size() - 1))];
}

void print(const char* name, std::vector<double> wall, std::vector<double> cpu, double settled) {
    std::printf("%-22s %4zu frames  p50 %6.2f  p95 %6.2f  max %6.2f ms   cpu p50 %6.2f  p95 %6.2f ms   sharp after %4.0f ms\n", name,
                wall.size(), at(wall, 0.5), at(wall, 0.95), at(wall, 1), at(cpu, 0.5), at(cpu, 0.95), settled);
}

// Frames at the pace of the window's clock, so that jobs deliver in between as they do there.
template <class F>
void measure(const char* name, HistoryView& view, int count, F&& move) {
    std::vector<double> frames, cpu;
    for (int i = 0; i < count; ++i) {
        QElapsedTimer timer;
        timer.start();
        const double before = threadMilliseconds();
        move(i);
        view.update();
        QApplication::processEvents();  // what jobs delivered, then one painting
        frames.push_back(milliseconds(timer));
        cpu.push_back(threadMilliseconds() - before);
        if (const double rest = 16 - milliseconds(timer); rest > 0) QThread::usleep(static_cast<unsigned long>(rest * 1000));
    }
    QElapsedTimer timer;
    timer.start();
    while (!view.settled()) QApplication::processEvents(QEventLoop::AllEvents, 5);
    print(name, std::move(frames), std::move(cpu), milliseconds(timer));
}

}  // namespace

int main(int argc, char** argv) {
    if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
    QApplication app(argc, argv);
    const auto blocks = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[1]) : 1000000);
    const auto steps = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 10000);
    QElapsedTimer timer;
    timer.start();
    const auto recording = Workload(blocks, steps).run();
    const LaneRecord& lane = recording->lane(LaneId(0));
    std::printf("%u blocks x %u steps, %zu events, written in %.0f ms\n", blocks, steps, lane.events().size(), milliseconds(timer));

    Cursor cursor;
    cursor.setRecording(recording);
    cursor.setStep(static_cast<int>(steps * 3 / 5));
    HistoryView view(&cursor);
    view.resize(1600, 900);
    timer.start();
    view.show();
    while (!view.settled()) QApplication::processEvents(QEventLoop::AllEvents, 5);
    std::printf("read and counted in %.0f ms: %llu changes, %.1f MiB for index and tiles\n", milliseconds(timer),
                static_cast<unsigned long long>(view.index()->changes()), static_cast<double>(view.memoryBytes()) / 1048576.0);

    const QPointF middle = view.frame().plot.center();
    const QPointF aside(view.frame().plot.left() + 900, view.frame().plot.top() + 260);
    measure("still, whole", view, 100, [](int) {});
    measure("zoom in, both axes", view, 130, [&](int) { view.zoomAt(aside, 0.94, 0.90); });
    measure("pan, zoomed in", view, 200, [&](int i) { view.pan(i % 40 < 20 ? 17 : -9, i % 60 < 40 ? 11 : -13); });
    measure("zoom out, both axes", view, 130, [&](int) { view.zoomAt(middle, 1 / 0.94, 1 / 0.90); });
    measure("zoom in, steps", view, 60, [&](int) { view.zoomAt(middle, 0.93, 1); });
    measure("pan, steps in close", view, 200, [&](int i) { view.pan(i % 50 < 30 ? 21 : -19, 0); });
    measure("zoom out, steps", view, 60, [&](int) { view.zoomAt(middle, 1 / 0.93, 1); });
    measure("zoom in, blocks", view, 80, [&](int) { view.zoomAt(middle, 1, 0.9); });
    measure("pan, blocks in close", view, 200, [&](int i) { view.pan(0, i % 50 < 30 ? 23 : -17); });
    view.fit();
    for (int i = 0; i < 12; ++i) view.zoomAt(aside, 0.8, 0.8);
    measure("pan, halfway", view, 300, [&](int i) { view.pan(i % 90 < 60 ? 31 : -29, i % 70 < 40 ? 19 : -23); });
    view.fit();
    measure("fit", view, 30, [](int) {});
    std::printf("%.1f MiB for index and tiles\n", static_cast<double>(view.memoryBytes()) / 1048576.0);
    return 0;
}
