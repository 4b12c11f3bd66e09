// SPDX-License-Identifier: GPL-3.0-or-later
//
// Backend: what a device must be able to do. The engine composes these operations into a forward pass (serve/decoder);
// a backend knows tensors, slots and block tables, and nothing of requests.
//
// Goals: small; every operation works on all rows of a batch at once; operations may be asynchronous on the device and
// are ordered; no allocation inside a step. Weights are used in the form they are stored.
// Shapes are written (outer, …, inner); activations are f32, row-major and packed.
//
// KV cache layout of one layer, K and V alike: (blocks, kv_heads, block_size, head_dim), stored as engine/record/kv_format.h
// says. A slot is block * block_size + offset. Rejected: (slots, kv_heads, head_dim), because a head's rows of one block would
// not be contiguous and decode attention reads one KV head at a time.
//
// Multi-head latent attention keeps, per token and layer, the latent as its K (one head of kv_rank values) and the turned rotary
// key as its V (one head of rotary_dim values, which may be 0); there is no V. Attention over it is the absorbed form.
#pragma once

#include "engine/key_span.h"
#include "engine/model/model.h"
#include "engine/record/ceilings.h"
#include "engine/record/dtype.h"
#include "engine/record/kv_format.h"
#include "engine/record/result.h"
#include "engine/record/step.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace kvloupe {

// Device memory by purpose; the counters are what the program calls "measured bytes".
enum class Purpose : std::uint8_t { weights, kv_cache, activations };

struct MemoryCounters {
    std::uint64_t weights = 0;      // bytes allocated by the backend (mapped weights that were not copied: 0)
    std::uint64_t kv_cache = 0;
    std::uint64_t activations = 0;
    std::uint64_t host_blocks = 0;  // room for swapped-out blocks, in main memory
};

// A device buffer. Freed by its owner's destructor through the backend that made it; must not outlive it.
class Buffer {
public:
    virtual ~Buffer() = default;
    virtual std::uint64_t bytes() const = 0;
};

// A weight matrix on the device: (rows, cols) in its stored form.
class Weight {
public:
    virtual ~Weight() = default;
    virtual std::uint64_t rows() const = 0;
    virtual std::uint64_t cols() const = 0;
    virtual DType dtype() const = 0;
    virtual std::uint64_t bytes() const = 0;
};

struct KvLayerShape {
    std::uint32_t kv_heads = 0;
    std::uint32_t key_dim = 0;      // of a key row; with a latent: its width
    std::uint32_t value_dim = 0;    // of a value row; with a latent: of the rotary key
    bool latent = false;
    KvFormat keys, values;
    // Layers of different cache groups with the same place share memory: a block belongs to one group at a time. Places count
    // from 0 without gaps; layers of one group have different ones.
    std::uint32_t place = 0;

    Result<KvPlane> key_plane(std::uint32_t block_size) const { return KvPlane::of(keys, KvPart::keys, kv_heads, key_dim, block_size); }
    Result<KvPlane> value_plane(std::uint32_t block_size) const {
        return KvPlane::of(values, KvPart::values, kv_heads, value_dim, block_size);
    }
};

struct KvCacheShape {
    std::uint32_t blocks = 0;
    std::uint32_t block_size = 0;
    std::vector<KvLayerShape> layers;
    std::uint32_t residual_pages = 0;  // blocks that can be kept in f16 at a time, where a layer's format keeps a residual

    // Layers that are all alike and share nothing, in plain precisions.
    static KvCacheShape uniform(std::uint32_t layers, std::uint32_t blocks, std::uint32_t block_size, std::uint32_t kv_heads,
                                std::uint32_t head_dim, DType keys, DType values) {
        KvCacheShape shape;
        shape.blocks = blocks;
        shape.block_size = block_size;
        for (std::uint32_t i = 0; i < layers; ++i)
            shape.layers.push_back({kv_heads, head_dim, head_dim, false, KvFormat::of(keys), KvFormat::of(values), i});
        return shape;
    }
};

