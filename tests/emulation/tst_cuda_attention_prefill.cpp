// SPDX-License-Identifier: GPL-3.0-or-later
//
// Prefill attention on the emulated device, against the scalar twin, over random paged caches (attention_cases.h: what no
// row sees is NaN, and its table entries lead nowhere).
//
// Tolerances, relative to the largest output. On tensor cores q, times the scale, and the weights are rounded to the cache's
// type: 11 bits of f16 (relative error at most 2^-11), 8 of bf16 (2^-8). A score of a few units moves by about
// |q| |k| 2^-11 / sqrt(3), a weight by the same share and its own rounding; outputs are means over weights. 2e-3 and
// 1.5e-2 hold that with room, while one key too many or too few costs 1e-2 and more in these cases. So the same is compared
// with a twin that rounds q and the weights at the same places, as root of the mean square: what is left is f32 sums and
// the few weights that f32 and double round differently, and a tenth of the tolerance holds. f32: 3e-6.
#include "tests/emulation/all_pairs.h"
#include "tests/emulation/attention_cases.h"
#include "tests/emulation/device_memory.h"
#include "tests/support/rows.h"

#include <cmath>
#include <limits>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool on_tensor_cores(const AttentionCase& c) {
    const std::uint32_t d = c.head_dim;
    return c.keys == c.values && c.keys != DType::f32 && (d == 64 || d == 80 || d == 96 || d == 128 || d == 256);
}

double tolerance(const AttentionCase& c) {
    if (!on_tensor_cores(c)) return 3e-6;
    return c.keys == DType::f16 ? 2e-3 : 1.5e-2;
}

std::vector<cuda::PrefillTile> tiles_of(const AttentionCase& c) {
    std::vector<cuda::PrefillTile> tiles;
    for (std::uint32_t s = 0; s < c.sequences.size(); ++s)
        for (std::uint32_t row = 0; row < c.sequences[s].rows; row += cuda::prefill_rows) tiles.push_back({s, row});
    return tiles;
}

struct Run {
    DeviceArray<float> out;
    explicit Run(std::size_t size) : out(size) {}

    void launch(Check& check, const AttentionCase& c, cuda::AttentionArgs args) {
        const DeviceArray<cuda::PrefillTile> tiles(tiles_of(c));
        args.out = out.data();
        LAUNCHED(cuda::attention_prefill({args, tiles.data(), static_cast<std::uint32_t>(tiles.size())}, nullptr));
        CHECK_THAT(out.guards_hold() && tiles.guards_hold());
    }
};

double rounded(DType dtype, double value) {
    std::byte bytes[4];
    cpu::scalar::store_element(dtype, bytes, 0, static_cast<float>(value));
    return cpu::scalar::element(dtype, bytes, 0);
}

// The kernel's steps in double, rounded where it rounds: tiles of keys from multiples of their size on, sinks first.
class RoundingTwin {
public:
    RoundingTwin(const AttentionCase& c, const cuda::AttentionArgs& args) : m_case(c), m_args(args) {}

