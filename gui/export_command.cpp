// SPDX-License-Identifier: GPL-3.0-or-later
//
// kvloupe export FILE.kvt: one view at one step, a sequence of pictures, the results, a Chrome trace, a report, a part of it.
#include "gui/arguments.h"
#include "gui/commands.h"
#include "gui/environment.h"
#include "gui/report.h"
#include "gui/step_pictures.h"

#include "engine/record/file_output.h"
#include "engine/record/kvt_writer.h"
#include "engine/record/open_recording.h"
#include "engine/record/results.h"
#include "views/reference.h"
#include "views/view_factory.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <string_view>

namespace kvloupe {

namespace {

constexpr const char* export_usage =
    "kvloupe export FILE.kvt (--view ID [--step N | --steps A..B] [--lane NAME] [--size 1000x640] [--scale 2] [--compare OTHER.kvt] "
    "[--with LANE] [--align step|token|time] | --trace | --results | --report | --cut A..B [--strip] | --strip) --to OUT";

struct ViewOptions {
    QString view;
    std::size_t first_step = 0, last_step = 0;
    bool several = false;  // a file for each step
    LaneId lane{0};
    QSize size{1000, 640};
    double scale = 2;
    std::shared_ptr<const Recording> other;  // what it is compared with; null: nothing
    LaneId with{0};                          // of it
    QString other_name;                      // "" where it is the recording itself
    Alignment alignment = Alignment::step;
};

std::optional<std::size_t> whole_number(const std::string& text) {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

Result<QString> known_view(const std::string& id) {
    QStringList ids;
    for (const ViewDescription& description : viewDescriptions()) {
        if (description.id.toStdString() == id) return description.id;
        ids << description.id;
    }
    return Error{"There is no view '" + id + "'", "There are " + ids.join(QStringLiteral(", ")).toStdString()};
}

Result<LaneId> known_lane(const Recording& recording, const std::string& name) {
    std::string names;
    for (std::uint32_t i = 0; i < recording.lanes().size(); ++i) {
        if (recording.lanes()[i]->info().name == name) return LaneId(i);
        names += (names.empty() ? "" : ", ") + recording.lanes()[i]->info().name;
    }
    return Error{"There is no lane '" + name + "'", "There are " + names};
}

// "40", or "40..60", inside the recording.
Result<void> read_steps(const Arguments& arguments, std::size_t steps, ViewOptions& options) {
    const auto one = arguments.value("--step"), many = arguments.value("--steps");
    if (one && many) return Error{"export takes either --step or --steps", ""};
    if (steps == 0) return Error{"The recording has no step in this lane", "Choose another with --lane"};
    options.first_step = options.last_step = steps - 1;
    if (!one && !many) return {};
    const std::string text = one ? *one : *many;
    const std::size_t dots = text.find("..");
    const auto first = whole_number(text.substr(0, dots));
    const auto last = dots == std::string::npos ? first : whole_number(text.substr(dots + 2));
    if (!first || !last || *first > *last || (one && dots != std::string::npos))
        return Error{"'" + text + "' is no step" + (many ? " range" : ""), many ? "Write for example --steps 40..60" : "Write for example --step 40"};
    if (*last >= steps)
        return Error{"Step " + std::to_string(*last) + " is not in the recording", "Its steps are 0 to " + std::to_string(steps - 1)};
    options.first_step = *first;
    options.last_step = *last;
    options.several = many.has_value();
    return {};
}

Result<void> read_size(const Arguments& arguments, ViewOptions& options) {
    if (const auto text = arguments.value("--size")) {
        const std::size_t x = text->find('x');
        const auto width = whole_number(text->substr(0, x));
        const auto height = x == std::string::npos ? std::nullopt : whole_number(text->substr(x + 1));
        if (!width || !height || *width < 100 || *height < 60 || *width > 20000 || *height > 20000)
            return Error{"'" + *text + "' is no size from 100x60 to 20000x20000", "Write for example --size 1000x640"};
        options.size = QSize(static_cast<int>(*width), static_cast<int>(*height));
    }
    if (const auto text = arguments.value("--scale")) {
        double scale = 0;
        const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), scale);
        if (error != std::errc() || end != text->data() + text->size() || !(scale >= 0.25 && scale <= 10))
            return Error{"'" + *text + "' is no scale", "Give a number from 0.25 to 10"};
        options.scale = scale;
    }
    constexpr double most_pixels = 1e8;
    const double pixels = options.size.width() * options.scale * (options.size.height() * options.scale);
    if (pixels > most_pixels && arguments.value("--to").value_or("").ends_with(".png"))
        return Error{"A picture of " + std::to_string(options.size.width()) + "x" + std::to_string(options.size.height()) + " at scale " +
                         std::to_string(options.scale).substr(0, 4) + " has more than 100 million pixels",
                     "Give a smaller --size or --scale, or export SVG or PDF"};
    return {};
}

// --compare, --with, --align: another recording's lane of the same name, or another lane.
Result<void> read_comparison(const Arguments& arguments, const std::shared_ptr<const Recording>& recording, ViewOptions& options) {
    const auto file = arguments.value("--compare"), with = arguments.value("--with"), align = arguments.value("--align");
    if (!file && !with) return align ? Result<void>(Error{"--align needs --compare or --with, what is aligned", ""}) : Result<void>();
    options.other = recording;
    if (file) {
        const auto stored = open_recording(*file);
        if (!stored) return stored.error();
        options.other = stored->recording;
        options.other_name = QFileInfo(QString::fromStdString(*file)).fileName();
    }
    const std::string own = recording->lane(options.lane).info().name;
    const auto lane = known_lane(*options.other, with ? *with : own);
    if (!lane && with) return lane.error();
    options.with = lane ? *lane : LaneId(0);
    if (!file && options.with == options.lane) return Error{"Lane '" + own + "' cannot be compared with itself", "Name another one (--with LANE)"};
    const std::pair<const char*, Alignment> alignments[] = {{"step", Alignment::step}, {"token", Alignment::token}, {"time", Alignment::time}};
    if (!align) return {};
    for (const auto& [name, alignment] : alignments)
        if (*align == name) {
            options.alignment = alignment;
            return {};
        }
    return Error{"'" + *align + "' is no alignment", "There are step, token, time"};
}

// Pictures, tables and documents are written anew; a recording, the one that is read above all, never becomes one.
Result<void> check_target(const std::string& to) {
    std::error_code error;
    const std::filesystem::file_status there = std::filesystem::status(to, error);
    if (!std::filesystem::exists(there) || std::filesystem::is_directory(there)) return {};
    if (auto free = check_replaceable(to); !free) return free;
    std::ifstream file(to, std::ios::binary);
    std::array<char, 15> head{};
    file.read(head.data(), head.size());
    if (std::string_view(head.data(), head.size()) != "SQLite format 3") return {};
    return Error{to + ": a recording or another database of this name is there already, and export does not write over it",
                 "Choose another name, or remove it first"};
}

Result<void> export_view(const std::shared_ptr<const Recording>& recording, const ViewOptions& options, const std::string& to) {
    StepPictures pictures(recording, options.lane, options.view, options.size);
    if (options.other) {
        pictures.cursor().compareWith(options.other, options.with, options.alignment, options.other_name);
        pictures.cursor().reference()->settle();
    }
    const QString path = QString::fromStdString(to);
    const bool several = options.several;
    if (several && StepPictures::namesFolder(path) && !QDir().mkpath(path)) return Error{to + ": the folder cannot be made", "Choose another"};
    std::size_t shown = 0;
    QStringList written;
    QString empty;
    for (std::size_t step = options.first_step; step <= options.last_step; ++step) {
        written << (several ? StepPictures::pathOf(path, options.view, step, options.last_step) : path);
        if (auto free = check_target(written.back().toStdString()); !free) return free;
        const auto reason = pictures.write(step, written.back(), options.scale);
        if (!reason) return reason.error();
        shown += reason->isEmpty();
        if (empty.isEmpty()) empty = *reason;
    }
    if (shown > 0) return {};
    for (const QString& file : written) QFile::remove(file);  // a picture of nothing is no result
    return Error{"The view '" + options.view.toStdString() + "' has nothing to show here: " + empty.toStdString(), ""};
}

// "40..60" as steps [first, end) of the recording's longest lane.
Result<void> read_cut(const std::string& text, const Recording& recording, std::size_t& first, std::size_t& end) {
    std::size_t steps = 0;
    for (const auto& lane : recording.lanes()) steps = std::max(steps, lane->step_count());
    const std::size_t dots = text.find("..");
    const auto a = whole_number(text.substr(0, dots)), b = dots == std::string::npos ? std::nullopt : whole_number(text.substr(dots + 2));
    if (!a || !b || *a > *b) return Error{"'" + text + "' is no step range", "Write for example --cut 40..60"};
    if (*b >= steps)
        return Error{"Step " + std::to_string(*b) + " is not in the recording", steps > 0 ? "Its steps are 0 to " + std::to_string(steps - 1) : "It has none"};
    first = *a;
    end = *b + 1;
    return {};
}

Result<void> export_part(const StoredRecording& stored, const std::string& to, std::pair<std::size_t, std::size_t> range, bool strip) {
    const auto said = [&](const char* key) {
        const auto found = stored.meta.find(key);
        return found == stored.meta.end() ? std::string() : found->second;
    };
    KvtOptions options = kvt_options(to, said("scenario"));
    options.machine = said("machine");  // where it ran, not where it is cut
    options.strip = strip || said("stripped") == "1";
    return write_kvt(stored.recording, options, range.first, range.second);
}

}  // namespace

