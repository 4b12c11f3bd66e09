// SPDX-License-Identifier: GPL-3.0-or-later
//
// BatchUpload: what kernels need to know of a step's rows, in device memory. Packed into one pinned buffer and copied with one
// call. Where the parts lie is a function of the BatchKey alone, so that a recorded pass finds a later batch of the same key
// at the same addresses; lengths, positions and tables are contents.
//
// Two pinned buffers take turns: the host may pack a batch while the copy of the last one is still under way.
#pragma once

#include "kernels/cuda/card_memory.h"
#include "kernels/cuda/kernels.h"

#include <array>
#include <memory>
#include <vector>

namespace kvloupe::cuda {

// What sizes grids and places. Equal keys: the same launches at the same addresses.
struct BatchKey {
    std::uint32_t rows = 0;
    std::uint32_t groups = 1;          // KV cache groups
    std::uint32_t sequences = 0;
    std::uint32_t decodes = 0;         // sequences of one row
    std::uint32_t tiles = 0;           // of the sequences of several rows
    std::uint32_t table_capacity = 0;  // entries of all block tables, a power of two
    std::uint32_t logit_rows = 0;
    std::uint32_t context = 0;         // tokens of the longest decoding sequence, a power of two
    bool pages = false;                // f16 pages stand for some blocks
    bool operator==(const BatchKey&) const = default;
};

class BatchUpload {
public:
    explicit BatchUpload(Card& card) : m_card(card) {}
    ~BatchUpload();
    BatchUpload(const BatchUpload&) = delete;
    BatchUpload& operator=(const BatchUpload&) = delete;

    // Room for batches of the usual size, so that a first step need not make it. Errors: not enough memory.
    Result<void> prepare();
    // Errors: a batch that contradicts itself, not enough memory, the card's fault.
    Result<void> upload(const Batch& batch);

    const BatchKey& key() const { return m_key; }
    // Device addresses; valid until the next upload.
    const std::int32_t* tokens() const { return at<std::int32_t>(m_places.tokens); }
    const std::uint32_t* positions() const { return at<std::uint32_t>(m_places.positions); }
    const std::uint64_t* slots(std::uint32_t group) const { return at<std::uint64_t>(m_places.slots) + std::uint64_t{group} * m_key.rows; }
    const SequenceRows* sequences(std::uint32_t group) const {
        return at<SequenceRows>(m_places.sequences) + std::uint64_t{group} * m_key.sequences;
    }
    const std::uint32_t* decodes() const { return at<std::uint32_t>(m_places.decodes); }
    const PrefillTile* tiles() const { return at<PrefillTile>(m_places.tiles); }
    const std::uint32_t* logit_rows() const { return at<std::uint32_t>(m_places.logit_rows); }
    const std::uint32_t* block_tables() const { return at<std::uint32_t>(m_places.tables); }
    // As block_tables() and slots(); null where no layer keeps pages.
    const std::uint32_t* table_pages() const { return m_key.pages ? at<std::uint32_t>(m_places.table_pages) : nullptr; }
    const std::uint32_t* slot_pages(std::uint32_t group) const {
        return m_key.pages ? at<std::uint32_t>(m_places.slot_pages) + std::uint64_t{group} * m_key.rows : nullptr;
    }
    // The host's copies of what the operations look at.
    const std::vector<std::uint32_t>& host_positions() const { return m_positions; }
    const std::vector<std::uint32_t>& host_logit_rows() const { return m_logit_rows; }
    const std::vector<Batch::Sequence>& host_sequences() const { return m_sequences; }

private:
    // Offsets in bytes, every one a multiple of 256.
    struct Places {
        std::uint64_t tokens = 0, positions = 0, slots = 0, sequences = 0, decodes = 0, tiles = 0, logit_rows = 0, tables = 0, table_pages = 0,
                      slot_pages = 0;
        std::uint64_t bytes = 0;
    };
    struct Staging {
        PinnedMemory memory;
        cudaEvent_t copied = nullptr;  // recorded behind the copy
        bool in_use = false;
    };
    static Places places_of(const BatchKey& key);
    Result<void> grow(std::uint64_t bytes);
    Result<void> wait_for(Staging& staging);
    void pack(const Batch& batch, std::byte* to) const;
    template <class T>
    const T* at(std::uint64_t offset) const {
        return m_device.as<const T>(offset);
    }

    Card& m_card;
    CardMemory m_device;
    std::array<Staging, 2> m_staging;
    unsigned m_turn = 0;
    BatchKey m_key;
    Places m_places;
    std::vector<std::uint32_t> m_positions, m_logit_rows;
    std::vector<Batch::Sequence> m_sequences;
};

}  // namespace kvloupe::cuda
