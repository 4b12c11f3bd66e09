// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/token_track.h"

namespace kvloupe {

void TokenPlaces::read(const Recording& recording, LaneId laneId, ScanLimit limit, const std::atomic<bool>& cancelled) {
    const LaneRecord& lane = recording.lane(laneId);
    const auto look = [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t i = begin; i < end; ++i)
            if (lane.tokens()[i].sequence == m_scan.sequence()) m_indices.push_back(i);
        return end - begin;
    };
    // A cut keeps the tokens that its sequences had before it in front of its first step.
    const bool early = m_scan.looked() == 0 && m_scan.first() == 0 && lane.step_count() > 0;
    if (early) look(0, lane.step(0).tokens.begin);
    m_scan.read(lane, limit, cancelled, [&](const StepRecord& step) { return look(step.tokens.begin, step.tokens.end); });
}

void TokenTrack::clear() {
    m_recording.reset();
    m_places.follow(nullptr, {}, {});
    m_tokens.clear();
    m_reading = false;
}

void TokenTrack::begin(const std::shared_ptr<const Recording>& recording, LaneId lane, SequenceId sequence) {
    if (recording == m_recording && lane == m_lane && sequence == m_sequence) return;
    m_recording = recording;
    m_lane = lane;
    m_sequence = sequence;
    m_places.begin(TokenPlaces(*recording, lane, sequence), recording, lane);
}

void TokenTrack::update(const std::shared_ptr<const Recording>& recording, LaneId lane, SequenceId sequence, std::size_t step,
                        std::function<void()> ready) {
    begin(recording, lane, sequence);
    m_places.follow(recording, lane, std::move(ready));
    collect(step);
}

void TokenTrack::updateSome(const std::shared_ptr<const Recording>& recording, LaneId lane, SequenceId sequence, std::size_t step,
                            ScanLimit limit) {
    begin(recording, lane, sequence);
    m_places.readSome(limit);
    collect(step);
}

void TokenTrack::collect(std::size_t step) {
    const LaneRecord& lane = m_recording->lane(m_lane);
    m_tokens.clear();
    m_reading = false;
    if (step >= lane.step_count() || !m_sequence.valid() || m_sequence.value >= lane.sequences().size()) return;
    m_reading = m_places->steps() <= step;
    const SequenceInfo& info = lane.sequences()[m_sequence.value];
    if (info.request.valid() && !info.parent.valid())
        for (const TokenId token : m_recording->requests()[info.request.value].prompt)
            m_tokens.push_back({token, TokenRecord::prompt, nullptr});
    const std::uint64_t end = lane.step(step).tokens.end;
    for (const std::uint64_t index : m_places->indices()) {
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
