// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/attention_ledger.h"

#include "engine/record/attention_traffic.h"
#include "engine/record/grouped.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace kvloupe {

namespace {

constexpr std::uint64_t float_bytes = 4;

// Rows of one sequence that the step computed: positions first … first + queries - 1.
struct ComputedRows {
    std::uint64_t first = 0;
    std::uint64_t queries = 0;
    std::uint64_t keys() const { return first + queries; }
};

class AttentionCount {
public:
    AttentionCount(const LaneRecord& lane, std::size_t step) : m_info(lane.info()) {
        std::map<std::uint32_t, ComputedRows> sequences;
        const LogRange range = lane.step(step).events;
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
            const Event& event = lane.events()[i];
            if ((event.kind != EventKind::prefill && event.kind != EventKind::decode) || event.tokens == 0) continue;
            const auto [found, fresh] = sequences.try_emplace(event.sequence.value, ComputedRows{event.other, 0});
            found->second.first = std::min<std::uint64_t>(found->second.first, event.other);
            found->second.queries += event.tokens;
        }
        for (const auto& [sequence, rows] : sequences) m_rows.push_back(rows);
        const LogRange stages = lane.stages_of(step);
        for (std::uint64_t i = stages.begin; i < stages.end; ++i)
            if (lane.stages()[i].kind == StageKind::attention) m_counted += lane.stages()[i].bytes;
    }

    std::vector<LedgerEntry> entries() const {
        if (m_rows.empty() || m_info.layer_infos.empty()) return {};
        Sums sums;
        for (const LayerInfo& layer : m_info.layer_infos)
            for (const ComputedRows& rows : m_rows) add(sums, layer, rows);
        for (const LayerInfo& layer : m_info.layer_infos) sums.stored += stored(layer);
        return {kept_scores(sums), tiled(sums)};
    }

private:
    // Bytes over all layers.
    struct Sums {
        std::uint64_t standard = 0, flash = 0, least = 0;  // f32, per query head
        std::uint64_t keys_values = 0;                     // of them, K and V
        std::uint64_t stored = 0;                          // K and V as they are stored and seen
    };

    bool expanded() const { return m_info.latent_form == "expanded"; }

    AttentionTraffic shape(const LayerInfo& layer, const ComputedRows& rows) const {
        AttentionTraffic traffic{rows.keys(), m_info.head_dim, false, rows.queries, m_info.head_dim};
        if (m_info.latent_rank == 0) return traffic;
        traffic.head_dim = expanded() ? m_info.latent_key_dim : std::uint64_t{layer.key_dim} + layer.value_dim;
        traffic.value_dim = expanded() ? m_info.latent_value_dim : layer.key_dim;
        return traffic;
    }

    void add(Sums& sums, const LayerInfo& layer, const ComputedRows& rows) const {
        const AttentionTraffic traffic = shape(layer, rows);
        const std::uint64_t bytes = layer.query_heads * float_bytes;
        const std::uint64_t width = traffic.head_dim + traffic.value_dim;
        const std::uint64_t columns =
            flash_columns(flash_memory_bytes / float_bytes, std::max<std::uint64_t>(1, (width + 1) / 2));
        sums.standard += bytes * standard_elements(traffic);
        sums.flash += bytes * flash_elements(traffic, std::max<std::uint64_t>(1, columns));
        sums.least += bytes * least_elements(traffic);
        sums.keys_values += bytes * traffic.tokens * width;
    }

    // Keys that the rows see, each once: what lies before the first row's window and behind the sinks is not read.
    static std::uint64_t seen(const LayerInfo& layer, const ComputedRows& rows) {
        if (layer.chunk > 0) return rows.keys() - rows.first / layer.chunk * layer.chunk;
        if (layer.window == 0 || rows.first < layer.window) return rows.keys();
        const std::uint64_t begin = rows.first + 1 - layer.window;
        return rows.keys() - begin + std::min<std::uint64_t>(layer.sinks, begin);
    }

