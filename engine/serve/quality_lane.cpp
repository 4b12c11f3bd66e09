// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/quality_lane.h"

namespace kvloupe {

LaneOptions QualityLane::measuring(LaneOptions options, std::uint32_t budget) {
    options.cache.prefix_caching = false;  // a hit is not computed, so nobody could look at it
    options.cache.kind = CacheKind::paged; // where rows lie changes no number
    options.cache.reserve = Reserve::max;
    options.cache.max_model_len = 0;
    options.cache.watermark = 0;
    options.cache.blocks.reset();
    options.scheduler = {};
    options.scheduler.max_num_batched_tokens = budget;
    options.uncached_limit = 0;
    return options;
}

Result<std::unique_ptr<QualityLane>> QualityLane::create(LaneSetup setup, std::shared_ptr<const VocabularyText> vocabulary) {
    auto lane = Lane::create(std::move(setup));
    if (!lane) return lane.error();
    return std::unique_ptr<QualityLane>(new QualityLane(std::move(*lane), std::move(vocabulary)));
}

Request QualityLane::request_of(const QualityItem& item, std::uint32_t index, bool by_token) {
    Request request;
    request.id = RequestId(index);
    request.name = request.family = "text " + std::to_string(index);
    const auto cut = by_token ? item.tokens.begin() + 1 : item.tokens.end() - 1;
    request.tokens.assign(item.tokens.begin(), cut);
    request.forced.assign(cut, item.tokens.end());
    request.prompt_tokens = request.size();
    request.max_new_tokens = request.new_tokens();
    return request;
}

Result<bool> QualityLane::run(std::span<const QualityItem> items, PositionTap& tap, std::stop_token stop) {
    auto writer = std::make_unique<RecordingWriter>("", std::uint64_t{1} << 20);
    writer->add_lane(m_info, m_vocabulary);
    writer->lanes_complete();
    m_lane->begin(writer->lane(LaneId(0)));
    m_writer = std::move(writer);  // the one before is in use until here
    for (std::uint32_t i = 0; i < items.size(); ++i) {
        Request request = request_of(items[i], i, m_lane->has_residual());
        RequestInfo info;
        info.id = request.name;
        info.prompt = request.tokens;
        info.max_new_tokens = request.new_tokens();
        m_writer->add_request(std::move(info));
        m_lane->add_request(std::move(request));
    }
    StepContext context;
    context.lane = LaneId(0);
    context.stop = stop;
    context.measure_stages = false;
    context.positions = &tap;
    while (m_lane->has_work()) {
        if (stop.stop_requested()) return false;
        const Lane::Outcome outcome = m_lane->step(context);
        if (outcome == Lane::Outcome::stopped) return false;
        if (outcome == Lane::Outcome::failed) return Error{m_lane->failure(), ""};
    }
    return true;
}

}  // namespace kvloupe
