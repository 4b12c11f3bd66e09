// SPDX-License-Identifier: GPL-3.0-or-later
//
// QualityLane: a lane that is given held-out text instead of requests. It steps as every lane does, through its own paged cache:
// K and V of a position are written in the cache's precision and read from it by the same step and all later ones; windows,
// groups, forms of attention and conversions are the lane's own. A text is a prompt whose every position is looked at.
//
// A cache that keeps its newest tokens in f16 (KIVI) would see nothing of its own quantisation that way, because a prompt is
// quantised behind the step that reads it: such a lane is fed token by token, many texts at a time, as if it had generated them.
#pragma once

#include "engine/serve/lane.h"
#include "engine/serve/quality_text.h"

#include <memory>
#include <span>
#include <stop_token>

namespace kvloupe {

class QualityLane {
public:
    // Options of a lane for measuring: what changes which tokens run when, and what would leave positions out, is set aside;
    // what decides about numbers stays. budget: most tokens of a step.
    static LaneOptions measuring(LaneOptions options, std::uint32_t budget);

    // Takes the pool's memory.
    static Result<std::unique_ptr<QualityLane>> create(LaneSetup setup, std::shared_ptr<const VocabularyText> vocabulary);

    const LaneInfo& info() const { return m_info; }

    // Gives the lane the items, item i as request i, and steps to the end. False: stopped. Errors: a step that failed.
    Result<bool> run(std::span<const QualityItem> items, PositionTap& tap, std::stop_token stop);

    // Request i for the lane; prompt and forced tokens as the lane is fed.
    static Request request_of(const QualityItem& item, std::uint32_t index, bool by_token);

private:
    QualityLane(std::unique_ptr<Lane> lane, std::shared_ptr<const VocabularyText> vocabulary)
        : m_lane(std::move(lane)), m_vocabulary(std::move(vocabulary)), m_info(m_lane->info()) {}

    std::unique_ptr<Lane> m_lane;
    std::shared_ptr<const VocabularyText> m_vocabulary;
    LaneInfo m_info;
    std::unique_ptr<RecordingWriter> m_writer;  // of the run in progress: nobody reads it
};

}  // namespace kvloupe
