// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/lane.h"

#include <algorithm>

namespace kvloupe {

// Blocks of the pool whose content somebody may read.
std::vector<std::uint32_t> Lane::filled_blocks() const {
    std::vector<std::uint32_t> filled;
    if (!m_device || !m_cache) return filled;
    for (std::uint32_t block = 1; block < m_setup.blocks; ++block)
        if (m_cache->owners(BlockId(block)) > 0 || m_cache->hash(BlockId(block))) filled.push_back(block);
    return filled;
}

std::uint64_t Lane::frame_bytes() const {
    std::uint64_t bytes = LaneLife::bytes();
    if (!m_device || !m_cache) return bytes;
    bytes += (std::uint64_t{m_cache->used_blocks()} + m_cache->cached_blocks() + m_cache->host_blocks_used()) * block_bytes();
    return bytes + m_pages.used() * m_device->backend->page_bytes(*m_cache_memory);
}

Result<LaneFrame> Lane::frame() const {
    LaneFrame frame;
    frame.life = LaneLife::copy();
    frame.mark = m_writer->mark();
    if (!m_device || !m_cache) return frame;
    Backend& backend = *m_device->backend;
    const auto room = [&](const std::vector<std::uint32_t>& blocks, std::unique_ptr<HostBlocks>& contents) -> Result<void> {
        if (blocks.empty()) return {};
        auto made = backend.host_blocks(*m_cache_memory, static_cast<std::uint32_t>(blocks.size()));
        if (!made) return made.error();
        contents = std::move(*made);
        return {};
    };
    frame.blocks = filled_blocks();
    if (m_host_memory) frame.swapped = m_cache->taken_host_blocks();
    if (auto made = room(frame.blocks, frame.contents); !made) return made.error();
    if (auto made = room(frame.swapped, frame.swapped_contents); !made) return made.error();
    for (std::uint32_t i = 0; i < frame.blocks.size(); ++i)
        backend.swap_out(*m_cache_memory, frame.blocks[i], *frame.contents, i, m_shape.block_size);
    if (auto done = backend.synchronise(); !done) return done.error();
    for (std::uint32_t i = 0; i < frame.swapped.size(); ++i)
        std::ranges::copy(m_host_memory->contents(frame.swapped[i]), frame.swapped_contents->contents(i).begin());
    frame.pages = m_pages.taken();
    const std::uint64_t page_bytes = backend.page_bytes(*m_cache_memory);
    frame.page_contents.resize(frame.pages.size() * page_bytes);
    for (std::size_t i = 0; i < frame.pages.size(); ++i) {
        const std::span<std::byte> to = std::span(frame.page_contents).subspan(i * page_bytes, page_bytes);
        if (auto saved = backend.save_page(*m_cache_memory, frame.pages[i], to); !saved) return saved.error();
    }
    return frame;
}

Result<void> Lane::restore(const LaneFrame& frame, LaneWriter& writer) {
    m_writer = &writer;
    static_cast<LaneLife&>(*this) = frame.life.copy();
    m_endings.clear();
    if (m_failed_last) writer.set_failure(m_failure);
    if (m_shadow) m_shadow->begin(m_step);
    if (m_device && m_cache) {
        Backend& backend = *m_device->backend;
        // What others find where nothing was restored is not what was there by chance.
        if (m_setup.poison)
            for (std::uint32_t block = 0; block < m_setup.blocks; ++block) backend.poison_block(*m_cache_memory, block);
        for (std::uint32_t i = 0; i < frame.blocks.size(); ++i)
            backend.swap_in(*m_cache_memory, frame.blocks[i], *frame.contents, i, m_shape.block_size);
        if (auto done = backend.synchronise(); !done) return done;
        for (std::uint32_t i = 0; i < frame.swapped.size(); ++i)
            std::ranges::copy(frame.swapped_contents->contents(i), m_host_memory->contents(frame.swapped[i]).begin());
        const std::uint64_t page_bytes = backend.page_bytes(*m_cache_memory);
        for (std::size_t i = 0; i < frame.pages.size(); ++i) {
            const std::span<const std::byte> from = std::span(frame.page_contents).subspan(i * page_bytes, page_bytes);
            if (auto back = backend.restore_page(*m_cache_memory, frame.pages[i], from); !back) return back;
        }
    }
    return m_setup.audit || m_setup.poison ? audit_cache() : Result<void>();
}

}  // namespace kvloupe