    std::vector<double> outputs() {
        std::vector<double> out;
        for (std::uint32_t s = 0; s < m_case.sequences.size(); ++s)
            for (std::uint32_t row = 0; row < m_case.sequences[s].rows; ++row)
                for (std::uint32_t head = 0; head < m_case.query_heads(); ++head) {
                    attend(s, row, head);
                    for (double value : m_out) out.push_back(value / m_sum);
                }
        return out;
    }

private:
    void attend(std::uint32_t s, std::uint32_t row, std::uint32_t head) {
        const cuda::SequenceRows& sequence = m_args.sequences[s];
        const std::uint32_t d = m_case.head_dim, position = sequence.first_position + row;
        const SeenKeys seen = m_args.span.seen(position);
        m_query = m_args.q + (std::size_t{sequence.first_row + row} * m_case.query_heads() + head) * d;
        m_sequence = &sequence;
        m_kv_head = head / m_case.group;
        m_out.assign(d, 0.0);
        m_sum = 0;
        m_maximum = -infinity;
        round_query(m_args.span.dropped(position));
        run(0, seen.sinks);
        round_query(0);
        run(seen.begin, seen.end);
    }
    void round_query(std::uint32_t dropped) {
        m_q.clear();
        for (std::uint32_t i = 0; i < m_case.head_dim; ++i)
            m_q.push_back(rounded(m_case.keys, static_cast<double>(m_args.scale * turned(i, dropped))));
    }
    // Turned back by that many positions, to f32.
    float turned(std::uint32_t i, std::uint32_t dropped) const {
        const std::uint32_t half = m_args.rotary.rotary_dim / 2;
        if (dropped == 0 || i >= 2 * half) return m_query[i];
        const bool adjacent = m_args.rotary.layout == RotaryLayout::adjacent;
        const std::uint32_t pair = adjacent ? i / 2 : i % half;
        const double a = static_cast<double>(m_query[adjacent ? 2 * pair : pair]);
        const double b = static_cast<double>(m_query[adjacent ? 2 * pair + 1 : pair + half]);
        const double angle = dropped * m_args.rotary.frequencies[pair];
        const bool first = adjacent ? i % 2 == 0 : i < half;
        return static_cast<float>(first ? a * std::cos(angle) + b * std::sin(angle) : b * std::cos(angle) - a * std::sin(angle));
    }
    void run(std::uint32_t begin, std::uint32_t end) {
        const std::uint32_t tile = m_case.head_dim > 128 ? 32 : 64;
        for (std::uint32_t first = begin; first < end;) {
            const std::uint32_t last = std::min(end, (first / tile + 1) * tile);
            add(first, last);
            first = last;
        }
    }
    std::size_t key_row(std::uint32_t t) const {
        const std::uint32_t block = m_args.block_tables[m_sequence->table_begin + t / m_case.block_size];
        return ((std::size_t{block} * m_case.kv_heads + m_kv_head) * m_case.block_size + t % m_case.block_size) * m_case.head_dim;
    }
    void add(std::uint32_t begin, std::uint32_t end) {
        std::vector<double> scores;
        for (std::uint32_t t = begin; t < end; ++t) {
            double score = 0;
            for (std::uint32_t i = 0; i < m_case.head_dim; ++i)
                score += m_q[i] * cpu::scalar::element(m_case.keys, m_args.cache.keys.data, key_row(t) + i);
            scores.push_back(score);
        }
        const double largest = std::max(m_maximum, *std::max_element(scores.begin(), scores.end()));
        const double shrink = std::exp(m_maximum - largest);
        m_maximum = largest;
        m_sum *= shrink;
        for (double& value : m_out) value *= shrink;
        for (std::uint32_t t = begin; t < end; ++t) {
            const double weight = std::exp(scores[t - begin] - largest);
            m_sum += weight;
            for (std::uint32_t i = 0; i < m_case.head_dim; ++i)
                m_out[i] += rounded(m_case.keys, weight) * cpu::scalar::element(m_case.values, m_args.cache.values.data, key_row(t) + i);
        }
    }

    const AttentionCase& m_case;
    const cuda::AttentionArgs& m_args;
    const cuda::SequenceRows* m_sequence = nullptr;
    const float* m_query = nullptr;
    std::uint32_t m_kv_head = 0;
    std::vector<double> m_q, m_out;
    double m_sum = 0, m_maximum = 0;
};

// Root of the mean square of the differences, relative to that of the wanted values.
double mean_difference(const std::vector<float>& got, const std::vector<double>& want) {
    double differences = 0, squares = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
        differences += (static_cast<double>(got[i]) - want[i]) * (static_cast<double>(got[i]) - want[i]);
        squares += want[i] * want[i];
    }
    return std::sqrt(differences / squares);
}

void equals_twin(Check& check, const AttentionCase& c) {
    AttentionData data(c);
    Run run(data.out_size());
    run.launch(check, c, data.args());
    if (!check.good()) return;
    const std::vector<float> got = run.out.host();
    CHECK_BELOW(largest_difference(got, data.reference()), tolerance(c));
    if (!on_tensor_cores(c)) return;
    const cuda::AttentionArgs args = data.args();
    CHECK_BELOW(mean_difference(got, RoundingTwin(c, args).outputs()), tolerance(c) / 10);
}

// Queries of 0 weigh all keys alike, exactly: the output is the mean of the values that a row sees.
void means_are_exact(Check& check, const AttentionCase& c) {
    AttentionData data(c);
    cuda::AttentionArgs args = data.args();
    const std::vector<float> zeros(data.out_size(), 0.0f);
    args.q = zeros.data();
    Run run(data.out_size());
    run.launch(check, c, args);
    if (!check.good()) return;
    CHECK_BELOW(largest_difference(run.out.host(), RoundingTwin(c, args).outputs()), 1e-6);
}

void block_size_changes_no_bit(Check& check, AttentionCase c) {
    std::vector<float> first;
    for (std::uint32_t block_size : {16u, 1u, 8u, 32u, 256u}) {
        c.block_size = block_size;
        AttentionData data(c);
        Run run(data.out_size());
        run.launch(check, c, data.args());
        if (!check.good()) return;
        if (first.empty()) first = run.out.host();
        CHECK_THAT(std::memcmp(first.data(), run.out.data(), run.out.bytes()) == 0);
    }
}

