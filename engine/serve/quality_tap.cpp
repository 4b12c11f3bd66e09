// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/quality_tap.h"

namespace kvloupe {

QualityTap::QualityTap(std::span<const QualityItem> items, ReferenceLogits* keep, const ReferenceLogits* compare,
                       std::function<void()> counted)
    : m_items(items), m_keep(keep), m_compare(compare), m_counted(std::move(counted)) {
    if (m_keep) m_keep->rows.clear();
    for (const QualityItem& item : items) {
        const std::uint32_t count = item.predictions();
        ItemScores scores;
        scores.loss.resize(count);
        scores.top.resize(count);
        if (compare) scores.divergence.resize(count);
        m_scores.push_back(std::move(scores));
        m_seen.emplace_back(count, false);
        if (m_keep) m_keep->rows.emplace_back(count);
        m_missing += count;
    }
}

bool QualityTap::wants(RequestId request, std::uint32_t position) const {
    const QualityItem& item = m_items[request.value];
    return position + 1 >= item.scored && position + 1 < item.tokens.size();
}

void QualityTap::logits(RequestId request, std::uint32_t position, std::span<const float> logits) {
    const QualityItem& item = m_items[request.value];
    const std::size_t number = position + 1 - item.scored;
    if (m_seen[request.value][number]) return;
    m_seen[request.value][number] = true;
    --m_missing;
    const LogitFacts facts = logit_facts(logits);
    if (!facts.finite) {
        const std::string whose = item.question ? "question " + std::to_string(*item.question) : "text " + std::to_string(request.value);
        if (m_not_finite.empty()) m_not_finite = "token " + std::to_string(position + 1) + " of " + whose;
        return;
    }
    ItemScores& scores = m_scores[request.value];
    scores.loss[number] = static_cast<float>(-facts.log_probability(logits, item.tokens[position + 1]));
    scores.top[number] = facts.top;
    if (m_keep) m_keep->rows[request.value][number] = {{logits.begin(), logits.end()}, facts};
    if (m_compare) {
        const ReferenceLogits::Row& row = m_compare->rows[request.value][number];
        scores.divergence[number] = static_cast<float>(divergence(row.logits, row.facts, logits, facts));
    }
    m_counted();
}

}  // namespace kvloupe
