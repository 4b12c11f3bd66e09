// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/stage_ranges.h"

#include "kernels/cuda/nvtx.h"

#include <cstdio>
#include <string>

namespace kvloupe::cuda {

StageKind StageRanges::stage_of(Operation operation, StageKind last) {
    switch (operation) {
    case Operation::embed: return StageKind::embed;
    case Operation::rotary_store: return StageKind::rotary_store;
    case Operation::attention: return StageKind::attention;
    case Operation::activation: return StageKind::activation;
    case Operation::gather: return StageKind::output_norm;
    case Operation::norm:
        if (last == StageKind::embed || last == StageKind::down || last == StageKind::attention_norm) return StageKind::attention_norm;
        if (last == StageKind::attention_out || last == StageKind::ffn_norm) return StageKind::ffn_norm;
        if (last == StageKind::qkv) return StageKind::qkv;  // of a latent
        return last == StageKind::output_norm ? StageKind::output_norm : StageKind::schedule;
    case Operation::product:
        switch (last) {
        case StageKind::attention_norm:
        case StageKind::qkv: return StageKind::qkv;
        case StageKind::attention: return StageKind::attention_out;
        case StageKind::ffn_norm:
        case StageKind::down:  // the next expert's
        case StageKind::gate_up: return StageKind::gate_up;
        case StageKind::activation: return StageKind::down;
        case StageKind::output_norm: return StageKind::logits;
        default: return StageKind::schedule;
        }
    }
    return StageKind::schedule;
}

void StageRanges::begin_step(const std::string& requests, std::uint32_t rows, std::uint32_t sequences) {
    end_step();
    if (!requests.empty()) push_range(("requests: " + requests).c_str());
    m_in_requests = !requests.empty();
    char name[64];
    std::snprintf(name, sizeof name, "step: %u sequences, %u rows", sequences, rows);
    push_range(name);
    m_in_step = true;
    m_stage = StageKind::schedule;
    m_layer = 0;
}

void StageRanges::enter(Operation operation) {
    if (!m_in_step) return;
    const StageKind stage = stage_of(operation, m_stage);
    if (stage == m_stage && m_in_stage) return;
    leave_stage();
    if (stage == StageKind::attention_norm || stage == StageKind::output_norm) leave_layer();
    m_stage = stage;
    if (stage == StageKind::schedule) return;
    if (stage == StageKind::attention_norm) {
        char name[32];
        std::snprintf(name, sizeof name, "layer %u", unsigned{m_layer++});
        push_range(name);
        m_in_layer = true;
    }
    push_range(std::string(name_of(stage)).c_str());
    m_in_stage = true;
}

void StageRanges::leave_stage() {
    if (m_in_stage) pop_range();
    m_in_stage = false;
}

void StageRanges::leave_layer() {
    if (m_in_layer) pop_range();
    m_in_layer = false;
}

void StageRanges::end_step() {
    leave_stage();
    leave_layer();
    if (m_in_step) pop_range();
    m_in_step = false;
    if (m_in_requests) pop_range();
    m_in_requests = false;
}

}  // namespace kvloupe::cuda
