// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/kvt_schema.h"

namespace kvloupe::kvt {

const char* const create_tables = R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE lanes(lane INTEGER PRIMARY KEY, name TEXT, model TEXT, architecture TEXT, device TEXT, attention TEXT,
  cache_dtype TEXT, layers INTEGER, query_heads INTEGER, kv_heads INTEGER, head_dim INTEGER, block_size INTEGER,
  blocks INTEGER, bytes_per_token INTEGER, block_bytes INTEGER, pool_bytes INTEGER, vocabulary INTEGER,
  failure TEXT, dropped_attention_rows INTEGER, info TEXT);
CREATE TABLE vocabularies(vocabulary INTEGER PRIMARY KEY, strips_leading_space INTEGER);
CREATE TABLE vocabulary(vocabulary INTEGER, token INTEGER, shown TEXT, piece BLOB, PRIMARY KEY(vocabulary, token)) WITHOUT ROWID;
CREATE TABLE requests(request INTEGER PRIMARY KEY, id TEXT, prompt_tokens INTEGER, max_new_tokens INTEGER, arrival_step INTEGER,
  arrival_ns INTEGER, priority INTEGER, info TEXT, prompt BLOB);
CREATE TABLE sequences(lane INTEGER, sequence INTEGER, request INTEGER, parent INTEGER, forked_at INTEGER, prompt_tokens INTEGER,
  name TEXT, PRIMARY KEY(lane, sequence)) WITHOUT ROWID;
CREATE TABLE strings(lane INTEGER, string INTEGER, text TEXT, PRIMARY KEY(lane, string)) WITHOUT ROWID;
CREATE TABLE event_kinds(kind INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE causes(cause INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE stage_kinds(kind INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE steps(lane INTEGER, step INTEGER, start_ns INTEGER, duration_ns INTEGER, running INTEGER, waiting INTEGER,
  prefill_tokens INTEGER, decode_tokens INTEGER, context_tokens INTEGER, used_blocks INTEGER, cached_blocks INTEGER,
  free_blocks INTEGER, kv_bytes INTEGER, token_slots INTEGER, cached_slots INTEGER, reserved_slots INTEGER,
  internal_slots INTEGER, external_slots INTEGER, free_slots INTEGER, residual_pages INTEGER, allocated_kv_bytes INTEGER,
  activation_bytes INTEGER, predicted_activation_bytes INTEGER, host_blocks INTEGER, hit_tokens INTEGER,
  queried_tokens INTEGER, preempted_hit_tokens INTEGER, preempted_queried_tokens INTEGER, computed_tokens INTEGER,
  overflowed_values INTEGER, logit_difference REAL, first_event INTEGER, end_event INTEGER, first_token INTEGER,
  end_token INTEGER, first_attention_row INTEGER, end_attention_row INTEGER, PRIMARY KEY(lane, step)) WITHOUT ROWID;
CREATE TABLE event_log(id INTEGER PRIMARY KEY, kind INTEGER, cause INTEGER, flags INTEGER, kv_group INTEGER, sequence INTEGER,
  block INTEGER, other INTEGER, tokens INTEGER, offset_ns INTEGER, duration_ns INTEGER, detail INTEGER);
CREATE TABLE token_log(id INTEGER PRIMARY KEY, sequence INTEGER, position INTEGER, token INTEGER, source INTEGER, rank INTEGER,
  probability REAL, first_alternative INTEGER, alternatives INTEGER);
CREATE TABLE alternative_log(id INTEGER PRIMARY KEY, token INTEGER, probability REAL, logit REAL);
CREATE TABLE stage_ranges(lane INTEGER, number INTEGER, step INTEGER, first_stage INTEGER, end_stage INTEGER,
  PRIMARY KEY(lane, number)) WITHOUT ROWID;
CREATE TABLE stage_log(id INTEGER PRIMARY KEY, kind INTEGER, layer INTEGER, calls INTEGER, duration_ns INTEGER, bytes INTEGER,
  flops INTEGER);
CREATE TABLE attention_rows(id INTEGER PRIMARY KEY, sequence INTEGER, layer INTEGER, head INTEGER, position INTEGER,
  key_count INTEGER, first_weight INTEGER);
CREATE TABLE attention_tiles(id INTEGER PRIMARY KEY, data BLOB);
CREATE TABLE key_frames(id INTEGER PRIMARY KEY, lane INTEGER, step INTEGER, data BLOB);
CREATE TABLE block_states(lane INTEGER, step INTEGER, block INTEGER, owners INTEGER, first_owner INTEGER, logical INTEGER,
  filled INTEGER, hashed INTEGER, held INTEGER, kv_group INTEGER, born_step INTEGER, last_use_step INTEGER, hash INTEGER,
  PRIMARY KEY(lane, step, block)) WITHOUT ROWID;
CREATE TABLE checks(lane INTEGER, name TEXT, rows INTEGER, value INTEGER, PRIMARY KEY(lane, name)) WITHOUT ROWID;
)sql";

// A step stands outside, its events inside: SQLite reads the range by the key.
const char* const create_views = R"sql(
CREATE VIEW events AS
  SELECT s.lane AS lane, l.name AS lane_name, s.step AS step, e.id & 1099511627775 AS event, k.name AS kind, c.name AS cause,
    r.id AS request, e.sequence AS sequence, e.block AS block, e.other AS other, e.tokens AS tokens, e.kv_group AS kv_group,
    s.start_ns + e.offset_ns AS time_ns, e.duration_ns AS duration_ns, e.flags AS flags, t.text AS detail
  FROM steps s CROSS JOIN event_log e ON e.id BETWEEN (s.lane << 40) + s.first_event AND (s.lane << 40) + s.end_event - 1
    JOIN lanes l ON l.lane = s.lane JOIN event_kinds k ON k.kind = e.kind JOIN causes c ON c.cause = e.cause
    LEFT JOIN sequences q ON q.lane = s.lane AND q.sequence = e.sequence LEFT JOIN requests r ON r.request = q.request
    LEFT JOIN strings t ON t.lane = s.lane AND t.string = e.detail;
CREATE VIEW tokens AS
  SELECT s.lane AS lane, l.name AS lane_name, s.step AS step, r.id AS request, k.sequence AS sequence, k.position AS position,
    k.token AS token, v.shown AS text, CASE k.source WHEN 0 THEN 'prompt' WHEN 1 THEN 'sampled' ELSE 'forced' END AS source,
    k.rank AS rank, k.probability AS probability
  FROM steps s CROSS JOIN token_log k ON k.id BETWEEN (s.lane << 40) + s.first_token AND (s.lane << 40) + s.end_token - 1
    JOIN lanes l ON l.lane = s.lane LEFT JOIN sequences q ON q.lane = s.lane AND q.sequence = k.sequence
    LEFT JOIN requests r ON r.request = q.request
    LEFT JOIN vocabulary v ON v.vocabulary = l.vocabulary AND v.token = k.token;
CREATE VIEW stages AS
  SELECT g.lane AS lane, l.name AS lane_name, g.step AS step, k.name AS stage, t.layer AS layer, t.calls AS calls,
    t.duration_ns AS duration_ns, t.bytes AS bytes, t.flops AS flops
  FROM stage_ranges g CROSS JOIN stage_log t ON t.id BETWEEN (g.lane << 40) + g.first_stage AND (g.lane << 40) + g.end_stage - 1
    JOIN lanes l ON l.lane = g.lane JOIN stage_kinds k ON k.kind = t.kind;
)sql";

std::string key_frame_steps(std::int64_t version, std::uint32_t lane) {
    if (version == 1) return "SELECT step FROM key_frames WHERE +lane = " + std::to_string(lane) + " ORDER BY lane, step";
    return "SELECT step FROM key_frames WHERE id >= " + std::to_string(key_frame_id(lane, -1)) +
           " AND id < " + std::to_string(key_frame_id(lane + 1, -1)) + " ORDER BY id";
}

std::string key_frame_data(std::int64_t version, std::uint32_t lane) {
    if (version == 1) return "SELECT data FROM key_frames WHERE lane = " + std::to_string(lane) + " AND step = ?";
    return "SELECT data FROM key_frames WHERE id = " + std::to_string(key_frame_id(lane, 0)) + " + ?";
}

}  // namespace kvloupe::kvt
