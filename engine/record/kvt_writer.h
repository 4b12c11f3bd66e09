// SPDX-License-Identifier: GPL-3.0-or-later
//
// KvtWriter: writes a recording into a file (.kvt) while it grows, on a thread of its own, as any reader would: the engine is
// never held up by the disk. What was published is in the file at the latest after `commit_interval`; whatever ends the
// program, the file then opens with all before.
// The queue between engine and file is the recording's own logs; its bound is on what the file is behind, in events and in time.
// A command waits there (wait_for_room); a live window leaves out attention rows meanwhile, which are counted in the file.
#pragma once

#include "engine/record/recording.h"
#include "engine/record/result.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace kvloupe {

struct KvtOptions {
    std::string path;
    std::string program;                        // "KVLoupe 0.5.0"
    std::string machine;                        // processor and system, for the report
    std::string scenario;                       // JSON; "" where there is none: it cannot be restarted then
    bool may_leave_out_attention = false;       // where the file is behind by more than max_behind_events
    std::uint64_t max_behind_events = 4'000'000;
    std::chrono::milliseconds commit_interval{200};
    std::chrono::milliseconds max_behind{400};  // what was published that long ago is in the file, or wait_for_room() waits
    // For sharing: without prompts, vocabularies, ids of tokens, salts, the scenario's texts and the reason for the end. Lengths,
    // blocks, events and numbers stay; hashes become others by a key that nobody keeps, equal ones equal.
    bool strip = false;
    std::string vfs;                            // SQLite's file system; "" for the usual one
};

// Whether a recording may be made at the path: never over what is there. Error: there is something.
Result<void> check_free(const std::string& path);

struct KvtProgress {
    std::uint64_t steps = 0, events = 0;        // in the file, of all lanes
    std::uint64_t behind_events = 0;            // published and not in the file yet
    std::uint64_t left_out_rows = 0;            // attention rows that the file lacks
    std::optional<Error> error;                 // nothing more is written; what was stays
};

class KvtWriter {
public:
    // Errors: the path is taken or cannot be written. The lanes of the recording must be complete.
    static Result<std::unique_ptr<KvtWriter>> create(std::shared_ptr<const Recording> recording, KvtOptions options);
    ~KvtWriter();  // as finish(), the result unheard
    KvtWriter(const KvtWriter&) = delete;
    KvtWriter& operator=(const KvtWriter&) = delete;

    KvtProgress progress() const;  // any thread
    // Returns when the file is no more than max_behind and max_behind_events behind, or writing has failed.
    void wait_for_room() const;
    // Writes what is left and closes: one file, no log beside it. Errors: the first that occurred.
    Result<void> finish();

private:
    struct Impl;
    explicit KvtWriter(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> m_impl;
};

// Writes the whole of a recording, as it is now, or steps first_step … end_step - 1 of each lane, into a new file. Steps count from
// first_step there, and with them arrivals and when blocks began and were used; what was earlier becomes 0. Sequences and requests
// that begin behind the cut are left out, tokens before it are kept for those that live in it. On an error no file stays behind.
Result<void> write_kvt(const std::shared_ptr<const Recording>& recording, const KvtOptions& options, std::size_t first_step = 0,
                       std::size_t end_step = SIZE_MAX);

}  // namespace kvloupe
