// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/cuda_backend.h"

#include "kernels/backend_checks.h"
#include "kernels/cuda/batch_upload.h"
#include "kernels/cuda/card_attention.h"
#include "kernels/cuda/card_cache.h"
#include "kernels/cuda/card_ceilings.h"
#include "kernels/cuda/cuda_buffers.h"
#include "kernels/cuda/cuda_cache.h"
#include "kernels/cuda/device_query.h"
#include "kernels/cuda/event_clock.h"
#include "kernels/cuda/graph_store.h"
#include "kernels/cuda/logit_reader.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/stage_ranges.h"

#include <algorithm>
#include <new>

namespace kvloupe::cuda {

namespace {

// Owns the card's stream. First of the backend's members: everything else is destroyed before it.
class CardStream {
public:
    explicit CardStream(Card& card) : m_card(card) {
        if (m_card.ready()) m_card.fault().note(cudaStreamCreateWithFlags(&m_card.stream, cudaStreamNonBlocking), "the set-up");
    }
    ~CardStream() {
        if (m_card.stream != nullptr && cudaStreamDestroy(m_card.stream) != cudaSuccess) (void)cudaGetLastError();
    }
    CardStream(const CardStream&) = delete;
    CardStream& operator=(const CardStream&) = delete;

private:
    Card& m_card;
};

class CudaBackend final : public Backend {
public:
    CudaBackend(const CardReport& report, std::uint32_t processors, const CudaOptions& options)
        : m_report(report), m_options(options), m_card(report.index, report.name, processors), m_stream(m_card), m_batch(m_card),
          m_graphs(m_card), m_clock(m_card), m_attention(m_card, m_batch), m_cache(m_card, m_batch, m_attention), m_logits(m_card),
          m_scattered(m_card, "rows to scatter") {
        m_card.forget_passes = [this] { m_graphs.clear(); };
    }
    ~CudaBackend() override {
        m_ranges.end_step();
        if (m_card.fault().good() && m_card.stream != nullptr && cudaStreamSynchronize(m_card.stream) != cudaSuccess)
            (void)cudaGetLastError();
    }

    // The rest of the set-up, which can fail.
    Result<void> start() {
        if (!m_card.fault().good()) return m_card.fault().result();
        // What cuBLAS asks for on the card with the most demanding kernels (sm_90: 32 MiB; others take 4).
        const std::uint64_t workspace = std::uint64_t{m_report.major >= 9 ? 32u : 4u} << 20;
        auto memory = CardMemory::make(m_card, workspace, Purpose::activations, "the workspace of matrix products");
        if (!memory) return memory.error();
        m_workspace = std::move(*memory);
        auto library = make_matrix_library(m_card.stream, {m_workspace.data(), m_workspace.bytes()});
        if (!library) return library.error();
        m_library = std::move(*library);
        m_products = std::make_unique<Products>(m_card, *m_library, m_options.expanded_bytes);
        auto counters = OverflowCounters::make(m_card);
        if (!counters) return counters.error();
        m_counters = std::move(*counters);
        return m_batch.prepare();
    }

    DeviceInfo info() const override {
        const Card::Room room = m_card.room();
        return {"cuda:" + std::to_string(m_report.index), m_report.name, m_report.detail, room.total, room.free, true};
    }
    MemoryCounters memory() const override { return m_card.memory(); }

    // --- set-up ---
    Result<std::unique_ptr<Weight>> weight(const Tensor& tensor) override;
    Result<std::unique_ptr<Buffer>> buffer(std::uint64_t bytes, Purpose purpose) override {
        auto memory = CardMemory::make(m_card, bytes, purpose, "a buffer");
        if (!memory) return memory.error();
        return std::unique_ptr<Buffer>(new CudaBuffer(m_card, std::move(*memory)));
    }
    Result<std::unique_ptr<KvCache>> kv_cache(const KvCacheShape& shape, Purpose purpose) override {
        return CudaKvCache::make(m_card, *m_counters, shape, purpose);
    }
    Result<std::unique_ptr<HostBlocks>> host_blocks(const KvCache& cache, std::uint32_t count) override {
        return CudaHostBlocks::make(m_card, static_cast<const CudaKvCache&>(cache), count);
    }

