// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/backend_rows.h"
#include "tests/support/format_cases.h"

namespace kvloupe::test {

namespace {

bool by_itself(const BackendSubject& subject) { return subject.device == "cpu"; }

// Few where a card is interpreted: tests/emulation has the others.
std::vector<std::uint32_t> head_sizes(const BackendSubject& subject) {
    if (by_itself(subject) || subject.large) return {16, 64, 80, 96, 128, 256};
    return {16, 64, 96};
}

// A decode within one tile, one across tiles, a prompt and a chunk of one; few tokens where a card is interpreted.
std::vector<Piece> pieces_for(const BackendSubject& subject) {
    if (by_itself(subject)) return {{0, 1}, {300, 1}, {0, 9}, {250, 3}};
    return subject.large ? std::vector<Piece>{{0, 1}, {5000, 1}, {0, 65}, {70, 9}} : std::vector<Piece>{{0, 1}, {70, 1}, {0, 9}, {33, 5}};
}

std::string text_of_case(const FormatCase& c) {
    std::string text = text_of(c.keys);
    if (c.keys != c.values) text += " keys, " + text_of(c.values) + " values";
    return text;
}

// What a read hands out against what the twin keeps. A row that is turned is summed in another order than the twin's, so
// now and then a value lies on the other side of a rounding: few rows may.
void compare_blocks(Backend& backend, FilledCache& filled, const FormatCase& c, Check& check) {
    std::size_t rows = 0, apart = 0;
    for (std::uint32_t block = 1; block < filled.blocks(); ++block) {
        const std::uint32_t tokens = filled.tokens_in(block);
        const std::size_t of_head = std::size_t{tokens} * c.head_dim;
        std::vector<float> keys(of_head * c.kv_heads), values(of_head * c.kv_heads);
        CHECK_THAT(bool(backend.read_block(filled.cache(), 1, block, filled.page_of(block), tokens, keys, values)));
        for (const KvPart part : {KvPart::keys, KvPart::values})
            for (std::uint32_t head = 0; head < c.kv_heads; ++head) {
                const std::vector<float> want = filled.kept(part, block, head);
                const float* got = (part == KvPart::keys ? keys : values).data() + head * of_head;
                const KvFormat& format = part == KvPart::keys ? c.keys : c.values;
                for (std::uint32_t t = 0; t < tokens; ++t, ++rows) {
                    const double off = relative_difference(got + t * c.head_dim, want.data() + t * c.head_dim, c.head_dim);
                    if (!format.rotate) CHECK_BELOW(off, 3e-7);
                    if (is_float(format.dtype)) CHECK_BELOW(off, 1e-3);  // steps of f16 are so fine that many roundings differ
                    else apart += !(off < 2e-6);
                }
            }
    }
    CHECK_THAT(rows > 0);
    // A rounding of KIVI's extremes moves all rows of its group.
    const std::size_t at_once = c.keys.keeps_residual() ? c.keys.group : 1;
    CHECK_BELOW(apart, rows / 200 + 2 * at_once);
}

void format_row(const BackendSubject& subject, FormatCase c, const std::vector<std::uint32_t>& sizes, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    c.pieces = pieces_for(subject);
    std::vector<float> first;
    for (const std::uint32_t size : sizes) {
        c.block_size = size;
        FilledCache filled(*backend, c);
        CHECK_EQUAL(filled.problem(), std::string());
        compare_blocks(*backend, filled, c, check);
        if (!check.good()) return;
        const std::vector<float> got = filled.attend();
        CHECK_THAT(!got.empty());
        // What a group of tokens shares, or a block keeps in f16, follows the blocks; nothing else does.
        if (!first.empty()) {
            CHECK_THAT(got == first);
            continue;
        }
        const std::vector<double> want = filled.expected();
        CHECK_EQUAL(got.size(), want.size());
        const bool turned = c.keys.rotate || c.values.rotate;
        // On a card several rows of a sequence meet on tensor cores, which take 16-bit numbers.
        const double rounded = c.keys.dtype == DType::bf16 || c.values.dtype == DType::bf16 ? 1.5e-2 : 2e-3;
        CHECK_BELOW(relative_difference(got, want, want.size()), !by_itself(subject) ? rounded : turned ? 1e-3 : 1e-5);
        if (!c.keys.keeps_residual() && !c.values.keeps_residual()) first = got;
    }
}

// Nothing is read of a block that holds masked keys alone: the tables name the null block there, which is NaN.
void window_row(const BackendSubject& subject, FormatCase c, Check& check) {
    auto backend = make_subject(subject, check);
    if (!backend) return;
    c.pieces = {{90, 1}, {70, 3}};
    c.span.window = 20;
    FilledCache filled(*backend, c);
    CHECK_EQUAL(filled.problem(), std::string());
    Batch batch = filled.batch();
    for (const Batch::Sequence& sequence : batch.sequences)
        for (std::uint32_t block = 0; block < (sequence.first_position - 19) / c.block_size; ++block)
            batch.block_tables[sequence.table_begin + block] = 0;
    const std::vector<float> want = filled.attend();
    const std::size_t count = want.size();
    auto q = upload(*backend, random_floats(count, 1)), out = upload(*backend, std::vector<float>(count));
    CHECK_THAT(bool(backend->begin_batch(batch)));
    backend->attention(*q, filled.shape(), filled.cache(), 1, *out, nullptr);
    const std::vector<float> got = download(*backend, *out, count);
    CHECK_THAT(std::all_of(got.begin(), got.end(), [](float v) { return std::isfinite(v); }));
    CHECK_THAT(got == want);
    CHECK_BELOW(relative_difference(got, filled.expected(), count), by_itself(subject) ? 1e-5 : 2e-3);
}

}  // namespace

std::vector<Row> format_rows(const BackendSubject& subject) {
    std::vector<Row> rows;
    std::vector<std::uint32_t> all_sizes{16, 8};
    if (by_itself(subject) || subject.large) all_sizes = {16, 1, 8, 32};
    const auto add = [&](const FormatCase& c, const std::vector<std::uint32_t>& sizes) {
        rows.push_back({"what is stored reads back as its twin says and attends as the double reference: " + text_of_case(c) +
                            ", heads of " + std::to_string(c.head_dim),
                        [=](Check& check) { format_row(subject, c, sizes, check); }});
    };
    for (const KvFormat& format : unpaged_formats())
        for (const std::uint32_t dim : head_sizes(subject)) add({format, format, dim, 16, {}}, all_sizes);
    const KvFormat int8 = KvFormat::of(DType::int8), q4_0 = KvFormat::of(DType::q4_0), f16 = KvFormat::of(DType::f16);
    for (const KvFormat& format : {int8, with_scale(DType::int4, KvScale::joint), KvFormat::of(DType::int4), q4_0,
                                   with_scale(DType::fp8_e4m3, KvScale::head), f16})
        for (const std::uint32_t dim : {16u, 64u, 128u}) add({rotated(format), rotated(format), dim, 16, {}}, all_sizes);
    add({KvFormat::of(DType::int4), f16, 64, 16, {}}, all_sizes);
    add({f16, q4_0, 64, 16, {}}, all_sizes);
    add({rotated(q4_0), int8, 64, 16, {}}, all_sizes);
    add({int8, rotated(f16), 64, 16, {}}, all_sizes);
    for (const DType type : {DType::kivi2, DType::kivi4})
        for (const std::uint32_t group : {8u, 16u, 32u})
            for (const std::uint32_t dim : head_sizes(subject)) {
                if (dim % group != 0) continue;
                std::vector<std::uint32_t> sizes;
                for (const std::uint32_t size : {8u, 16u, 32u})
                    if (size % group == 0) sizes.push_back(size);
                KvFormat format = in_groups(type, group);
                add({format, format, dim, 16, {}}, sizes);
                if (dim == 64) add({rotated(format), rotated(format), dim, 16, {}}, sizes);
            }
    add({in_groups(DType::kivi2, 16), int8, 64, 16, {}}, {16, 32});
    add({q4_0, in_groups(DType::kivi4, 32), 64, 16, {}}, {32});
    for (const KvFormat& format : {f16, int8, KvFormat::of(DType::int4), with_scale(DType::int8, KvScale::joint), q4_0,
                                   KvFormat::of(DType::fp8_e4m3), in_groups(DType::kivi2, 16)}) {
        const FormatCase c{format, format, 64, 16, {}};
        rows.push_back({"a block of masked keys alone is not read: " + text_of(format),
                        [=](Check& check) { window_row(subject, c, check); }});
    }
    append(rows, format_rule_rows(subject));
    return rows;
}

}  // namespace kvloupe::test