int export_command(const std::vector<std::string>& words) {
    auto arguments = Arguments::parse(words, {{"--trace", "--results", "--report", "--strip"},
                                              {"--view", "--step", "--steps", "--lane", "--size", "--scale", "--compare", "--with", "--align", "--to", "--cut"},
                                              1,
                                              1,
                                              export_usage});
    if (!arguments) return fail(arguments.error().message(), exit_usage);
    const auto to = arguments->value("--to");
    const auto view = arguments->value("--view");
    const auto cut = arguments->value("--cut");
    const bool part = cut || arguments->has("--strip");
    if (view == "?") {
        for (const ViewDescription& description : viewDescriptions()) std::cout << description.id.toStdString() << '\n';
        return exit_done;
    }
    std::vector<std::string> asked;
    for (const char* option : {"--view", "--trace", "--results", "--report"})
        if (arguments->has(option) || arguments->value(option)) asked.push_back(option);
    if (part) asked.push_back(cut ? "--cut" : "--strip");
    if (asked.size() > 1) return fail("export makes one thing at a time: " + asked[0] + " and " + asked[1] + " are two.", exit_usage);
    if (!to || asked.empty())
        return fail(std::string("export needs --to and one of --view, --trace, --results, --report, --cut, --strip: ") + export_usage, exit_usage);
    for (const char* option : {"--step", "--steps", "--lane", "--size", "--scale", "--compare", "--with", "--align"})
        if (!view && arguments->value(option)) return fail(std::string(option) + " belongs to --view.", exit_usage);
    const std::string& from = arguments->words()[0];
    std::error_code error;
    if (!part)  // a part is a recording, which is never written over anything
        if (const auto free = check_target(*to); !free) return fail(free.error().message());
    if (!part && std::filesystem::equivalent(from, *to, error)) return fail(*to + " is what is exported: choose another name for the result.");
    const auto stored = open_recording(from);
    if (!stored) return fail(stored.error().message());

    const std::shared_ptr<const Recording>& recording = stored->recording;
    Result<void> written;
    if (part) {
        std::pair<std::size_t, std::size_t> range{0, SIZE_MAX};
        if (cut)
            if (auto read = read_cut(*cut, *recording, range.first, range.second); !read) return fail(read.error().message(), exit_usage);
        written = export_part(*stored, *to, range, arguments->has("--strip"));
    } else if (view) {
        ViewOptions options;
        const auto id = known_view(*view);
        if (!id) return fail(id.error().message(), exit_usage);
        options.view = *id;
        if (const auto name = arguments->value("--lane")) {
            const auto lane = known_lane(*recording, *name);
            if (!lane) return fail(lane.error().message(), exit_usage);
            options.lane = *lane;
        }
        for (auto read : {read_steps(*arguments, recording->lane(options.lane).step_count(), options), read_size(*arguments, options), read_comparison(*arguments, recording, options)})
            if (!read) return fail(read.error().message(), exit_usage);
        written = export_view(recording, options, *to);
    } else if (arguments->has("--trace")) {
        written = write_file(*to, trace_json(*recording, ResultOptions{}.trace_limit_bytes));
    } else if (arguments->has("--results")) {
        written = write_results(*recording, *to, {true});
    } else {
        const auto report = report_html(*stored);
        written = report ? write_file(*to, *report) : Result<void>(report.error());
    }
    if (!written) return fail(written.error().message());
    if (const std::string damage = recording->lanes().front()->damage(); !damage.empty()) return fail(damage);
    return exit_done;
}

}  // namespace kvloupe
