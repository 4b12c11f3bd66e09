// SPDX-License-Identifier: GPL-3.0-or-later
//
// The newest tokens of a KIVI cache: every block that a step writes has an f16 page, until the sequence's residual is full and
// its blocks are quantised. A page belongs to a block and not to a sequence, so that what is shared is shared as it is.
// A block that nobody owns and that can still be hit is quantised at once: pages are for sequences that live. So a hit finds
// quantised blocks where an undisturbed run would still have had f16 ones.
#include "engine/cache/kivi_residual.h"
#include "engine/serve/lane.h"

namespace kvloupe {

namespace {

bool keeps_residual(const KvLayerShape& layer) { return layer.keys.keeps_residual() || layer.values.keeps_residual(); }

}  // namespace

// Before the event is recorded: what is copied takes a page of its own, what is given out anew holds nothing.
void Lane::move_pages(const Event& event) {
    if (event.kind == EventKind::allocate) m_pages.set_sealed(event.block, false);
    if (event.kind != EventKind::copy_on_write) return;
    const BlockId copy(event.other);
    m_pages.set_sealed(copy, m_pages.sealed(event.block));
    const std::uint32_t page = m_pages.page_of(event.block);
    if (page == 0 || event.tokens == 0 || !m_pages.take(copy)) return;
    m_device->backend->copy_page(*m_cache_memory, page - 1, m_pages.page_of(copy) - 1, event.tokens);
}

// After it: a block that lost its last owner gives its page back.
void Lane::settle_pages(const Event& event) {
    if (event.kind != EventKind::free && event.kind != EventKind::copy_on_write && event.kind != EventKind::evict) return;
    if (m_pages.page_of(event.block) == 0) return;
    const BlockState& block = m_writer->state().blocks()[event.block.value];
    if (block.owners > 0) return;
    if (block.cached()) seal_block(event.block);
    else m_pages.give_back(event.block);
}

void Lane::seal_block(BlockId block) {
    const std::uint32_t page = m_pages.page_of(block);
    if (page == 0) return;
    m_device->backend->seal_block(*m_cache_memory, block.value, page - 1);
    m_pages.give_back(block);
    m_pages.set_sealed(block, true);
}

// A page for every block that the step writes.
Result<void> Lane::take_pages(const ScheduledSequence& scheduled) {
    const std::uint32_t size = m_shape.block_size;
    for (std::uint32_t layer = 0; layer < m_shape.layers.size(); ++layer) {
        if (!keeps_residual(m_shape.layers[layer])) continue;
        const std::span<const BlockId> table = m_cache->table(scheduled.request->sequence, m_shape.groups[layer]);
        for (std::uint32_t block = scheduled.first / size; block * std::uint64_t{size} < scheduled.first + std::uint64_t{scheduled.count}; ++block) {
            const BlockId id = table[block];
            if (id == null_block_id || m_pages.page_of(id) > 0) continue;
            if (m_pages.sealed(id))
                return Error{"Block " + std::to_string(id.value) + " is quantised already and cannot be written", "This is a defect of the program"};
            if (!m_pages.take(id))
                return Error{"All pages for the newest tokens are used up", "Give the lane fewer sequences (max_num_seqs) or a smaller residual"};
        }
    }
    return {};
}

// What the residual of a sequence that has grown to `computed` tokens no longer holds.
void Lane::seal(const Request& request, std::uint32_t before, std::uint32_t computed) {
    const KiviResidual rule{m_shape.residual, m_shape.block_size, ResidualRule::kivi};
    const std::uint32_t first = rule.sealed_blocks(before, request.prompt_tokens);
    const std::uint32_t end = rule.sealed_blocks(computed, request.prompt_tokens);
    for (std::uint32_t group = 0; group < m_shape.cache_groups.size(); ++group) {
        const std::span<const BlockId> table = m_cache->table(request.sequence, group);
        for (std::uint32_t block = first; block < end && block < table.size(); ++block)
            if (table[block] != null_block_id) seal_block(table[block]);
    }
}

// A fork that would write into a block whose tokens are quantised already.
bool Lane::forks_inside_sealed(const Request& parent, std::uint32_t position) const {
    if (m_pages.empty() || position % m_shape.block_size == 0) return false;
    for (std::uint32_t group = 0; group < m_shape.cache_groups.size(); ++group) {
        const std::span<const BlockId> table = m_cache->table(parent.sequence, group);
        const std::uint32_t block = position / m_shape.block_size;
        if (block < table.size() && m_pages.sealed(table[block])) return true;
    }
    return false;
}

// page + 1, as the batch's tables and slots, where a layer keeps a residual.
void Lane::add_pages(Batch& batch) const {
    if (m_pages.empty()) return;
    for (const std::uint32_t block : batch.block_tables) batch.table_pages.push_back(m_pages.page_of(BlockId(block)));
    for (const std::uint64_t slot : batch.slots)
        batch.slot_pages.push_back(m_pages.page_of(BlockId(static_cast<std::uint32_t>(slot / m_shape.block_size))));
}

}  // namespace kvloupe
