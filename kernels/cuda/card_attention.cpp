// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/card_attention.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::cuda {

namespace {

// Tokens that a query can see at most where its context is of that length.
std::uint32_t seen_of(const KeySpan& span, std::uint32_t context) {
    if (span.window > 0) return std::min(context, span.window + span.sinks);
    if (span.chunk > 0) return std::min(context, span.chunk);
    return context;
}

}  // namespace

RotaryArgs CardAttention::rotary(const RotaryShape& shape) {
    RotaryArgs args;
    args.layout = shape.layout;
    args.magnitude = shape.scaling.magnitude;
    if (shape.rotary_dim < 2) return args;
    for (const Frequencies& known : m_frequencies)
        if (known.shape == shape) args.frequencies = known.memory.as<double>();
    if (args.frequencies == nullptr) {
        const std::vector<double> values = rotary_frequencies(shape);
        auto memory = CardMemory::make(m_card, values.size() * sizeof(double), Purpose::activations, "rotary frequencies");
        if (!memory) {
            m_card.fault().note_in_step(memory.error());
            return args;
        }
        // From pageable memory: the values are taken before the call returns.
        m_card.fault().note(cudaMemcpyAsync(memory->data(), values.data(), memory->bytes(), cudaMemcpyHostToDevice, m_card.stream),
                            "the rotary frequencies");
        args.frequencies = memory->as<double>();
        m_frequencies.push_back({shape, std::move(*memory)});
    }
    args.rotary_dim = shape.rotary_dim / 2 * 2;
    return args;
}

AttentionArgs CardAttention::args_of(const Call& call) {
    AttentionArgs args;
    args.q = call.q;
    args.out = call.out;
    args.cache = call.cache.layer(call.layer);
    args.block_tables = m_batch.block_tables();
    args.table_pages = m_batch.table_pages();
    args.sequences = m_batch.sequences(call.shape.group);
    args.query_heads = call.shape.query_heads;
    args.scale = call.shape.scale;
    args.span = call.shape.span;
    args.soft_cap = call.shape.soft_cap;
    args.latent = call.shape.latent;
    if (call.shape.span.rank) args.rotary = rotary(call.shape.rotary);
    return args;
}

bool CardAttention::prepare(const Call& call, AttentionArgs& args) {
    args = args_of(call);
    const std::uint32_t rows = m_batch.key().rows;
    const bool rotates = args.cache.keys.rotate || (args.latent && args.cache.values.rotate);
    if (!rotates || rows == 0) return true;
    const bool sinks = call.shape.span.rank && call.shape.span.window > 0 && call.shape.span.sinks > 0;
    const std::uint32_t keys = args.cache.head_dim_k, width = call.shape.head_dim;  // with a latent there is more of a query
    const std::uint64_t count = std::uint64_t{rows} * args.query_heads * width;
    float* const turned = reinterpret_cast<float*>(m_turned.take(count * sizeof(float) * (sinks ? 2 : 1)));
    if (turned == nullptr) return false;
    TurnRows turn;
    turn.from = call.q;
    turn.rows = rows;
    turn.heads = args.query_heads;
    turn.stride = width;
    // The part that has a position is turned back for sinks first: of a latent's queries the rotary one.
    const auto turn_to = [&](float* to, bool seen_by_sinks, bool second) {
        turn.to = to;
        turn.first = second ? keys : 0;
        turn.width = second ? width - keys : keys;
        turn.hadamard = second ? args.cache.values.rotate : args.cache.keys.rotate;
        const bool back = seen_by_sinks && second == args.latent;
        turn.positions = back ? m_batch.positions() : nullptr;
        turn.span = args.span;
        turn.rotary = back ? args.rotary : RotaryArgs{};
        return turn.width == 0 || m_card.fault().note(turn_rows(turn, m_card.stream), "turning queries");
    };
    for (const bool seen_by_sinks : {false, true}) {
        if (seen_by_sinks && !sinks) break;
        float* const to = turned + (seen_by_sinks ? count : 0);
        if (!turn_to(to, seen_by_sinks, false) || (args.latent && !turn_to(to, seen_by_sinks, true))) return false;
    }
    args.q = turned;
    if (sinks) args.sink_q = turned + count;
    return true;
}

void CardAttention::run(const Call& call) {
    const BatchKey& key = m_batch.key();
    AttentionArgs args;
    if (!prepare(call, args)) return;
    const bool good = call.shape.form == AttentionForm::materialised ? run_materialised(call, args) : run_tiled(call, args);
    const CacheTensor& values = args.latent ? args.cache.keys : args.cache.values;
    if (!good || !values.rotate || key.rows == 0) return;
    TurnRows turn;
    turn.from = turn.to = call.out;
    turn.rows = key.rows;
    turn.heads = args.query_heads;
    turn.width = turn.stride = value_dim_of(call.shape);
    m_card.fault().note(turn_rows(turn, m_card.stream), "turning outputs back");
}

