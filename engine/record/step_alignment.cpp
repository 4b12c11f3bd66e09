// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/step_alignment.h"

#include "engine/record/results_text.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace kvloupe {

std::vector<SequenceId> match_sequences(const Recording& a, const LaneRecord& lane, const Recording& b, const LaneRecord& other) {
    const SequenceNames names(a, lane), others(b, other);
    std::unordered_map<std::string_view, std::uint32_t> by_name;
    for (std::uint32_t i = 0; i < others.names.size(); ++i) by_name.emplace(others.names[i], i);
    std::vector<SequenceId> same;
    for (const std::string& name : names.names) {
        const auto found = by_name.find(name);
        same.push_back(found == by_name.end() ? SequenceId::none() : SequenceId(found->second));
    }
    return same;
}

bool TokenSteps::read(std::size_t tokens) {
    const std::size_t steps = m_lane->step_count();
    std::size_t looked_at = 0;
    for (std::size_t step = m_totals.size(); step < steps; ++step) {
        if (looked_at > tokens) return false;
        const LogRange range = m_lane->step(step).tokens;
        std::uint64_t total = m_totals.empty() ? 0 : m_totals.back();
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
            const TokenRecord& token = m_lane->tokens()[i];
            if (token.source == TokenRecord::prompt || token.sequence.value >= m_lane->sequences().size()) continue;
            if (token.sequence.value >= m_steps.size()) m_steps.resize(token.sequence.value + std::size_t{1});
            m_steps[token.sequence.value].push_back(static_cast<std::uint32_t>(step));
            ++total;
        }
        looked_at += range.size() + 1;
        m_totals.push_back(total);
    }
    return true;
}

std::uint64_t TokenSteps::total(std::size_t step) const {
    return m_totals.empty() ? 0 : m_totals[std::min(step, m_totals.size() - 1)];
}

std::size_t TokenSteps::count(SequenceId sequence, std::size_t step) const {
    if (sequence.value >= m_steps.size()) return 0;
    const std::vector<std::uint32_t>& steps = m_steps[sequence.value];
    return static_cast<std::size_t>(std::upper_bound(steps.begin(), steps.end(), step) - steps.begin());
}

std::optional<std::size_t> TokenSteps::step_of_total(std::uint64_t n) const {
    const auto found = std::lower_bound(m_totals.begin(), m_totals.end(), n);
    if (found == m_totals.end()) return std::nullopt;
    return static_cast<std::size_t>(found - m_totals.begin());
}

std::optional<std::size_t> TokenSteps::step_of(SequenceId sequence, std::size_t n) const {
    if (n == 0 || written(sequence) < n) return std::nullopt;
    return m_steps[sequence.value][n - 1];
}

StepAlignment::StepAlignment(std::shared_ptr<const Recording> a, LaneId lane, std::shared_ptr<const Recording> b, LaneId other)
    : m_a(std::move(a)), m_b(std::move(b)), m_lane(&m_a->lane(lane)), m_other(&m_b->lane(other)), m_tokens(*m_lane), m_other_tokens(*m_other) {}

const std::vector<SequenceId>& StepAlignment::same_sequences() {
    const std::size_t own = m_lane->sequences().size(), others = m_other->sequences().size();
    if (own != m_same.size() || others != m_other_sequences) {
        m_same = match_sequences(*m_a, *m_lane, *m_b, *m_other);
        m_other_sequences = others;
    }
    return m_same;
}

SequenceId StepAlignment::same_sequence(SequenceId sequence) {
    const std::vector<SequenceId>& same = same_sequences();
    return sequence.value < same.size() ? same[sequence.value] : SequenceId::none();
}

bool StepAlignment::read_tokens(std::size_t tokens) {
    const bool here = m_tokens.read(tokens);
    const bool there = m_other_tokens.read(tokens);
    return here && there;
}

std::optional<std::size_t> StepAlignment::map(Alignment by, std::size_t step, SequenceId sequence) const {
    const std::size_t steps = m_other->step_count();
    if (steps == 0 || step >= m_lane->step_count()) return std::nullopt;
    switch (by) {
    case Alignment::step: break;
    case Alignment::token: return by_token(step, sequence);
    case Alignment::time: return by_time(step);
    }
    return std::min(step, steps - 1);
}

std::optional<std::size_t> StepAlignment::by_token(std::size_t step, SequenceId sequence) const {
    const std::size_t last = m_other->step_count() - 1;
    const SequenceId same = sequence.value < m_same.size() ? m_same[sequence.value] : SequenceId::none();
    std::optional<std::size_t> first, found, newest;  // the first token's step, that of as many, the last token's
    bool any = false;
    if (same.valid()) {
        const std::size_t count = m_tokens.count(sequence, step);
        any = count > 0;
        first = m_other_tokens.step_of(same, 1);
        found = m_other_tokens.step_of(same, count);
        newest = m_other_tokens.step_of(same, m_other_tokens.written(same));
    } else {
        const std::uint64_t count = m_tokens.total(step), all = m_other_tokens.total(last);
        any = count > 0;
        if (all > 0) {
            first = m_other_tokens.step_of_total(1);
            newest = m_other_tokens.step_of_total(all);
        }
        if (any) found = m_other_tokens.step_of_total(count);
    }
    if (!any) return std::min({step, last, first && *first > 0 ? *first - 1 : first.value_or(last)});
    if (found) return found;
    return newest ? newest : std::min(step, last);
}

std::optional<std::size_t> StepAlignment::by_time(std::size_t step) const {
    const std::uint64_t since = m_lane->step(step).start_ns - m_lane->step(0).start_ns, start = m_other->step(0).start_ns;
    std::size_t low = 0, high = m_other->step_count();  // low began in time, high did not
    while (high - low > 1) {
        const std::size_t middle = low + (high - low) / 2;
        (m_other->step(middle).start_ns - start <= since ? low : high) = middle;
    }
    return low;
}

}  // namespace kvloupe
