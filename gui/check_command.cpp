// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/arguments.h"
#include "gui/commands.h"

#include "engine/record/assertion.h"
#include "engine/record/kvt_reader.h"

#include <algorithm>
#include <iostream>

namespace kvloupe {

namespace {

// `--assert` may come several times, which Arguments, one value per option, does not do: they are taken out first.
Result<std::vector<std::string>> take_assertions(std::vector<std::string>& words) {
    std::vector<std::string> assertions, rest;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] == "--assert") {
            if (i + 1 == words.size()) return Error{"--assert needs an assertion", "Write for example --assert \"copies <= 3\""};
            assertions.push_back(words[++i]);
        } else if (words[i].rfind("--assert=", 0) == 0) {
            assertions.push_back(words[i].substr(9));
        } else {
            rest.push_back(words[i]);
        }
    }
    words = std::move(rest);
    return assertions;
}

// What ended before it was closed says so: numbers of half a run are no run's.
void say_if_unfinished(const StoredRecording& stored) {
    const auto complete = stored.meta.find("complete");
    if (complete != stored.meta.end() && complete->second == "1") return;
    std::size_t steps = 0;
    for (const auto& lane : stored.recording->lanes()) steps = std::max(steps, lane->step_count());
    std::cout << "The recording was not closed: it ends after " << steps << (steps == 1 ? " step" : " steps")
              << ". A log beside it (-wal) belongs to it.\n";
}

int check_file(const std::string& path) {
    const std::vector<std::string> wrong = check_kvt(path);
    for (const std::string& sentence : wrong) std::cout << sentence << '\n';
    if (wrong.empty()) {
        if (const auto stored = open_kvt(path)) say_if_unfinished(*stored);
        std::cout << path << ": nothing is wrong with it\n";
        return exit_done;
    }
    if (!open_kvt(path)) return fail(path + ": that is all there is to say about it.");  // its sentence has the advice
    return fail(path + ": " + std::to_string(wrong.size()) + (wrong.size() == 1 ? " thing is" : " things are") +
                " wrong with the file (named above). Open a backup of it.");
}

}  // namespace

int check_command(const std::vector<std::string>& given) {
    std::vector<std::string> words = given;
    const auto assertions = take_assertions(words);
    if (!assertions) return fail(assertions.error().message(), exit_usage);
    auto arguments = Arguments::parse(words, {{}, {}, 1, 1, "kvloupe check FILE.kvt [--assert \"copies <= 3\"] …"});
    if (!arguments) return fail(arguments.error().message(), exit_usage);
    const std::string& path = arguments->words()[0];
    if (assertions->empty()) return check_file(path);

    const auto stored = open_kvt(path);
    if (!stored) return fail(stored.error().message());
    const Assertions judge(*stored->recording);
    std::size_t failed = 0;
    std::vector<AssertionResult> results;
    for (const std::string& assertion : *assertions) {  // all are understood before any is printed
        auto judged = judge.judge(assertion);
        if (!judged) return fail(judged.error().message(), exit_usage);
        for (AssertionResult& result : *judged) results.push_back(std::move(result));
    }
    say_if_unfinished(*stored);
    for (const auto& lane : stored->recording->lanes()) {
        if (lane->step_count() > 0) continue;
        ++failed;
        std::cout << "FAILED  lane " << lane->info().name << " has no step: nothing holds of it\n";
    }
    for (const AssertionResult& result : results) {
        failed += !result.holds;
        std::cout << (result.holds ? "holds   " : "FAILED  ") << result.assertion << "   value " << result.value;
        if (!result.lane.empty()) std::cout << "   (lane " << result.lane << ")";
        std::cout << '\n';
    }
    if (const std::string damage = stored->recording->lanes().front()->damage(); !damage.empty()) return fail(damage);
    if (failed == 0) return exit_done;
    return fail(failed == 1 ? "one assertion does not hold; it stands above." : std::to_string(failed) + " assertions do not hold; they stand above.");
}

}  // namespace kvloupe
