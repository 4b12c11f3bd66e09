// SPDX-License-Identifier: GPL-3.0-or-later
//
// What `kvloupe bench` measures: decode and prefill rates of one model beside what the device reached in the same run.
#pragma once

#include "engine/record/ceilings.h"
#include "engine/record/result.h"
#include "engine/serve/session.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe {

struct BenchOptions {
    unsigned threads = 0;                // 0: one per core
    std::uint32_t prompt_tokens = 64;
    std::uint32_t new_tokens = 64;       // forced, so that no end-of-sequence token ends the run
    int repeats = 3;                     // the run with the fastest median decode step is kept: the machine may be shared
};

// One kind of stage in the median decode step, all layers together.
struct BenchStage {
    StageKind kind = StageKind::schedule;
    double ns = 0;     // measured
    double bytes = 0;  // derived from shapes
    double flops = 0;  // derived from shapes
};

struct BenchFigures {
    std::string model;
    std::string device;
    std::uint64_t weight_bytes = 0;         // measured: as stored
    Ceilings ceilings;                      // measured in this run
    double decode_ns = 0;                   // median step, measured
    double decode_bytes = 0;                // per step, derived from shapes: weights, K/V, activations
    std::vector<BenchStage> stages;         // of the median decode step, the longest first
    std::vector<BenchStage> prefill_stages; // of the whole prompt's step, the longest first
    double attention_ns = 0;                // per decode step, measured
    double attention_bytes = 0;             // per decode step, derived
    double prefill_ns = 0;                  // the whole prompt, measured
    double prefill_flops = 0;               // derived
    std::uint32_t prompt_tokens = 0;
    std::uint32_t context_tokens = 0;       // at the median step
    std::uint64_t pool_bytes = 0;           // measured
    std::uint64_t file_bytes = 0;           // measured: mapped files
    std::uint64_t resident_bytes = 0;       // of this process after the run, measured
    std::uint64_t recording_bytes = 0;      // measured
    double recorder_ns = 0;                 // per decode step: the same records written again, clock reads included
    double sample_ns = 0;                   // per decode step, measured: sampling, with the top 10 and all probabilities

    double decode_rate() const { return decode_ns > 0 ? decode_bytes / (decode_ns * 1e-9) : 0; }  // bytes/s
    // Upper bound: recorder and the whole of sampling, as a share of the decode step.
    double recording_share() const { return decode_ns > 0 ? (recorder_ns + sample_ns) / decode_ns : 0; }
    double bandwidth_share() const { return ceilings.read_bandwidth > 0 ? decode_rate() / ceilings.read_bandwidth : 0; }
    double matrix_share() const {
        return ceilings.matrix_rate > 0 && prefill_ns > 0 ? prefill_flops / (prefill_ns * 1e-9) / ceilings.matrix_rate : 0;
    }
};

// Runs the model through a session, as a user's run does, recording included.
// source: finds the model under `name`.
Result<BenchFigures> measure_model(const std::string& name, ModelSource source, const BenchOptions& options);

// Bytes of this process that are resident (VmRSS), 0 where /proc is absent.
std::uint64_t resident_bytes();

}  // namespace kvloupe
