// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the tests of the Compare and Profile pictures share.
#pragma once

#include "tests/support/demo_recording.h"
#include "views/view.h"

#include <QStringList>

namespace kvloupe {

// The comparison reads no attention rows, which are most of a recording's work.
inline DemoOptions plainOptions() {
    DemoOptions options;
    options.attention = false;
    return options;
}

// Rows of RFC 4180 text whose fields hold no quotes.
inline QList<QStringList> rowsOf(const QString& csv) {
    QList<QStringList> rows;
    for (const QString& line : csv.split(QStringLiteral("\r\n"), Qt::SkipEmptyParts)) rows.append(line.split(QLatin1Char(',')));
    return rows;
}

template <class T>
std::unique_ptr<T> shown(Cursor& cursor) {
    auto view = std::make_unique<T>(&cursor);
    view->resize(600, 400);
    view->catchUp();
    return view;
}

// Two lanes of the same weights whose third token, or that of `late` steps later, differs, and one of other weights.
inline std::shared_ptr<const Recording> diverging(std::uint32_t late = 0) {
    RecordingWriter writer("diverging", 1 << 20);
    auto vocabulary = std::make_shared<VocabularyText>();
    vocabulary->shown = {"a", "boat", "ship"};
    vocabulary->pieces = vocabulary->shown;
    LaneInfo info;
    info.attention_variant = "GQA";
    info.cache_dtype = "f32";
    info.block_size = 16;
    info.blocks = 8;
    info.vocabulary = 3;
    for (const auto& [name, weights] : {std::pair{"first", 7}, std::pair{"second", 7}, std::pair{"other", 8}}) {
        info.name = name;
        info.weights_id = static_cast<std::uint64_t>(weights);
        writer.add_lane(info, vocabulary);
    }
    writer.lanes_complete();
    RequestInfo request;
    request.id = "a";
    request.prompt = {0};
    writer.add_request(request);
    const float differences[] = {0.0f, 2e-6f, 5e-6f, 0.5f, 0.25f};
    for (std::uint32_t lane = 0; lane < 3; ++lane) {
        LaneWriter& own = writer.lane(LaneId(lane));
        own.add_sequence({RequestId(0), {}, 0});
        for (std::uint32_t step = 0; step < 5 + late; ++step) {
            own.begin_step();
            const bool differs = lane == 1 && step >= 2 + late;
            const Alternative alternatives[] = {{differs ? 1 : 2, 0.6f, 2.0f}, {differs ? 2 : 1, 0.3f, 1.0f}};
            TokenRecord token;
            token.sequence = SequenceId(0);
            token.position = step + 1;
            token.source = TokenRecord::sampled;
            token.token = alternatives[0].token;
            own.token(token, alternatives);
            StepRecord counters;
            if (lane == 1) counters.logit_difference = differences[step < late ? 0 : step - late];
            own.end_step(counters);
        }
    }
    return writer.recording();
}

}  // namespace kvloupe
