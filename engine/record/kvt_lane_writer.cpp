// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/kvt_lane_writer.h"

#include "engine/record/compressed.h"
#include "engine/record/kvt_schema.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace kvloupe {

namespace {

// Seeking reads the events since the last key frame, one to two million a second: 8,192 take some 6 ms. A frame holds every block
// and sequence, some 16 bytes of a block once compressed, so with many of them it comes less often.
constexpr std::uint64_t least_frame_distance = 8192;

constexpr std::uint64_t events_per_block_row = 16;  // of block_states

constexpr std::size_t tile_size = std::size_t{1} << LaneRecord::weights_shift;

}  // namespace

std::size_t LanePart::sequences(const LaneRecord& lane) const {
    if (end_step >= lane.step_count()) return SIZE_MAX;
    if (end_step == 0) return 0;
    std::size_t known = lane.state_before(first_step).sequences().size();
    const auto name = [&](SequenceId sequence) {
        if (sequence.valid()) known = std::max(known, sequence.value + std::size_t{1});
    };
    const std::size_t first = std::min(first_step, end_step - 1);
    for (std::uint64_t i = lane.step(first).events.begin; i < lane.step(end_step - 1).events.end; ++i) name(lane.events()[i].sequence);
    for (std::uint64_t i = lane.step(first).tokens.begin; i < lane.step(end_step - 1).tokens.end; ++i) name(lane.tokens()[i].sequence);
    return known;
}

Result<KvtLaneWriter> KvtLaneWriter::follow(SqlDatabase& database, const LaneRecord& lane, std::uint32_t number, const LanePart& part) {
    KvtLaneWriter writer(database, lane, number, part);
    writer.m_end_sequence = part.sequences(lane);
    if (auto prepared = writer.prepare(); !prepared) return prepared.error();
    return writer;
}

std::int64_t KvtLaneWriter::id(std::uint64_t index) const { return kvt::row_id(m_number, index); }

Result<void> KvtLaneWriter::prepare() {
    const struct {
        std::optional<BulkInsert>* rows;
        const char* table;
        int columns;
    } bulk[] = {{&m_step_rows, "steps", 37},       {&m_event_rows, "event_log", 12},       {&m_token_rows, "token_log", 9},
                {&m_alternative_rows, "alternative_log", 4}, {&m_stage_range_rows, "stage_ranges", 5},
                {&m_stage_rows, "stage_log", 7},   {&m_attention_rows, "attention_rows", 7}, {&m_block_rows, "block_states", 13}};
    for (const auto& one : bulk) {
        auto rows = BulkInsert::into(*m_database, one.table, one.columns);
        if (!rows) return rows.error();
        *one.rows = std::move(*rows);
    }
    const struct {
        std::optional<SqlStatement>* statement;
        const char* sql;
    } single[] = {{&m_sequence, "INSERT INTO sequences VALUES (?,?,?,?,?,?,?)"},
                  {&m_string, "INSERT INTO strings VALUES (?,?,?)"},
                  {&m_tile, "INSERT OR REPLACE INTO attention_tiles VALUES (?,?)"},
                  {&m_key_frame, "INSERT INTO key_frames VALUES (?,?,?,?)"},
                  {&m_check, "INSERT OR REPLACE INTO checks VALUES (?,?,?,?)"}};
    for (const auto& one : single) {
        auto statement = m_database->prepare(one.sql);
        if (!statement) return statement.error();
        *one.statement = std::move(*statement);
    }
    return {};
}

