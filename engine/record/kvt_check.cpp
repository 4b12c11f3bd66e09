// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/kvt_reader.h"
#include "engine/record/kvt_schema.h"
#include "engine/record/lane_state_code.h"
#include "engine/record/row_check.h"

#include <optional>

namespace kvloupe {

namespace {

// What the file says of a table's rows; nothing where it says nothing (lists of a file that was not closed).
Result<std::optional<CheckedRows>> said_of(SqlDatabase& database, int lane, const std::string& table) {
    auto statement = database.prepare("SELECT rows, value FROM checks WHERE lane = ? AND name = ?");
    if (!statement) return statement.error();
    statement->bind(1, std::int64_t{lane});
    statement->bind_text(2, table);
    const auto row = statement->step();
    if (!row) return row.error();
    if (!*row) return std::optional<CheckedRows>();
    return std::optional(CheckedRows{statement->integer(0), statement->integer(1)});
}

void check_rows(SqlDatabase& database, int lane, const std::string& whose, const std::vector<CheckedTable>& tables, bool must_say,
                std::vector<std::string>& wrong) {
    for (const CheckedTable& table : tables) {
        const auto said = said_of(database, lane, table.name);
        const auto found = said ? check_of(database, table.sql) : Result<CheckedRows>(said.error());
        if (!found) wrong.push_back(found.error().message());
        else if (!said->has_value() && must_say) wrong.push_back(whose + "the file does not say what " + table.name + " holds");
        else if (said->has_value() && said->value() != *found)
            wrong.push_back(whose + "the rows of " + table.name + " are not those that were recorded");
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

void check_lane(KvtStore& store, const LaneRecord& lane, std::uint32_t number, std::vector<std::string>& wrong) {
    SqlDatabase& database = store.database();
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
    // A cut keeps tokens from before its first step.
    std::uint64_t events = 0, tokens = 0, attention = 0;
    if (lane.step_count() > 0 && lane.begins_later()) tokens = lane.step(0).tokens.begin;
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

    check_rows(database, static_cast<int>(number), name, checked_logs(number), lane.step_count() > 0, wrong);
    auto frames = database.prepare(kvt::key_frame_steps(store.version(), number));
    if (!frames) return wrong.push_back(frames.error().message());
    for (;;) {
        const auto row = frames->step();
        if (!row) return wrong.push_back(row.error().message());
        if (!*row) return;
        if (frames->integer(0) < 1) continue;  // the state that a cut begins with has nothing before it
        const auto step = static_cast<std::size_t>(frames->integer(0));
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
    if (!stored->meta.count("complete")) return {path + ": the file does not say whether it was closed"};
    check_structure((*store)->database(), wrong);
    check_rows((*store)->database(), -1, "", checked_lists((*store)->version()), stored->meta.at("complete") == "1", wrong);
    const Recording& recording = *stored->recording;
    touch(recording.requests());
    for (std::uint32_t lane = 0; lane < recording.lanes().size(); ++lane)
        check_lane(**store, *recording.lanes()[lane], lane, wrong);
    if (const std::string damage = recording.lanes().front()->damage(); !damage.empty()) wrong.push_back(damage);
    return wrong;
}

}  // namespace kvloupe