bool CardAttention::run_tiled(const Call& call, const AttentionArgs& args) {
    const BatchKey& key = m_batch.key();
    if (key.decodes > 0) {
        DecodeAttention decode;
        decode.args = args;
        decode.list = m_batch.decodes();
        decode.count = key.decodes;
        // By the next power of two, so that a pass stays the same while its contexts grow.
        const std::uint32_t context = seen_of(call.shape.span, key.context);
        decode.splits = args.latent ? latent_splits(key.decodes, call.shape.query_heads, context, m_card.processors())
                                    : decode_splits(key.decodes, call.shape.kv_heads, context, m_card.processors());
        const std::uint64_t bytes = decode_scratch_bytes(key.decodes, call.shape.query_heads, value_dim_of(call.shape), decode.splits);
        decode.scratch = m_scratch.take(bytes);
        if (bytes > 0 && decode.scratch == nullptr) return false;
        if (!m_card.fault().note(attention_decode(decode, m_card.stream), "decode attention")) return false;
    }
    if (key.tiles > 0) {
        PrefillAttention prefill;
        prefill.args = args;
        prefill.tiles = m_batch.tiles();
        prefill.count = key.tiles;
        if (!m_card.fault().note(attention_prefill(prefill, m_card.stream), "prefill attention")) return false;
    }
    return true;
}

// Sequence by sequence, and of long ones so many rows at a time as scores have room for.
bool CardAttention::run_materialised(const Call& call, const AttentionArgs& args) {
    constexpr std::uint64_t room = std::uint64_t{256} << 20;
    constexpr std::uint32_t fewest = 32;  // rows, whatever they take
    const std::vector<Batch::Sequence>& sequences = m_batch.host_sequences();
    for (std::uint32_t s = 0; s < sequences.size(); ++s) {
        const Batch::Sequence& sequence = sequences[s];
        const std::uint64_t keys = std::uint64_t{sequence.first_position} + sequence.rows;
        const std::uint64_t of_row = keys * call.shape.query_heads * sizeof(float);
        const auto step = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(sequence.rows, std::max<std::uint64_t>(fewest, room / std::max<std::uint64_t>(1, of_row) / fewest * fewest)));
        for (std::uint32_t first = 0; first < sequence.rows; first += step) {
            MaterialisedAttention attention;
            attention.args = args;
            attention.sequence = s;
            attention.first_row = first;
            attention.rows = std::min(step, sequence.rows - first);
            attention.keys = sequence.first_position + first + attention.rows;
            attention.scores = reinterpret_cast<float*>(m_scores.take(of_row * step));
            if (attention.scores == nullptr ||
                !m_card.fault().note(attention_materialised(attention, m_card.stream), "attention with whole scores"))
                return false;
        }
    }
    return true;
}

void CardAttention::probe(const Call& call, AttentionProbe& probe) {
    const std::uint32_t rows = m_batch.key().rows;
    const std::vector<std::uint32_t>& positions = m_batch.host_positions();
    std::vector<std::uint64_t> offsets(rows);
    std::vector<std::uint32_t> row_sequence(rows);
    std::uint64_t total = 0;
    for (std::uint32_t row = 0; row < rows; ++row) {
        offsets[row] = total;
        total += std::uint64_t{positions[row]} + 1;
    }
    const std::vector<Batch::Sequence>& sequences = m_batch.host_sequences();
    for (std::uint32_t s = 0; s < sequences.size(); ++s)
        std::fill_n(row_sequence.begin() + sequences[s].first_row, sequences[s].rows, s);

    probe.weights.assign(probe.heads.size(), {});
    if (rows == 0) return;
    std::byte* weights = m_weights.take(total * sizeof(float));
    std::byte* table = m_rows.take(rows * (sizeof(std::uint64_t) + sizeof(std::uint32_t)));
    if (weights == nullptr || table == nullptr) return;
    DeviceFault& fault = m_card.fault();
    const char* what = "watching attention";
    std::byte* table_sequences = table + rows * sizeof(std::uint64_t);
    if (!fault.note(cudaMemcpyAsync(table, offsets.data(), rows * sizeof(std::uint64_t), cudaMemcpyHostToDevice, m_card.stream), what) ||
        !fault.note(cudaMemcpyAsync(table_sequences, row_sequence.data(), rows * sizeof(std::uint32_t), cudaMemcpyHostToDevice,
                                    m_card.stream), what))
        return;
    AttentionProbeArgs args;
    if (!prepare(call, args.args)) return;
    args.positions = m_batch.positions();
    args.offsets = reinterpret_cast<const std::uint64_t*>(table);
    args.row_sequence = reinterpret_cast<const std::uint32_t*>(table_sequences);
    args.rows = rows;
    args.weights = reinterpret_cast<float*>(weights);
    std::vector<float> flat(total);
    for (std::size_t i = 0; i < probe.heads.size(); ++i) {
        args.head = probe.heads[i];
        if (!fault.note(attention_probe(args, m_card.stream), what) ||
            !fault.note(cudaMemcpyAsync(flat.data(), weights, total * sizeof(float), cudaMemcpyDeviceToHost, m_card.stream), what) ||
            !fault.note(cudaStreamSynchronize(m_card.stream), what))
            return;
        probe.weights[i].resize(rows);
        for (std::uint32_t row = 0; row < rows; ++row) {
            const auto from = flat.begin() + static_cast<std::ptrdiff_t>(offsets[row]);
            probe.weights[i][row].assign(from, from + positions[row] + 1);
        }
    }
}

}  // namespace kvloupe::cuda
