// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/event_check.h"
#include "engine/record/kvt_reader.h"
#include "engine/record/lane_state_code.h"

#include <utility>

namespace kvloupe {

namespace {

struct Mark {
    std::int64_t step = 0;
    std::int64_t value = 0;
};

Result<std::vector<Mark>> marks_of(SqlDatabase& database, const std::string& sql) {
    std::vector<Mark> marks;
    auto statement = database.prepare(sql);
    if (!statement) return statement.error();
    for (;;) {
        const auto row = statement->step();
        if (!row) return row.error();
        if (!*row) return marks;
        marks.push_back({statement->integer(0), statement->columns() > 1 ? statement->integer(1) : 0});
    }
}

void check_structure(SqlDatabase& database, std::vector<std::string>& wrong) {
    auto statement = database.prepare("PRAGMA integrity_check(20)");
    if (!statement) {
        wrong.push_back(statement.error().message());
        return;
    }
    for (;;) {
        const auto row = statement->step();
        if (!row) wrong.push_back(row.error().message());
        if (!row || !*row) return;
        if (statement->text(0) != "ok") wrong.push_back("SQLite: " + std::string(statement->text(0)));
    }
}

// Every element of a log, so that every row is read and judged.
template <class Log>
void touch(const Log& log) {
    for (std::size_t i = 0; i < log.size(); i += Log::chunk_size) (void)log[i];
}

void check_lane(SqlDatabase& database, const LaneRecord& lane, std::uint32_t number, std::vector<std::string>& wrong) {
    const std::string name = "Lane '" + lane.info().name + "': ";
    touch(lane.events());
    touch(lane.tokens());
    touch(lane.alternatives());
    touch(lane.stages());
    touch(lane.staged_steps());
    touch(lane.attention());
    touch(lane.attention_weights());
    touch(lane.sequences());
    touch(lane.strings());
    std::uint64_t events = 0, tokens = 0, attention = 0;
    for (std::size_t step = 0; step < lane.step_count(); ++step) {
        const StepRecord& record = lane.step(step);
        if (record.events.begin != events || record.tokens.begin != tokens || record.attention.begin != attention) {
            wrong.push_back(name + "step " + std::to_string(step) + " does not begin where the one before it ended");
            return;
        }
        events = record.events.end;
        tokens = record.tokens.end;
        attention = record.attention.end;
    }
    if (events != lane.events().size() || tokens != lane.tokens().size() || attention != lane.attention().size())
        wrong.push_back(name + "there are rows that no step names");

    const std::string of_lane = " WHERE lane = " + std::to_string(number);
    const auto checks = marks_of(database, "SELECT step, value FROM checks" + of_lane + " AND what = 'events' ORDER BY step");
    if (!checks) return wrong.push_back(checks.error().message());
    EventCheck check;
    std::uint64_t checked = 0;
    for (const Mark& mark : *checks) {
        if (mark.step < 0 || static_cast<std::size_t>(mark.step) >= lane.step_count())
            return wrong.push_back(name + "a check stands at step " + std::to_string(mark.step) + ", which is not there");
        for (const std::uint64_t end = lane.step(static_cast<std::size_t>(mark.step)).events.end; checked < end; ++checked)
            check.add(lane.events()[checked]);
        if (check.value() != mark.value)
            return wrong.push_back(name + "the events up to step " + std::to_string(mark.step) + " are not those that were recorded");
    }

    const auto frames = marks_of(database, "SELECT step FROM key_frames" + of_lane + " ORDER BY step");
    if (!frames) return wrong.push_back(frames.error().message());
    for (const Mark& frame : *frames) {
        if (frame.step < 1) continue;  // the state that a cut begins with has nothing before it
        const auto step = static_cast<std::size_t>(frame.step);
        if (step >= lane.step_count()) return wrong.push_back(name + "a key frame stands at step " + std::to_string(step) + ", which is not there");
        LaneState replayed = lane.state_after(step - 1);
        replayed.begin_step(static_cast<std::uint32_t>(step));
        const LogRange range = lane.step(step).events;
        for (std::uint64_t event = range.begin; event < range.end; ++event) replayed.apply(lane.events()[event]);
        if (LaneStateCode::encode(replayed) != LaneStateCode::encode(lane.state_after(step)))
            wrong.push_back(name + "the key frame at step " + std::to_string(step) + " is not the state that the events lead to");
    }
}

}  // namespace

std::vector<std::string> check_kvt(const std::string& path) {
    std::vector<std::string> wrong;
    const auto stored = open_kvt(path);
    if (!stored) return {stored.error().message()};
    auto store = KvtStore::open(path);
    if (!store) return {store.error().message()};
    check_structure((*store)->database(), wrong);
    const Recording& recording = *stored->recording;
    touch(recording.requests());
    for (std::uint32_t lane = 0; lane < recording.lanes().size(); ++lane)
        check_lane((*store)->database(), *recording.lanes()[lane], lane, wrong);
    if (const std::string damage = recording.lanes().front()->damage(); !damage.empty()) wrong.push_back(damage);
    return wrong;
}

}  // namespace kvloupe
