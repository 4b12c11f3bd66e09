// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/ledger.h"

#include "engine/record/grouped.h"
#include "engine/record/kv_layout.h"
#include "engine/record/ledger_held.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace kvloupe {

namespace {

std::int64_t wide(std::uint64_t bytes) { return static_cast<std::int64_t>(bytes); }

std::string bytes_in_words(std::int64_t bytes) {
    return (bytes < 0 ? "-" : "") + grouped(static_cast<std::uint64_t>(bytes < 0 ? -bytes : bytes)) + (bytes == 1 ? " byte" : " bytes");
}

std::string count_of(std::uint64_t count, const std::string& one) { return grouped(count) + " " + one + (count == 1 ? "" : "s"); }

// Known parts of a difference.
struct Parts {
    std::int64_t sum = 0;
    std::string text;

    void add(std::int64_t bytes, const std::string& why) {
        if (bytes == 0) return;
        sum += bytes;
        text += (text.empty() ? "" : "; ") + bytes_in_words(bytes) + ": " + why;
    }
    void add(std::uint64_t bytes, const std::string& why) { add(wide(bytes), why); }
};

// What a part of a model's weights takes: elements times the bytes of its packs.
std::string stored_text(const StoredParameters& stored) {
    const std::uint32_t elements = elements_per_pack(stored.dtype);
    return grouped(stored.count) + " in " + std::string(name_of(stored.dtype)) + " × " + grouped(bytes_per_pack(stored.dtype)) +
           (elements > 1 ? "/" + grouped(elements) : std::string()) + " B";
}

class Ledger {
public:
    Ledger(const LaneRecord& lane, std::size_t step)
        : m_lane(lane), m_info(lane.info()), m_step(lane.step(step)), m_index(step),
          m_layout(KvLayout::of(m_info.layer_infos, m_info.block_size)) {}

    std::vector<LedgerEntry> entries(std::span<const DeviceMemory> devices) {
        if (m_info.layer_infos.empty()) return {};  // an accounting lane has no memory
        weights();
        if (m_info.kv_cache) {
            pool();
            block();
            in_use();
            token_slots();
            by_formula();
            scales();
            residual_pages();
            host_blocks();
        }
        activations();
        for (const DeviceMemory& device : devices)
            if (device.id == m_info.device_id) whole_device(device);
        return std::move(m_entries);
    }

private:
    LedgerEntry& entry(const std::string& what, std::uint64_t predicted, const std::string& how) {
        LedgerEntry& added = m_entries.emplace_back();
        added.what = what;
        added.predicted = predicted;
        added.predicted_how = how;
        return added;
    }

    static void measure(LedgerEntry& entry, std::uint64_t bytes, const std::string& how, const Parts& parts) {
        entry.measured = bytes;
        entry.measured_how = how;
        entry.residual = wide(bytes) - wide(*entry.predicted);
        entry.unexplained = entry.residual - parts.sum;
        entry.residual_why = parts.text;
        if (entry.unexplained == 0) return;
        entry.residual_why += (parts.text.empty() ? "" : "; ") + bytes_in_words(entry.unexplained) + " that nothing explains";
    }

    // The whole pool by the allocator's counter; none in a recording that has no such number.
    std::optional<std::uint64_t> counted_pool() const {
        if (m_step.allocated_kv_bytes > 0) return m_step.allocated_kv_bytes;
        if (m_info.memory.kv_cache > 0) return m_info.memory.kv_cache;
        return std::nullopt;
    }

    void weights() {
        std::uint64_t predicted = 0;
        std::string how;
        for (const StoredParameters& stored : m_info.stored_parameters) {
            predicted += row_bytes(stored.dtype, stored.count);
            how += (how.empty() ? "" : " + ") + stored_text(stored);
        }
        if (predicted == 0) return;
        LedgerEntry& added = entry("weights", predicted, how);
        const std::uint64_t mapped = m_info.memory.mapped_weights, copied = m_info.memory.weights;
        if (mapped + copied == 0) return;
        std::string source;
        if (copied > 0) source = grouped(copied) + " B by the allocator's counter";
        if (mapped > 0) source += (source.empty() ? "" : ", ") + grouped(mapped) + " B used where they lie in the mapped file";
        Parts parts;
        parts.add(m_info.derived_weight_bytes, "projections of the latent that are kept cut in a second way");
        measure(added, mapped + copied, source, parts);
    }

    // Buffers begin and end at whole units: at most 512 bytes a part, of K and V, blocks and pages, and the scales. More than
    // that is no filling.
    std::uint64_t rounding() const {
        const std::uint64_t most = 512 * (4 * std::uint64_t{m_layout.places} + 1);
        return m_info.memory.kv_rounding <= most ? m_info.memory.kv_rounding : 0;
    }
    static constexpr const char* rounding_why = "buffers are filled up to whole units";

