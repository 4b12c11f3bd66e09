// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/late_stages.h"

#include <algorithm>
#include <utility>

namespace kvloupe {

void add_stages(std::vector<StageRecord>& stages, std::span<const StageTiming> timings, const StageCosts& costs) {
    std::size_t place = 0;
    std::vector<bool> costed(stages.size());  // a stage that is marked in several parts costs once
    for (const StageTiming& timing : timings) {
        const auto same = [&](const StageRecord& s) { return s.kind == timing.kind && s.layer == timing.layer; };
        auto stage = stages.begin() + static_cast<std::ptrdiff_t>(std::min(place, stages.size()));
        if (stage == stages.end() || !same(*stage)) {
            const auto newest = std::find_if(stages.rbegin(), stages.rend(), same);  // parts of a stage follow each other closely
            stage = newest == stages.rend() ? stages.end() : newest.base() - 1;
        }
        if (stage == stages.end()) {
            StageRecord added;
            added.kind = timing.kind;
            added.layer = timing.layer;
            stage = stages.insert(stages.end(), added);
        }
        ++place;
        ++stage->calls;
        stage->duration_ns += timing.duration_ns;
        const auto index = static_cast<std::size_t>(stage - stages.begin());
        costed.resize(stages.size());
        if (costed[index]) continue;
        costed[index] = true;
        const StageCost cost = costs.of(timing.kind, timing.layer);
        stage->bytes += cost.bytes;
        stage->flops += cost.flops;
    }
}

void LateStages::expect(MeasuredPass pass, const Step& step) {
    read();
    m_outstanding.emplace(Outstanding{std::move(pass), step});
}

void LateStages::read() {
    if (!m_outstanding) return;
    const Outstanding due = *m_outstanding;
    m_outstanding.reset();
    std::vector<StageRecord> stages = {due.step.schedule};
    add_stages(stages, m_backend.timings(due.pass.set), due.pass.costs);
    if (stages.size() == 1) return;
    if (due.step.sample) stages.push_back(*due.step.sample);
    due.step.writer->stages(due.step.step, stages);
}

}  // namespace kvloupe
