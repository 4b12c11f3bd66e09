// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/assertion.h"

#include "engine/record/figures.h"
#include "engine/record/json_leaves.h"
#include "engine/record/results.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

namespace kvloupe {

namespace {


constexpr const char* operators[] = {"<=", ">=", "==", "!=", "<", ">"};
constexpr const char* functions[] = {"p50", "p95", "max", "mean", "sum"};

std::string trim(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return {};
    return std::string(text.substr(begin, text.find_last_not_of(" \t") + 1 - begin));
}

std::optional<double> number_in(const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;  // "nan" is none
    return value;
}

// The paths that a name means: itself, or those that end with it.
std::vector<std::string> paths_of(const JsonLeaves& leaves, const std::string& name) {
    if (leaves.count(name)) return {name};
    std::vector<std::string> paths;
    for (const auto& [path, value] : leaves)
        if (path.size() > name.size() && path.compare(path.size() - name.size() - 1, std::string::npos, "." + name) == 0) paths.push_back(path);
    return paths;
}

std::string value_text(const nlohmann::json& value) {
    if (value.is_null()) return "none";
    if (value.is_string()) return value.get<std::string>();
    return value.dump();
}

struct Comparison {
    std::string name, comparator, value;
};

bool compare(double left, const std::string& comparator, double right) {
    if (comparator == "<") return left < right;
    if (comparator == "<=") return left <= right;
    if (comparator == ">") return left > right;
    if (comparator == ">=") return left >= right;
    if (comparator == "==") return left == right;
    return left != right;
}

// A value that does not exist fulfils nothing but being unequal to one that does.
Result<bool> holds(const nlohmann::json& value, const Comparison& comparison) {
    if (comparison.value == "none") {
        if (comparison.comparator == "==") return value.is_null();
        if (comparison.comparator == "!=") return !value.is_null();
        return Error{"'none' can only be compared by == and !=", ""};
    }
    if (value.is_null()) return comparison.comparator == "!=";
    if (value.is_number()) {
        const auto number = number_in(comparison.value);
        if (!number) return Error{"'" + comparison.value + "' is not a number, and " + comparison.name + " is one", ""};
        return compare(value.get<double>(), comparison.comparator, *number);
    }
    if (comparison.comparator != "==" && comparison.comparator != "!=")
        return Error{comparison.name + " is not a number: it can only be compared by == and !=", ""};
    return (value_text(value) == comparison.value) == (comparison.comparator == "==");
}

}  // namespace

struct Assertions::Data {
    struct Lane {
        std::string name;
        JsonLeaves leaves;
        std::map<std::string, std::vector<double>> columns;  // of steps.csv
    };
    std::vector<Lane> lanes;
    JsonLeaves common;                       // what stands beside the lanes
    std::vector<std::string> columns;    // names

    void read_steps(const Recording& recording) {
        std::istringstream csv(steps_csv(recording));
        std::string line;
        const auto cells = [](const std::string& text) {
            std::vector<std::string> result(1);
            bool quoted = false;
            for (const char c : text) {
                if (c == '"') quoted = !quoted;
                else if (c == ',' && !quoted) result.emplace_back();
                else if (c != '\r') result.back() += c;
            }
            return result;
        };
        std::getline(csv, line);
        columns = cells(line);
        while (std::getline(csv, line)) {
            const std::vector<std::string> row = cells(line);
            const auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const Lane& one) { return row.size() > 1 && one.name == row[1]; });
            if (lane == lanes.end() || row.size() != columns.size()) continue;
            for (std::size_t i = 0; i < row.size(); ++i)
                if (const auto number = i == 1 ? std::nullopt : number_in(row[i])) lane->columns[columns[i]].push_back(*number);
        }
    }

    // Of p95(duration_us) and the like.
    Result<nlohmann::json> reduced(const Lane& lane, const std::string& function, const std::string& column) const {
        if (std::find(columns.begin(), columns.end(), column) == columns.end() || column == "lane") {
            std::string names;
            for (const std::string& one : columns)
                if (one != "lane") names += (names.empty() ? "" : ", ") + one;
            return Error{"steps.csv has no column '" + column + "' of numbers", "There are " + names};
        }
        const auto found = lane.columns.find(column);
        if (found == lane.columns.end() || found->second.empty()) return nlohmann::json(nullptr);
        const std::vector<double>& values = found->second;
        if (function == "max") return nlohmann::json(*std::max_element(values.begin(), values.end()));
        if (function == "p50") return nlohmann::json(*percentile(values, 50));
        if (function == "p95") return nlohmann::json(*percentile(values, 95));
        double sum = 0;
        for (const double value : values) sum += value;
        return nlohmann::json(function == "sum" ? sum : sum / static_cast<double>(values.size()));
    }

    Result<nlohmann::json> value(const Lane& lane, const std::string& name) const {
        const std::size_t open = name.find('(');
        if (open != std::string::npos && name.back() == ')') {
            const std::string function = trim(std::string_view(name).substr(0, open));
            if (std::find_if(std::begin(functions), std::end(functions), [&](const char* one) { return function == one; }) == std::end(functions))
                return Error{"'" + function + "' is none of p50, p95, max, mean and sum", ""};
            return reduced(lane, function, trim(std::string_view(name).substr(open + 1, name.size() - open - 2)));
        }
        const std::vector<std::string> paths = paths_of(lane.leaves, name);
        if (paths.size() == 1) return lane.leaves.at(paths[0]);
        if (paths.empty())
            return Error{"summary.json has no key '" + name + "'", "kvloupe export FILE.kvt --results --to FOLDER writes it; what stands beside "
                         "the lanes is named by its path, comparison.max_abs_logit_difference.LANE for example"};
        std::string list;
        for (std::size_t i = 0; i < std::min<std::size_t>(paths.size(), 6); ++i) list += (i ? ", " : "") + paths[i];
        return Error{"'" + name + "' may be any of " + list + (paths.size() > 6 ? ", …" : ""), "Give more of the path"};
    }
};

