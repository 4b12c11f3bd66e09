// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/sequence_tokens.h"

#include "engine/record/describe.h"
#include "views/token_track.h"

namespace kvloupe {

namespace {

constexpr std::uint32_t farthest_position = 1u << 26;  // a broken record cannot ask for more memory than that

}  // namespace

void SequenceTokens::update(const Recording& recording, LaneId laneId, const std::atomic<bool>& cancelled) {
    if (&recording != m_recording || laneId != m_laneId) {
        *this = SequenceTokens();
        m_recording = &recording;
        m_laneId = laneId;
    }
    m_lane = &recording.lane(laneId);
    const std::size_t steps = m_lane->step_count();
    for (; m_steps < steps && !cancelled.load(std::memory_order_relaxed); ++m_steps) {
        for (const std::uint64_t end = m_lane->step(m_steps).tokens.end; m_scanned < end; ++m_scanned) {
            const TokenRecord& record = m_lane->tokens()[m_scanned];
            if (!record.sequence.valid() || record.position > farthest_position) continue;
            if (record.sequence.value >= m_tokens.size()) m_tokens.resize(std::size_t{record.sequence.value} + 1);
            std::vector<TokenId>& tokens = m_tokens[record.sequence.value];
            if (record.position >= tokens.size()) tokens.resize(std::size_t{record.position} + 1, unknown);
            tokens[record.position] = record.token;
        }
    }
}

std::optional<TokenId> SequenceTokens::token(SequenceId sequence, std::uint32_t position) const {
    // A child's number is higher than its parent's, so this ends.
    while (m_lane && sequence.valid() && sequence.value < m_lane->sequences().size()) {
        if (sequence.value < m_tokens.size() && position < m_tokens[sequence.value].size() &&
            m_tokens[sequence.value][position] != unknown)
            return m_tokens[sequence.value][position];
        const SequenceInfo& info = m_lane->sequences()[sequence.value];
        if (info.parent.valid() && info.parent < sequence && position < info.forked_at) {
            sequence = info.parent;
            continue;
        }
        if (!info.request.valid() || info.request.value >= m_recording->requests().size()) return {};
        const std::vector<TokenId>& prompt = m_recording->requests()[info.request.value].prompt;
        return position < prompt.size() ? std::optional(prompt[position]) : std::nullopt;
    }
    return {};
}

QString SequenceTokens::text(SequenceId sequence, std::uint32_t first, std::uint32_t count, int longest) const {
    if (!m_lane) return {};
    const VocabularyText& vocabulary = m_lane->vocabulary();
    QString text;
    for (std::uint32_t i = 0; i < count && text.size() <= longest; ++i) {
        const std::optional<TokenId> token = this->token(sequence, first + i);
        if (!token) break;
        const bool known = *token >= 0 && static_cast<std::size_t>(*token) < vocabulary.shown.size();
        if (known)
            text += tokenText(vocabulary, *token);
        else
            text += (i ? QStringLiteral(" ") : QString()) + QString::number(*token);
    }
    text.replace(QChar(0x2581), QLatin1Char(' '));
    text.replace(QLatin1Char('\n'), QChar(0x23CE));
    text.replace(QLatin1Char('\r'), QChar(0x240D));
    text = text.trimmed();
    return text.size() > longest ? text.left(longest - 1) + QChar(0x2026) : text;
}

}  // namespace kvloupe
