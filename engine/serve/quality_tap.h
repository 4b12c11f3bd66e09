// SPDX-License-Identifier: GPL-3.0-or-later
//
// QualityTap: takes a lane's logits down, position by position, and compares them with a reference lane's on the same tokens.
#pragma once

#include "engine/serve/position_tap.h"
#include "engine/serve/quality_figures.h"
#include "engine/serve/quality_scores.h"

#include <functional>
#include <span>
#include <vector>

namespace kvloupe {

// The reference lane's logits of a group of items: (items, predictions, vocabulary).
struct ReferenceLogits {
    struct Row {
        std::vector<float> logits;
        LogitFacts facts;
    };
    std::vector<std::vector<Row>> rows;  // (items)(predictions)
};

class QualityTap : public PositionTap {
public:
    // Request i is items[i]. keep: the logits are kept there (the reference lane); compare: they are compared with those. Either
    // may be null. counted: told of every position once.
    QualityTap(std::span<const QualityItem> items, ReferenceLogits* keep, const ReferenceLogits* compare,
               std::function<void()> counted);

    bool wants(RequestId request, std::uint32_t position) const override;
    void logits(RequestId request, std::uint32_t position, std::span<const float> logits) override;

    // (items)
    std::vector<ItemScores>& scores() { return m_scores; }
    // The first position, if any, whose logits were infinite or NaN, as a sentence's end: "token 17 of text 3".
    const std::string& not_finite() const { return m_not_finite; }
    bool complete() const { return m_missing == 0; }

private:
    std::span<const QualityItem> m_items;
    ReferenceLogits* m_keep;
    const ReferenceLogits* m_compare;
    std::function<void()> m_counted;
    std::vector<ItemScores> m_scores;
    std::vector<std::vector<bool>> m_seen;  // what is computed again after a preemption counts once
    std::uint64_t m_missing = 0;
    std::string m_not_finite;
};

}  // namespace kvloupe
