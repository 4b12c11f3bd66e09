// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/kvt_reader.h"

#include "engine/record/compressed.h"
#include "engine/record/kvt_frames.h"
#include "engine/record/kvt_schema.h"
#include "engine/record/lane_info_json.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace kvloupe {

namespace {

constexpr std::size_t weights_of_tile = std::size_t{1} << LaneRecord::weights_shift;
constexpr std::int64_t max_vocabulary = 1 << 24;
constexpr std::uint32_t max_blocks = 1u << 26;  // of a pool: what a description can ask for without taking all memory

// Attention weights: a chunk of the log is a tile.
class Tiles final : public LogSource<float> {
public:
    explicit Tiles(KvtStatement statement) : m_statement(std::move(statement)) {}

    void read(std::size_t first, std::span<float> out) override {
        bool good = false;
        m_statement.with([&](SqlStatement& statement) {
            statement.bind(1, static_cast<std::int64_t>(first / weights_of_tile));
            const auto row = statement.step();
            const auto bytes = row && *row ? decompressed(statement.bytes(0), weights_of_tile * sizeof(float))
                                           : Result<std::string>(Error{"", ""});
            statement.reset();
            good = bytes && bytes->size() >= out.size_bytes();
            if (good) std::memcpy(out.data(), bytes->data(), out.size_bytes());
        });
        if (!good)
            m_statement.store().set_damage(m_statement.store().path() +
                                           ": a tile of attention weights is missing or damaged. Open a backup of the file");
    }

private:
    KvtStatement m_statement;
};

Phase phase_of(const std::string& name) {
    if (name == "failed") return Phase::failed;
    if (name == "finished") return Phase::finished;
    return Phase::paused;  // nothing runs in a file
}

}  // namespace

Result<std::uint64_t> KvtReader::count(const std::string& sql) const {
    auto statement = m_store->database().prepare(sql);
    if (!statement) return statement.error();
    const auto row = statement->step();
    if (!row) return row.error();
    const std::int64_t count = *row ? statement->integer(0) : 0;
    // A row takes more than a byte: what promises more has been damaged.
    if (count < 0 || static_cast<std::uint64_t>(count) > m_file_bytes)
        return Error{m_store->path() + ": the recording is damaged (a log promises " + std::to_string(count) + " rows)",
                     "Open a backup of it"};
    return static_cast<std::uint64_t>(count);
}

Result<std::uint64_t> KvtReader::count_log(const char* table, std::uint32_t lane) const {
    const std::string begin = std::to_string(kvt::row_id(lane, 0)), end = std::to_string(kvt::row_id(lane + 1, 0));
    return count(std::string("SELECT coalesce(max(id) + 1 - ") + begin + ", 0) FROM " + table + " WHERE id >= " + begin + " AND id < " + end);
}

template <class Log, class T>
Result<void> KvtReader::open_log(Log& log, std::uint64_t count, const std::string& sql, std::int64_t first_key, const KvtLimits& limits) {
    if (count == 0) return {};
    auto statement = KvtStatement::of(m_store, sql);
    if (!statement) return statement.error();
    log.open(count, std::make_unique<KvtRows<T>>(std::move(*statement), first_key, limits));
    return {};
}

Result<StoredRecording> KvtReader::open(const std::string& path) {
    auto store = KvtStore::open(path);
    if (!store) return store.error();
    KvtReader reader(*store);
    std::error_code error;
    reader.m_file_bytes = std::filesystem::file_size(reader.m_store->database().path(), error);
    for (auto step : {&KvtReader::read_meta, &KvtReader::read_vocabularies, &KvtReader::read_requests, &KvtReader::read_lanes})
        if (auto done = (reader.*step)(); !done) return done.error();
    reader.end();
    return StoredRecording{reader.m_recording, reader.m_meta, (*store)->recovered(), reader.m_file_bytes};
}

Result<void> KvtReader::read_meta() {
    auto statement = m_store->database().prepare("SELECT key, value FROM meta");
    if (!statement) return statement.error();
    for (;;) {
        const auto row = statement->step();
        if (!row) return row.error();
        if (!*row) return {};
        m_meta[std::string(statement->text(0))] = std::string(statement->text(1));
    }
}

