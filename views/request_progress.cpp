// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/request_progress.h"

namespace kvloupe {

RequestProgress::RequestProgress(const Recording* recording, LaneId lane)
    : m_record(&recording->lane(lane)), m_pass(*recording, *m_record) {}

void RequestProgress::note(SequenceId sequence) {
    const RequestTimes& times = m_pass.of(sequence);
    if (sequence.value >= m_counted.size()) m_counted.resize(sequence.value + std::size_t{1});
    for (std::size_t& i = m_counted[sequence.value]; i < times.inter_token_ms.size(); ++i) m_itl.add(times.inter_token_ms[i]);
    const SequenceInfo& info = m_record->sequences()[sequence.value];
    if (info.parent.valid() || !info.request.valid() || !times.time_to_first_token_ms) return;
    if (info.request.value >= m_begun.size()) m_begun.resize(info.request.value + std::size_t{1});
    if (m_begun[info.request.value]) return;
    m_begun[info.request.value] = true;
    m_ttft.add(*times.time_to_first_token_ms);
}

void RequestProgress::advance() {
    const std::size_t count = m_record->step_count();
    for (std::size_t i = m_sums.size(); i < count; ++i) {
        const StepRecord& step = m_record->step(i);
        RequestSums sums = i > 0 ? m_sums.back() : RequestSums{};
        m_pass.step(step);
        for (const SequenceId sequence : m_pass.sampled()) note(sequence);
        sums.ttftMs = m_ttft.value();
        sums.requests = m_ttft.count();
        sums.itlMs = m_itl.value();
        sums.gaps = m_itl.count();
        sums.computed += step.computed_tokens;
        sums.queried += step.queried_tokens;
        sums.hit += step.hit_tokens;
        for (std::uint64_t e = step.events.begin; e < step.events.end; ++e)
            sums.preemptions += m_record->events()[e].kind == EventKind::preempt;
        m_sums.push_back(sums);
    }
}

}  // namespace kvloupe