// Chunks of a prompt give what the whole prompt gives, to the rounding of sums in another order.
void chunks_equal_whole(Check& check, AttentionCase c) {
    c.sequences = {{0, 200}};
    AttentionData whole(c);
    Run at_once(whole.out_size());
    at_once.launch(check, c, whole.args());
    if (!check.good()) return;
    const std::vector<float> want = at_once.out.host();
    const std::size_t row_size = whole.out_size() / 200;
    for (const CaseSequence chunk : {CaseSequence{0, 50}, CaseSequence{50, 1}, CaseSequence{51, 100}, CaseSequence{151, 49}}) {
        cuda::AttentionArgs args = whole.args();
        cuda::SequenceRows rows = args.sequences[0];
        rows.rows = chunk.rows;
        rows.first_position = chunk.before;
        args.sequences = &rows;
        args.q += chunk.before * row_size;
        AttentionCase part = c;
        part.sequences = {chunk};
        Run run(chunk.rows * row_size);
        run.launch(check, part, args);
        if (!check.good()) return;
        const std::vector<double> expected(want.begin() + static_cast<std::ptrdiff_t>(chunk.before * row_size),
                                           want.begin() + static_cast<std::ptrdiff_t>((chunk.before + chunk.rows) * row_size));
        CHECK_BELOW(largest_difference(run.out.host(), expected), tolerance(c) / 4);
    }
}

// A key and a value that are infinite or NaN, and that only the last rows see, leave the rows before them as they were.
void unseen_keys_do_not_count(Check& check, const AttentionCase& c, float strange) {
    AttentionData data(c);
    const std::vector<double> reference = data.reference();
    cuda::AttentionArgs args = data.args();
    const std::uint32_t last = c.sequences[0].before + c.sequences[0].rows - 1;
    const std::uint32_t block = args.block_tables[last / c.block_size];
    for (std::uint32_t head = 0; head < c.kv_heads; ++head)
        for (std::uint32_t i = 0; i < c.head_dim; i += 3) {
            const std::size_t at = ((std::size_t{block} * c.kv_heads + head) * c.block_size + last % c.block_size) * c.head_dim + i;
            cpu::scalar::store_element(c.keys, args.cache.keys.data, at, strange);
            cpu::scalar::store_element(c.values, args.cache.values.data, at, strange);
        }
    Run run(data.out_size());
    run.launch(check, c, args);
    if (!check.good()) return;
    std::vector<float> got = run.out.host();
    const std::size_t row_size = std::size_t{c.query_heads()} * c.head_dim;
    bool finite = true;
    for (std::size_t i = got.size() - row_size; i < got.size(); ++i) finite = finite && std::isfinite(got[i]);
    CHECK_THAT(!finite);  // the last row sees it
    got.resize(got.size() - row_size);
    CHECK_BELOW(largest_difference(got, std::vector<double>(reference.begin(), reference.end() - static_cast<std::ptrdiff_t>(row_size))),
                tolerance(c));
}

// An infinite value of a key that all but the first row see, in a tile that is not seen whole: the rows that see it become
// infinite in its columns and stay what they were in the others.
void infinite_values_reach_their_columns(Check& check, const AttentionCase& c) {
    AttentionData data(c);
    const std::vector<double> reference = data.reference();
    cuda::AttentionArgs args = data.args();
    constexpr std::uint32_t token = 1;
    const std::uint32_t column = 5 % c.head_dim;
    const std::uint32_t block = args.block_tables[token / c.block_size];
    cpu::scalar::store_element(c.values, args.cache.values.data,
                               ((std::size_t{block} * c.kv_heads) * c.block_size + token % c.block_size) * c.head_dim + column,
                               std::numeric_limits<float>::infinity());
    Run run(data.out_size());
    run.launch(check, c, args);
    if (!check.good()) return;
    const std::vector<float> got = run.out.host();
    double difference = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const std::size_t row = i / c.head_dim / c.query_heads(), head = i / c.head_dim % c.query_heads();
        if (row >= token && head < c.group && i % c.head_dim == column) CHECK_EQUAL(static_cast<double>(got[i]), infinity);
        else difference = std::max(difference, std::abs(static_cast<double>(got[i]) - reference[i]));
    }
    CHECK_BELOW(difference, 2 * tolerance(c));  // values are below sqrt(3)
}