Result<void> KvtReader::read_vocabularies() {
    auto kinds = m_store->database().prepare("SELECT vocabulary, strips_leading_space FROM vocabularies");
    if (!kinds) return kinds.error();
    for (;;) {
        const auto row = kinds->step();
        if (!row) return row.error();
        if (!*row) break;
        auto vocabulary = std::make_shared<VocabularyText>();
        vocabulary->strips_leading_space = kinds->integer(1) != 0;
        m_vocabularies[kinds->integer(0)] = std::move(vocabulary);
    }
    auto tokens = m_store->database().prepare("SELECT vocabulary, token, shown, piece FROM vocabulary ORDER BY vocabulary, token");
    if (!tokens) return tokens.error();
    for (;;) {
        const auto row = tokens->step();
        if (!row) return row.error();
        if (!*row) return {};
        const auto vocabulary = m_vocabularies.find(tokens->integer(0));
        const std::int64_t token = tokens->integer(1);
        if (vocabulary == m_vocabularies.end() || token < 0 || token >= max_vocabulary) continue;
        const auto at = static_cast<std::size_t>(token);
        VocabularyText& text = *vocabulary->second;
        if (text.pieces.size() <= at) {
            text.pieces.resize(at + 1);
            text.shown.resize(at + 1);
        }
        text.shown[at] = std::string(tokens->text(2));
        text.pieces[at] = std::string(tokens->bytes(3));
    }
}

Result<void> KvtReader::read_requests() {
    const auto rows = count("SELECT coalesce(max(request) + 1, 0) FROM requests");
    if (!rows) return rows.error();
    return open_log<decltype(m_recording->m_requests), RequestInfo>(
        m_recording->m_requests, *rows, "SELECT request, info, prompt FROM requests WHERE request >= ? AND request < ? ORDER BY request", 0, {});
}

Result<void> KvtReader::read_lanes() {
    auto statement = m_store->database().prepare("SELECT lane, vocabulary, failure, dropped_attention_rows, info FROM lanes ORDER BY lane");
    if (!statement) return statement.error();
    for (;;) {
        const auto row = statement->step();
        if (!row) return row.error();
        if (!*row) break;
        const Error damaged{m_store->path() + ": the recording is damaged (its list of lanes)", "Open a backup of it"};
        if (statement->integer(0) != static_cast<std::int64_t>(m_recording->m_lanes.size())) return damaged;
        auto info = lane_info_of(statement->text(4));
        if (!info) return Error{m_store->path() + ": " + info.error().sentence, info.error().hint};
        if (info->blocks > max_blocks || (info->kv_cache && info->block_size == 0)) return damaged;
        const auto vocabulary = m_vocabularies.find(statement->integer(1));
        auto lane = std::make_unique<LaneRecord>(std::move(*info), vocabulary == m_vocabularies.end() ? nullptr : vocabulary->second);
        lane->m_failure = std::string(statement->text(2));
        lane->m_dropped_attention_rows = static_cast<std::uint64_t>(std::max<std::int64_t>(statement->integer(3), 0));
        m_recording->m_lanes.push_back(std::move(lane));
    }
    if (m_recording->m_lanes.empty())
        return Error{m_store->path() + ": the recording has no lanes: it ended before it began", "Record the run again"};
    for (std::uint32_t lane = 0; lane < m_recording->m_lanes.size(); ++lane)
        if (auto logs = read_logs(lane); !logs) return logs;
    return {};
}

