// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/kvt_rows.h"

#include "engine/record/lane_info_json.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace kvloupe {

namespace {

constexpr std::uint32_t none = 0xFFFFFFFFu;

// Logical blocks of a sequence that a file can name without taking all memory: each event may make a table that long.
std::uint64_t max_logical(const KvtLimits& limits) {
    return std::min<std::uint64_t>(std::max<std::uint64_t>(std::uint64_t{1} << 17, limits.events * 256), std::uint64_t{1} << 22);
}

// Takes columns one after the other; holds() is false once a number did not fit.
class Columns {
public:
    explicit Columns(const SqlStatement& row) : m_row(row) {}

    // A number below `end`.
    std::uint64_t number(std::uint64_t end = std::numeric_limits<std::int64_t>::max()) {
        const std::int64_t value = m_row.integer(m_column++);
        if (value < 0 || static_cast<std::uint64_t>(value) >= end) m_holds = false;
        return m_holds ? static_cast<std::uint64_t>(value) : 0;
    }
    std::uint32_t number32(std::uint64_t end = std::uint64_t{1} << 32) { return static_cast<std::uint32_t>(number(end)); }
    // NULL: none.
    std::uint32_t index(std::uint64_t end) {
        if (m_row.integer(m_column) != 0 || !m_row.is_null(m_column)) return number32(end);  // NULL reads as 0
        ++m_column;
        return none;
    }
    double real() {
        if (!m_row.is_null(m_column)) return m_row.real(m_column++);
        ++m_column;
        return std::numeric_limits<double>::quiet_NaN();
    }
    LogRange range(std::uint64_t end) {
        LogRange range;
        range.begin = number(end + 1);
        range.end = number(end + 1);
        if (range.begin > range.end) m_holds = false;
        return range;
    }
    std::string_view text() { return m_row.text(m_column++); }
    bool holds() const { return m_holds; }

private:
    const SqlStatement& m_row;
    int m_column = 1;  // behind the key
    bool m_holds = true;
};

}  // namespace

bool read_row(const SqlStatement& row, const KvtLimits& limits, Event& out) {
    Columns in(row);
    out.kind = static_cast<EventKind>(in.number(event_kind_count));
    out.cause = static_cast<Cause>(in.number(cause_count));
    out.flags = static_cast<std::uint8_t>(in.number(256));
    out.group = static_cast<std::uint8_t>(in.number(256));
    out.sequence = SequenceId(in.index(limits.sequences));
    out.block = BlockId(in.index(limits.blocks));
    std::uint64_t end = std::uint64_t{1} << 32;
    switch (out.kind) {
    case EventKind::allocate:
    case EventKind::prefix_hit:
    case EventKind::null_block: end = max_logical(limits); break;
    case EventKind::fork: end = limits.sequences; break;
    case EventKind::copy_on_write: end = limits.blocks; break;
    default: break;
    }
    out.other = in.index(end);
    out.tokens = in.number32();
    out.offset_ns = in.number32();
    out.duration_ns = in.number32();
    out.detail = StringId(in.index(limits.strings));
    return in.holds();
}

bool read_row(const SqlStatement& row, const KvtLimits& limits, TokenRecord& out) {
    Columns in(row);
    out.sequence = SequenceId(in.number32(limits.sequences));
    out.position = in.number32();
    out.token = static_cast<TokenId>(in.number(limits.vocabulary > 0 ? limits.vocabulary : std::uint64_t{1} << 31));
    out.source = static_cast<TokenRecord::Source>(in.number(TokenRecord::forced + 1));
    out.rank = in.number32();
    out.probability = static_cast<float>(in.real());
    out.alternatives_begin = in.number(limits.alternatives + 1);
    out.alternative_count = static_cast<std::uint8_t>(in.number(11));
    return in.holds() && out.alternatives_begin + out.alternative_count <= limits.alternatives;
}

