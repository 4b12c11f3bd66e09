// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the session's tests share: scenarios in a line, sessions over real models on the CPU, and what they recorded.
#pragma once

#include <QFile>
#include <QJsonDocument>
#include <QJsonObject>
#include <QString>
#include <QTest>

#include "engine/record/describe.h"
#include "engine/record/lane_state.h"
#include "engine/serve/session.h"
#include "kernels/make_backend.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace kvloupe::test {

inline const std::string stories = KVLOUPE_SHARED_DATA "/models/stories260K.gguf";
inline const std::string fixtures = KVLOUPE_SOURCE_DIR "/tests/fixtures/";

#define SKIP_WITHOUT(path)                                                                                    \
    if (!QFile::exists(QString::fromStdString(path)))                                                         \
        QSKIP(qPrintable(QStringLiteral("%1 is not there; this test needs it").arg(QString::fromStdString(path))))

// VERIFY a Result and show its error. The expression is evaluated once.
#define VERIFY_RESULT(result)                                                                             \
    do {                                                                                                  \
        const auto& verified = (result);                                                                  \
        QVERIFY2(verified, verified ? "" : verified.error().message().c_str());                           \
    } while (false)

inline Scenario scenario(const QByteArray& json) {
    auto parsed = parse_scenario(std::as_bytes(std::span(json.constData(), std::size_t(json.size()))), "test.json");
    if (!parsed) qFatal("%s", parsed.error().message().c_str());
    return *parsed;
}

// Logits by lane, request and output index.
using LogitKey = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
using Logits = std::map<LogitKey, std::vector<float>>;

inline SessionOptions options(Logits* tapped = nullptr) {
    SessionOptions result;
    result.make_backend = [](const std::string& device) { return make_backend(BackendOptions{device, 2}); };
    result.find_model = [](const std::string& model) { return load_model(model); };
    result.debug_poison = true;
    result.audit = true;
    if (tapped)
        result.logit_tap = [tapped](LaneId lane, RequestId request, std::uint32_t index, std::span<const float> logits) {
            (*tapped)[{lane.value, request.value, index}].assign(logits.begin(), logits.end());
        };
    return result;
}

// Output tokens of a request's only sequence in a lane.
inline std::vector<TokenId> outputs(const Recording& recording, LaneId lane_id, const std::string& request) {
    std::vector<TokenId> tokens;
    const LaneRecord& lane = recording.lane(lane_id);
    for (std::size_t i = 0; i < lane.tokens().size(); ++i) {
        const TokenRecord& token = lane.tokens()[i];
        if (token.source != TokenRecord::prompt && sequence_name(recording, lane, token.sequence) == request)
            tokens.push_back(token.token);
    }
    return tokens;
}

// "arrive a", "admit a", "allocate a 1", … of one step.
inline QStringList events(const Recording& recording, LaneId lane_id, std::size_t step) {
    QStringList lines;
    const LaneRecord& lane = recording.lane(lane_id);
    for (std::uint64_t i = lane.step(step).events.begin; i < lane.step(step).events.end; ++i) {
        const Event& event = lane.events()[i];
        QString line = QString::fromUtf8(name_of(event.kind).data(), qsizetype(name_of(event.kind).size())) + ' ' +
                       QString::fromStdString(sequence_name(recording, lane, event.sequence));
        if (event.block.valid()) line += ' ' + QString::number(event.block.value);
        lines << line;
    }
    return lines;
}

// "2: copy_on_write c 3": all events of a kind.
inline QStringList all(const Recording& recording, EventKind kind, LaneId id = LaneId{0}) {
    QStringList lines;
    const LaneRecord& lane = recording.lane(id);
    for (std::size_t step = 0; step < lane.step_count(); ++step)
        for (const QString& line : events(recording, id, step))
            if (line.startsWith(QString::fromUtf8(name_of(kind).data(), qsizetype(name_of(kind).size())) + ' ')) lines << QString::number(step) + ": " + line;
    return lines;
}

// Times and reasons of a request in a lane at the end of the recording.
inline RequestTimes times(const Recording& recording, LaneId lane_id, const std::string& request) {
    const LaneRecord& lane = recording.lane(lane_id);
    for (std::uint32_t i = 0; i < lane.sequences().size(); ++i)
        if (sequence_name(recording, lane, SequenceId{i}) == request)
            return request_times(recording, lane, SequenceId{i}, lane.step_count() - 1);
    return {};
}

inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size()) return INFINITY;
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(double(a[i]) - double(b[i])));
    return largest;
}

inline QJsonObject read_json(const std::string& path) {
    QFile file(QString::fromStdString(path));
    if (!file.open(QIODevice::ReadOnly)) return {};
    return QJsonDocument::fromJson(file.readAll()).object();
}

inline const LaneId lane0{0};

// Over the fixture tiny-gqa; aborts the test program where the scenario is wrong.
inline std::unique_ptr<Session> session(const QByteArray& rest, SessionOptions given = options()) {
    Scenario wanted = scenario("{\"version\": 1, \"device\": \"cpu\", " + rest + "}");
    wanted.model = fixtures + "tiny-gqa";
    auto made = Session::create(wanted, std::move(given));
    if (!made) qFatal("%s", made.error().message().c_str());
    return std::move(*made);
}

// Requests whose output is forced, so that they end when they should.
inline QByteArray request(const char* id, int prompt, int output, const char* more = "") {
    const auto list = [](int count) {
        QByteArray text = "[";
        for (int i = 0; i < count; ++i) text += QByteArray::number(40 + i % 100) + (i + 1 < count ? "," : "");
        return text + "]";
    };
    return QByteArray("{\"id\": \"") + id + "\", \"prompt_tokens\": " + list(prompt) + ", \"output_tokens\": " + list(output) + more + "}";
}

inline RequestOptions submitted(const char* id, int prompt, int output) {
    RequestOptions result;
    result.id = id;
    result.prompt_tokens = std::vector<TokenId>(std::size_t(prompt), 50);
    result.output_tokens = std::vector<TokenId>(std::size_t(output), 51);
    return result;
}

}  // namespace kvloupe::test