    // --- a step ---
    Result<void> begin_batch(const Batch& batch) override {
        m_card.fault().begin_step();
        if (!m_card.ready()) return m_card.fault().result();
        m_products->forget();
        m_ranges.begin_step(batch.requests, batch.rows(), static_cast<std::uint32_t>(batch.sequences.size()));
        return m_batch.upload(batch);
    }
    bool begin_pass(const PassShape& shape) override {
        if (!m_card.ready()) return false;
        switch (m_graphs.plan({shape.owner, m_batch.key()})) {
        case GraphStore::Plan::run: break;
        case GraphStore::Plan::record: m_graphs.begin(); break;
        case GraphStore::Plan::replay: m_graphs.replay(); return true;
        }
        return false;
    }
    void end_pass() override { m_graphs.finish(); }

    void embed(const Weight& table, Buffer& out) override {
        if (!enter(Operation::embed)) return;
        note(cuda::embed(matrix(table), m_batch.tokens(), m_batch.key().rows, floats(out), m_card.stream), "the embedding");
    }
    void rms_norm(const Buffer& in, const Weight& weight, float epsilon, std::uint32_t rows, Buffer& out) override {
        if (!enter(Operation::norm)) return;
        note(cuda::rms_norm(floats(in), matrix(weight), epsilon, rows, floats(out), m_card.stream), "a norm");
    }
    void matmul(const Weight& weight, const Buffer& in, std::uint32_t rows, Buffer& out, bool accumulate) override {
        if (!m_card.ready()) return;
        m_ranges.enter(Operation::product);
        m_products->multiply(matrix(weight), {floats(in), floats(out), rows, accumulate});
    }
    void rotary_store(Buffer& q, Buffer& k, const Buffer& v, const AttentionShape& shape, const RotaryShape& rotary,
                      KvCache& cache, std::uint32_t layer) override {
        if (!enter(Operation::rotary_store)) return;
        m_cache.store({floats(q), floats(k), floats(v), shape.query_heads, shape.group}, rotary, pool_of(cache), layer);
    }
    void store(const Buffer& k, const Buffer& v, std::uint32_t group, KvCache& cache, std::uint32_t layer) override {
        if (!enter(Operation::rotary_store)) return;
        // Nothing is turned, so that k is only read.
        m_cache.store({nullptr, const_cast<float*>(floats(k)), floats(v), 0, group}, {}, pool_of(cache), layer);
    }
    void load(const KvCache& cache, std::uint32_t layer, std::uint32_t group, std::uint32_t sequence, std::uint32_t first, std::uint32_t count,
              Buffer& keys, Buffer& values) override {
        if (!enter(Operation::rotary_store)) return;
        m_cache.load(pool_of(cache), {layer, group, sequence, first, count}, floats(keys), floats(values));
    }
    void attention(const Buffer& q, const AttentionShape& shape, const KvCache& cache, std::uint32_t layer, Buffer& out,
                   AttentionProbe* probe) override {
        if (!enter(Operation::attention)) return;
        const CardAttention::Call call{floats(q), floats(out), shape, pool_of(cache), layer};
        m_attention.run(call);
        if (probe != nullptr && !probe->heads.empty() && m_card.fault().good()) m_attention.probe(call, *probe);
    }
    void gate_multiply(Activation activation, Buffer& gate, const Buffer& up, std::uint32_t rows, std::uint32_t width) override {
        if (!enter(Operation::activation)) return;
        note(cuda::gate_multiply(activation, floats(gate), floats(up), std::uint64_t{rows} * width, m_card.stream), "the activation");
    }
    // What only some models need stays in the stage at hand.
    void rotate(Buffer& x, std::uint32_t heads, std::uint32_t width, std::uint32_t first, const RotaryShape& rotary) override {
        if (!enter()) return;
        const TurnPart turn{floats(x), m_batch.positions(), m_batch.key().rows, heads, width, first, m_attention.rotary(rotary)};
        if (m_card.fault().good()) note(turn_part(turn, m_card.stream), "a rotation");
    }
    void rms_norm_heads(Buffer& x, const Weight& weight, float epsilon, std::uint32_t rows, std::uint32_t heads) override {
        if (enter()) note(cuda::rms_norm_heads(floats(x), matrix(weight), epsilon, rows * heads, m_card.stream), "norms of heads");
    }
    void add_bias(Buffer& x, const Weight& bias, std::uint32_t rows) override {
        if (enter()) note(cuda::add_bias(floats(x), matrix(bias), rows, m_card.stream), "a bias");
    }
    void scale(Buffer& x, float factor, std::uint64_t count) override {
        if (enter()) note(cuda::scale(floats(x), factor, count, m_card.stream), "a factor");
    }
    void soft_cap(Buffer& x, float cap, std::uint64_t count) override {
        if (enter()) note(cuda::soft_cap(floats(x), cap, count, m_card.stream), "a cap");
    }
    void add(const Buffer& from, Buffer& to, std::uint64_t count) override {
        if (enter()) note(cuda::add(floats(from), floats(to), count, m_card.stream), "a sum");
    }
    void copy_columns(const Buffer& in, const Columns& c, Buffer& out) override {
        if (!enter()) return;
        const std::uint32_t in_heads = c.in_heads == 0 ? c.heads : c.in_heads;
        note(cuda::copy_columns({floats(in), floats(out), c.rows, c.heads, in_heads, c.columns, c.in_width, c.in_first, c.out_width, c.out_first},
                                m_card.stream), "a copy of columns");
    }
    void matmul_heads(const Weight& weight, const Buffer& in, std::uint32_t rows, std::uint32_t heads, Buffer& out) override {
        if (m_card.ready()) m_products->multiply(matrix(weight), {floats(in), floats(out), rows, false, heads});
    }
    void scatter_add(const Buffer& in, std::span<const std::uint32_t> rows, std::span<const float> weights, std::uint32_t width,
                     Buffer& out) override;
    void gather_rows(const Buffer& in, std::span<const std::uint32_t> rows, std::uint32_t width, Buffer& out) override;
    Result<void> read(const Buffer& in, std::span<float> destination) override;
    bool supports_summaries() const override { return true; }
    Result<void> summarise(const Buffer& logits, std::uint32_t vocabulary, std::span<const TokenId> asked,
                           std::span<LogitSummary> out) override;
    void copy_block(KvCache& cache, std::uint32_t from, std::uint32_t to, std::uint32_t tokens) override {
        const CudaKvCache& pool = pool_of(cache);
        if (from != to) m_cache.copy(pool, pool.block(from), pool.block(to), tokens);
    }
    void swap_out(const KvCache& cache, std::uint32_t block, HostBlocks& host, std::uint32_t host_block,
                  std::uint32_t tokens) override {
        const CudaKvCache& pool = pool_of(cache);
        m_cache.copy(pool, pool.block(block), static_cast<const CudaHostBlocks&>(host).block(host_block), tokens);
    }
    void swap_in(KvCache& cache, std::uint32_t block, const HostBlocks& host, std::uint32_t host_block,
                 std::uint32_t tokens) override {
        const CudaKvCache& pool = pool_of(cache);
        m_cache.copy(pool, static_cast<const CudaHostBlocks&>(host).block(host_block), pool.block(block), tokens);
    }
    void seal_block(KvCache& cache, std::uint32_t block, std::uint32_t page) override { m_cache.seal(pool_of(cache), block, page); }
    void copy_page(KvCache& cache, std::uint32_t from, std::uint32_t to, std::uint32_t tokens) override {
        m_cache.copy_page(pool_of(cache), from, to, tokens);
    }
    std::uint64_t page_bytes(const KvCache& cache) const override { return pool_of(cache).page_bytes(); }
    Result<void> save_page(const KvCache& cache, std::uint32_t page, std::span<std::byte> to) override {
        if (!m_card.ready()) return m_card.fault().result();
        m_card.fault().note(pool_of(cache).save_page(page, to.data(), m_card.stream), "saving a page");
        return wait();
    }
    Result<void> restore_page(KvCache& cache, std::uint32_t page, std::span<const std::byte> from) override {
        if (!m_card.ready()) return m_card.fault().result();
        m_card.fault().note(pool_of(cache).restore_page(page, from.data(), m_card.stream), "restoring a page");
        return wait();
    }
    Result<void> read_block(const KvCache& cache, std::uint32_t layer, std::uint32_t block, std::uint32_t page, std::uint32_t tokens,
                            std::span<float> keys, std::span<float> values) override {
        if (!m_card.ready()) return m_card.fault().result();
        return m_cache.read(pool_of(cache), {layer, block, page, tokens}, keys, values);
    }
    void poison_block(KvCache& cache, std::uint32_t block) override { m_cache.poison(pool_of(cache), block); }
    Result<void> synchronise() override { return wait(); }

