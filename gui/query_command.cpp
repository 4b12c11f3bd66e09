// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/arguments.h"
#include "gui/commands.h"

#include "engine/record/kvt_query.h"
#include "engine/record/results_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>

namespace kvloupe {

namespace {

constexpr std::size_t rows_that_set_widths = 200;
constexpr std::size_t widest_column = 60;

std::string hexadecimal(const std::vector<std::byte>& bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (const std::byte byte : bytes) {
        text.push_back(digits[std::to_integer<unsigned>(byte) >> 4]);
        text.push_back(digits[std::to_integer<unsigned>(byte) & 15]);
    }
    return text;
}

nlohmann::ordered_json json_of_value(const SqlValue& value) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
    if (const auto* real = std::get_if<double>(&value)) return std::isfinite(*real) ? nlohmann::ordered_json(*real) : nlohmann::ordered_json(nullptr);
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    if (const auto* bytes = std::get_if<std::vector<std::byte>>(&value)) return hexadecimal(*bytes);
    return nullptr;
}

std::string text_of_value(const SqlValue& value) {
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    if (std::holds_alternative<std::monostate>(value)) return {};
    const auto document = json_of_value(value);
    return document.is_string() ? document.get<std::string>() : document.dump();
}

// One line that moves no cursor: a recording may come from anybody, and its texts hold what a model said. Control characters
// (C0, DEL, C1) are shown as \xNN, line ends and tabs as signs; JSON and CSV have them as they are.
std::string tame(const std::string& text) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string tame;
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto byte = static_cast<unsigned char>(text[i]);
        const bool c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
        if (c1) byte = static_cast<unsigned char>(text[++i]);
        if (byte == '\n') tame += "\u23CE";
        else if (byte == '\t') tame += "\u21E5";
        else if (c1 || byte < 0x20 || byte == 0x7F) tame += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
        else tame.push_back(text[i]);
    }
    return tame;
}

// Characters on screen, taken as one per code point.
std::size_t shown_width(const std::string& text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Aligned columns; their widths are those of the first rows, and a longer cell pushes the rest of its row.
class TablePrinter {
public:
    void columns(std::vector<std::string> names) {
        for (std::string& name : names) name = tame(name);
        m_rows.push_back(std::move(names));
    }
    void row(const std::vector<SqlValue>& values) {
        std::vector<std::string> cells;
        for (const SqlValue& value : values) cells.push_back(tame(text_of_value(value)));
        if (m_widths.empty()) {
            m_rows.push_back(std::move(cells));
            if (m_rows.size() > rows_that_set_widths) flush();
        } else {
            print(cells);
        }
    }
    void flush() {
        if (m_rows.empty()) return;
        m_widths.assign(m_rows.front().size(), 0);
        for (const auto& cells : m_rows)
            for (std::size_t i = 0; i < cells.size(); ++i) m_widths[i] = std::min(std::max(m_widths[i], shown_width(cells[i])), widest_column);
        for (const auto& cells : m_rows) print(cells);
        m_rows.clear();
    }

private:
    void print(const std::vector<std::string>& cells) const {
        std::string line;
        for (std::size_t i = 0; i < cells.size(); ++i) {
            line += cells[i];
            if (i + 1 == cells.size()) break;
            const std::size_t width = shown_width(cells[i]);
            line.append(width < m_widths[i] ? m_widths[i] - width + 2 : 2, ' ');
        }
        std::cout << line << '\n';
    }

    std::vector<std::vector<std::string>> m_rows;  // until the widths are known
    std::vector<std::size_t> m_widths;
};

}  // namespace

int query_command(const std::vector<std::string>& words) {
    auto arguments = Arguments::parse(words, {{"--json", "--csv"}, {"--seconds"}, 2, 2, "kvloupe query FILE.kvt \"SQL\" [--json | --csv] [--seconds N]"});
    if (!arguments) return fail(arguments.error().message(), exit_usage);
    if (arguments->has("--json") && arguments->has("--csv")) return fail("query prints either --json or --csv", exit_usage);
    const auto seconds = arguments->number("--seconds", 60, 1, 86'400);
    if (!seconds) return fail(seconds.error().message(), exit_usage);
    auto query = KvtQuery::open(arguments->words()[0]);
    if (!query) return fail(query.error().message());

    QueryLimits limits;
    limits.time = std::chrono::seconds(*seconds);
    std::vector<std::string> keys;
    TablePrinter table;
    std::size_t printed = 0;  // rows of JSON: each is printed when it comes, there may be more than fit into memory
    const bool as_json = arguments->has("--json"), csv = arguments->has("--csv");
    const auto print_csv = [](const auto& cells, const auto& text) {
        std::string line;
        for (std::size_t i = 0; i < cells.size(); ++i) line += (i ? "," : "") + csv_field(text(cells[i]));
        std::cout << line << "\r\n";
    };
    const auto end = (*query)->run(
        arguments->words()[1], limits,
        [&](std::vector<std::string> columns) {
            for (const std::string& column : columns) {  // keys of an object differ
                std::string key = column;
                for (int again = 2; std::find(keys.begin(), keys.end(), key) != keys.end(); ++again) key = column + ':' + std::to_string(again);
                keys.push_back(key);
            }
            if (csv) print_csv(columns, [](const std::string& name) { return name; });
            else if (!as_json) table.columns(std::move(columns));
        },
        [&](std::vector<SqlValue> values) {
            if (as_json) {
                nlohmann::ordered_json row;
                for (std::size_t i = 0; i < values.size(); ++i) row[keys[i]] = json_of_value(values[i]);
                std::cout << (printed++ == 0 ? "[" : ",") << row.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
            } else if (csv) {
                print_csv(values, text_of_value);
            } else {
                table.row(values);
            }
        });
    if (as_json && (printed > 0 || end)) std::cout << (printed == 0 ? "[]" : "]") << '\n';
    if (!end) return fail(end.error().message());
    if (as_json) return exit_done;
    if (!csv) table.flush();
    return exit_done;
}

}  // namespace kvloupe
