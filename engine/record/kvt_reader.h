// SPDX-License-Identifier: GPL-3.0-or-later
//
// Opens a recording file (.kvt). Nothing but the lanes' descriptions, key-frame steps and vocabularies is read at once; the logs are
// read by chunks when they are asked for, so a file of any length opens quickly and takes memory only for what is looked at.
#pragma once

#include "engine/record/kvt_rows.h"
#include "engine/record/recording.h"
#include "engine/record/result.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe {

struct StoredRecording {
    std::shared_ptr<const Recording> recording;
    std::map<std::string, std::string> meta;  // title, created, program, machine, scenario, … (README, "The recording file")
    bool recovered = false;                   // the file had not been closed; what was lost is at most its last second
    std::uint64_t file_bytes = 0;
};

// Errors: one sentence with the path: no such file, not a recording, a newer version, damage that the tables of contents show.
// Damage inside the logs shows when they are read (LaneRecord::damage()).
Result<StoredRecording> open_kvt(const std::string& path);

// Reads all that a file holds and compares it with the checks it holds itself: SQLite's structure, every row, every key frame
// against the events since the one before, the checks of events. Returns what is wrong, one sentence each; empty: nothing.
std::vector<std::string> check_kvt(const std::string& path);

// Builds the recording; open_kvt() is its use.
class KvtReader {
public:
    static Result<StoredRecording> open(const std::string& path);

private:
    explicit KvtReader(std::shared_ptr<KvtStore> store) : m_store(std::move(store)), m_recording(std::make_shared<Recording>()) {}

    Result<void> read_meta();
    Result<void> read_vocabularies();
    Result<void> read_requests();
    Result<void> read_lanes();
    Result<void> read_logs(std::uint32_t lane);
    void end();

    Result<std::uint64_t> count(const std::string& sql) const;
    Result<std::uint64_t> count_log(const char* table, std::uint32_t lane) const;
    template <class Log, class T>
    Result<void> open_log(Log& log, std::uint64_t count, const std::string& sql, std::int64_t first_key, const KvtLimits& limits);

    std::shared_ptr<KvtStore> m_store;
    std::shared_ptr<Recording> m_recording;
    std::map<std::string, std::string> m_meta;
    std::map<std::int64_t, std::shared_ptr<VocabularyText>> m_vocabularies;
    std::uint64_t m_file_bytes = 0;
};

}  // namespace kvloupe
