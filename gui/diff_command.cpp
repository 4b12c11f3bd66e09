// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/arguments.h"
#include "gui/commands.h"

#include "engine/record/kvt_reader.h"
#include "engine/record/recording_diff.h"

#include <cstdio>
#include <iostream>

namespace kvloupe {

namespace {

void print_values(const char* title, const std::vector<DiffValue>& values) {
    if (values.empty()) return;
    std::cout << title << '\n';
    for (const DiffValue& value : values) {
        std::cout << "  " << (value.lane.empty() ? "" : value.lane + ": ") << value.name << ": " << value.a << " → " << value.b;
        char text[64];
        if (value.percent) {
            std::snprintf(text, sizeof text, "  (%+.6g, %+.3g %%)", *value.delta, *value.percent);
            std::cout << text;
        }
        std::cout << '\n';
    }
}

}  // namespace

int diff_command(const std::vector<std::string>& words) {
    auto arguments = Arguments::parse(words, {{"--json", "--no-times"}, {}, 2, 2, "kvloupe diff A.kvt B.kvt [--no-times] [--json]"});
    if (!arguments) return fail(arguments.error().message(), exit_usage);
    const auto a = open_kvt(arguments->words()[0]);
    if (!a) return fail(a.error().message());
    const auto b = open_kvt(arguments->words()[1]);
    if (!b) return fail(b.error().message());
    const RecordingDiff diff = diff_recordings(*a->recording, *b->recording, !arguments->has("--no-times"));
    for (const auto* stored : {&*a, &*b})
        if (const std::string damage = stored->recording->lanes().front()->damage(); !damage.empty()) return fail(damage);
    if (arguments->has("--json")) {
        std::cout << diff_json(diff);
        return exit_done;
    }
    if (diff.lanes.empty()) std::cout << "No lane has the same name in both.\n";
    print_values("Configuration", diff.configuration);
    print_values("Numbers", diff.numbers);
    if (!diff.first.empty()) std::cout << "Where they part\n";
    for (const Parting& first : diff.first) {
        static constexpr const char* kinds[] = {"first other token", "first other block table", "first other logit"};
        std::cout << "  " << first.lane << ": " << kinds[first.kind] << ", " << first.sentence << '\n';
    }
    if (diff.same()) std::cout << "They are the same.\n";
    return exit_done;
}

}  // namespace kvloupe
