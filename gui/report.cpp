// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/report.h"

#include "engine/record/results.h"
#include "views/cursor.h"
#include "views/view.h"
#include "views/view_factory.h"

#include <nlohmann/json.hpp>

#include <QFile>
#include <QTemporaryDir>

#include <memory>
#include <utility>
#include <vector>

namespace kvloupe {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* report_style = R"css(
body { font: 15px/1.5 "Inter", "DejaVu Sans", sans-serif; color: #1d2433; background: #fff; max-width: 1100px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { font-size: 1.2em; margin-top: 2em; border-bottom: 1px solid #d8dce6; } h3 { font-size: 1em; margin-bottom: .3em; }
table { border-collapse: collapse; margin: 1em 0; } th, td { text-align: left; padding: .25em .9em .25em 0; border-bottom: 1px solid #e6e9f0; }
td.number { text-align: right; font-variant-numeric: tabular-nums; } .quiet { color: #667089; }
figure { margin: 1.5em 0; } figure svg { width: 100%; height: auto; border: 1px solid #d8dce6; } pre { background: #f4f6fa; padding: 1em; overflow-x: auto; }
)css";

std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        switch (c) {
        case '&': result += "&amp;"; break;
        case '<': result += "&lt;"; break;
        case '>': result += "&gt;"; break;
        case '"': result += "&quot;"; break;
        default: result += c;
        }
    }
    return result;
}

std::string value_text(const Json& value) {
    if (value.is_null()) return "–";
    return escaped(value.is_string() ? value.get<std::string>() : value.dump());
}

// Objects become rows "a.b"; lists of objects are left to their own tables.
void rows_of(const Json& node, const std::string& path, const Json& origins, std::string& html) {
    for (const auto& item : node.items()) {
        const std::string name = path.empty() ? item.key() : path + "." + item.key();
        if (item.value().is_object()) {
            rows_of(item.value(), name, origins, html);
            continue;
        }
        if (item.value().is_array()) continue;
        const bool known = origins.contains(item.key());
        html += "<tr><td>" + escaped(name) + "</td><td class=\"number\">" + value_text(item.value()) + "</td><td class=\"quiet\">" +
                (known ? escaped(origins[item.key()].get<std::string>()) : "") + "</td></tr>\n";
    }
}

void requests_of(const Json& lane, std::string& html) {
    html += "<table><tr><th>Request</th><th>Prompt tokens</th><th>Output tokens</th><th>Ended by</th><th>First token, ms</th><th>Text</th></tr>\n";
    const auto row = [&html](const Json& one, const std::string& name) {
        html += "<tr><td>" + name + "</td><td class=\"number\">" + std::to_string(one["prompt_tokens"].size()) +
                "</td><td class=\"number\">" + std::to_string(one["output_tokens"].size()) + "</td><td>" + value_text(one["finish_reason"]) +
                "</td><td class=\"number\">" + value_text(one["ttft_ms"]) + "</td><td>" + value_text(one["text"]) + "</td></tr>\n";
    };
    for (const Json& request : lane["requests"]) {
        bool itself = true;  // a request that became several sequences is told by them
        for (const Json& sequence : request["sequences"]) itself = itself && !sequence["parent"].is_null();
        if (itself) row(request, value_text(request["id"]));
        for (const Json& sequence : request["sequences"])
            row(sequence, value_text(sequence["id"]) +
                              (sequence["parent"].is_null() ? "" : ", from " + value_text(sequence["parent"]) + " at " + value_text(sequence["forked_at"])));
    }
    html += "</table>\n";
}

using Reasons = std::vector<std::pair<std::string, std::string>>;  // views without content, and why

// The view as SVG, its ids made its own: several stand in one document. "" where it has no content.
Result<std::string> picture_of(const QString& id, Cursor& cursor, const QString& folder, Reasons& without) {
    const std::unique_ptr<View> view = createView(id, &cursor, nullptr);
    view->resize(1000, 560);
    view->ensurePolished();
    const QString path = folder + QLatin1Char('/') + id + QStringLiteral(".svg");
    if (const QString problem = view->exportTo(path); !problem.isEmpty()) return Error{problem.toStdString(), ""};
    if (const QString reason = view->emptyReason(); !reason.isEmpty()) {
        without.emplace_back(view->title().toStdString(), reason.toStdString());
        return std::string();
    }
    QFile file(path);
    if (!file.open(QIODevice::ReadOnly)) return Error{path.toStdString() + " cannot be read", ""};
    QByteArray svg = file.readAll();
    svg.remove(0, svg.indexOf("<svg"));
    const QByteArray own = id.toUtf8() + '-';
    svg.replace("id=\"", "id=\"" + own).replace("url(#", "url(#" + own).replace("href=\"#", "href=\"#" + own);
    return svg.toStdString();
}

void meta_rows(const StoredRecording& stored, std::string& html) {
    const std::pair<const char*, const char*> rows[] = {{"created", "Recorded"}, {"program", "Program"}, {"machine", "Machine"}, {"reason", "Ended"}};
    html += "<table>\n";
    for (const auto& [key, title] : rows)
        if (const auto found = stored.meta.find(key); found != stored.meta.end() && !found->second.empty())
            html += std::string("<tr><th>") + title + "</th><td>" + escaped(found->second) + "</td></tr>\n";
    for (const auto& lane : stored.recording->lanes())
        html += "<tr><th>Lane " + escaped(lane->info().name) + "</th><td>" + escaped(lane->info().model_name) + ", " +
                escaped(lane->info().device) + ", cache " + escaped(lane->info().cache_dtype) + ", " + std::to_string(lane->step_count()) +
                " steps</td></tr>\n";
    html += "</table>\n";
}

}  // namespace

Result<std::string> report_html(const StoredRecording& stored) {
    const Recording& recording = *stored.recording;
    const Json summary = Json::parse(summary_json(recording));
    const QTemporaryDir folder;
    if (!folder.isValid()) return Error{"No folder for the report's pictures can be made", "Set TMPDIR to a folder that can be written"};

    std::string html = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + escaped(recording.title()) +
                       "</title><style>" + report_style + "</style></head><body>\n<h1>" + escaped(recording.title()) + "</h1>\n";
    meta_rows(stored, html);
    for (const Json& lane : summary["lanes"]) {
        html += "<h2>Lane " + value_text(lane["name"]) + "</h2>\n";
        requests_of(lane, html);
        html += "<table><tr><th>Number</th><th>Value</th><th>Origin</th></tr>\n";
        rows_of(lane, "", summary["origins"], html);
        html += "</table>\n";
    }
    html += "<h2>Pictures</h2>\n<p class=\"quiet\">The first lane, at its last step.</p>\n";
    Reasons without;
    Cursor cursor;
    cursor.setRecording(stored.recording);
    cursor.advanced();
    for (const ViewDescription& description : viewDescriptions()) {
        const auto picture = picture_of(description.id, cursor, folder.path(), without);
        if (!picture) return picture.error();
        if (picture->empty()) continue;
        html += "<figure><h3>" + escaped(description.title.toStdString()) + "</h3>\n" + *picture + "</figure>\n";
    }
    if (!without.empty()) {
        html += "<p class=\"quiet\">Views that have nothing to show here:</p>\n<ul class=\"quiet\">\n";
        for (const auto& [title, reason] : without) html += "<li>" + escaped(title) + ": " + escaped(reason) + "</li>\n";
        html += "</ul>\n";
    }
    if (const auto scenario = stored.meta.find("scenario"); scenario != stored.meta.end() && !scenario->second.empty())
        html += "<h2>Configuration</h2>\n<pre>" + escaped(scenario->second) + "</pre>\n";
    return html += "</body></html>\n";
}

}  // namespace kvloupe