    // K and V of a layer as they are read: what the cache holds, or f32 of the step without one; a latent once for both, or
    // what it was expanded to.
    std::uint64_t stored(const LayerInfo& layer) const {
        std::uint64_t keys = 0;
        for (const ComputedRows& rows : m_rows) keys += seen(layer, rows);
        if (expanded()) {
            const std::uint64_t heads = m_info.latent_rotary_dim > 0 ? layer.query_heads : m_info.kv_heads;
            return keys * heads * (m_info.latent_key_dim + m_info.latent_value_dim) * float_bytes;
        }
        if (!m_info.kv_cache) return keys * layer.kv_heads * (layer.key_dim + layer.value_dim) * float_bytes;
        return static_cast<std::uint64_t>(std::llround(static_cast<double>(keys) * layer.bytes_per_token()));
    }

    struct Part {
        std::int64_t bytes;
        const char* why;
    };

    void count(LedgerEntry& entry, const char* form, std::initializer_list<Part> parts) const {
        if (m_info.attention_form != form || m_counted == 0) return;
        entry.measured = m_counted;
        entry.origin = Origin::derived;
        entry.measured_how = "bytes of the stage attention of all layers, counted from its shapes and the cache's layout";
        entry.residual = static_cast<std::int64_t>(m_counted) - static_cast<std::int64_t>(*entry.predicted);
        entry.unexplained = entry.residual;
        const auto say = [&entry](std::int64_t bytes, const std::string& why) {
            if (bytes == 0) return;
            entry.residual_why += (entry.residual_why.empty() ? "" : "; ") + std::string(bytes < 0 ? "-" : "") +
                                  grouped(static_cast<std::uint64_t>(std::llabs(bytes))) +
                                  (std::llabs(bytes) == 1 ? " byte" : " bytes") + why;
        };
        for (const Part& part : parts) {
            entry.unexplained -= part.bytes;
            say(part.bytes, std::string(": ") + part.why);
        }
        say(entry.unexplained, " that nothing explains");
    }

    std::string factors() const {
        std::uint64_t queries = 0, keys = 0;
        for (const ComputedRows& rows : m_rows) {
            queries += rows.queries;
            keys += rows.keys();
        }
        const auto counted = [](std::uint64_t n, const char* one, const char* many) {
            return grouped(n) + " " + (n == 1 ? one : many);
        };
        return "for " + counted(queries, "query", "queries") + " over " + counted(keys, "key", "keys") +
               (m_rows.size() > 1 ? " of " + grouped(m_rows.size()) + " sequences" : "") + ", each of " +
               counted(m_info.layer_infos.front().query_heads, "head", "heads") + " in " +
               counted(m_info.layer_infos.size(), "layer", "layers") + ", in f32";
    }

    Part as_stored(const Sums& sums) const {
        return {static_cast<std::int64_t>(sums.stored) - static_cast<std::int64_t>(sums.keys_values),
                expanded() ? "K and V as the latents were expanded, and no more than is seen"
                           : "K and V as they are stored and seen, once for all query heads that share them"};
    }

    LedgerEntry kept_scores(const Sums& sums) const {
        LedgerEntry entry;
        entry.what = "attention, scores kept";
        entry.predicted = sums.standard;
        entry.predicted_how = "4 R N + (R + N)(d + dv), FlashAttention's count of standard attention, " + factors();
        count(entry, "materialised", {as_stored(sums)});
        return entry;
    }

    LedgerEntry tiled(const Sums& sums) const {
        LedgerEntry entry;
        entry.what = "attention, tiled";
        entry.predicted = sums.flash;
        entry.predicted_how = "N(d + dv) + Tc(R d + 2 R dv + 4 R), FlashAttention's Algorithm 1 with " +
                              grouped(flash_memory_bytes / 1024) + " KiB on the chip, " + factors();
        count(entry, "tiled",
              {as_stored(sums),
               {static_cast<std::int64_t>(sums.least) - static_cast<std::int64_t>(sums.flash),
                "outputs and their running sums, which stay in the processor instead of being read and written in every "
                "pass"}});
        return entry;
    }

    const LaneInfo& m_info;
    std::vector<ComputedRows> m_rows;
    std::uint64_t m_counted = 0;  // 0: no stages of the step
};

}  // namespace

std::vector<LedgerEntry> attention_ledger(const LaneRecord& lane, std::size_t step) {
    return AttentionCount(lane, step).entries();
}

}  // namespace kvloupe
