// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/saved_questions.h"

#include <QCoreApplication>
#include <QSettings>

#include <algorithm>

namespace kvloupe {

namespace {

struct ReadyQuestion {
    const char* title;
    const char* sql;
};

constexpr ReadyQuestion ready_questions[] = {
    {QT_TRANSLATE_NOOP("kvloupe::SavedQuestions", "Which request wastes most: slots taken and never filled, tokens computed again"),
     "SELECT e.lane, e.lane_name, e.request,\n"
     "  l.block_size * SUM(e.kind IN ('allocate', 'copy_on_write')) AS slots_taken,\n"
     "  SUM(CASE WHEN e.kind IN ('prefill', 'decode', 'copy_on_write') THEN e.tokens ELSE 0 END) AS slots_written,\n"
     "  l.block_size * SUM(e.kind IN ('allocate', 'copy_on_write'))\n"
     "    - SUM(CASE WHEN e.kind IN ('prefill', 'decode', 'copy_on_write') THEN e.tokens ELSE 0 END) AS never_filled,\n"
     "  SUM(CASE WHEN e.kind = 'preempt' THEN e.tokens ELSE 0 END) AS given_up_by_preemption\n"
     "FROM events e JOIN lanes l ON l.lane = e.lane WHERE l.block_size > 0 AND e.request IS NOT NULL\n"
     "GROUP BY e.lane, e.request ORDER BY never_filled + given_up_by_preemption DESC"},
    {QT_TRANSLATE_NOOP("kvloupe::SavedQuestions", "Copies by cause"),
     "SELECT lane_name, cause, COUNT(*) AS copies, SUM(tokens) AS slots_moved, SUM(duration_ns) / 1000.0 AS microseconds\n"
     "FROM events WHERE kind = 'copy_on_write' GROUP BY lane, cause ORDER BY copies DESC"},
    {QT_TRANSLATE_NOOP("kvloupe::SavedQuestions", "Every copy, with its reason"),
     "SELECT lane, step, event, request, sequence, block, other AS copied_to, tokens AS slots, describe(lane, event) AS why\n"
     "FROM events WHERE kind = 'copy_on_write'"},
    {QT_TRANSLATE_NOOP("kvloupe::SavedQuestions", "Lost prefix hits: content that was evicted and computed again"),
     "SELECT lane_name, printf('%08x', other) AS hash, COUNT(*) - 1 AS computed_again, MIN(step) AS first_step, MAX(step) AS step\n"
     "FROM events WHERE kind = 'store' GROUP BY lane, other, tokens HAVING COUNT(*) > 1 ORDER BY computed_again DESC, step"},
    {QT_TRANSLATE_NOOP("kvloupe::SavedQuestions", "Prefix-cache hits of each admission"),
     "SELECT s.lane, s.step, l.name AS lane_name, s.queried_tokens, s.hit_tokens, s.queried_tokens - s.hit_tokens AS missed_tokens,\n"
     "  ROUND(100.0 * s.hit_tokens / s.queried_tokens, 1) AS hit_percent\n"
     "FROM steps s JOIN lanes l ON l.lane = s.lane WHERE s.queried_tokens > 0 ORDER BY s.step"},
    {QT_TRANSLATE_NOOP("kvloupe::SavedQuestions", "The ten slowest steps and their stages"),
     "SELECT s.lane, s.step, l.name AS lane_name, s.duration_ns / 1000.0 AS step_us, g.stage, SUM(g.duration_ns) / 1000.0 AS stage_us\n"
     "FROM (SELECT * FROM steps ORDER BY duration_ns DESC LIMIT 10) s JOIN lanes l ON l.lane = s.lane\n"
     "  LEFT JOIN stages g ON g.lane = s.lane AND g.step = s.step\n"
     "GROUP BY s.lane, s.step, g.stage ORDER BY s.duration_ns DESC, stage_us DESC"},
    {QT_TRANSLATE_NOOP("kvloupe::SavedQuestions", "Blocks by age: when each was taken last, and what it was worth"),
     "SELECT lane, block, MAX(CASE WHEN kind = 'allocate' THEN step END) AS step,\n"
     "  (SELECT MAX(s.step) FROM steps s WHERE s.lane = e.lane) - MAX(CASE WHEN kind = 'allocate' THEN step END) AS age_steps,\n"
     "  SUM(kind = 'allocate') AS times_taken, SUM(kind = 'prefix_hit') AS hits, SUM(kind = 'evict') AS evictions\n"
     "FROM events e WHERE block IS NOT NULL GROUP BY lane, block ORDER BY age_steps DESC"},
    {QT_TRANSLATE_NOOP("kvloupe::SavedQuestions", "Preemptions: who lost what to whom"),
     "SELECT lane, step, event, request, sequence, tokens AS tokens_given_up, describe(lane, event) AS why\n"
     "FROM events WHERE kind = 'preempt'"},
    {QT_TRANSLATE_NOOP("kvloupe::SavedQuestions", "How long requests waited to be admitted"),
     "SELECT lane, lane_name, request, sequence, MIN(CASE kind WHEN 'arrive' THEN step END) AS arrived,\n"
     "  MIN(CASE kind WHEN 'admit' THEN step END) AS step,\n"
     "  (MIN(CASE kind WHEN 'admit' THEN time_ns END) - MIN(CASE kind WHEN 'arrive' THEN time_ns END)) / 1e6 AS waited_ms\n"
     "FROM events WHERE kind IN ('arrive', 'admit') GROUP BY lane, sequence ORDER BY waited_ms DESC"},
    {QT_TRANSLATE_NOOP("kvloupe::SavedQuestions", "Waste of each step, to pin as a track"),
     "SELECT lane, step, ROUND(100.0 * (reserved_slots + internal_slots + external_slots)\n"
     "  / NULLIF(reserved_slots + internal_slots + external_slots + token_slots, 0), 2) AS waste_percent FROM steps WHERE lane = 0"},
    {QT_TRANSLATE_NOOP("kvloupe::SavedQuestions", "Blocks and queue of each step, to pin as tracks"),
     "SELECT lane, step, used_blocks, cached_blocks, free_blocks, running, waiting FROM steps WHERE lane = 0"},
    {QT_TRANSLATE_NOOP("kvloupe::SavedQuestions", "Which tables, views and columns there are"),
     "SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY type DESC, name"},
};

}  // namespace

std::vector<SavedQuestion> SavedQuestions::readyMade() {
    std::vector<SavedQuestion> questions;
    for (const ReadyQuestion& each : ready_questions)
        questions.push_back({QCoreApplication::translate("kvloupe::SavedQuestions", each.title), QString::fromUtf8(each.sql), false});
    return questions;
}

SavedQuestions::SavedQuestions() {
    QSettings settings;
    const int count = settings.beginReadArray(QStringLiteral("questions"));
    for (int i = 0; i < count; ++i) {
        settings.setArrayIndex(i);
        m_all.push_back({settings.value(QStringLiteral("title")).toString(), settings.value(QStringLiteral("sql")).toString(), true});
    }
    settings.endArray();
    for (const SavedQuestion& each : readyMade()) m_all.push_back(each);
}

void SavedQuestions::keep(const QString& title, const QString& sql) {
    const auto same = std::find_if(m_all.begin(), m_all.end(), [&](const SavedQuestion& each) { return each.own && each.title == title; });
    if (same != m_all.end()) same->sql = sql;
    else m_all.insert(m_all.begin(), {title, sql, true});
    write();
}

bool SavedQuestions::remove(const QString& title) {
    const auto same = std::find_if(m_all.begin(), m_all.end(), [&](const SavedQuestion& each) { return each.own && each.title == title; });
    if (same == m_all.end()) return false;
    m_all.erase(same);
    write();
    return true;
}

void SavedQuestions::write() const {
    QSettings settings;
    settings.remove(QStringLiteral("questions"));
    settings.beginWriteArray(QStringLiteral("questions"));
    int i = 0;
    for (const SavedQuestion& each : m_all) {
        if (!each.own) continue;
        settings.setArrayIndex(i++);
        settings.setValue(QStringLiteral("title"), each.title);
        settings.setValue(QStringLiteral("sql"), each.sql);
    }
    settings.endArray();
}

}  // namespace kvloupe
