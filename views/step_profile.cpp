// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/step_profile.h"

#include "views/cursor.h"
#include "views/format.h"
#include "views/median.h"
#include "views/staged_steps.h"

#include <QCoreApplication>

#include <algorithm>
#include <array>
#include <cmath>

namespace kvloupe {

namespace {

constexpr std::size_t least_layers = 4;    // a median and a spread of fewer say nothing
constexpr double deviations = 3, least_excess = 0.05;

QString profile_text(const char* text) { return QCoreApplication::translate("kvloupe::step_profile", text); }

QString perSecond(double value) {
    return value < 1000 ? QString::number(value, 'f', 1) : formatCount(static_cast<quint64>(std::llround(value)));
}

QString numbered(int step) { return formatCount(static_cast<quint64>(std::max(0, step))); }

// Before the layers, the layers in order, behind them.
int rankOf(const StageRecord& stage) {
    if (stage.layer != StageRecord::no_layer) return 1 + stage.layer;
    return stage.kind < StageKind::attention_norm ? 0 : 1 + StageRecord::no_layer;
}

}  // namespace

std::size_t StepProfile::stageAt(double ns) const {
    const auto found = std::upper_bound(stages.begin(), stages.end(), ns,
                                        [](double at, const ProfiledStage& stage) { return at < stage.endNs(); });
    return static_cast<std::size_t>(found - stages.begin());
}

const ProfiledLayer* StepProfile::layerOf(std::size_t stage) const {
    const auto found = std::upper_bound(layers.begin(), layers.end(), stage,
                                        [](std::size_t at, const ProfiledLayer& layer) { return at < layer.end; });
    return found != layers.end() && found->begin <= stage ? &*found : nullptr;
}

std::optional<StepProfile> readProfile(const LaneRecord& lane, int step) {
    step = std::min(step, static_cast<int>(lane.step_count()) - 1);
    const auto place = stagedAtOrBefore(lane, step);
    if (!place) return std::nullopt;
    const LaneRecord::StageRange& staged = lane.staged_steps()[*place];
    StepProfile profile;
    profile.asked = step;
    profile.step = static_cast<int>(staged.step);
    profile.record = lane.step(staged.step);
    profile.stages.reserve(staged.range.size());
    for (std::uint64_t i = staged.range.begin; i < staged.range.end; ++i) profile.stages.push_back({lane.stages()[i], 0});
    // A step of several passes notes what only a later pass did behind the rest.
    std::stable_sort(profile.stages.begin(), profile.stages.end(), [](const ProfiledStage& a, const ProfiledStage& b) {
        return rankOf(a.record) < rankOf(b.record);
    });
    for (std::size_t i = 0; i < profile.stages.size(); ++i) {
        ProfiledStage& stage = profile.stages[i];
        stage.beginNs = profile.stagesNs;
        profile.stagesNs = stage.endNs();
        if (stage.record.layer == StageRecord::no_layer) continue;
        if (profile.layers.empty() || profile.layers.back().layer != stage.record.layer)
            profile.layers.push_back({stage.record.layer, i, i, 0, false, 0, {}});
        profile.layers.back().end = i + 1;
        profile.layers.back().durationNs += stage.record.duration_ns;
    }
    markOutliers(profile);
    return profile;
}

void markOutliers(StepProfile& profile) {
    std::vector<double> values;
    for (const ProfiledLayer& layer : profile.layers) values.push_back(static_cast<double>(layer.durationNs));
    profile.medianLayerNs = medianOf(values);
    if (profile.layers.size() < least_layers) return;
    const double median = profile.medianLayerNs;
    for (double& value : values) value = std::abs(value - median);
    const double limit = median + std::max(deviations * medianOf(values), least_excess * median);
    std::array<std::vector<double>, stage_kind_count> times;  // per kind, one of each layer
    for (ProfiledLayer& layer : profile.layers) {
        layer.outlier = static_cast<double>(layer.durationNs) > limit;
        if (!layer.outlier) continue;
        layer.aboveNs = static_cast<double>(layer.durationNs) - median;
        if (times[static_cast<std::size_t>(StageKind::attention)].empty())
            for (const ProfiledStage& stage : profile.stages)
                times[static_cast<std::size_t>(stage.record.kind)].push_back(
                    static_cast<double>(stage.record.duration_ns));
        double most = 0;
        for (std::size_t i = layer.begin; i < layer.end; ++i) {
            const StageRecord& stage = profile.stages[i].record;
            const double excess =
                static_cast<double>(stage.duration_ns) - medianOf(times[static_cast<std::size_t>(stage.kind)]);
            if (excess <= most) continue;
            most = excess;
            layer.reason = stage.kind;
        }
    }
}

QString outlierRule() {
    return profile_text(
        "Marked: more than the median of the layers + 3 × their median absolute deviation, and at least 5 % more "
        "than the median.");
}

QString outlierText(const ProfiledLayer& layer) {
    const QString above = profile_text("%1 above the median layer").arg(formatDuration(layer.aboveNs));
    if (!layer.reason) return above;
    const std::string_view name = name_of(*layer.reason);
    return profile_text("%1: %2").arg(above, QString::fromUtf8(name.data(), static_cast<qsizetype>(name.size())));
}

QString stepName(const StepProfile& profile) {
    if (profile.decodes()) return profile_text("Decode step %1").arg(numbered(profile.step));
    if (profile.record.prefill_tokens > 0 && profile.record.decode_tokens == 0)
        return profile_text("Prefill step %1").arg(numbered(profile.step));
    return profile_text("Step %1").arg(numbered(profile.step));
}

bool computes(const LaneInfo& lane) { return lane.layers > 0; }

QString stepRateText(const StepRecord& step, const LaneInfo& lane, const QString& rateMark) {
    const auto ns = static_cast<double>(step.duration_ns);
    const QString time = formatDuration(ns);
    const std::uint64_t made = std::uint64_t{step.decode_tokens} + step.prefill_tokens;
    if (!computes(lane) || ns <= 0 || made == 0) return time;
    if (!lane.kv_cache) {
        const QString text = step.computed_tokens == 1 ? profile_text("1 token computed in %1").arg(time)
                                                       : profile_text("%1 tokens computed in %2")
                                                             .arg(formatCount(step.computed_tokens), time);
        if (step.decode_tokens == 0) return text;
        return profile_text("%1, %2 new per second").arg(text, rateMark + perSecond(step.decode_tokens * 1e9 / ns));
    }
    return profile_text("%1, %2 tokens per second").arg(time, rateMark + perSecond(static_cast<double>(made) * 1e9 / ns));
}

QString otherStepText(const StepProfile& profile) {
    if (profile.asked == profile.step) return {};
    return profile_text("step %1 has no stages; showing step %2").arg(numbered(profile.asked), numbered(profile.step));
}

QString stoppedText(const Cursor& cursor) {
    if (!cursor.laneRecord()) return {};
    const int last = cursor.stepOf(cursor.lane()), behind = cursor.step() - last;
    // While steps fly past, the lanes of one step are not published at once.
    if (last < 0 || behind < (cursor.recording()->phase() == Phase::running ? 2 : 1)) return {};
    return profile_text("stopped at step %1").arg(numbered(last));
}

QString noStagesText(const LaneRecord* lane, int step) {
    if (!lane) return profile_text("Nothing is open. Open a model or a scenario.");
    if (step < 0) return profile_text("No step recorded yet. The first step shows its stages.");
    const QString text = profile_text("No stage times were recorded up to step %1 of %2.")
                             .arg(numbered(step), QString::fromStdString(lane->info().name));
    if (lane->staged_steps().size() == 0)
        return text + QLatin1Char(' ') +
               (!computes(lane->info())
                    ? profile_text("The lane has no model: it accounts for blocks, and has no stages.")
                    : profile_text("Stages are measured in every n-th step: Analyse ▸ Measure stages, or the scenario’s "
                                 "“stages_every”."));
    return text + QLatin1Char(' ') +
           profile_text("Step %1 is the first that has them.")
               .arg(numbered(static_cast<int>(lane->staged_steps()[0].step)));
}

}  // namespace kvloupe
