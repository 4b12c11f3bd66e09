// SPDX-License-Identifier: GPL-3.0-or-later
//
// What happened in a step goes to the recording, and the bytes that an event names are moved.
#include "engine/serve/lane.h"

#include <algorithm>
#include <chrono>

namespace kvloupe {

void Lane::record(EventKind kind, Cause cause, const Request& request, Event event) {
    event.kind = kind;
    event.cause = cause;
    event.sequence = request.sequence;
    m_writer->event(event);
}

// In the order in which things happened: a block may be copied from, freed and given to another within one step.
void Lane::write(std::span<Event> events) {
    for (Event& event : events) {
        if (m_device && m_cache_memory) move_bytes(event);
        if (m_shadow) shadow_event(event);
        if (!m_pages.empty()) move_pages(event);
        m_writer->event(event);
        if (!m_pages.empty()) settle_pages(event);
    }
}

void Lane::move_bytes(Event& event) {
    Backend& backend = *m_device->backend;
    if (event.kind == EventKind::allocate && m_setup.poison) backend.poison_block(*m_cache_memory, event.block.value);
    if (event.kind != EventKind::copy_on_write && event.kind != EventKind::swap_out && event.kind != EventKind::swap_in) return;
    const auto start = std::chrono::steady_clock::now();
    switch (event.kind) {
    case EventKind::copy_on_write:
        if (m_setup.poison) backend.poison_block(*m_cache_memory, event.other);
        backend.copy_block(*m_cache_memory, event.block.value, event.other, event.tokens);
        break;
    case EventKind::swap_out:
        if (!m_host_memory) return;
        backend.swap_out(*m_cache_memory, event.block.value, *m_host_memory, event.other, event.tokens);
        break;
    case EventKind::swap_in:
        if (!m_host_memory) return;
        if (m_setup.poison) backend.poison_block(*m_cache_memory, event.block.value);
        backend.swap_in(*m_cache_memory, event.block.value, *m_host_memory, event.other, event.tokens);
        break;
    default:
        return;
    }
    // A device that works behind the program's back is waited for: the time is the copy's own. Its errors show again in
    // the forward pass.
    (void)backend.synchronise();
    const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
    event.duration_ns = static_cast<std::uint32_t>(std::clamp<std::int64_t>(spent, 1, UINT32_MAX));
}

}  // namespace kvloupe
