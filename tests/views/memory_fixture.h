// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the tests of the Memory tab's pictures share: pointer helpers and a recording written by hand.
#pragma once

#include "engine/record/writer.h"
#include "tests/views/compare_fixture.h"

#include <QTest>
#include <QWheelEvent>

namespace kvloupe {

inline void show(View& view, int width = 900, int height = 420) {
    view.resize(width, height);
    view.show();
    QVERIFY(QTest::qWaitForWindowExposed(&view));
}

inline void wheel(View& view, const QPointF& at, int delta, Qt::KeyboardModifiers modifiers = {}) {
    QWheelEvent turn(at, view.mapToGlobal(at), {}, QPoint(0, delta), Qt::NoButton, modifiers, Qt::NoScrollPhase, false);
    QCoreApplication::sendEvent(&view, &turn);
}

// A lane of the accounting kind that forks, copies, caches and evicts: written by hand, so that every state is known.
//   step 0: sequence 0 takes blocks 1, 2, 3       step 1: block 1 is stored; sequence 1 forks at 40: shares 1, 2, 3
//   step 2: sequence 1 copies block 3 to 4        step 3: sequence 0 ends: 3 is free, 1 and 2 keep an owner
//   step 4: sequence 1 ends: 4, 2 free, 1 cached  step 5: nothing          step 6: sequence 2 evicts and takes 1
inline std::shared_ptr<const Recording> sharing() {
    RecordingWriter writer("sharing", 1 << 20);
    writer.set_time(0);
    LaneInfo info;
    info.name = "paged";
    info.cache_dtype = "f16";
    info.attention_variant = "none";
    info.block_size = 16;
    info.blocks = 9;
    info.block_bytes = 1024;
    info.bytes_per_token = 64;
    LaneWriter& lane = writer.add_lane(info, std::make_shared<VocabularyText>());
    writer.lanes_complete();
    RequestInfo request;
    request.id = "a";
    request.prompt = std::vector<TokenId>(40, 1);
    request.max_new_tokens = 8;
    writer.add_request(request);
    lane.add_sequence({RequestId(0), {}, 0});
    lane.add_sequence({RequestId(0), SequenceId(0), 40});
    lane.add_sequence({RequestId(0), {}, 0});
    const auto emit = [&lane](EventKind kind, Cause cause, std::uint32_t sequence, std::uint32_t block = Index<int>::none_value,
                              std::uint32_t other = Event{}.other, std::uint32_t tokens = 0) {
        Event event;
        event.kind = kind;
        event.cause = cause;
        event.sequence = SequenceId(sequence);
        event.block = BlockId(block);
        event.other = other;
        event.tokens = tokens;
        lane.event(event);
    };
    const auto end = [&lane] {
        StepRecord counters;
        counters.used_blocks = lane.state().used_blocks();
        lane.end_step(counters);
    };
    lane.begin_step();
    emit(EventKind::arrive, Cause::submitted, 0, Index<int>::none_value, Event{}.other, 40);
    emit(EventKind::admit, Cause::fits_beside_running, 0);
    for (std::uint32_t i = 0; i < 3; ++i) emit(EventKind::allocate, Cause::first_slot_of_block, 0, i + 1, i);
    emit(EventKind::prefill, Cause::whole_prompt, 0, Index<int>::none_value, 0, 40);
    end();
    lane.begin_step();
    emit(EventKind::store, Cause::block_full, 0, 1, 7, 9);
    emit(EventKind::fork, Cause::requested, 1, Index<int>::none_value, 0, 40);
    end();
    lane.begin_step();
    emit(EventKind::copy_on_write, Cause::shared_block_written, 1, 3, 4, 8);
    emit(EventKind::decode, Cause::next_token, 1, Index<int>::none_value, 40, 1);
    end();
    lane.begin_step();
    emit(EventKind::finish, Cause::length_reached, 0, Index<int>::none_value, Event{}.other, 1);
    for (const std::uint32_t block : {3u, 2u, 1u}) emit(EventKind::free, Cause::sequence_finished, 0, block, 0);
    end();
    lane.begin_step();
    emit(EventKind::finish, Cause::length_reached, 1, Index<int>::none_value, Event{}.other, 1);
    for (const std::uint32_t block : {4u, 2u, 1u}) emit(EventKind::free, Cause::sequence_finished, 1, block, 0);
    end();
    lane.begin_step();
    end();
    lane.begin_step();
    emit(EventKind::evict, Cause::block_needed, 2, 1);
    emit(EventKind::allocate, Cause::first_slot_of_block, 2, 1, 0);
    end();
    writer.set_phase(Phase::paused);
    return writer.recording();
}

}  // namespace kvloupe