    // --- measuring ---
    std::uint64_t start_timing() override { return m_clock.start(); }
    void mark(StageKind kind, std::uint16_t layer) override { m_clock.mark(kind, layer); }
    std::span<const StageTiming> timings(std::uint64_t set) override { return m_clock.timings(set); }
    bool late_timings() const override { return true; }
    Ceilings measure_ceilings(std::stop_token stop) override {
        if (m_ceilings.measured_on.empty()) {
            const Ceilings measured = measure_card(m_card, *m_library, m_options, stop);
            if (stop.stop_requested()) return measured;  // half of it is not kept
            m_ceilings = measured;
        }
        return m_ceilings;
    }

private:
    void note(cudaError_t status, const char* what) { m_card.fault().note(status, what); }
    // Before an operation that writes activations; false where the card failed and nothing must be queued.
    bool enter() {
        if (!m_card.ready()) return false;
        m_products->forget();
        return true;
    }
    bool enter(Operation operation) {
        if (!enter()) return false;
        m_ranges.enter(operation);
        return true;
    }
    static CudaKvCache& pool_of(KvCache& cache) { return static_cast<CudaKvCache&>(cache); }
    static const CudaKvCache& pool_of(const KvCache& cache) { return static_cast<const CudaKvCache&>(cache); }
    // For everything queued so far; refreshes the counters of the caches. Ends the step.
    Result<void> wait() {
        if (m_card.ready()) {
            note(m_counters->refresh(m_card.stream), "the end of a step");
            note(cudaStreamSynchronize(m_card.stream), "the end of a step");
        }
        m_ranges.end_step();
        return m_card.fault().result();
    }