// K and V of all layers, one allocation per layer and tensor, or one for all: the backend's choice.
class KvCache {
public:
    virtual ~KvCache() = default;
    virtual const KvCacheShape& shape() const = 0;
    virtual std::uint64_t bytes() const = 0;  // as allocated
    // Finite values that became infinite when they were stored, because they lie beyond the precision's range; since the
    // cache was made. A step's own number is the difference of two reads. Valid after the step's synchronise() or read().
    virtual std::uint64_t overflowed_values() const = 0;
};

// Main memory for blocks that were swapped out of one cache. Its blocks are numbered from 0.
class HostBlocks {
public:
    virtual ~HostBlocks() = default;
    virtual std::uint32_t count() const = 0;
    virtual std::uint64_t bytes() const = 0;  // as allocated
    // The bytes of one block as they lie there, the same for all host blocks of one cache. After synchronise() they are what was
    // swapped out.
    virtual std::span<std::byte> contents(std::uint32_t block) const = 0;
};

// Everything an operation needs to know about the rows of a step. Rows of one sequence are consecutive and ascending in
// position. Uploaded once per step by begin_batch.
struct Batch {
    struct Sequence {
        std::uint32_t first_row = 0;     // in the batch
        std::uint32_t rows = 0;          // queries of this sequence
        std::uint32_t first_position = 0;// position of its first row
        // Its block tables in block_tables: (groups, table_size). Entries whose keys no row sees may be anything; the
        // null block (0) stands there.
        std::uint32_t table_begin = 0;
        std::uint32_t table_size = 0;
        // Keys of row r: those of positions 0 .. first_position + r that the layer's span lets it see.
    };
    std::vector<TokenId> tokens;             // (rows)
    std::vector<std::uint32_t> positions;    // (rows)
    // KV cache groups: sets of layers that share block tables and slots. Usually one.
    std::vector<std::uint64_t> slots;        // (groups, rows) where K/V of the row is written
    std::vector<std::uint32_t> block_tables; // concatenated physical block ids
    std::vector<Sequence> sequences;
    // Where a layer keeps a residual (kv_format.h): page + 1 of the f16 page that stands for a block, 0 where the block is
    // quantised; as block_tables and as slots. Empty: no layer keeps one.
    std::vector<std::uint32_t> table_pages;
    std::vector<std::uint32_t> slot_pages;
    std::vector<std::uint32_t> logit_rows;   // rows whose logits are wanted
    std::string requests;                    // who is in it, for tools that name stretches of time: "a, b and 3 more"

    std::uint32_t rows() const { return static_cast<std::uint32_t>(tokens.size()); }
};

// Attention weights of watched heads, copied out of the step. Rows are in batch order per (layer, head) asked for.
struct AttentionProbe {
    std::vector<std::uint32_t> heads;  // query heads of the layer at hand
    // Filled by attention(): for head h (index into heads), row r of the batch: weights[h][r] has
    // positions[r] + 1 softmax weights; 0 where the span masks a key.
    std::vector<std::vector<std::vector<float>>> weights;
};

// How scores are kept: as a whole, written, read, normalised and read again, as the textbook has it; or by tiles with an online
// softmax, split over the context (FlashAttention, FORMATS 3.7). The sums differ in their order only.
enum class AttentionForm : std::uint8_t { tiled, materialised };

struct AttentionShape {
    std::uint32_t query_heads = 0;
    std::uint32_t kv_heads = 0;   // query head h reads KV head h / (query_heads / kv_heads)
    std::uint32_t head_dim = 0;   // of queries and keys; with a latent: kv_rank + rotary_dim
    std::uint32_t value_dim = 0;  // of values and outputs; 0: head_dim; with a latent: kv_rank
    bool latent = false;          // queries (latent part, rotary part) over the cache's latents; values are the latents
    float scale = 0;              // of q k^T
    float soft_cap = 0;           // scores become cap * tanh(score / cap); 0: they stay
    AttentionForm form = AttentionForm::tiled;
    KeySpan span = {};            // of the layer
    std::uint32_t group = 0;      // whose block tables and slots the layer uses
    RotaryShape rotary = {};      // how keys were rotated; read only where span.rank is set
};

