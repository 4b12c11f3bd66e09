// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/batch_upload.h"

#include "kernels/backend_checks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace kvloupe::cuda {

namespace {

// What passes and grids depend on.
Result<BatchKey> key_of(const Batch& batch) {
    if (auto checked = check_batch(batch); !checked) return checked.error();
    const std::size_t rows = batch.tokens.size();
    if (rows > INT32_MAX || batch.block_tables.size() > INT32_MAX)
        return Error{"A batch of " + std::to_string(rows) + " rows lacks a size that a card's kernels can count",
                     "This is a defect of the program"};
    if ((!batch.table_pages.empty() && batch.table_pages.size() != batch.block_tables.size()) ||
        (!batch.slot_pages.empty() && batch.slot_pages.size() != batch.slots.size()))
        return Error{"A batch of " + std::to_string(rows) + " rows lacks as many pages as block tables and slots", "This is a defect of the program"};
    BatchKey key;
    key.pages = !batch.table_pages.empty() || !batch.slot_pages.empty();
    key.rows = static_cast<std::uint32_t>(rows);
    key.groups = static_cast<std::uint32_t>(rows == 0 ? 1 : batch.slots.size() / rows);
    key.sequences = static_cast<std::uint32_t>(batch.sequences.size());
    key.table_capacity = static_cast<std::uint32_t>(std::bit_ceil(batch.block_tables.size()));
    key.logit_rows = static_cast<std::uint32_t>(batch.logit_rows.size());
    for (const Batch::Sequence& s : batch.sequences) {
        if (s.rows == 1) {
            ++key.decodes;
            key.context = std::max(key.context, s.first_position + 1);
        } else {
            key.tiles += (s.rows + prefill_rows - 1) / prefill_rows;
        }
    }
    key.context = std::bit_ceil(key.context);
    return key;
}

}  // namespace

BatchUpload::~BatchUpload() {
    for (Staging& staging : m_staging)
        if (staging.copied != nullptr && cudaEventDestroy(staging.copied) != cudaSuccess) (void)cudaGetLastError();
}

BatchUpload::Places BatchUpload::places_of(const BatchKey& key) {
    Places places;
    const auto take = [&](std::uint64_t& offset, std::uint64_t bytes) {
        offset = places.bytes;
        places.bytes += (bytes + 255) / 256 * 256;
    };
    take(places.tokens, std::uint64_t{key.rows} * sizeof(std::int32_t));
    take(places.positions, std::uint64_t{key.rows} * sizeof(std::uint32_t));
    take(places.slots, std::uint64_t{key.rows} * key.groups * sizeof(std::uint64_t));
    take(places.sequences, std::uint64_t{key.sequences} * key.groups * sizeof(SequenceRows));
    take(places.decodes, std::uint64_t{key.decodes} * sizeof(std::uint32_t));
    take(places.tiles, std::uint64_t{key.tiles} * sizeof(PrefillTile));
    take(places.logit_rows, std::uint64_t{key.logit_rows} * sizeof(std::uint32_t));
    take(places.tables, std::uint64_t{key.table_capacity} * sizeof(std::uint32_t));
    if (key.pages) {
        take(places.table_pages, std::uint64_t{key.table_capacity} * sizeof(std::uint32_t));
        take(places.slot_pages, std::uint64_t{key.rows} * key.groups * sizeof(std::uint32_t));
    }
    return places;
}

Result<void> BatchUpload::prepare() {
    BatchKey usual;  // 2,048 rows of 256 sequences with 64 Ki entries of block tables: less than half a MiB
    usual.rows = 2048;
    usual.sequences = usual.decodes = usual.logit_rows = 256;
    usual.tiles = 512;
    usual.table_capacity = 1u << 16;
    return grow(places_of(usual).bytes);
}

