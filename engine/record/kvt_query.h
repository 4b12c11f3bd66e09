// SPDX-License-Identifier: GPL-3.0-or-later
//
// Questions to a recording file in SQL: SELECT alone, over its tables and views and the function describe(lane, event), which says an
// event's cause as the program does. Nothing is written, attached or loaded; a query that runs for ever is ended.
#pragma once

#include "engine/record/kvt_reader.h"
#include "engine/record/result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

namespace kvloupe {

// NULL, integer, real, text, bytes.
using SqlValue = std::variant<std::monostate, std::int64_t, double, std::string, std::vector<std::byte>>;

struct QueryLimits {
    std::chrono::milliseconds time{std::chrono::minutes(1)};
    std::uint64_t rows = UINT64_MAX;  // more are not asked for; the result says so
    std::stop_token stop;
};

struct QueryEnd {
    std::uint64_t rows = 0;
    bool cut = false;                 // there were more than limits.rows
};

class KvtQuery {
public:
    static Result<std::unique_ptr<KvtQuery>> open(const std::string& path);
    ~KvtQuery();
    KvtQuery(const KvtQuery&) = delete;
    KvtQuery& operator=(const KvtQuery&) = delete;

    // columns: called once, before the rows. Errors: not one SELECT, what it names is not there, it would write, its time is over, it
    // was stopped.
    Result<QueryEnd> run(const std::string& sql, const QueryLimits& limits, const std::function<void(std::vector<std::string>)>& columns,
                         const std::function<void(std::vector<SqlValue>)>& row);

private:
    KvtQuery() = default;
    Result<void> prepare_connection();

    std::shared_ptr<KvtStore> m_store;
    StoredRecording m_recording;
};

}  // namespace kvloupe
