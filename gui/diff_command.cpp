// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/arguments.h"
#include "gui/commands.h"

#include "engine/record/open_recording.h"
#include "engine/record/recording_diff.h"

#include <cstdio>
#include <iostream>
#include <optional>
#include <string>

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

// The lane of that name; without a name the first one.
Result<LaneId> lane_named(const Recording& recording, const std::optional<std::string>& name, const std::string& path) {
    std::string names;
    for (std::uint32_t i = 0; i < recording.lanes().size(); ++i) {
        if (!name || recording.lanes()[i]->info().name == *name) return LaneId(i);
        names += (names.empty() ? "" : ", ") + recording.lanes()[i]->info().name;
    }
    return Error{path + " has no lane '" + name.value_or("") + "'", "Its lanes: " + names};
}

}  // namespace

int diff_command(const std::vector<std::string>& words) {
    auto arguments = Arguments::parse(words, {{"--json", "--no-times"}, {"--lane", "--with"}, 1, 2,
                                              "kvloupe diff A.kvt [B.kvt] [--lane NAME] [--with LANE] [--no-times] [--json]"});
    if (!arguments) return fail(arguments.error().message(), exit_usage);
    const auto lane = arguments->value("--lane"), with = arguments->value("--with");
    const std::string& first = arguments->words().front();
    const std::string& second = arguments->words().back();
    if (arguments->words().size() == 1 && !with)
        return fail("one recording is compared lane against lane: name the other one (--with LANE), or a second recording", exit_usage);
    const auto a = open_recording(first);
    if (!a) return fail(a.error().message());
    const auto b = open_recording(second);
    if (!b) return fail(b.error().message());
    const bool times = !arguments->has("--no-times");
    RecordingDiff diff;
    if (lane || with) {
        const auto one = lane_named(*a->recording, lane, first);
        if (!one) return fail(one.error().message());
        const auto other = lane_named(*b->recording, with ? with : lane, second);
        if (!other) return fail(other.error().message());
        diff = diff_lanes(*a->recording, *one, *b->recording, *other, times);
    } else {
        diff = diff_recordings(*a->recording, *b->recording, times);
    }
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
    for (const Parting& parting : diff.first) {
        static constexpr const char* kinds[] = {"first other token", "first other block table", "first other logit"};
        std::cout << "  " << parting.lane << ": " << kinds[parting.kind] << ", " << parting.sentence << '\n';
    }
    if (diff.same()) std::cout << "They are the same.\n";
    return exit_done;
}

}  // namespace kvloupe