constexpr std::uint32_t value_dim_of(const AttentionShape& shape) { return shape.value_dim == 0 ? shape.head_dim : shape.value_dim; }

// What sampling needs to know of one row of logits, so that a device need not hand out the whole row.
struct LogitSummary {
    static constexpr std::uint32_t top_count = 10;

    bool finite = true;          // false: one of the logits is infinite or NaN, and the rest means nothing
    float maximum = 0;
    double exponentials = 0;     // sum of exp(logit - maximum)
    std::uint32_t top_tokens = 0;                  // min(top_count, vocabulary)
    std::array<TokenId, top_count> top{};          // the most probable first; ties go to the lower id
    std::array<float, top_count> top_logits{};
    // Of the token that was asked for, if one was:
    float asked_logit = 0;
    std::uint32_t asked_rank = 0;                  // tokens that come before it in that order
};

// The operations of one forward pass, where they depend on the batch's shape alone: what a device may record once and
// replay (a CUDA graph).
struct PassShape {
    std::uint64_t owner = 0;     // who runs it: equal owners run the same operations on the same buffers and cache
};

// Measured duration of one marked stage.
struct StageTiming {
    StageKind kind = StageKind::schedule;
    std::uint16_t layer = StageRecord::no_layer;
    std::uint64_t duration_ns = 0;
};

struct DeviceInfo {
    std::string id;        // "cpu", "cuda:0"
    std::string name;      // processor or card
    std::string detail;    // "2 threads, AVX-512 (AVX3_DL)"
    std::uint64_t memory_bytes = 0;
    std::uint64_t free_bytes = 0;      // as the driver or the system says it now
    bool own_memory = false;           // a card's: nobody else needs what is free, so "auto" pools fill a share of it
};

class Backend {
public:
    virtual ~Backend() = default;

    virtual DeviceInfo info() const = 0;
    virtual MemoryCounters memory() const = 0;

    // --- set-up (may allocate) ---
    // The CPU keeps a view of the tensor's bytes; a GPU copies them. Errors: type not supported, out of memory.
    virtual Result<std::unique_ptr<Weight>> weight(const Tensor& tensor) = 0;
    virtual Result<std::unique_ptr<Buffer>> buffer(std::uint64_t bytes, Purpose purpose) = 0;
    // purpose: kv_cache for a lane's pool, activations for the scratch of a lane without a cache.
    virtual Result<std::unique_ptr<KvCache>> kv_cache(const KvCacheShape& shape, Purpose purpose) = 0;
    // Room for `count` blocks of that cache in main memory.
    virtual Result<std::unique_ptr<HostBlocks>> host_blocks(const KvCache& cache, std::uint32_t count) = 0;

