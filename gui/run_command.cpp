// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/arguments.h"
#include "gui/commands.h"
#include "gui/environment.h"
#include "gui/flight_saving.h"
#include "gui/interrupts.h"
#include "gui/pictures.h"
#include "gui/stored_scenario.h"

#include "engine/record/describe.h"
#include "engine/record/file_output.h"
#include "engine/record/kvt_writer.h"
#include "engine/record/results.h"
#include "engine/serve/scenario.h"
#include "engine/serve/session.h"

#include <atomic>
#include <iostream>
#include <memory>
#include <vector>

namespace kvloupe {

namespace {

void print_lane(const Recording& recording, const LaneRecord& lane) {
    std::cout << lane.info().name << ": " << lane.step_count() << " steps";
    if (!lane.failure().empty()) std::cout << ", failed: " << lane.failure();
    std::cout << '\n';
    if (lane.step_count() == 0) return;
    const std::size_t last = lane.step_count() - 1;
    const std::vector<RequestTimes> all = all_request_times(recording, lane, last);
    for (std::uint32_t i = 0; i < all.size(); ++i) {
        const RequestTimes& times = all[i];
        if (times.dropped) continue;
        std::cout << "  " << sequence_name(recording, lane, SequenceId(i)) << ": " << times.output_tokens
                  << " tokens, " << (times.finish_reason.empty() ? "unfinished" : times.finish_reason);
        if (!times.reason.empty()) std::cout << " (" << times.reason << ")";
        if (times.time_to_first_token_ms) std::cout << ", first token after " << *times.time_to_first_token_ms << " ms";
        std::cout << '\n';
    }
    for (std::size_t step = 0; step <= last; ++step) {
        const LogRange events = lane.step(step).events;
        for (std::uint64_t i = events.begin; i < events.end; ++i)
            if (lane.events()[i].cause == Cause::action_refused)
                std::cout << "  step " << step << ": " << describe_event(recording, lane, i) << '\n';
    }
}

bool anything_ran(const Recording& recording) {
    for (const auto& lane : recording.lanes())
        for (std::size_t i = 0; i < lane->step_count(); ++i)
            if (lane->step(i).computed_tokens > 0) return true;
    return false;
}

}  // namespace

int run_command(const std::vector<std::string>& words) {
    auto arguments = Arguments::parse(words, {{"--pictures"},
                                              {"--export", "--record", "--flight-recorder", "--threads"},
                                              1,
                                              1,
                                              "kvloupe run SCENARIO [--export DIR] [--pictures] [--record FILE.kvt [--flight-recorder MINUTES]] [--threads N]"});
    if (!arguments) return fail(arguments.error().message(), exit_usage);
    const auto threads = arguments->number("--threads", 0, 1, 1024);
    if (!threads) return fail(threads.error().message(), exit_usage);
    const auto minutes = arguments->number("--flight-recorder", 0, 1, 24 * 60);
    if (!minutes) return fail(minutes.error().message(), exit_usage);
    const auto folder = arguments->value("--export"), record = arguments->value("--record");
    if (*minutes > 0 && !record) return fail("--flight-recorder needs --record FILE.kvt, the file that it writes.", exit_usage);
    if (arguments->has("--pictures") && !folder) return fail("--pictures needs --export DIR.", exit_usage);
    if (folder && folder->empty()) return fail("--export needs the name of a folder.", exit_usage);

    auto scenario = load_scenario(arguments->words()[0]);
    if (!scenario) return fail(scenario.error().message());
    if (scenario->requests.empty()) return fail("requests: the scenario has none, so nothing could run. Add a request.");
    // What could not be written afterwards is said before a long run.
    if (folder)
        if (const auto made = FileOutput(*folder).create_folder(); !made) return fail(made.error().message());
    if (record)
        if (const auto free = check_free(*record); !free) return fail(free.error().message());
    SessionOptions options = session_options(*threads);
    options.frames.memory_bytes = 0;  // it is never put back
    if (arguments->has("--pictures")) options.default_attention = watch_everything();
    std::unique_ptr<KvtWriter> file;  // before the session: its worker waits for the file
    const Interrupts interrupts;
    std::atomic<Session*> running{nullptr};
    options.after_step = [&file, &running] {
        if (file) file->wait_for_room();
        if (Session* const own = running; own && Interrupts::asked()) own->pause();
    };
    auto session = Session::create(*scenario, std::move(options));
    if (!session) return fail(session.error().message());
    const auto recording = (*session)->recording();
    const KvtOptions kvt = kvt_options(record.value_or(""), stored_scenario((*session)->replayable_scenario()));
    if (record && *minutes == 0) {
        auto created = KvtWriter::create(recording, kvt);
        if (!created) return fail(created.error().message());
        file = std::move(*created);
    }
    running = session->get();
    const Result<void> ran = (*session)->run_to_end();
    running = nullptr;
    const bool interrupted = Interrupts::asked() && recording->phase() == Phase::paused;
    Result<void> recorded = file ? file->finish() : Result<void>();
    if (*minutes > 0) {
        if (const auto flight = save_flight(recording, scenario->breakpoints, *minutes, kvt)) std::cout << *flight << '\n';
        else recorded = flight.error();
    }

    for (const auto& lane : recording->lanes()) print_lane(*recording, *lane);
    for (const std::string& note : (*session)->breakpoint_notes()) std::cout << (note.rfind("Lane '", 0) == 0 ? "note: " : "breakpoint: ") << note << '\n';
    if (folder) {
        if (const auto written = write_results(*recording, *folder, {scenario->record.blocks}); !written)
            return fail(written.error().message());
        if (arguments->has("--pictures"))
            if (const auto drawn = write_pictures(recording, *folder); !drawn) return fail(drawn.error().message());
    }
    if (!recorded) return fail(recorded.error().message());
    if (!ran) return fail(ran.error().message());
    if (interrupted) return fail(record || folder ? "Interrupted. What had run until then is written." : "Interrupted. Nothing was to be written.");
    if (!anything_ran(*recording)) {
        return fail("No request could run. The reasons stand above; give the pool more blocks or the model a longer "
                    "context.");
    }
    return exit_done;
}

}  // namespace kvloupe