Result<std::size_t> KvtLaneWriter::append(std::uint64_t events) {
    const std::size_t end = std::min(m_lane->step_count(), m_part.end_step);
    if (auto names = append_names(); !names) return names.error();
    const std::size_t begin = m_step;
    const std::uint64_t enough = m_events + events;
    // A cut begins with the state that its first step found.
    if (m_step == m_part.first_step && !m_any_key_frame && m_step < end && (m_step > 0 || m_lane->begins_later()))
        for (auto written : {key_frame(m_lane->state_before(m_step), -1), append_earlier_tokens()})
            if (!written) return written.error();
    for (; m_step < end && m_events < enough; ++m_step) {
        const StepRecord& step = m_lane->step(m_step);
        const LogRange ranges[] = {step.events, step.tokens, step.attention};
        StepRecord row = step;
        row.events.begin = m_events;
        row.tokens.begin = m_tokens;
        row.attention.begin = m_attention;
        for (std::uint64_t i = ranges[1].begin; i < ranges[1].end; ++i)
            if (auto written = append_token(m_lane->tokens()[i]); !written) return written.error();
        for (auto written : {append_events(ranges[0]), append_attention(ranges[2])})
            if (!written) return written.error();
        row.events.end = m_events;
        row.tokens.end = m_tokens;
        row.attention.end = m_attention;
        if (auto written = append_step(row); !written) return written.error();
        const std::uint64_t distance = std::max<std::uint64_t>(least_frame_distance, m_lane->info().blocks / 4 + m_sequences / 4);
        if (m_events - m_key_frame_event >= distance)
            if (auto frame = key_frame(m_lane->state_after(m_step), static_cast<std::int64_t>(m_step - m_part.first_step)); !frame)
                return frame.error();
    }
    if (m_frame.valid() && m_frame.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
        if (auto written = write_key_frame(); !written) return written.error();
    if (auto stages = append_stages(m_step); !stages) return stages.error();
    if (auto tile = write_tile(); !tile) return tile.error();
    for (BulkInsert* rows : logs())
        if (auto written = rows->flush(); !written) return written.error();
    if (auto checks = write_checks(); !checks) return checks.error();
    return m_step - begin;
}

std::array<BulkInsert*, 8> KvtLaneWriter::logs() {
    return {&*m_step_rows, &*m_event_rows, &*m_token_rows, &*m_alternative_rows, &*m_stage_range_rows, &*m_stage_rows, &*m_attention_rows,
            &*m_block_rows};
}

Result<void> KvtLaneWriter::write_checks() {
    for (BulkInsert* rows : logs()) {
        const CheckedRows checked = rows->checked();
        m_check->bind(1, std::int64_t{m_number});
        m_check->bind_text(2, rows->table());
        m_check->bind(3, checked.rows);
        m_check->bind(4, checked.value);
        if (auto written = m_check->run(); !written) return written;
    }
    return {};
}

Result<void> KvtLaneWriter::append_rest() {
    if (auto written = write_key_frame(); !written) return written;
    auto update = m_database->prepare("UPDATE lanes SET failure = ?, dropped_attention_rows = ? WHERE lane = ?");
    if (!update) return update.error();
    update->bind_text(1, m_lane->failure());
    update->bind(2, static_cast<std::int64_t>(m_lane->dropped_attention_rows() + m_dropped_rows));
    update->bind(3, std::int64_t{m_number});
    return update->run();
}

Result<void> KvtLaneWriter::append_step(const StepRecord& step) {
    BulkInsert& row = *m_step_rows;
    row.put(m_number);
    row.put(step.step.value - m_part.first_step);
    for (const std::uint64_t value :
         {step.start_ns, step.duration_ns, std::uint64_t{step.running}, std::uint64_t{step.waiting}, std::uint64_t{step.prefill_tokens},
          std::uint64_t{step.decode_tokens}, std::uint64_t{step.context_tokens}, std::uint64_t{step.used_blocks},
          std::uint64_t{step.cached_blocks}, std::uint64_t{step.free_blocks}, step.kv_bytes, step.slots.token, step.slots.cached,
          step.slots.reserved, step.slots.internal, step.slots.external, step.slots.free, std::uint64_t{step.residual_pages},
          step.allocated_kv_bytes, step.activation_bytes, step.predicted_activation_bytes, std::uint64_t{step.host_blocks},
          step.hit_tokens, step.queried_tokens, step.preempted_hit_tokens, step.preempted_queried_tokens, step.computed_tokens,
          step.overflowed_values})
        row.put(value);
    row.put_real(step.logit_difference);
    for (const LogRange& range : {step.events, step.tokens, step.attention}) {
        row.put(range.begin);
        row.put(range.end);
    }
    return row.row_done();
}

Result<void> KvtLaneWriter::append_events(LogRange range) {
    BulkInsert& row = *m_event_rows;
    for (std::uint64_t i = range.begin; i < range.end; ++i) {
        Event event = m_lane->events()[i];
        if (event.kind == EventKind::store) {
            const std::uint64_t hash = change().hash(std::uint64_t{event.other} << 32 | event.tokens);
            event.other = static_cast<std::uint32_t>(hash >> 32);
            event.tokens = static_cast<std::uint32_t>(hash);
        }
        row.put(static_cast<std::uint64_t>(id(m_events++)));
        row.put(static_cast<std::uint64_t>(event.kind));
        row.put(static_cast<std::uint64_t>(event.cause));
        row.put(event.flags);
        row.put(event.group);
        row.put_index(event.sequence.value);
        row.put_index(event.block.value);
        row.put_index(event.other);
        row.put(event.tokens);
        row.put(event.offset_ns);
        row.put(event.duration_ns);
        row.put_index(event.detail.value);
        if (auto done = row.row_done(); !done) return done;
    }
    return {};
}

Result<void> KvtLaneWriter::append_token(const TokenRecord& token) {
    const auto told = [&](TokenId of) { return m_part.strip ? 0 : static_cast<std::uint64_t>(std::int64_t{of}); };
    BulkInsert& row = *m_token_rows;
    row.put(static_cast<std::uint64_t>(id(m_tokens++)));
    row.put(token.sequence.value);
    row.put(token.position);
    row.put(told(token.token));
    row.put(token.source);
    row.put(token.rank);
    row.put_real(token.probability);
    row.put(m_alternatives);
    row.put(token.alternative_count);
    if (auto done = row.row_done(); !done) return done;
    for (std::uint64_t k = 0; k < token.alternative_count; ++k) {
        const Alternative& alternative = m_lane->alternatives()[token.alternatives_begin + k];
        m_alternative_rows->put(static_cast<std::uint64_t>(id(m_alternatives++)));
        m_alternative_rows->put(told(alternative.token));
        m_alternative_rows->put_real(alternative.probability);
        m_alternative_rows->put_real(alternative.logit);
        if (auto done = m_alternative_rows->row_done(); !done) return done;
    }
    return {};
}

// Of sequences that had not ended before the cut, and of those that they were forked from: what they hold can then be read.
Result<void> KvtLaneWriter::append_earlier_tokens() {
    const LaneState state = m_lane->state_before(m_step);
    std::vector<bool> lives(state.sequences().size());
    for (std::size_t i = lives.size(); i-- > 0;) {  // a parent is older than its children
        const SequenceStatus status = state.sequences()[i].status;
        lives[i] = lives[i] || status == SequenceStatus::arrived || status == SequenceStatus::running ||
                   status == SequenceStatus::preempted || status == SequenceStatus::swapped || !state.sequences()[i].table.empty();
        const SequenceId parent = lives[i] && i < m_lane->sequences().size() ? m_lane->sequences()[i].parent : SequenceId();
        if (parent.valid() && parent.value < i) lives[parent.value] = true;
    }
    const std::uint64_t end = m_lane->step(m_step).tokens.begin;
    for (std::uint64_t i = 0; i < end; ++i) {
        const TokenRecord& token = m_lane->tokens()[i];
        if (token.sequence.value >= lives.size() || !lives[token.sequence.value]) continue;
        if (auto written = append_token(token); !written) return written;
    }
    return {};
}

Result<void> KvtLaneWriter::append_attention(LogRange range) {
    if (m_leave_out_attention) {
        m_dropped_rows += range.size();
        return {};
    }
    for (std::uint64_t i = range.begin; i < range.end; ++i) {
        const AttentionRow& one = m_lane->attention()[i];
        BulkInsert& row = *m_attention_rows;
        row.put(static_cast<std::uint64_t>(id(m_attention++)));
        row.put(one.sequence.value);
        row.put(one.layer);
        row.put(one.head);
        row.put(one.position);
        row.put(one.key_count);
        row.put(m_weights);
        if (auto done = row.row_done(); !done) return done;
        for (std::uint64_t k = 0; k < one.key_count; ++k) {
            m_tile_weights.push_back(m_lane->attention_weights()[one.weights_begin + k]);
            ++m_weights;
            if (m_weights % tile_size != 0) continue;
            if (auto tile = write_tile(); !tile) return tile;
            m_tile_weights.clear();
        }
    }
    return {};
}

// The weights of the tile in progress, replaced until it is full.
Result<void> KvtLaneWriter::write_tile() {
    if (m_tile_weights.empty()) return {};
    const std::string_view bytes(reinterpret_cast<const char*>(m_tile_weights.data()), m_tile_weights.size() * sizeof(float));
    m_tile->bind(1, id((m_weights - 1) / tile_size));
    m_tile->bind_bytes(2, compressed(bytes));
    return m_tile->run();
}

// Sequences and strings come before the events that name them.
Result<void> KvtLaneWriter::append_names() {
    const std::int64_t lane{m_number};
    for (const std::size_t end = std::min(m_lane->sequences().size(), m_end_sequence); m_sequences < end; ++m_sequences) {
        const SequenceInfo& info = m_lane->sequences()[m_sequences];
        m_sequence->bind(1, lane);
        m_sequence->bind(2, static_cast<std::int64_t>(m_sequences));
        m_sequence->bind(3, std::int64_t{info.request.value});
        if (info.parent.valid()) m_sequence->bind(4, std::int64_t{info.parent.value});
        else m_sequence->bind_null(4);
        m_sequence->bind(5, std::int64_t{info.forked_at});
        m_sequence->bind(6, std::int64_t{info.prompt_tokens});
        m_sequence->bind_text(7, info.name);
        if (auto written = m_sequence->run(); !written) return written;
    }
    for (const std::size_t end = m_lane->strings().size(); m_strings < end; ++m_strings) {
        m_string->bind(1, lane);
        m_string->bind(2, static_cast<std::int64_t>(m_strings));
        m_string->bind_text(3, m_lane->strings()[m_strings]);
        if (auto written = m_string->run(); !written) return written;
    }
    return {};
}

Result<void> KvtLaneWriter::append_stages(std::size_t end_step) {
    for (const std::size_t end = m_lane->staged_steps().size(); m_stage_ranges < end; ++m_stage_ranges) {
        const LaneRecord::StageRange& staged = m_lane->staged_steps()[m_stage_ranges];
        if (staged.step >= end_step) break;
        if (staged.step < m_part.first_step) continue;
        BulkInsert& row = *m_stage_range_rows;
        row.put(m_number);
        row.put(m_written_stage_ranges++);
        row.put(staged.step - m_part.first_step);
        row.put(m_stages);
        row.put(m_stages + staged.range.size());
        if (auto done = row.row_done(); !done) return done;
        for (std::uint64_t i = staged.range.begin; i < staged.range.end; ++i) {
            const StageRecord& stage = m_lane->stages()[i];
            m_stage_rows->put(static_cast<std::uint64_t>(id(m_stages++)));
            m_stage_rows->put(static_cast<std::uint64_t>(stage.kind));
            m_stage_rows->put_index(stage.layer == StageRecord::no_layer ? 0xFFFFFFFFu : stage.layer);
            m_stage_rows->put(stage.calls);
            m_stage_rows->put(stage.duration_ns);
            m_stage_rows->put(stage.bytes);
            m_stage_rows->put(stage.flops);
            if (auto done = m_stage_rows->row_done(); !done) return done;
        }
    }
    return {};
}

// step: of the file, after which the state is. A cut's first frame stands before its step 0 and so at -1. Encoding takes some
// milliseconds: a thread of its own does it while events go on being written, and the frame follows them.
Result<void> KvtLaneWriter::key_frame(const LaneState& state, std::int64_t step) {
    if (auto written = write_key_frame(); !written) return written;
    m_frame = std::async(std::launch::async, [state, change = change()] { return compressed(LaneStateCode::encode(state, change)); });
    m_frame_step = step;
    m_key_frame_event = m_events;
    m_any_key_frame = true;
    return block_states(state, step);
}

Result<void> KvtLaneWriter::write_key_frame() {
    if (!m_frame.valid()) return {};
    const std::string bytes = m_frame.get();
    m_key_frame->bind(1, kvt::key_frame_id(m_number, m_frame_step));
    m_key_frame->bind(2, std::int64_t{m_number});
    m_key_frame->bind(3, m_frame_step);
    m_key_frame->bind_bytes(4, bytes);
    return m_key_frame->run();
}

// The same for people with SQL. A block costs as much as an event here, so not every key frame has them.
Result<void> KvtLaneWriter::block_states(const LaneState& state, std::int64_t step) {
    if (m_block_rows->checked().rows > 0 && m_events - m_block_states_event < events_per_block_row * m_block_states) return {};
    m_block_states_event = m_events;
    m_block_states = 0;
    for (std::size_t block = 1; block < state.blocks().size(); ++block) {
        const BlockState& one = state.blocks()[block];
        if (one.owners == 0 && !one.cached()) continue;
        BulkInsert& row = *m_block_rows;
        ++m_block_states;
        row.put(m_number);
        row.put(static_cast<std::uint64_t>(step));
        row.put(block);
        row.put(one.owners);
        row.put_index(one.first_owner.value);
        row.put(one.logical);
        row.put(one.filled);
        row.put(one.hashed ? 1 : 0);
        row.put(one.held ? 1 : 0);
        row.put(one.group);
        row.put_index(change().step(one.born));
        row.put_index(change().step(one.last_use));
        row.put(change().hash(one.hash));
        if (auto done = row.row_done(); !done) return done;
    }
    return {};
}

}  // namespace kvloupe