bool read_row(const SqlStatement& row, const KvtLimits& limits, Alternative& out) {
    Columns in(row);
    out.token = static_cast<TokenId>(in.number(limits.vocabulary > 0 ? limits.vocabulary : std::uint64_t{1} << 31));
    out.probability = static_cast<float>(in.real());
    out.logit = static_cast<float>(in.real());
    return in.holds();
}

bool read_row(const SqlStatement& row, const KvtLimits& limits, StageRecord& out) {
    Columns in(row);
    out.kind = static_cast<StageKind>(in.number(stage_kind_count));
    const std::uint32_t layer = in.index(limits.layers);
    out.layer = layer == none ? StageRecord::no_layer : static_cast<std::uint16_t>(layer);
    out.calls = in.number32();
    out.duration_ns = in.number();
    out.bytes = in.number();
    out.flops = in.number();
    return in.holds();
}

bool read_row(const SqlStatement& row, const KvtLimits& limits, LaneRecord::StageRange& out) {
    Columns in(row);
    out.step = in.number(limits.steps);
    out.range = in.range(limits.stages);
    return in.holds();
}

bool read_row(const SqlStatement& row, const KvtLimits& limits, AttentionRow& out) {
    Columns in(row);
    out.sequence = SequenceId(in.number32(limits.sequences));
    out.layer = static_cast<std::uint16_t>(in.number(std::min<std::uint64_t>(limits.layers, 65535)));
    out.head = static_cast<std::uint16_t>(in.number(std::min<std::uint64_t>(limits.query_heads, 65535)));
    out.position = in.number32();
    out.key_count = in.number32();
    out.weights_begin = in.number(limits.weights + 1);
    return in.holds() && out.weights_begin + out.key_count <= limits.weights;
}

bool read_row(const SqlStatement& row, const KvtLimits& limits, StepRecord& out) {
    Columns in(row);
    out.step = StepId(static_cast<std::uint32_t>(row.integer(0)));
    out.start_ns = in.number();
    out.duration_ns = in.number();
    for (std::uint32_t* field : {&out.running, &out.waiting, &out.prefill_tokens, &out.decode_tokens, &out.context_tokens,
                                 &out.used_blocks, &out.cached_blocks, &out.free_blocks})
        *field = in.number32();
    for (std::uint64_t* field : {&out.kv_bytes, &out.slots.token, &out.slots.cached, &out.slots.reserved, &out.slots.internal,
                                 &out.slots.external, &out.slots.free})
        *field = in.number();
    out.residual_pages = in.number32();
    out.allocated_kv_bytes = in.number();
    out.activation_bytes = in.number();
    out.predicted_activation_bytes = in.number();
    out.host_blocks = in.number32();
    for (std::uint64_t* field : {&out.hit_tokens, &out.queried_tokens, &out.preempted_hit_tokens, &out.preempted_queried_tokens,
                                 &out.computed_tokens, &out.overflowed_values})
        *field = in.number();
    out.logit_difference = static_cast<float>(in.real());
    out.events = in.range(limits.events);
    out.tokens = in.range(limits.tokens);
    out.attention = in.range(limits.attention);
    return in.holds();
}

bool read_row(const SqlStatement& row, const KvtLimits& limits, SequenceInfo& out) {
    Columns in(row);
    out.request = RequestId(in.number32(limits.requests));
    out.parent = SequenceId(in.index(static_cast<std::uint64_t>(row.integer(0))));  // older than itself
    out.forked_at = in.number32();
    out.prompt_tokens = in.number32();
    out.name = std::string(in.text());
    return in.holds();
}

bool read_row(const SqlStatement& row, const KvtLimits&, std::string& out) {
    out = std::string(row.text(1));
    return true;
}

bool read_row(const SqlStatement& row, const KvtLimits&, RequestInfo& out) {
    auto info = request_info_of(row.text(1));
    if (!info) return false;
    out = std::move(*info);
    const std::string_view prompt = row.bytes(2);  // little-endian, as this machine
    out.prompt.resize(prompt.size() / sizeof(TokenId));
    if (!prompt.empty()) std::memcpy(out.prompt.data(), prompt.data(), out.prompt.size() * sizeof(TokenId));
    return true;
}

}  // namespace kvloupe
