// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a model costs in memory: cache, weights and activations of every pipeline stage's GPUs, and how many sequences fit
// (predicted throughout: nothing is measured here).
#pragma once

#include "engine/analysis/kv_size.h"
#include "engine/analysis/sized_model.h"
#include "engine/record/gpu_table.h"
#include "engine/record/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe {

struct SizeRequest {
    std::uint64_t context = 4096;    // tokens of a sequence
    std::uint64_t batch = 1;         // sequences
    CachePrecision precision;
    Parallel parallel;
    std::optional<std::uint32_t> kv_heads;  // in place of the model's: what MHA or MQA would cost
    std::optional<DType> weights;    // in place of the model's own
    const GpuEntry* gpu = nullptr;
    double utilization = 0.9;        // share of the GPU's memory that may be used
    std::uint32_t batched_tokens = 2048;  // rows of a step at most (the scenario's max_num_batched_tokens)
};

// The activations of a step: rows * (2 * hidden + the widest part of a layer) * 2 B + logit rows * vocabulary * 4 B. The
// widest part is what stands in memory at once: queries, keys, values and the attention's output, or gate, up and their
// product. An estimate of a lower bound: an engine's own buffers and its allocator's rounding come on top.
struct ActivationReserve {
    std::uint64_t rows = 0;
    std::uint64_t hidden = 0;
    std::uint64_t widest = 0;
    bool widest_is_attention = false;
    std::uint64_t logit_rows = 0;    // 0: the output stands on another GPU
    std::uint64_t vocabulary = 0;    // on this GPU
    std::uint64_t bytes() const { return rows * (2 * hidden + widest) * 2 + logit_rows * vocabulary * 4; }
};

// A GPU of a pipeline stage; those of one stage are alike.
struct StageSize {
    std::uint32_t first_layer = 0;
    std::uint32_t layers = 0;
    std::uint64_t kv_bytes_per_token = 0;
    std::uint64_t sequence_bytes = 0;  // of one sequence's cache
    std::uint64_t kv_bytes = 0;        // of the batch
    std::uint64_t fixed_bytes = 0;     // scales per tensor or head, once beside it
    std::uint64_t parameters = 0;
    std::uint64_t weight_bytes = 0;
    ActivationReserve activation;
    std::optional<std::uint64_t> sequences;  // that fit; empty without a GPU
};

struct SizeReport {
    SizedModel model;                  // with the request's kv_heads
    SizeRequest request;
    std::vector<KvLayerSize> layers;   // of the whole model
    std::vector<KvLayerSize> gpu_layers;      // what one GPU of a stage keeps of each
    std::uint64_t kv_bytes_per_token = 0;     // every layer counted as global
    std::uint64_t sequence_bytes = 0;         // exact at the context, windows included
    std::uint64_t kv_bytes = 0;               // of the batch
    std::uint64_t fixed_bytes = 0;            // beside it, once per pool
    std::uint64_t parameters = 0;
    bool parameters_counted = false;          // from tensors, not from the shape
    DType weight_dtype = DType::f16;          // unless weights_stored
    bool weights_stored = false;              // weight_bytes are those of the file's tensors
    std::uint64_t weight_bytes = 0;
    std::vector<StageSize> stages;
    std::uint64_t usable_bytes = 0;           // of a GPU; 0 without one
    std::optional<std::uint64_t> sequences_that_fit;  // the fewest of all stages
    std::vector<std::string> notes;

    std::uint64_t kv_bytes_per_gpu() const;   // the most of all stages
    std::uint64_t weight_bytes_per_gpu() const;
};

// Errors: a context, batch, utilization or number of GPUs that cannot be; heads that do not divide; a precision that the
// model's rows do not hold; sizes beyond 64 bits.
Result<SizeReport> size_report(const SizedModel& model, const SizeRequest& request);

// Shortest time of one decode step, seconds: weights and cache are read once at the full bandwidth (a lower bound).
double decode_bound_seconds(const GpuEntry& gpu, std::uint64_t weight_bytes, std::uint64_t kv_bytes_read);

}  // namespace kvloupe