Result<void> KvtReader::read_logs(std::uint32_t number) {
    LaneRecord& lane = *m_recording->m_lanes[number];
    const std::string of_lane = " WHERE lane = " + std::to_string(number);
    KvtLimits limits;
    limits.requests = m_recording->m_requests.size();
    limits.blocks = lane.info().blocks;
    limits.vocabulary = lane.vocabulary().pieces.size();
    limits.layers = lane.info().layers;
    limits.query_heads = lane.info().query_heads;
    const struct {
        std::uint64_t* count;
        const char* table;
    } logs[] = {{&limits.events, "event_log"}, {&limits.tokens, "token_log"}, {&limits.alternatives, "alternative_log"},
                {&limits.stages, "stage_log"}, {&limits.attention, "attention_rows"}};
    for (const auto& log : logs) {
        const auto rows = count_log(log.table, number);
        if (!rows) return rows.error();
        *log.count = *rows;
    }
    std::uint64_t stage_ranges = 0;
    const std::pair<std::uint64_t*, std::string> listed[] = {
        {&limits.steps, "SELECT coalesce(max(step) + 1, 0) FROM steps" + of_lane},
        {&limits.sequences, "SELECT coalesce(max(sequence) + 1, 0) FROM sequences" + of_lane},
        {&limits.strings, "SELECT coalesce(max(string) + 1, 0) FROM strings" + of_lane},
        {&stage_ranges, "SELECT coalesce(max(number) + 1, 0) FROM stage_ranges" + of_lane}};
    for (const auto& [rows, sql] : listed) {
        const auto number_of_rows = count(sql);
        if (!number_of_rows) return number_of_rows.error();
        *rows = *number_of_rows;
    }
    if (limits.attention > 0) {
        auto last = m_store->database().prepare("SELECT first_weight + key_count FROM attention_rows WHERE id = " +
                                                std::to_string(kvt::row_id(number, limits.attention - 1)));
        if (!last) return last.error();
        const auto row = last->step();
        if (!row) return row.error();
        limits.weights = *row ? static_cast<std::uint64_t>(std::max<std::int64_t>(last->integer(0), 0)) : 0;
        const auto tiles = count_log("attention_tiles", number);
        if (!tiles) return tiles.error();
        limits.weights = std::min<std::uint64_t>(limits.weights, *tiles * weights_of_tile);
    }
    const std::string by_id = " WHERE id >= ? AND id < ? ORDER BY id";
    const auto by = [&](const char* key) { return of_lane + " AND " + key + " >= ? AND " + key + " < ? ORDER BY " + key; };
    const std::int64_t base = kvt::row_id(number, 0);
    Result<void> opened[] = {
        open_log<decltype(lane.m_events), Event>(
            lane.m_events, limits.events,
            "SELECT id, kind, cause, flags, kv_group, sequence, block, other, tokens, offset_ns, duration_ns, detail FROM event_log" + by_id,
            base, limits),
        open_log<decltype(lane.m_tokens), TokenRecord>(
            lane.m_tokens, limits.tokens,
            "SELECT id, sequence, position, token, source, rank, probability, first_alternative, alternatives FROM token_log" + by_id, base, limits),
        open_log<decltype(lane.m_alternatives), Alternative>(lane.m_alternatives, limits.alternatives,
                                                             "SELECT id, token, probability, logit FROM alternative_log" + by_id, base, limits),
        open_log<decltype(lane.m_stages), StageRecord>(
            lane.m_stages, limits.stages, "SELECT id, kind, layer, calls, duration_ns, bytes, flops FROM stage_log" + by_id, base, limits),
        open_log<decltype(lane.m_attention), AttentionRow>(
            lane.m_attention, limits.attention,
            "SELECT id, sequence, layer, head, position, key_count, first_weight FROM attention_rows" + by_id, base, limits),
        open_log<decltype(lane.m_stage_ranges), LaneRecord::StageRange>(
            lane.m_stage_ranges, stage_ranges, "SELECT number, step, first_stage, end_stage FROM stage_ranges" + by("number"), 0, limits),
        open_log<decltype(lane.m_sequences), SequenceInfo>(
            lane.m_sequences, limits.sequences,
            "SELECT sequence, request, parent, forked_at, prompt_tokens, name FROM sequences" + by("sequence"), 0, limits),
        open_log<decltype(lane.m_strings), std::string>(lane.m_strings, limits.strings, "SELECT string, text FROM strings" + by("string"), 0,
                                                        limits),
        open_log<decltype(lane.m_steps), StepRecord>(
            lane.m_steps, limits.steps,
            "SELECT step, start_ns, duration_ns, running, waiting, prefill_tokens, decode_tokens, context_tokens, used_blocks, cached_blocks,"
            " free_blocks, kv_bytes, token_slots, cached_slots, reserved_slots, internal_slots, external_slots, free_slots, residual_pages,"
            " allocated_kv_bytes, activation_bytes, predicted_activation_bytes, host_blocks, hit_tokens, queried_tokens,"
            " preempted_hit_tokens, preempted_queried_tokens, computed_tokens, overflowed_values, logit_difference, first_event, end_event,"
            " first_token, end_token, first_attention_row, end_attention_row FROM steps" + by("step"), 0, limits)};
    for (const Result<void>& log : opened)
        if (!log) return log;
    if (limits.weights > 0) {
        auto tile = KvtStatement::of(m_store, "SELECT data FROM attention_tiles WHERE id = " + std::to_string(base) + " + ?");
        if (!tile) return tile.error();
        lane.m_attention_weights.open(limits.weights, std::make_unique<Tiles>(std::move(*tile)));
    }
    auto frames = KvtFrames::of(m_store, number, lane.info().kv_cache ? lane.info().blocks : 0, lane.info().block_size);
    if (!frames) return frames.error();
    lane.m_frames = std::move(*frames);
    return {};
}

void KvtReader::end() {
    m_recording->m_title = m_meta["title"];
    m_recording->m_reason = m_meta["reason"];
    if (const auto memory = device_memory_of(m_meta["device_memory"])) m_recording->m_device_memory = *memory;
    m_recording->m_phase = phase_of(m_meta["phase"]);
}

Result<StoredRecording> open_kvt(const std::string& path) { return KvtReader::open(path); }

}  // namespace kvloupe
