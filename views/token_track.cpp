// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/token_track.h"

namespace kvloupe {

void TokenTrack::clear() { *this = TokenTrack(); }

void TokenTrack::update(const Recording& recording, LaneId laneId, SequenceId sequence, std::size_t step) {
    if (&recording != m_recording || laneId != m_lane || sequence != m_sequence) {
        clear();
        m_recording = &recording;
        m_lane = laneId;
        m_sequence = sequence;
    }
    const LaneRecord& lane = recording.lane(laneId);
    m_tokens.clear();
    const std::size_t steps = lane.step_count();
    if (step >= steps || !sequence.valid() || sequence.value >= lane.sequences().size()) return;
    const std::uint64_t known = lane.step(steps - 1).tokens.end;
    for (; m_scanned < known; ++m_scanned)
        if (lane.tokens()[m_scanned].sequence == sequence) m_indices.push_back(m_scanned);

    const SequenceInfo& info = lane.sequences()[sequence.value];
    if (info.request.valid() && !info.parent.valid())
        for (const TokenId token : recording.requests()[info.request.value].prompt)
            m_tokens.push_back({token, TokenRecord::prompt, nullptr});
    const std::uint64_t end = lane.step(step).tokens.end;
    for (const std::uint64_t index : m_indices) {
        if (index >= end) break;
        const TokenRecord& record = lane.tokens()[index];
        if (record.position >= m_tokens.size()) m_tokens.resize(std::size_t{record.position} + 1);
        m_tokens[record.position] = {record.token, record.source, &record};
    }
}

StepWork workOf(const LaneRecord& lane, SequenceId sequence, std::size_t step) {
    StepWork work;
    const LogRange range = lane.step(step).events;
    for (std::uint64_t i = range.begin; i < range.end; ++i) {
        const Event& event = lane.events()[i];
        if (event.sequence != sequence) continue;
        if (event.kind != EventKind::prefill && event.kind != EventKind::decode) continue;
        if (work.count == 0) work.first = event.other == Index<int>::none_value ? 0 : event.other;
        work.count += event.tokens;
        work.recomputed |= event.cause == Cause::no_kv_cache;
    }
    return work;
}

QString tokenText(const VocabularyText& vocabulary, TokenId token) {
    if (token < 0 || static_cast<std::size_t>(token) >= vocabulary.shown.size()) return QString::number(token);
    return QString::fromStdString(vocabulary.shown[static_cast<std::size_t>(token)]);
}

QString tokenLabel(const VocabularyText& vocabulary, TokenId token) {
    QString text = tokenText(vocabulary, token);
    text.replace(QChar(0x2581), QLatin1Char(' '));  // SentencePiece's sign for a space
    QString label = text.startsWith(QLatin1Char(' ')) ? text.mid(1) : text;
    label.replace(QLatin1Char('\n'), QChar(0x23CE));
    label.replace(QLatin1Char('\t'), QChar(0x21E5));
    label.replace(QLatin1Char('\r'), QChar(0x240D));
    if (label.trimmed().isEmpty()) return QString(text.size(), QChar(0x2423));
    return label;
}

}  // namespace kvloupe
