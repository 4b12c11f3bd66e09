// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/expert_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvloupe {

namespace {

constexpr double never = -std::numeric_limits<double>::infinity();

std::vector<double> scores_of(const ExpertShape& shape, std::span<const float> logits) {
    std::vector<double> scores(logits.begin(), logits.end());
    if (shape.score == ExpertShape::Score::sigmoid) {
        for (double& score : scores) score = 1 / (1 + std::exp(-score));
        return scores;
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - top);
    for (double& score : scores) score /= sum;
    return scores;
}

// Indices of the `count` largest, the largest first; ties go to the lower index, and what is no number goes last.
std::vector<std::uint32_t> largest(std::span<const double> values, std::uint32_t count) {
    std::vector<std::uint32_t> chosen;
    std::vector<bool> taken(values.size());
    while (chosen.size() < std::min<std::size_t>(count, values.size())) {
        std::size_t best = values.size();
        for (std::size_t i = 0; i < values.size(); ++i)
            if (!taken[i] && (best == values.size() || values[i] > values[best])) best = i;
        taken[best] = true;
        chosen.push_back(static_cast<std::uint32_t>(best));
    }
    return chosen;
}

// Experts of groups that are not chosen cannot be chosen.
void close_groups(const ExpertShape& shape, std::vector<double>& scores) {
    const std::size_t size = scores.size() / shape.groups;
    const std::uint32_t judged = shape.group_score == ExpertShape::GroupScore::best_two ? 2 : 1;
    std::vector<double> of_group(shape.groups, 0);
    for (std::uint32_t group = 0; group < shape.groups; ++group) {
        const std::span<const double> members = std::span<const double>(scores).subspan(group * size, size);
        for (const std::uint32_t member : largest(members, judged)) of_group[group] += members[member];
    }
    std::vector<bool> open(shape.groups);
    for (const std::uint32_t group : largest(of_group, shape.used_groups)) open[group] = true;
    for (std::size_t expert = 0; expert < scores.size(); ++expert)
        if (!open[expert / size]) scores[expert] = never;
}

}  // namespace

std::vector<ExpertChoice> choose_experts(const ExpertShape& shape, std::span<const float> logits, std::span<const float> bias) {
    const std::vector<double> scores = scores_of(shape, logits);
    std::vector<double> judged = scores;
    for (std::size_t expert = 0; expert < std::min(bias.size(), judged.size()); ++expert)
        judged[expert] += static_cast<double>(bias[expert]);
    if (shape.group_score != ExpertShape::GroupScore::none && shape.groups > 1) close_groups(shape, judged);
    std::vector<ExpertChoice> choices;
    double sum = 0;
    for (const std::uint32_t expert : largest(judged, shape.used)) {
        choices.push_back({expert, 0});
        sum += scores[expert];
    }
    const double factor = static_cast<double>(shape.weight_scale) / (shape.normalised ? std::max(sum, 1e-20) : 1.0);
    for (ExpertChoice& choice : choices) choice.weight = static_cast<float>(scores[choice.expert] * factor);
    return choices;
}

ExpertRows sort_by_expert(const ExpertShape& shape, std::span<const float> logits, std::span<const float> bias) {
    std::vector<ExpertRows::Group> all(shape.count);
    for (std::uint32_t row = 0; row < logits.size() / shape.count; ++row)
        for (const ExpertChoice& choice : choose_experts(shape, logits.subspan(std::size_t{row} * shape.count, shape.count), bias)) {
            all[choice.expert].expert = choice.expert;
            all[choice.expert].rows.push_back(row);
            all[choice.expert].weights.push_back(choice.weight);
        }
    ExpertRows result;
    for (ExpertRows::Group& group : all)
        if (!group.rows.empty()) result.groups.push_back(std::move(group));
    return result;
}

}  // namespace kvloupe