    CardReport m_report;
    CudaOptions m_options;
    mutable Card m_card;
    CardStream m_stream;
    CardMemory m_workspace;
    std::unique_ptr<MatrixLibrary> m_library;
    std::unique_ptr<Products> m_products;
    std::unique_ptr<OverflowCounters> m_counters;
    BatchUpload m_batch;
    GraphStore m_graphs;
    EventClock m_clock;
    CardAttention m_attention;
    CardCache m_cache;
    LogitReader m_logits;
    CardMemory m_gathered;   // rows that gather_rows() was given beside the batch's own
    Scratch m_scattered;     // rows and weights of scatter_add()
    StageRanges m_ranges;
    Ceilings m_ceilings;
};

Result<std::unique_ptr<Weight>> CudaBackend::weight(const Tensor& tensor) {
    if (auto checked = check_weight(tensor, "a card's"); !checked) return checked.error();
    auto memory = CardMemory::make(m_card, tensor.bytes(), Purpose::weights, "tensor '" + tensor.name + "'");
    if (!memory) return memory.error();
    // The file is mapped, not pinned: the driver copies it through its own pinned memory, and returns when it has read it.
    note(cudaMemcpyAsync(memory->data(), tensor.data, tensor.bytes(), cudaMemcpyHostToDevice, m_card.stream), "the upload of weights");
    note(cudaStreamSynchronize(m_card.stream), "the upload of weights");
    if (!m_card.fault().good()) return m_card.fault().error();
    std::unique_ptr<CudaWeight> weight(new CudaWeight(m_card, std::move(*memory), tensor));
    if (auto prepared = m_products->prepare(weight->matrix()); !prepared) return prepared.error();
    return std::unique_ptr<Weight>(std::move(weight));
}

// From pageable memory: rows and weights are taken before the calls return.
void CudaBackend::scatter_add(const Buffer& in, std::span<const std::uint32_t> rows, std::span<const float> weights, std::uint32_t width,
                              Buffer& out) {
    if (rows.empty() || !enter()) return;
    std::byte* const memory = m_scattered.take(rows.size_bytes() + weights.size_bytes());
    if (memory == nullptr) return;
    const char* what = "scattering rows";
    const Scatter scatter{floats(in), reinterpret_cast<const std::uint32_t*>(memory), reinterpret_cast<const float*>(memory + rows.size_bytes()),
                          floats(out), static_cast<std::uint32_t>(rows.size()), width};
    if (m_card.fault().note(cudaMemcpyAsync(memory, rows.data(), rows.size_bytes(), cudaMemcpyHostToDevice, m_card.stream), what) &&
        m_card.fault().note(cudaMemcpyAsync(memory + rows.size_bytes(), weights.data(), weights.size_bytes(), cudaMemcpyHostToDevice,
                                            m_card.stream), what))
        note(cuda::scatter_add(scatter, m_card.stream), what);
}

void CudaBackend::gather_rows(const Buffer& in, std::span<const std::uint32_t> rows, std::uint32_t width, Buffer& out) {
    if (rows.empty()) return;
    const std::uint32_t* device_rows = m_batch.logit_rows();
    const std::vector<std::uint32_t>& uploaded = m_batch.host_logit_rows();
    const bool of_logits = std::equal(rows.begin(), rows.end(), uploaded.begin(), uploaded.end());
    if (!(of_logits ? enter(Operation::gather) : enter())) return;  // an expert's rows stay in their stage
    if (!of_logits) {
        if (m_gathered.bytes() < rows.size_bytes()) {
            auto memory = CardMemory::make(m_card, rows.size_bytes(), Purpose::activations, "rows to gather");
            if (!memory) return m_card.fault().note_in_step(memory.error());
            m_gathered = std::move(*memory);
        }
        // From pageable memory: the rows are taken before the call returns.
        note(cudaMemcpyAsync(m_gathered.data(), rows.data(), rows.size_bytes(), cudaMemcpyHostToDevice, m_card.stream), "gathering rows");
        device_rows = m_gathered.as<const std::uint32_t>();
    }
    if (m_card.fault().good())
        note(cuda::gather_rows(floats(in), device_rows, static_cast<std::uint32_t>(rows.size()), width, floats(out), m_card.stream),
             "gathering rows");
}

Result<void> CudaBackend::read(const Buffer& in, std::span<float> destination) {
    if (destination.size_bytes() > in.bytes())
        return Error{std::to_string(destination.size_bytes()) + " bytes were asked of a buffer of " + std::to_string(in.bytes()),
                     "This is a defect of the program"};
    if (m_card.ready() && !destination.empty())
        note(cudaMemcpyAsync(destination.data(), floats(in), destination.size_bytes(), cudaMemcpyDeviceToHost, m_card.stream),
             "reading results");
    return wait();
}

Result<void> CudaBackend::summarise(const Buffer& logits, std::uint32_t vocabulary, std::span<const TokenId> asked,
                                    std::span<LogitSummary> out) {
    if (asked.size() != out.size() || std::uint64_t{vocabulary} * out.size() * sizeof(float) > logits.bytes())
        return Error{"Summaries of " + std::to_string(out.size()) + " rows of " + std::to_string(vocabulary) +
                         " logits were asked of a buffer of " + std::to_string(logits.bytes()) + " bytes",
                     "This is a defect of the program"};
    if (!m_card.ready()) return m_card.fault().result();
    if (!out.empty())
        if (auto queued = m_logits.queue({floats(logits), vocabulary, asked}); !queued) return queued;
    if (auto done = wait(); !done) return done;
    m_logits.take(out);
    return {};
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(int card, const CudaOptions& options) {
    const auto report = usable_card(card);
    if (!report) return report.error();
    int processors = 0;
    if (cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, card) != cudaSuccess) (void)cudaGetLastError();
    try {
        auto backend = std::make_unique<CudaBackend>(*report, static_cast<std::uint32_t>(std::max(1, processors)), options);
        if (auto started = backend->start(); !started) return started.error();
        return std::unique_ptr<Backend>(std::move(backend));
    } catch (const std::bad_alloc&) {
        return Error{"Not enough main memory for the backend of " + report->name, "Close other programs"};
    }
}

}  // namespace kvloupe::cuda
