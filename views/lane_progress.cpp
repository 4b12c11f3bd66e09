// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/lane_progress.h"

#include <algorithm>

namespace kvloupe {

std::uint64_t naiveTokens(std::uint64_t prompt, std::uint64_t tokens) {
    if (tokens <= prompt) return tokens;
    const std::uint64_t before = prompt > 0 ? prompt * (prompt - 1) / 2 : 0;
    return tokens * (tokens + 1) / 2 - before;
}

std::optional<LaneId> referenceLane(const Recording& recording, LaneId lane) {
    const std::uint64_t weights = recording.lane(lane).info().weights_id;
    if (weights == 0) return std::nullopt;  // an accounting lane: no weights, no logits
    for (std::uint32_t i = 0; i < lane.value; ++i)
        if (recording.lane(LaneId(i)).info().weights_id == weights) return LaneId(i);
    return std::nullopt;
}

std::optional<LaneId> cachedTwin(const Recording& recording, LaneId lane) {
    const LaneInfo& info = recording.lane(lane).info();
    if (info.kv_cache || info.weights_id == 0) return std::nullopt;
    std::optional<LaneId> twin;
    int most = -1;
    for (std::uint32_t i = 0; i < recording.lanes().size(); ++i) {
        const LaneInfo& other = recording.lane(LaneId(i)).info();
        if (!other.kv_cache || other.weights_id != info.weights_id) continue;
        const auto precision = dtype_from_name(other.cache_dtype);
        const int alike = 4 * (other.attention_form == info.attention_form) + 2 * (other.device_id == info.device_id) +
                          (precision && is_float(*precision));
        if (alike <= most) continue;
        most = alike;
        twin = LaneId(i);
    }
    return twin;
}

LaneProgress::LaneProgress(const Recording* recording, LaneId lane) : m_recording(recording), m_lane(lane) {}

LaneProgress::Sequence& LaneProgress::sequence(SequenceId id) {
    if (id.value >= m_sequences.size()) m_sequences.resize(id.value + std::size_t{1});
    Sequence& own = m_sequences[id.value];
    if (own.prompt == 0 && id.value < record().sequences().size()) {
        const SequenceInfo& info = record().sequences()[id.value];
        const RequestId request = info.request;
        if (request.valid() && request.value < m_recording->requests().size())
            own.prompt = m_recording->requests()[request.value].prompt.size();
        if (info.parent.valid() && own.tokens == 0) {  // what it inherited has been through the model
            own.tokens = info.forked_at;
            own.naive = naiveTokens(own.prompt, own.tokens);
        }
    }
    return own;
}

void LaneProgress::advance() {
    const LaneRecord& lane = record();
    const std::size_t count = lane.step_count();
    for (std::size_t i = m_sums.size(); i < count; ++i) {
        const StepRecord& step = lane.step(i);
        StepSums sums = i > 0 ? m_sums.back() : StepSums{};
        sums.sequences = 0;
        sums.prompt = false;
        sums.durationNs = step.duration_ns;
        sums.totalNs += step.duration_ns;
        sums.computed += step.computed_tokens;
        bool decoded = false;
        std::uint64_t promptTokens = 0;
        for (std::uint64_t e = step.events.begin; e < step.events.end; ++e) {
            const Event& event = lane.events()[e];
            if (event.kind != EventKind::prefill && event.kind != EventKind::decode) continue;
            if (!event.sequence.valid()) continue;
            Sequence& own = sequence(event.sequence);
            if (own.step != i) ++sums.sequences;
            own.step = i;
            const std::uint64_t first = event.kind == EventKind::decode ? own.tokens : event.other;
            const std::uint64_t after = std::max<std::uint64_t>(own.tokens, first + event.tokens);
            if (own.tokens < own.prompt) {
                sums.prompt = true;
                promptTokens += std::min(after, own.prompt) - own.tokens;
            } else {
                decoded = true;
            }
            own.tokens = after;
            const std::uint64_t naive = naiveTokens(own.prompt, own.tokens);
            sums.naive += naive - own.naive;
            own.naive = naive;
        }
        if (sums.prompt && !decoded) {
            sums.prefillNs += step.duration_ns;
            sums.prefillTokens += promptTokens;
        }
        if (sums.decodes()) m_decode.add(static_cast<double>(step.duration_ns) / sums.sequences);
        m_decodeCount.push_back(static_cast<std::uint32_t>(m_decode.count()));
        m_median.push_back(m_decode.value().value_or(0));
        m_sums.push_back(sums);
    }
}

std::optional<double> LaneProgress::medianDecodeNsPerToken(std::size_t step) const {
    if (step >= m_sums.size() || m_decodeCount[step] == 0) return std::nullopt;
    return m_median[step];
}

}  // namespace kvloupe