    void pool() {
        std::string how = count_of(m_info.blocks, "block") + " × " + grouped(m_layout.block_bytes) + " B";
        if (m_info.residual_pages > 0)
            how += " + " + count_of(m_info.residual_pages, "residual page") + " × " + grouped(m_layout.page_bytes) + " B";
        if (m_layout.fixed_bytes > 0) how += " + " + grouped(m_layout.fixed_bytes) + " B of scales beside the blocks";
        how += "; block 0 is the null block";
        LedgerEntry& added = entry("pool", m_layout.pool_bytes(m_info.blocks, m_info.residual_pages), how);
        const auto measured = counted_pool();
        if (!measured) return;
        Parts parts;
        parts.add(rounding(), rounding_why);
        measure(added, *measured, "the allocator's counter for KV caches, after less before", parts);
    }

    // What a block is charged of that belongs to no block: scales beside the blocks, and filling.
    std::int64_t spread() const {
        return m_info.blocks == 0 ? 0 : wide((m_layout.fixed_bytes + rounding()) / m_info.blocks);
    }
    static constexpr const char* spread_why = "scales beside the blocks and the filling of buffers, spread over all blocks";

    void block() {
        LedgerEntry& added = entry("block", m_layout.block_bytes, places_text());
        Parts parts;
        parts.add(spread(), spread_why);
        measure(added, m_info.block_bytes,
                "bytes of the pool's buffers, residual pages aside ÷ " + count_of(m_info.blocks, "block"), parts);
    }

    // "16 slots × (4 layers × 512 B + 2 layers × 256 B)".
    std::string places_text() const {
        std::map<std::uint64_t, std::uint64_t> layers;  // by bytes per token, those of the first group that fills every place
        std::uint32_t fullest = 0;
        for (std::uint32_t group = 0; group < m_layout.group_block_bytes.size(); ++group)
            if (m_layout.group_block_bytes[group] > m_layout.group_block_bytes[fullest]) fullest = group;
        for (const LayerInfo& layer : m_info.layer_infos)
            if (layer.group == fullest) ++layers[static_cast<std::uint64_t>(std::llround(layer.bytes_per_token()))];
        std::string text;
        for (const auto& [bytes, count] : layers)
            text += (text.empty() ? "" : " + ") + count_of(count, "layer") + " × " + grouped(bytes) + " B";
        const std::size_t groups = m_layout.group_block_bytes.size();
        text = count_of(m_info.block_size, "slot") + " × " + (layers.size() > 1 ? "(" + text + ")" : text);
        return groups > 1 ? text + "; " + grouped(groups) + " cache groups share " + count_of(m_layout.places, "place") : text;
    }

    std::uint64_t pages_in_use() const { return m_step.residual_pages * m_layout.page_bytes; }

    void in_use() {
        std::string how = count_of(m_step.used_blocks, "block") + " in use × " + grouped(m_layout.block_bytes) + " B";
        if (m_info.residual_pages > 0)
            how += " + " + count_of(m_step.residual_pages, "residual page") + " × " + grouped(m_layout.page_bytes) + " B";
        LedgerEntry& added = entry("KV in use", m_step.used_blocks * m_layout.block_bytes + pages_in_use(), how);
        Parts parts;
        parts.add(wide(m_step.used_blocks) * spread(), spread_why);
        measure(added, m_step.kv_bytes, "blocks in use × the measured bytes of a block", parts);
    }

    void token_slots() {
        const std::uint64_t slot = m_layout.slot_bytes();
        LedgerEntry& added = entry("token slots", m_step.slots.token * slot,
                                   count_of(m_step.slots.token, "slot") + " with a token × " + grouped(slot) + " B");
        Parts parts;
        parts.add(m_step.slots.reserved * slot, count_of(m_step.slots.reserved, "slot") + " that will be written later");
        parts.add(m_step.slots.internal * slot, count_of(m_step.slots.internal, "slot") + " of last blocks that are never written");
        parts.add(m_step.slots.external * slot, count_of(m_step.slots.external, "slot") + " in holes that are too small");
        parts.add(pages_in_use(), count_of(m_step.residual_pages, "residual page") + " beside the blocks");
        parts.add(wide(m_step.used_blocks) * spread(), spread_why);
        measure(added, m_step.kv_bytes, "blocks in use × the measured bytes of a block", parts);
    }

