// SPDX-License-Identifier: GPL-3.0-or-later
//
// GraphStore: recorded passes. The first pass of a key runs as it comes, the second is recorded while it runs, from the third
// on the record is replayed: one launch instead of a few hundred. A record names addresses of buffers, weights, scratch and
// batch; whoever gives one of those back calls clear().
//
// Rejected: one record for every shape with its parameters updated (cudaGraphExecUpdate costs about as much as the launches
// of a small model).
#pragma once

#include "kernels/cuda/batch_upload.h"
#include "kernels/cuda/card.h"

#include <vector>

namespace kvloupe::cuda {

struct PassKey {
    std::uint64_t owner = 0;
    BatchKey batch;
    bool operator==(const PassKey&) const = default;
};

class GraphStore {
public:
    static constexpr std::size_t most_graphs = 32;  // the least recently used goes
    static constexpr std::size_t most_keys = 128;

    explicit GraphStore(Card& card) : m_card(card) {}
    ~GraphStore() { clear(); }
    GraphStore(const GraphStore&) = delete;
    GraphStore& operator=(const GraphStore&) = delete;

    enum class Plan { run, record, replay };
    // What to do with a pass of that key; notes that it came.
    Plan plan(const PassKey& key);
    // Issues the record of the key that plan() answered `replay` to.
    void replay();
    // Recording, around the operations of the pass that plan() answered `record` to. finish() issues what was recorded.
    void begin();
    void finish();
    void clear();
    std::size_t graphs() const;

private:
    struct Entry {
        PassKey key;
        cudaGraphExec_t graph = nullptr;
        std::uint64_t used = 0;
    };
    void destroy(Entry& entry);
    void make_room();

    Card& m_card;
    std::vector<Entry> m_entries;
    std::size_t m_current = 0;  // the entry of the last plan()
    std::uint64_t m_clock = 0;
};

}  // namespace kvloupe::cuda