Assertions::Assertions(const Recording& recording) : m_data(std::make_unique<Data>()) {
    nlohmann::json summary = nlohmann::json::parse(summary_json(recording));
    for (const nlohmann::json& lane : summary["lanes"]) {
        m_data->lanes.push_back({lane["name"].get<std::string>(), {}, {}});
        flatten_json(lane, "", m_data->lanes.back().leaves);
    }
    summary.erase("lanes");
    summary.erase("origins");
    flatten_json(summary, "", m_data->common);
    m_data->read_steps(recording);
}

Assertions::~Assertions() = default;

Result<std::vector<AssertionResult>> Assertions::judge(const std::string& assertion) const {
    const auto wrong = [&](const Error& error) { return Error{"'" + assertion + "': " + error.sentence, error.hint}; };
    Comparison comparison;
    std::size_t at = std::string::npos;
    for (const char* one : operators) {
        const std::size_t found = assertion.find(one);
        if (found == std::string::npos || found > at || (found == at && !comparison.comparator.empty())) continue;
        at = found;
        comparison.comparator = one;
    }
    if (comparison.comparator.empty()) return wrong({"there is no comparison in it", "Write for example copies <= 3"});
    comparison.name = trim(std::string_view(assertion).substr(0, at));
    comparison.value = trim(std::string_view(assertion).substr(at + comparison.comparator.size()));
    if (comparison.name.empty() || comparison.value.empty()) return wrong({"one side of the comparison is missing", "Write for example copies <= 3"});

    std::vector<AssertionResult> results;
    if (const std::vector<std::string> paths = paths_of(m_data->common, comparison.name); paths.size() == 1 && paths[0] == comparison.name) {
        const nlohmann::json& value = m_data->common.at(paths[0]);
        const auto judged = holds(value, comparison);
        if (!judged) return wrong(judged.error());
        results.push_back({assertion, "", value_text(value), *judged});
        return results;
    }
    std::string wanted;
    for (const Data::Lane& lane : m_data->lanes)  // a lane's name may hold colons itself
        if (comparison.name.compare(0, lane.name.size() + 1, lane.name + ":") == 0 && lane.name.size() >= wanted.size()) wanted = lane.name;
    if (!wanted.empty()) {
        comparison.name = trim(std::string_view(comparison.name).substr(wanted.size() + 1));
    } else if (const std::size_t colon = comparison.name.find(':'); colon != std::string::npos) {
        std::string names;
        for (const Data::Lane& lane : m_data->lanes) names += (names.empty() ? "" : ", ") + lane.name;
        return wrong({"there is no lane '" + comparison.name.substr(0, colon) + "'", "There are " + names});
    }
    for (const Data::Lane& lane : m_data->lanes) {
        if (!wanted.empty() && lane.name != wanted) continue;
        const auto value = m_data->value(lane, comparison.name);
        if (!value) return wrong(value.error());
        const auto judged = holds(*value, comparison);
        if (!judged) return wrong(judged.error());
        results.push_back({assertion, lane.name, value_text(*value), *judged});
    }
    return results;
}

}  // namespace kvloupe