    // Sum over sequences and layers of the tokens that are still seen (FORMATS 3.1: G n b + L min(n, W) b).
    void by_formula() {
        const HeldSlots held = HeldSlots::of(m_lane, m_index);
        using Kind = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, double>;  // window, sinks, chunk, bytes per token
        std::map<Kind, std::pair<std::uint64_t, std::uint64_t>> kinds;                 // layers, tokens that are seen
        double predicted = 0;
        for (const LayerInfo& layer : m_info.layer_infos) {
            std::uint64_t tokens = 0;
            for (const HeldSlots::Sequence& sequence : held.sequences) tokens += layer.kept_tokens(sequence.tokens);
            predicted += static_cast<double>(tokens) * layer.bytes_per_token();
            auto& kind = kinds[{layer.window, layer.sinks, layer.chunk, layer.bytes_per_token()}];
            ++kind.first;
            kind.second = tokens;
        }
        std::string how;
        for (const auto& [kind, count] : kinds)
            how += (how.empty() ? "" : " + ") + count_of(count.first, "layer") + " × " + count_of(count.second, "token") + " × " +
                   grouped(static_cast<std::uint64_t>(std::llround(std::get<3>(kind)))) + " B";
        LedgerEntry& added = entry("KV by formula", static_cast<std::uint64_t>(std::llround(predicted)), how);
        std::uint64_t behind = 0, unwritten = 0, shared = 0, empty = 0;
        for (std::size_t group = 0; group < held.groups.size() && group < m_layout.group_block_bytes.size(); ++group) {
            const HeldSlots::Group& one = held.groups[group];
            const std::uint64_t slot = m_layout.group_block_bytes[group] / m_info.block_size;
            behind += one.behind * slot;
            unwritten += one.unwritten * slot;
            shared += one.shared * slot;
            empty += one.blocks * (m_layout.block_bytes - std::min(m_layout.block_bytes, m_layout.group_block_bytes[group]));
        }
        Parts parts;
        parts.add(unwritten, "slots that hold no token yet");
        parts.add(behind, "tokens behind a window, in blocks that still hold seen ones");
        parts.add(empty, "places that a cache group leaves empty, or fills with narrower layers");
        parts.add(-wide(shared), "slots that several sequences share");
        parts.add(pages_in_use(), count_of(m_step.residual_pages, "residual page") + " beside the blocks");
        parts.add(wide(m_step.used_blocks) * spread(), spread_why);
        measure(added, m_step.kv_bytes, "blocks in use × the measured bytes of a block", parts);
    }

    void scales() {
        const std::uint64_t beside = m_info.blocks * m_layout.scale_bytes;
        if (beside + m_layout.fixed_bytes == 0) return;
        std::string how = count_of(m_info.blocks, "block") + " × " + grouped(m_layout.scale_bytes) + " B of scales";
        if (m_layout.fixed_bytes > 0) how += " + " + grouped(m_layout.fixed_bytes) + " B per tensor or head";
        LedgerEntry& added = entry("scales", beside + m_layout.fixed_bytes, how);
        const auto measured = counted_pool();
        const std::uint64_t rest = m_layout.pool_bytes(m_info.blocks, m_info.residual_pages) - beside - m_layout.fixed_bytes;
        if (!measured || *measured < rest) return;
        Parts parts;
        parts.add(rounding(), rounding_why);
        measure(added, *measured - rest,
                "the pool by the allocator's counter less " + grouped(rest) + " B of codes and residual pages", parts);
    }

    void residual_pages() {
        if (m_info.residual_pages == 0) return;
        const std::uint64_t blocks = m_layout.pool_bytes(m_info.blocks, 0);
        LedgerEntry& added = entry("residual pages", m_info.residual_pages * m_layout.page_bytes,
                                   count_of(m_info.residual_pages, "page") + " of " + count_of(m_info.block_size, "token") + " in f16 × " +
                                       grouped(m_layout.page_bytes) + " B");
        const auto measured = counted_pool();
        if (!measured || *measured < blocks) return;
        Parts parts;
        parts.add(rounding(), rounding_why);
        measure(added, *measured - blocks,
                "the pool by the allocator's counter less " + grouped(blocks) + " B of blocks and scales", parts);
    }

    void host_blocks() {
        const std::uint64_t blocks = m_info.policy.host_blocks;
        if (blocks == 0) return;
        LedgerEntry& added = entry("host blocks", blocks * m_layout.block_bytes,
                                   count_of(blocks, "host block") + " × " + grouped(m_layout.block_bytes) + " B");
        Parts parts;
        parts.add(m_info.memory.host_rounding, "rows are filled up to whole units");
        measure(added, m_info.memory.host_blocks, "the allocator's counter for host blocks, after less before", parts);
    }

    void activations() {
        if (m_step.predicted_activation_bytes == 0) return;
        LedgerEntry& added = entry("activations", m_step.predicted_activation_bytes, "the buffers of a forward pass, from their shapes");
        measure(added, m_step.activation_bytes, "the allocator's counter for activations, after less before", {});
    }

    void whole_device(const DeviceMemory& device) {
        LedgerEntry& added = entry("device memory", device.accounted_bytes(),
                                   grouped(device.weight_bytes) + " B of weights + " + grouped(device.kv_cache_bytes) +
                                       " B of KV caches + " + grouped(device.activation_bytes) + " B of activations, of all lanes");
        added.measured = device.used_bytes();
        added.measured_how = "total less free memory, as the driver says it";
        added.residual = device.residual_bytes();
        if (added.residual != 0)
            added.residual_why = bytes_in_words(added.residual) + ": the driver's own context and libraries, its pages, and other programs";
    }

    const LaneRecord& m_lane;
    const LaneInfo& m_info;
    const StepRecord& m_step;
    std::size_t m_index;
    KvLayout m_layout;
    std::vector<LedgerEntry> m_entries;
};

}  // namespace

std::vector<LedgerEntry> ledger(const LaneRecord& lane, std::size_t step, std::span<const DeviceMemory> devices) {
    return Ledger(lane, step).entries(devices);
}

}  // namespace kvloupe
