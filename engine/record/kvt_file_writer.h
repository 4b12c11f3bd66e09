// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a recording file holds beside its lanes' logs, and the transactions around both. Used by one thread.
#pragma once

#include "engine/record/kvt_lane_writer.h"
#include "engine/record/kvt_writer.h"
#include "engine/record/log_checkpoints.h"

#include <vector>

namespace kvloupe {

class KvtFileWriter {
public:
    // Makes the file with all that is fixed before the first step. part: of every lane; options.strip decides over its rest.
    static Result<KvtFileWriter> create(const Recording& recording, const KvtOptions& options, LanePart part = {});

    // One transaction with what the recording has published since the last one, at most some ten thousand events; true:
    // there is more.
    Result<bool> append();
    // The rest, the recording's last words, and the file is closed.
    Result<void> close();

    const std::vector<KvtLaneWriter>& lanes() const { return m_lanes; }
    void leave_out_attention(bool leave_out);

private:
    KvtFileWriter(const Recording& recording, SqlDatabase database, const LanePart& part)
        : m_recording(&recording), m_database(std::make_unique<SqlDatabase>(std::move(database))), m_part(part) {}
    Result<void> write_head(const KvtOptions& options);
    Result<void> write_vocabularies();
    Result<void> write_lanes();
    Result<void> write_requests();
    Result<void> write_meta(const char* key, std::string_view text);
    Result<void> write_end();

    const Recording* m_recording;
    std::unique_ptr<SqlDatabase> m_database;  // where the lanes' writers know it
    std::unique_ptr<LogCheckpoints> m_checkpoints;
    std::vector<KvtLaneWriter> m_lanes;
    LanePart m_part;
    std::size_t m_requests = 0;
    std::size_t m_end_request = SIZE_MAX;
};

}  // namespace kvloupe
