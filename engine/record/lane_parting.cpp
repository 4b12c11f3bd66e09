// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/lane_parting.h"

#include "engine/record/lane_state.h"
#include "engine/record/results_text.h"
#include "engine/record/step_alignment.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

namespace kvloupe {

namespace {

// Sampled and forced tokens of every sequence by position.
class TokensByPlace {
public:
    struct Told {
        std::uint64_t token = 0;   // index into the lane's tokens
        std::size_t step = 0;
    };

    explicit TokensByPlace(const LaneRecord& lane) : m_lane(lane), m_sequences(lane.sequences().size()) {
        for (std::size_t step = 0; step < lane.step_count(); ++step) {
            const LogRange range = lane.step(step).tokens;
            for (std::uint64_t i = range.begin; i < range.end; ++i) {
                const TokenRecord& token = lane.tokens()[i];
                if (token.source == TokenRecord::prompt || token.sequence.value >= m_sequences.size()) continue;
                m_sequences[token.sequence.value].push_back({i, step});
            }
        }
        // Positions ascend but where a beam begins anew: then the last one told of a position counts.
        for (std::vector<Told>& tokens : m_sequences)
            std::stable_sort(tokens.begin(), tokens.end(), [&](const Told& a, const Told& b) { return position(a) < position(b); });
    }

    const TokenRecord& record(const Told& told) const { return m_lane.tokens()[told.token]; }

    // The last one told at a position; null where there is none.
    const Told* at(SequenceId sequence, std::uint32_t wanted) const {
        if (sequence.value >= m_sequences.size()) return nullptr;
        const std::vector<Told>& tokens = m_sequences[sequence.value];
        const auto before = [&](std::uint32_t p, const Told& told) { return p < position(told); };
        const auto behind = std::upper_bound(tokens.begin(), tokens.end(), wanted, before);
        return behind != tokens.begin() && position(*(behind - 1)) == wanted ? &*(behind - 1) : nullptr;
    }

private:
    std::uint32_t position(const Told& told) const { return record(told).position; }

    const LaneRecord& m_lane;
    std::vector<std::vector<Told>> m_sequences;
};

std::string shown(const LaneRecord& lane, TokenId token) {
    const auto& texts = lane.vocabulary().shown;
    const auto at = static_cast<std::size_t>(token);
    return token >= 0 && at < texts.size() ? "'" + texts[at] + "'" : "token " + std::to_string(token);
}

std::string place(std::size_t step, std::string_view sequence, std::uint32_t position) {
    return "step " + std::to_string(step) + ": sequence " + std::string(sequence) + ", position " + std::to_string(position) + ": ";
}

// The earliest token that is another one, and the earliest logit before or at it that is.
void part_tokens(const LaneRecord& left, const SequenceNames& names, const LaneRecord& right, const std::vector<SequenceId>& same,
                 std::vector<Parting>& out) {
    const TokensByPlace others(right);
    std::optional<Parting> token, logit;
    for (std::size_t step = 0; step < left.step_count() && !token; ++step) {
        const LogRange range = left.step(step).tokens;
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
            const TokenRecord& ours = left.tokens()[i];
            if (ours.source == TokenRecord::prompt) continue;
            const auto* found = ours.sequence.value < same.size() ? others.at(same[ours.sequence.value], ours.position) : nullptr;
            if (!found) continue;
            const std::string& name = names.name(ours.sequence);
            const TokenRecord& theirs = others.record(*found);
            const std::uint64_t alternatives = std::min(ours.alternative_count, theirs.alternative_count);
            for (std::uint64_t k = 0; k < alternatives && !logit; ++k) {
                const Alternative& x = left.alternatives()[ours.alternatives_begin + k];
                const Alternative& y = right.alternatives()[theirs.alternatives_begin + k];
                if (x.token == y.token && x.logit == y.logit) continue;
                char text[160];
                std::snprintf(text, sizeof text, "%.6g against %.6g", static_cast<double>(x.logit), static_cast<double>(y.logit));
                logit = Parting{Parting::logit, "", step, found->step, ours.sequence, ours.position, {},
                                        place(step, name, ours.position) + "logit of " + shown(left, x.token) +
                                            (x.token == y.token ? " " : ", of " + shown(right, y.token) + ", ") + text};
            }
            if (ours.token == theirs.token || token) continue;
            token = Parting{Parting::token, "", step, found->step, ours.sequence, ours.position, {},
                                    place(step, name, ours.position) + shown(left, ours.token) + " against " + shown(right, theirs.token)};
        }
    }
    if (token) out.push_back(*token);
    if (logit) out.push_back(*logit);
}

bool same_event(const Event& a, const Event& b) {
    return a.kind == b.kind && a.flags == b.flags && a.group == b.group && a.sequence == b.sequence && a.block == b.block && a.other == b.other &&
           a.tokens == b.tokens;
}

bool same_events(const LaneRecord& a, const LaneRecord& b, std::size_t step) {
    const LogRange x = a.step(step).events, y = b.step(step).events;
    if (x.size() != y.size()) return false;
    for (std::uint64_t i = 0; i < x.size(); ++i)
        if (!same_event(a.events()[x.begin + i], b.events()[y.begin + i])) return false;
    return true;
}

// Two lanes after the same step. Once their tables were the same, only those of sequences that an event names can differ.
class TablePair {
public:
    TablePair(const LaneRecord& left, const SequenceNames& names, const LaneRecord& right, const std::vector<SequenceId>& same, std::size_t step)
        : m_left(left), m_right(right), m_names(names), m_same(same), m_a(left.state_after(step)), m_b(right.state_after(step)), m_step(step) {
        m_back.assign(right.sequences().size(), SequenceId());
        for (std::uint32_t i = 0; i < same.size(); ++i) {
            if (!same[i].valid()) continue;
            m_back[same[i].value] = SequenceId(i);
            m_touched.push_back(i);  // at first all of them
        }
    }

