// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/kvt_file_writer.h"

#include "engine/record/kvt_schema.h"
#include "engine/record/lane_info_json.h"
#include "engine/record/stripped_scenario.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <random>
#include <utility>

namespace kvloupe {

namespace {

constexpr std::uint64_t events_per_transaction = 8'192;   // what a crash in the middle of one loses beside the rest

// "2026-11-30T15:04:05Z"
std::string now_text() {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm utc{};
    gmtime_r(&now, &utc);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

const char* name_of_phase(Phase phase) {
    switch (phase) {
    case Phase::loading: return "loading";
    case Phase::paused: return "paused";
    case Phase::running: return "running";
    case Phase::finished: return "finished";
    case Phase::failed: return "failed";
    }
    return "";
}

std::uint64_t random_key() {
    std::random_device random;
    return (std::uint64_t{random()} << 32 | random()) | 1;
}

// Requests that the part's sequences belong to: the first so many; SIZE_MAX where the part is open at its end.
std::size_t requests_in(const Recording& recording, const LanePart& part) {
    std::size_t end = 0;
    for (const auto& lane : recording.lanes()) {
        const std::size_t sequences = part.sequences(*lane);
        if (sequences == SIZE_MAX) return SIZE_MAX;
        for (std::size_t i = 0; i < std::min(sequences, lane->sequences().size()); ++i)
            end = std::max(end, lane->sequences()[i].request.value + std::size_t{1});
    }
    return end;
}

RequestInfo told(RequestInfo info, const LanePart& part) {
    info.arrival_step -= static_cast<std::uint32_t>(std::min<std::size_t>(info.arrival_step, part.first_step));
    if (!part.strip) return info;
    std::fill(info.prompt.begin(), info.prompt.end(), 0);
    info.salt.clear();
    return info;
}

// A file beside the one that is wanted, which gets its name when its head is written: whatever ends the program, under a
// recording's name there is one that opens. Left over from a program that was killed, it is made anew.
struct Unnamed {
    explicit Unnamed(const std::string& wanted) : path(wanted + ".new"), m_wanted(wanted) { remove(); }
    ~Unnamed() { remove(); }
    Unnamed(const Unnamed&) = delete;
    Unnamed& operator=(const Unnamed&) = delete;

    // A name that was taken meanwhile is left as it is; where a file system has no links, by looking first.
    Result<void> name() const {
        std::error_code error;
        std::filesystem::create_hard_link(path, m_wanted, error);
        if (!error) return {};
        if (std::filesystem::exists(std::filesystem::symlink_status(m_wanted, error)))
            return Error{m_wanted + ": there is a file of this name already", "Choose another name, or remove it first"};
        std::filesystem::rename(path, m_wanted, error);
        if (error) return Error{m_wanted + ": the file cannot be given its name (" + error.message() + ")", "Choose another folder"};
        return {};
    }

    const std::string path;

private:
    void remove() const {
        std::error_code error;
        for (const char* end : {"", "-journal"}) std::filesystem::remove(path + end, error);
    }
    std::string m_wanted;
};

template <class Name>
Result<void> write_names(SqlDatabase& database, const char* sql, int count, Name name) {
    auto insert = database.prepare(sql);
    if (!insert) return insert.error();
    for (int i = 0; i < count; ++i) {
        insert->bind(1, std::int64_t{i});
        insert->bind_text(2, name(i));
        if (auto written = insert->run(); !written) return written;
    }
    return {};
}

}  // namespace

Result<KvtFileWriter> KvtFileWriter::create(const Recording& recording, const KvtOptions& options, LanePart part) {
    part.strip = options.strip;
    if (part.strip) part.hash_key = random_key();
    const Unnamed made(options.path);
    auto database = SqlDatabase::create(made.path, options.vfs);
    if (!database) return database.error();
    KvtFileWriter writer(recording, std::move(*database), part);
    writer.m_end_request = requests_in(recording, part);
    const std::string pragmas = "PRAGMA application_id = " + std::to_string(kvt::application_id) +
                                "; PRAGMA user_version = " + std::to_string(kvt::version) + "; BEGIN;";
    for (const char* sql : {pragmas.c_str(), kvt::create_tables, kvt::create_views})
        if (auto done = writer.m_database->execute(sql); !done) return done.error();
    for (auto written : {writer.write_head(options), writer.write_vocabularies(), writer.write_lanes(), writer.write_requests(),
                         writer.m_database->execute("COMMIT")})
        if (!written) return written.error();
    *writer.m_database = SqlDatabase();
    if (auto named = made.name(); !named) return named.error();
    database = SqlDatabase::open_to_append(options.path, options.vfs);
    if (!database) return database.error();
    *writer.m_database = std::move(*database);
    writer.m_checkpoints = std::make_unique<LogCheckpoints>(*writer.m_database, options.vfs);
    for (std::size_t i = 0; i < recording.lanes().size(); ++i) {
        auto lane = KvtLaneWriter::follow(*writer.m_database, *recording.lanes()[i], static_cast<std::uint32_t>(i), part);
        if (!lane) return lane.error();
        writer.m_lanes.push_back(std::move(*lane));
    }
    return writer;
}

Result<void> KvtFileWriter::write_meta(const char* key, std::string_view text) {
    auto insert = m_database->prepare("INSERT OR REPLACE INTO meta VALUES (?, ?)");
    if (!insert) return insert.error();
    insert->bind_text(1, key);
    insert->bind_text(2, text);
    return insert->run();
}

Result<void> KvtFileWriter::write_head(const KvtOptions& options) {
    const std::pair<const char*, std::string> head[] = {{"title", m_recording->title()},
                                                        {"created", now_text()},
                                                        {"program", options.program},
                                                        {"machine", options.machine},
                                                        {"scenario", m_part.strip ? stripped_scenario(options.scenario) : options.scenario},
                                                        {"complete", "0"},
                                                        {"stripped", m_part.strip ? "1" : "0"},
                                                        {"memory_budget_bytes", std::to_string(m_recording->memory_budget_bytes())}};
    for (const auto& [key, text] : head)
        if (auto written = write_meta(key, text); !written) return written;
    if (auto names = write_names(*m_database, "INSERT INTO event_kinds VALUES (?, ?)", event_kind_count,
                                 [](int i) { return name_of(static_cast<EventKind>(i)); });
        !names)
        return names;
    if (auto names = write_names(*m_database, "INSERT INTO causes VALUES (?, ?)", cause_count,
                                 [](int i) { return name_of(static_cast<Cause>(i)); });
        !names)
        return names;
    return write_names(*m_database, "INSERT INTO stage_kinds VALUES (?, ?)", stage_kind_count,
                       [](int i) { return name_of(static_cast<StageKind>(i)); });
}

Result<void> KvtFileWriter::write_vocabularies() {
    std::vector<const VocabularyText*> written;
    auto kind = m_database->prepare("INSERT INTO vocabularies VALUES (?, ?)");
    auto insert = m_database->prepare("INSERT INTO vocabulary VALUES (?, ?, ?, ?)");
    if (!kind) return kind.error();
    if (!insert) return insert.error();
    for (const auto& lane : m_recording->lanes()) {
        const VocabularyText& vocabulary = lane->vocabulary();
        if (std::find(written.begin(), written.end(), &vocabulary) != written.end()) continue;
        const auto number = static_cast<std::int64_t>(written.size());
        written.push_back(&vocabulary);
        kind->bind(1, number);
        kind->bind(2, std::int64_t{vocabulary.strips_leading_space});
        if (auto done = kind->run(); !done) return done;
        for (std::size_t token = 0; !m_part.strip && token < vocabulary.pieces.size(); ++token) {
            insert->bind(1, number);
            insert->bind(2, static_cast<std::int64_t>(token));
            insert->bind_text(3, token < vocabulary.shown.size() ? vocabulary.shown[token] : std::string());
            insert->bind_bytes(4, vocabulary.pieces[token]);
            if (auto done = insert->run(); !done) return done;
        }
    }
    return {};
}

Result<void> KvtFileWriter::write_lanes() {
    auto insert = m_database->prepare("INSERT INTO lanes VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    if (!insert) return insert.error();
    std::vector<const VocabularyText*> vocabularies;
    for (std::size_t i = 0; i < m_recording->lanes().size(); ++i) {
        const LaneRecord& lane = *m_recording->lanes()[i];
        const LaneInfo& info = lane.info();
        auto vocabulary = std::find(vocabularies.begin(), vocabularies.end(), &lane.vocabulary());
        const auto vocabulary_number = vocabulary - vocabularies.begin();
        if (vocabulary == vocabularies.end()) vocabularies.push_back(&lane.vocabulary());
        insert->bind(1, static_cast<std::int64_t>(i));
        insert->bind_text(2, info.name);
        insert->bind_text(3, info.model_name);
        insert->bind_text(4, info.architecture);
        insert->bind_text(5, info.device);
        insert->bind_text(6, info.attention_variant);
        insert->bind_text(7, info.cache_dtype);
        int column = 8;
        for (const std::uint64_t number : {std::uint64_t{info.layers}, std::uint64_t{info.query_heads}, std::uint64_t{info.kv_heads},
                                           std::uint64_t{info.head_dim}, std::uint64_t{info.block_size}, std::uint64_t{info.blocks},
                                           info.bytes_per_token, info.block_bytes, info.pool_bytes})
            insert->bind(column++, static_cast<std::int64_t>(number));
        insert->bind(17, std::int64_t{vocabulary_number});
        insert->bind_text(18, "");
        insert->bind(19, std::int64_t{0});
        insert->bind_text(20, json_of(info));
        if (auto done = insert->run(); !done) return done;
    }
    return {};
}

Result<void> KvtFileWriter::write_requests() {
    const std::size_t end = std::min(m_recording->requests().size(), m_end_request);
    if (m_requests == end) return {};
    auto insert = m_database->prepare("INSERT INTO requests VALUES (?,?,?,?,?,?,?,?,?)");
    if (!insert) return insert.error();
    for (; m_requests < end; ++m_requests) {
        RequestInfo info = told(m_recording->requests()[m_requests], m_part);
        const std::vector<TokenId> prompt = std::exchange(info.prompt, {});  // as numbers: long ones would be slow to read as text
        insert->bind(1, static_cast<std::int64_t>(m_requests));
        insert->bind_text(2, info.id);
        insert->bind(3, static_cast<std::int64_t>(prompt.size()));
        insert->bind(4, std::int64_t{info.max_new_tokens});
        insert->bind(5, std::int64_t{info.arrival_step});
        insert->bind(6, static_cast<std::int64_t>(info.arrival_ns));
        insert->bind(7, std::int64_t{info.priority});
        insert->bind_text(8, json_of(info));
        insert->bind_bytes(9, {reinterpret_cast<const char*>(prompt.data()), prompt.size() * sizeof(TokenId)});
        if (auto done = insert->run(); !done) return done;
    }
    return {};
}

Result<bool> KvtFileWriter::append() {
    if (auto begun = m_database->execute("BEGIN"); !begun) return begun.error();
    bool more = false;
    for (KvtLaneWriter& lane : m_lanes) {
        const std::uint64_t before = lane.events();
        if (auto written = lane.append(events_per_transaction / m_lanes.size() + 1); !written) return written.error();
        more = more || lane.events() - before > events_per_transaction / m_lanes.size();
    }
    // After the lanes: a request is there before the first event that names it.
    if (auto written = write_requests(); !written) return written.error();
    if (auto committed = m_database->execute("COMMIT"); !committed) return committed.error();
    if (auto taken_over = m_checkpoints->committed(); !taken_over) return taken_over.error();
    return more;
}

Result<void> KvtFileWriter::write_end() {
    for (KvtLaneWriter& lane : m_lanes)
        if (auto rest = lane.append_rest(); !rest) return rest;
    for (auto written : {write_meta("phase", name_of_phase(m_recording->phase())),
                         write_meta("reason", m_part.strip ? std::string() : m_recording->reason()),
                         write_meta("device_memory", json_of(m_recording->device_memory())), write_meta("complete", "1")})
        if (!written) return written;
    auto insert = m_database->prepare("INSERT INTO checks VALUES (-1, ?, ?, ?)");
    if (!insert) return insert.error();
    for (const CheckedTable& table : checked_lists(kvt::version)) {
        const auto checked = check_of(*m_database, table.sql);
        if (!checked) return checked.error();
        insert->bind_text(1, table.name);
        insert->bind(2, checked->rows);
        insert->bind(3, checked->value);
        if (auto written = insert->run(); !written) return written;
    }
    return {};
}

Result<void> KvtFileWriter::close() {
    if (auto begun = m_database->execute("BEGIN"); !begun) return begun;
    if (auto end = write_end(); !end) return end;
    if (auto committed = m_database->execute("COMMIT"); !committed) return committed;
    m_checkpoints.reset();
    m_lanes.clear();  // their statements end before the log does
    return m_database->execute("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA locking_mode = NORMAL; PRAGMA journal_mode = DELETE;");
}

void KvtFileWriter::leave_out_attention(bool leave_out) {
    for (KvtLaneWriter& lane : m_lanes) lane.leave_out_attention(leave_out);
}

}  // namespace kvloupe
