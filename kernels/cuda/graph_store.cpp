// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/graph_store.h"

#include <algorithm>

namespace kvloupe::cuda {

namespace {

constexpr const char* pass_name = "the recording of a pass";

bool older(std::uint64_t a, std::uint64_t b) { return a < b; }

}  // namespace

GraphStore::Plan GraphStore::plan(const PassKey& key) {
    const auto found = std::find_if(m_entries.begin(), m_entries.end(), [&](const Entry& entry) { return entry.key == key; });
    if (found != m_entries.end()) {
        found->used = ++m_clock;
        m_current = static_cast<std::size_t>(found - m_entries.begin());
        return found->graph != nullptr ? Plan::replay : Plan::record;
    }
    if (m_entries.size() == most_keys) {
        const auto oldest = std::min_element(m_entries.begin(), m_entries.end(),
                                             [](const Entry& a, const Entry& b) { return older(a.used, b.used); });
        destroy(*oldest);
        m_entries.erase(oldest);
    }
    m_entries.push_back({key, nullptr, ++m_clock});
    m_current = m_entries.size() - 1;
    return Plan::run;
}

void GraphStore::replay() { m_card.fault().note(cudaGraphLaunch(m_entries[m_current].graph, m_card.stream), "the replay of a pass"); }

void GraphStore::begin() {
    make_room();
    // Of this thread alone: other threads' allocations are no business of this recording.
    m_card.recording = m_card.fault().note(cudaStreamBeginCapture(m_card.stream, cudaStreamCaptureModeThreadLocal), pass_name);
}

void GraphStore::finish() {
    if (!m_card.recording) return;
    m_card.recording = false;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(m_card.stream, &graph);  // ends it in any case
    const bool good = m_card.fault().note(ended, pass_name) && m_card.fault().note(cudaGraphInstantiate(&ready, graph, 0), pass_name);
    if (graph != nullptr && cudaGraphDestroy(graph) != cudaSuccess) (void)cudaGetLastError();
    if (ready == nullptr) return;
    if (m_current >= m_entries.size()) {  // cleared meanwhile: the record names memory that is gone
        Entry lost{{}, ready, 0};
        destroy(lost);
        m_card.fault().note_in_step({"Memory was given back while a pass over it was recorded", "This is a defect of the program"});
        return;
    }
    m_entries[m_current].graph = ready;
    if (good && m_card.fault().good()) replay();
    else destroy(m_entries[m_current]);  // an operation of the pass failed: half a pass is none
}

void GraphStore::make_room() {
    if (graphs() < most_graphs) return;
    Entry* oldest = nullptr;
    for (Entry& entry : m_entries)
        if (entry.graph != nullptr && (oldest == nullptr || older(entry.used, oldest->used))) oldest = &entry;
    destroy(*oldest);
}

void GraphStore::destroy(Entry& entry) {
    if (entry.graph != nullptr && cudaGraphExecDestroy(entry.graph) != cudaSuccess) (void)cudaGetLastError();
    entry.graph = nullptr;
}

void GraphStore::clear() {
    if (std::any_of(m_entries.begin(), m_entries.end(), [](const Entry& entry) { return entry.graph != nullptr; }) &&
        cudaStreamSynchronize(m_card.stream) != cudaSuccess)
        (void)cudaGetLastError();  // a replay may be under way; a fault shows at the next call anyway
    for (Entry& entry : m_entries) destroy(entry);
    m_entries.clear();
}

std::size_t GraphStore::graphs() const {
    return static_cast<std::size_t>(
        std::count_if(m_entries.begin(), m_entries.end(), [](const Entry& entry) { return entry.graph != nullptr; }));
}

}  // namespace kvloupe::cuda