    void follow(std::size_t step) {
        m_step = step;
        follow(m_a, m_left, [this](SequenceId id) { touch(id); });
        follow(m_b, m_right, [this](SequenceId id) {
            if (id.value < m_back.size()) touch(m_back[id.value]);
        });
    }

    // The first table, by its sequence, that differs; empty where all are the same.
    std::optional<Parting> different() {
        std::sort(m_touched.begin(), m_touched.end());
        m_touched.erase(std::unique(m_touched.begin(), m_touched.end()), m_touched.end());
        const std::uint32_t groups = std::max(m_a.groups(), m_b.groups());
        for (const std::uint32_t sequence : std::exchange(m_touched, {}))
            for (std::uint32_t group = 0; group < groups; ++group)
                if (auto found = different(SequenceId(sequence), static_cast<std::uint8_t>(group))) return found;
        return std::nullopt;
    }

private:
    template <typename Touch>
    void follow(LaneState& state, const LaneRecord& lane, const Touch& touch_sequence) {
        state.begin_step(static_cast<std::uint32_t>(m_step));
        const LogRange range = lane.step(m_step).events;
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
            state.apply(lane.events()[i]);
            touch_sequence(lane.events()[i].sequence);
        }
    }

    void touch(SequenceId id) {
        if (id.value < m_same.size() && m_same[id.value].valid()) m_touched.push_back(id.value);
    }

    std::optional<Parting> different(SequenceId sequence, std::uint8_t group) const {
        const TableState &x = m_a.table(sequence, group), &y = m_b.table(m_same[sequence.value], group);
        for (std::size_t k = 0; k < std::max(x.size(), y.size()); ++k) {
            const BlockId left = k < x.size() ? x[k] : BlockId(), right = k < y.size() ? y[k] : BlockId();
            if (left == right) continue;
            const auto words = [](BlockId block) { return block.valid() ? "block " + std::to_string(block.value) : std::string("nothing"); };
            return Parting{Parting::table, "", m_step, m_step, sequence, static_cast<std::uint32_t>(k * m_a.block_size()), left,
                           "step " + std::to_string(m_step) + ": sequence " + m_names.name(sequence) + ", logical block " +
                               std::to_string(k) + ": " + words(left) + " against " + words(right)};
        }
        return std::nullopt;
    }

    const LaneRecord &m_left, &m_right;
    const SequenceNames& m_names;
    const std::vector<SequenceId>& m_same;   // (sequences of the left lane): the right one's of the same name
    LaneState m_a, m_b;
    std::size_t m_step;
    std::vector<SequenceId> m_back;          // (sequences of the right lane)
    std::vector<std::uint32_t> m_touched;    // sequences of the left lane
};

// Equal events lead to equal tables: only from the first step with other events on states are compared.
void part_tables(const LaneRecord& left, const SequenceNames& names, const LaneRecord& right, const std::vector<SequenceId>& same,
                 std::vector<Parting>& out) {
    const std::size_t steps = std::min(left.step_count(), right.step_count());
    std::size_t step = 0;
    while (step < steps && same_events(left, right, step)) ++step;
    if (step == steps) return;
    TablePair pair(left, names, right, same, step);
    for (;;) {
        if (auto found = pair.different()) {
            out.push_back(std::move(*found));
            return;
        }
        do {  // until something happens that is not the same
            if (++step == steps) return;
            pair.follow(step);
        } while (same_events(left, right, step));
    }
}

}  // namespace

std::vector<Parting> partings(const Recording& a, const LaneRecord& left, const Recording& b, const LaneRecord& right) {
    std::vector<Parting> out;
    const SequenceNames names(a, left);
    const std::vector<SequenceId> same = match_sequences(a, left, b, right);
    part_tokens(left, names, right, same, out);
    part_tables(left, names, right, same, out);
    return out;
}

}  // namespace kvloupe