    // --- a step ---
    // Makes the batch known to the device. Rows are bounded by what the caller sized its buffers for.
    virtual Result<void> begin_batch(const Batch& batch) = 0;
    // Between begin_batch() and the first operation. True: the pass has been issued already, as it was recorded before
    // with this owner and a batch of the same shape; the caller leaves its operations out and goes on with end_pass().
    // False: the caller runs them. Not called for a pass with stage marks or probes.
    virtual bool begin_pass(const PassShape&) { return false; }
    virtual void end_pass() {}
    // Numbers for PassShape::owner, never the same twice: who changes what its passes run on takes a new one.
    std::uint64_t new_owner() { return ++m_owners; }
    // out (rows, hidden) = table[tokens]
    virtual void embed(const Weight& table, Buffer& out) = 0;
    // out (rows, width) = in / sqrt(mean(in^2) + epsilon) * weight
    virtual void rms_norm(const Buffer& in, const Weight& weight, float epsilon, std::uint32_t rows, Buffer& out) = 0;
    // out (rows, weight.rows) = in (rows, weight.cols) * weight^T; accumulate: += instead of =
    virtual void matmul(const Weight& weight, const Buffer& in, std::uint32_t rows, Buffer& out, bool accumulate) = 0;
    // Rotates q (rows, query_heads, head_dim) in place by the row's position and k (rows, kv_heads, head_dim) likewise,
    // and writes k and v of every row into its slot of the shape's group.
    virtual void rotary_store(Buffer& q, Buffer& k, const Buffer& v, const AttentionShape& shape,
                              const RotaryShape& rotary, KvCache& cache, std::uint32_t layer) = 0;
    // out (rows, query_heads, head_dim) = softmax(scale * q k^T over the keys that shape.span shows) v, through the block
    // tables. What is masked is never read into a result, and a block that holds nothing else is not read at all.
    // The result does not depend on the block size, bit for bit. probe: may be null.
    virtual void attention(const Buffer& q, const AttentionShape& shape, const KvCache& cache, std::uint32_t layer,
                           Buffer& out, AttentionProbe* probe) = 0;
    // K and V rows as they are, without turning them: k (rows, kv_heads, key_dim), v (rows, kv_heads, value_dim) into the rows'
    // slots of the group. Multi-head latent attention: k is the normed latent, v the rotary key.
    virtual void store(const Buffer& k, const Buffer& v, std::uint32_t group, KvCache& cache,
                       std::uint32_t layer) = 0;
    // Turns part of every head in place: x (rows, heads, width), values first .. first + rotary.rotary_dim - 1 of a head.
    virtual void rotate(Buffer& x, std::uint32_t heads, std::uint32_t width, std::uint32_t first,
                        const RotaryShape& rotary) = 0;
    // x (rows, heads, width), every head by itself: x / sqrt(mean(x^2) + epsilon) * weight (width). In place.
    virtual void rms_norm_heads(Buffer& x, const Weight& weight, float epsilon, std::uint32_t rows,
                                std::uint32_t heads) = 0;
    // x (rows, bias.cols) += bias
    virtual void add_bias(Buffer& x, const Weight& bias, std::uint32_t rows) = 0;
    // x (count) *= factor
    virtual void scale(Buffer& x, float factor, std::uint64_t count) = 0;
    // x (count) = cap * tanh(x / cap)
    virtual void soft_cap(Buffer& x, float cap, std::uint64_t count) = 0;
    // to (rows, width) += from (rows, width)
    virtual void add(const Buffer& from, Buffer& to, std::uint64_t count) = 0;
    // Columns: out (rows, heads, out_width), from out_first on = in (rows, heads, in_width), from in_first on, `columns` of them.
    // in_heads may be 1: the same for all heads.
    struct Columns {
        std::uint32_t rows = 0, heads = 0, in_heads = 0, columns = 0;
        std::uint32_t in_width = 0, in_first = 0, out_width = 0, out_first = 0;
    };
    virtual void copy_columns(const Buffer& in, const Columns& columns, Buffer& out) = 0;
    // Head by head: out (rows, heads, weight.rows / heads) = in (rows, heads, weight.cols) * weight[head]^T, where weight is
    // (heads, weight.rows / heads, weight.cols).
    virtual void matmul_heads(const Weight& weight, const Buffer& in, std::uint32_t rows,
                              std::uint32_t heads, Buffer& out) = 0;
    // to (rows.., width): row rows[i] += weights[i] * in[i], for all i; rows may repeat.
    virtual void scatter_add(const Buffer& in, std::span<const std::uint32_t> rows,
                             std::span<const float> weights, std::uint32_t width, Buffer& out) = 0;
    // Rows of K and V of positions first .. first + count - 1 of a sequence of the batch, expanded to f32: keys (count,
    // kv_heads, key_dim), values (count, kv_heads, value_dim).
    virtual void load(const KvCache& cache, std::uint32_t layer, std::uint32_t group,
                      std::uint32_t sequence, std::uint32_t first, std::uint32_t count, Buffer& keys,
                      Buffer& values) = 0;
    // gate (rows, width) = activation(gate) * up
    virtual void gate_multiply(Activation activation, Buffer& gate, const Buffer& up, std::uint32_t rows,
                               std::uint32_t width) = 0;
    // out (rows.size(), width) = in[rows]
    virtual void gather_rows(const Buffer& in, std::span<const std::uint32_t> rows, std::uint32_t width, Buffer& out) = 0;
    // Waits, then copies the first destination.size() floats to the host.
    virtual Result<void> read(const Buffer& in, std::span<float> destination) = 0;
    // Summaries of the first rows of logits (rows, vocabulary); asked (rows): a token, or negative for none. Waits.
    // Errors: the device does not do it (supports_summaries() is false), or failed.
    virtual bool supports_summaries() const { return false; }
    virtual Result<void> summarise(const Buffer&, std::uint32_t /*vocabulary*/, std::span<const TokenId> /*asked*/,
                                   std::span<LogitSummary> /*out*/) {
        return Error{"This device does not summarise logits", "This is a defect of the program"};
    }
    // Copies K/V of `tokens` slots from the start of one block to another, all layers.
    virtual void copy_block(KvCache& cache, std::uint32_t from, std::uint32_t to, std::uint32_t tokens) = 0;
    // The same to and from main memory. The caller keeps the order: a block is swapped in after it was swapped out.
    virtual void swap_out(const KvCache& cache, std::uint32_t block, HostBlocks& host, std::uint32_t host_block,
                          std::uint32_t tokens) = 0;
    virtual void swap_in(KvCache& cache, std::uint32_t block, const HostBlocks& host, std::uint32_t host_block,
                         std::uint32_t tokens) = 0;
    // Quantises what page `page` (from 0) holds for `block`, all layers that keep a residual; the page is free afterwards.
    virtual void seal_block(KvCache& cache, std::uint32_t block, std::uint32_t page) = 0;
    // Copies `tokens` slots from the start of one f16 page to another.
    virtual void copy_page(KvCache& cache, std::uint32_t from, std::uint32_t to, std::uint32_t tokens) = 0;
    // A whole f16 page of all layers to main memory and back, as it lies there: page_bytes(), 0 where no layer keeps a residual.
    // Both wait. Errors: the device's.
    virtual std::uint64_t page_bytes(const KvCache& cache) const = 0;
    virtual Result<void> save_page(const KvCache& cache, std::uint32_t page, std::span<std::byte> to) = 0;
    virtual Result<void> restore_page(KvCache& cache, std::uint32_t page, std::span<const std::byte> from) = 0;
    // What the first `tokens` slots of a block hold, expanded to f32: keys (kv_heads, tokens, key_dim), values likewise. page:
    // page + 1 where it is kept in f16, else 0. Waits. Errors: the device's.
    virtual Result<void> read_block(const KvCache& cache, std::uint32_t layer, std::uint32_t block,
                                    std::uint32_t page, std::uint32_t tokens, std::span<float> keys,
                                    std::span<float> values) = 0;
    // Fills a block of all layers with NaN, the null block too (debug: a read of a slot that was never written then shows).
    virtual void poison_block(KvCache& cache, std::uint32_t block) = 0;
    virtual Result<void> synchronise() = 0;

    // --- measuring ---
    // Stage timers: start_timing() begins a set and returns its number, each mark() ends the stage that ran since the
    // last mark (or the start). timings() of a set waits for its last mark. The newest two sets are kept, so that a set
    // can be read while the next pass runs: where late_timings() is true, reading it at once would make the device idle.
    virtual std::uint64_t start_timing() = 0;
    virtual void mark(StageKind kind, std::uint16_t layer) = 0;
    virtual std::span<const StageTiming> timings(std::uint64_t set) = 0;
    virtual bool late_timings() const { return false; }
    // What the device reaches (engine/record/ceilings.h), measured over buffers far larger than its caches with the
    // backend's own threads and library. Takes a second or two; cached after the first call. The device must be idle.
    // stop: looked at between the parts; what was not measured is 0.
    virtual Ceilings measure_ceilings(std::stop_token stop) = 0;

private:
    std::uint64_t m_owners = 0;
};

}  // namespace kvloupe