void refuses_what_it_cannot(Check& check) {
    AttentionData data({});
    DeviceArray<float> out(data.out_size());
    const DeviceArray<cuda::PrefillTile> tiles(std::vector<cuda::PrefillTile>{{0, 0}});
    cuda::AttentionArgs args = data.args();
    args.out = out.data();
    CHECK_EQUAL(cuda::attention_prefill({args, tiles.data(), 0}, nullptr), cudaSuccess);
    cuda::AttentionArgs wide = args;
    wide.cache.head_dim_k = wide.cache.head_dim_v = 257;
    CHECK_EQUAL(cuda::attention_prefill({wide, tiles.data(), 1}, nullptr), cudaErrorInvalidValue);
    cuda::AttentionArgs packed = args;
    packed.cache.values.dtype = DType::q8_0;
    CHECK_EQUAL(cuda::attention_prefill({packed, tiles.data(), 1}, nullptr), cudaErrorInvalidValue);
    cuda::AttentionArgs uneven = args;
    uneven.query_heads = 3;
    CHECK_EQUAL(cuda::attention_prefill({uneven, tiles.data(), 1}, nullptr), cudaErrorInvalidValue);
    for (float value : out.host()) CHECK_THAT(std::isnan(value));  // nothing was launched
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> rows;
    const auto add = [&](const char* claim, const AttentionCase& c, void (*run)(Check&, const AttentionCase&)) {
        rows.push_back({std::string(claim) + ": " + c.label(), [c, run](Check& check) { run(check, c); }});
    };
    struct Types {
        DType keys, values;
        std::uint32_t head_dim;
    };
    std::vector<Types> types;
    for (std::uint32_t head_dim : {64u, 80u, 96u, 128u, 256u}) {
        types.push_back({DType::f16, DType::f16, head_dim});
        types.push_back({DType::bf16, DType::bf16, head_dim});
        types.push_back({DType::f32, DType::f32, head_dim});
    }
    for (std::uint32_t head_dim : {1u, 12u, 40u}) types.push_back({DType::f16, DType::f16, head_dim});
    types.push_back({DType::f16, DType::bf16, 64});
    types.push_back({DType::bf16, DType::f32, 200});
    types.push_back({DType::f32, DType::f16, 13});
    const std::vector<std::uint32_t> groups = {1, 2, 3, 4, 8}, block_sizes = {1, 8, 16, 32, 256};
    const std::vector<std::vector<CaseSequence>> batches = {
        {{0, 1}}, {{0, 15}}, {{0, 16}}, {{0, 64}}, {{0, 65}}, {{63, 2}}, {{64, 63}}, {{100, 70}}, {{31, 33}, {0, 5}}, {{250, 10}, {7, 17}}};
    constexpr std::size_t spans = std::size(attention_spans);
    const AllPairs pairs({types.size(), groups.size(), block_sizes.size(), batches.size(), spans});
    unsigned seed = 1;
    for (const auto& level : pairs.rows()) {
        AttentionCase c;
        c.keys = types[level[0]].keys;
        c.values = types[level[0]].values;
        c.head_dim = types[level[0]].head_dim;
        c.group = groups[level[1]];
        c.kv_heads = c.group > 2 ? 1 : 2;
        c.block_size = block_sizes[level[2]];
        c.sequences = batches[level[3]];
        c.span = attention_spans[level[4]];
        c.layout = seed % 2 == 0 ? RotaryLayout::half_split : RotaryLayout::adjacent;
        c.seed = seed++;
        add("equals its twin", c, equals_twin);
    }
    for (const Types& type : types) {
        AttentionCase c;
        c.keys = type.keys;
        c.values = type.values;
        c.head_dim = type.head_dim;
        c.group = 2;
        c.kv_heads = 1;
        c.sequences = {{20, 70}};
        add("infinite values reach the rows that see them", {type.keys, type.values, type.head_dim, 2, 1, 8, {{0, 40}}},
            infinite_values_reach_their_columns);
        if (type.head_dim <= 12) continue;
        add("equal weights give means", c, means_are_exact);
        c.span = attention_spans[8];  // window 7, 20 sinks
        add("equal weights give means", c, means_are_exact);
    }
    for (DType dtype : {DType::f16, DType::bf16, DType::f32}) {
        AttentionCase c;
        c.keys = c.values = dtype;
        c.group = 2;
        c.kv_heads = 1;
        c.sequences = {{30, 70}};
        add("the block size changes no bit", c, [](Check& check, const AttentionCase& one) { block_size_changes_no_bit(check, one); });
        add("chunks of a prompt equal the whole", c, [](Check& check, const AttentionCase& one) { chunks_equal_whole(check, one); });
        c.span = attention_spans[12];  // window 17, 5 sinks by rank
        add("the block size changes no bit", c, [](Check& check, const AttentionCase& one) { block_size_changes_no_bit(check, one); });
        add("chunks of a prompt equal the whole", c, [](Check& check, const AttentionCase& one) { chunks_equal_whole(check, one); });
        c.span = attention_spans[0];
        add("an infinite key that a row does not see does not count", c, [](Check& check, const AttentionCase& one) {
            unseen_keys_do_not_count(check, one, std::numeric_limits<float>::infinity());
        });
        add("a key of NaN that a row does not see does not count", c, [](Check& check, const AttentionCase& one) {
            unseen_keys_do_not_count(check, one, std::nanf(""));
        });
    }
    rows.push_back({"what it cannot do is refused, and nothing is launched for nothing", refuses_what_it_cannot});
    return rows;
}
