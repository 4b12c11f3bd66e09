// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/arguments.h"
#include "gui/commands.h"
#include "gui/environment.h"
#include "gui/stored_scenario.h"

#include "engine/record/describe.h"
#include "engine/record/file_output.h"
#include "engine/record/kvt_reader.h"
#include "engine/record/kvt_writer.h"
#include "engine/record/lane_parting.h"
#include "engine/record/results.h"
#include "engine/serve/branch.h"
#include "engine/serve/session.h"

#include <chrono>
#include <iostream>
#include <memory>

namespace kvloupe {

namespace {

constexpr const char* branch_usage =
    "kvloupe branch FILE.kvt --step N [--lane L] [--name NAME] [--set cache.dtype=int8] [--set scheduler.policy=priority] … "
    "[--request ID --token ID] [--steps M] [--threads N] (--record OUT.kvt | --export DIR)";

// `--set KEY=VALUE` may come several times, which Arguments, one value per option, does not do: they are taken out first.
Result<std::vector<std::pair<std::string, std::string>>> take_settings(std::vector<std::string>& words) {
    std::vector<std::pair<std::string, std::string>> settings;
    std::vector<std::string> rest;
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string setting;
        if (words[i] == "--set" && i + 1 < words.size()) setting = words[++i];
        else if (words[i].rfind("--set=", 0) == 0) setting = words[i].substr(6);
        else if (words[i] != "--set") {
            rest.push_back(words[i]);
            continue;
        }
        const std::size_t equals = setting.find('=');
        if (equals == std::string::npos || equals == 0)
            return Error{"'--set " + setting + "' is no setting", "Write for example --set cache.dtype=int8."};
        settings.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
    }
    words = std::move(rest);
    return settings;
}

// Steps one after the other until the branch has `end` of them, or nothing goes on.
Result<void> go_on(Session& session, LaneId branch, std::size_t end) {
    const auto recording = session.recording();
    while (recording->lane(branch).step_count() < end && recording->phase() != Phase::finished && recording->phase() != Phase::failed) {
        std::size_t before = 0, after = 0;
        for (const auto& lane : recording->lanes()) before += lane->step_count();
        session.step();
        session.wait();
        for (const auto& lane : recording->lanes()) after += lane->step_count();
        if (after == before) break;
    }
    if (recording->phase() == Phase::failed) return Error{recording->reason(), ""};
    return {};
}

void print_replay(const ReplayReport& report, double seconds) {
    std::cout << "Replayed " << report.steps << " steps of all lanes in " << seconds << " s: " << report.tokens << " tokens and " << report.logits << " logits ";
    std::cout << (report.same() ? "are those that were recorded.\n" : "were compared.\nNote: " + report.sentence() + "\n");
}

void print_branch(const Recording& recording, const LaneRecord& lane) {
    std::cout << "Lane '" << lane.info().name << "' " << describe_branch(lane) << ".\n";
    for (const auto& each : recording.lanes()) {
        if (each->info().name != lane.info().branch.of) continue;
        const std::vector<Parting> parted = partings(recording, *each, recording, lane);
        static constexpr const char* kinds[] = {"first other token", "first other block table", "first other logit"};
        for (const Parting& first : parted) std::cout << "  " << kinds[first.kind] << ", " << first.sentence << '\n';
        if (parted.empty()) std::cout << "  It has not parted from '" << each->info().name << "' in " << lane.step_count() << " steps.\n";
    }
}

}  // namespace

int branch_command(const std::vector<std::string>& given) {
    std::vector<std::string> words = given;
    const auto settings = take_settings(words);
    if (!settings) return fail(settings.error().message(), exit_usage);
    auto arguments = Arguments::parse(
        words, {{}, {"--step", "--lane", "--name", "--request", "--token", "--steps", "--record", "--export", "--threads"}, 1, 1, branch_usage});
    if (!arguments) return fail(arguments.error().message(), exit_usage);
    const auto step = arguments->number("--step", 0, 0, 1'000'000), token = arguments->number("--token", 0, 0, 0x7FFFFFFF),
               steps = arguments->number("--steps", 0, 1, 1'000'000'000), threads = arguments->number("--threads", 0, 1, 1024);
    for (const auto* number : {&step, &token, &steps, &threads})
        if (!*number) return fail(number->error().message(), exit_usage);
    if (!arguments->value("--step")) return fail("--step is missing: the first step that is the branch's own.", exit_usage);
    if (arguments->value("--token").has_value() != arguments->value("--request").has_value())
        return fail("--token and --request go together: the token is the next one of that sequence.", exit_usage);
    const auto folder = arguments->value("--export"), out = arguments->value("--record");
    if (!folder && !out) return fail("give --record OUT.kvt, --export DIR, or both: else nothing of the branch is kept.", exit_usage);

    const auto stored = open_kvt(arguments->words()[0]);
    if (!stored) return fail(stored.error().message());
    const auto scenario = scenario_of(*stored);
    if (!scenario) return fail(arguments->words()[0] + ": " + scenario.error().message());
    BranchWish wish;
    wish.from = {arguments->value("--lane").value_or(scenario->lanes.front().name), *step, std::nullopt, ""};
    if (arguments->value("--token")) wish.from.token = static_cast<TokenId>(*token);
    wish.from.request = arguments->value("--request").value_or("");
    wish.name = arguments->value("--name").value_or("");
    wish.settings = *settings;
    if (const auto good = check_branch(*stored->recording, wish.from); !good) return fail(good.error().message());
    const auto branched = add_branch(*scenario, wish);
    if (!branched) return fail(branched.error().message());
    if (folder)
        if (const auto made = FileOutput(*folder).create_folder(); !made) return fail(made.error().message());

    SessionOptions options = session_options(*threads);
    options.frames.memory_bytes = 0;  // it is never put back
    std::unique_ptr<KvtWriter> file;  // before the session: its worker waits for the file
    options.after_step = [&file] {
        if (file) file->wait_for_room();
    };
    auto session = Session::create(*branched, std::move(options));
    if (!session) return fail(session.error().message());
    const auto recording = (*session)->recording();
    if (out) {
        auto created = KvtWriter::create(recording, kvt_options(*out, stored_scenario((*session)->replayable_scenario())));
        if (!created) return fail(created.error().message());
        file = std::move(*created);
    }
    const std::size_t end = arguments->value("--steps") ? std::size_t{*step} + *steps : SIZE_MAX;
    const auto start = std::chrono::steady_clock::now();
    (*session)->replay(stored->recording, end == SIZE_MAX ? std::nullopt : std::optional(static_cast<std::uint32_t>(end - 1)));
    (*session)->wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const LaneId branch(static_cast<std::uint32_t>(branched->lanes.size() - 1));
    const Result<void> ran = end == SIZE_MAX ? (*session)->run_to_end() : go_on(**session, branch, end);
    const Result<void> recorded = file ? file->finish() : Result<void>();
    if (const auto report = (*session)->replay_report()) print_replay(*report, seconds);
    print_branch(*recording, recording->lane(branch));
    if (folder)
        if (const auto written = write_results(*recording, *folder, {branched->record.blocks}); !written) return fail(written.error().message());
    if (!recorded) return fail(recorded.error().message());
    if (!ran) return fail(ran.error().message());
    return exit_done;
}

}  // namespace kvloupe