Result<void> BatchUpload::grow(std::uint64_t bytes) {
    if (bytes <= m_device.bytes()) return {};
    const std::uint64_t rounded = std::bit_ceil(bytes);
    m_card.forget_passes();
    for (Staging& staging : m_staging) {
        if (auto free = wait_for(staging); !free) return free;
        auto memory = PinnedMemory::make(m_card, rounded, false, "a batch");
        if (!memory) return memory.error();
        staging.memory = std::move(*memory);
        if (staging.copied == nullptr &&
            !m_card.fault().note(cudaEventCreateWithFlags(&staging.copied, cudaEventDisableTiming), "the set-up of batches"))
            return m_card.fault().result();
    }
    m_device = {};
    auto memory = CardMemory::make(m_card, rounded, Purpose::activations, "a batch");
    if (!memory) return memory.error();
    m_device = std::move(*memory);
    return {};
}

Result<void> BatchUpload::wait_for(Staging& staging) {
    if (!staging.in_use) return {};
    staging.in_use = false;
    cudaError_t status = cudaEventQuery(staging.copied);  // nearly always done: the copy is two batches old
    if (status == cudaErrorNotReady) {
        (void)cudaGetLastError();
        status = cudaEventSynchronize(staging.copied);
    }
    m_card.fault().note(status, "the upload of a batch");
    return m_card.fault().result();
}

Result<void> BatchUpload::upload(const Batch& batch) {
    const auto key = key_of(batch);
    if (!key) return key.error();
    try {
        m_positions = batch.positions;
        m_logit_rows = batch.logit_rows;
        m_sequences = batch.sequences;
    } catch (const std::bad_alloc&) {
        return Error{"Not enough memory for a batch of " + std::to_string(batch.rows()) + " rows", "Use a smaller batch"};
    }
    m_key = *key;
    m_places = places_of(m_key);
    if (auto grown = grow(m_places.bytes); !grown) return grown;
    if (m_places.bytes == 0) return {};
    Staging& staging = m_staging[m_turn++ % 2];
    if (auto free = wait_for(staging); !free) return free;
    pack(batch, staging.memory.data());
    DeviceFault& fault = m_card.fault();
    const char* what = "the upload of a batch";
    if (fault.note(cudaMemcpyAsync(m_device.data(), staging.memory.data(), m_places.bytes, cudaMemcpyHostToDevice, m_card.stream), what) &&
        fault.note(cudaEventRecord(staging.copied, m_card.stream), what))
        staging.in_use = true;
    return fault.result();
}

void BatchUpload::pack(const Batch& batch, std::byte* to) const {
    const auto put = [&](std::uint64_t offset, const auto& values) {
        if (!values.empty()) std::memcpy(to + offset, values.data(), values.size() * sizeof(values[0]));
    };
    put(m_places.tokens, batch.tokens);
    put(m_places.positions, batch.positions);
    put(m_places.slots, batch.slots);
    put(m_places.logit_rows, batch.logit_rows);
    put(m_places.tables, batch.block_tables);
    if (m_key.pages) {
        // One of the two may be left out: no block of it has a page.
        std::memset(to + m_places.table_pages, 0, std::uint64_t{m_key.table_capacity} * sizeof(std::uint32_t));
        std::memset(to + m_places.slot_pages, 0, std::uint64_t{m_key.rows} * m_key.groups * sizeof(std::uint32_t));
        put(m_places.table_pages, batch.table_pages);
        put(m_places.slot_pages, batch.slot_pages);
    }
    auto* sequences = reinterpret_cast<SequenceRows*>(to + m_places.sequences);
    auto* decodes = reinterpret_cast<std::uint32_t*>(to + m_places.decodes);
    auto* tiles = reinterpret_cast<PrefillTile*>(to + m_places.tiles);
    for (std::uint32_t group = 0; group < m_key.groups; ++group)
        for (const Batch::Sequence& s : batch.sequences)
            *sequences++ = {s.first_row, s.rows, s.first_position, s.table_begin + group * s.table_size, s.table_size};
    for (std::uint32_t i = 0; i < batch.sequences.size(); ++i) {
        const std::uint32_t rows = batch.sequences[i].rows;
        if (rows == 1) *decodes++ = i;
        else
            for (std::uint32_t row = 0; row < rows; row += prefill_rows) *tiles++ = {i, row};
    }
}

}  // namespace kvloupe::cuda
