// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rows of a recording file as elements of a lane's logs, read by chunks when they are asked for. A file may be damaged or made up:
// what a row names must lie inside the recording; a row that does not hold is left empty and the store told.
#pragma once

#include "engine/record/kvt_store.h"
#include "engine/record/recording.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace kvloupe {

// How much of everything there is: what the numbers in rows are checked against.
struct KvtLimits {
    std::uint64_t requests = 0, sequences = 0, strings = 0, blocks = 0, vocabulary = 0, layers = 0, query_heads = 0;
    std::uint64_t steps = 0, events = 0, tokens = 0, alternatives = 0, stages = 0, attention = 0, weights = 0;
};

// False: the row names something that is not there.
bool read_row(const SqlStatement& row, const KvtLimits& limits, Event& out);
bool read_row(const SqlStatement& row, const KvtLimits& limits, TokenRecord& out);
bool read_row(const SqlStatement& row, const KvtLimits& limits, Alternative& out);
bool read_row(const SqlStatement& row, const KvtLimits& limits, StageRecord& out);
bool read_row(const SqlStatement& row, const KvtLimits& limits, LaneRecord::StageRange& out);
bool read_row(const SqlStatement& row, const KvtLimits& limits, AttentionRow& out);
bool read_row(const SqlStatement& row, const KvtLimits& limits, StepRecord& out);
bool read_row(const SqlStatement& row, const KvtLimits& limits, SequenceInfo& out);
bool read_row(const SqlStatement& row, const KvtLimits& limits, std::string& out);
bool read_row(const SqlStatement& row, const KvtLimits& limits, RequestInfo& out);

// The statement answers rows first_key + n … in ascending order for two parameters, the first key and the key behind the last; its
// column 0 is the key.
template <class T>
class KvtRows final : public LogSource<T> {
public:
    KvtRows(KvtStatement statement, std::int64_t first_key, const KvtLimits& limits)
        : m_statement(std::move(statement)), m_first_key(first_key), m_limits(limits) {}

    void read(std::size_t first, std::span<T> out) override {
        m_statement.with([&](SqlStatement& statement) { read(statement, first, out); });
    }

private:
    void read(SqlStatement& statement, std::size_t first, std::span<T> out) {
        KvtStore& store = m_statement.store();
        const std::int64_t begin = m_first_key + static_cast<std::int64_t>(first);
        statement.bind(1, begin);
        statement.bind(2, begin + static_cast<std::int64_t>(out.size()));
        std::size_t good = 0;
        for (;;) {
            const auto row = statement.step();
            if (!row) {
                store.set_damage(row.error().message());
                return;
            }
            if (!*row) break;
            const std::int64_t at = statement.integer(0) - begin;
            if (at < 0 || at >= static_cast<std::int64_t>(out.size())) continue;
            T& element = out[static_cast<std::size_t>(at)];
            if (read_row(statement, m_limits, element)) ++good;
            else element = T();
        }
        if (good < out.size()) store.set_damage(store.path() + ": part of the recording is missing or damaged. Open a backup of it");
    }

    KvtStatement m_statement;
    std::int64_t m_first_key;
    KvtLimits m_limits;
};

}  // namespace kvloupe
