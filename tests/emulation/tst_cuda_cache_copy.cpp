// SPDX-License-Identifier: GPL-3.0-or-later
//
// Copies of cache blocks, emulated: parts of different sizes in one launch, with and without scales, scales of groups of tokens, rows
// with and without 16-byte pieces, strides of their own on either side. Only the first tokens of every row arrive, with their
// scales; all else stays as it was.
#include "kernels/cuda/kernels.h"
#include "tests/emulation/device_memory.h"
#include "tests/emulation/random_values.h"
#include "tests/support/rows.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

struct PartShape {
    std::uint32_t rows = 1, code_bytes = 0, scale_bytes = 0, group = 0, group_bytes = 0;
};
constexpr std::uint32_t blocks = 3;

// Parts one after the other, with gaps; in the pool block by block of a part, in host blocks part by part of a block.
struct Layout {
    std::vector<cuda::CopyPart> parts;
    std::uint64_t bytes[2] = {0, 0};

    Layout(const std::vector<PartShape>& shapes, std::uint32_t block_size, std::uint64_t gap) {
        std::uint64_t host_block = 0;
        for (const PartShape& shape : shapes) {
            cuda::CopyPart part;
            part.rows = shape.rows;
            part.code_bytes = shape.code_bytes;
            part.scale_begin = block_size * shape.code_bytes;
            part.scale_bytes = shape.scale_bytes;
            part.group = shape.group;
            part.group_bytes = shape.group_bytes;
            part.row_bytes = part.scale_begin + block_size * shape.scale_bytes + (shape.group > 0 ? block_size / shape.group * shape.group_bytes : 0);
            const std::uint64_t block = std::uint64_t{part.rows} * part.row_bytes;
            part.lies[0] = {bytes[0], block};
            part.lies[1] = {host_block, 0};
            bytes[0] += blocks * block + gap;
            host_block += block + gap;
            parts.push_back(part);
        }
        for (cuda::CopyPart& part : parts) part.lies[1].block_stride = host_block;
        bytes[1] = blocks * host_block;
    }
};

std::vector<std::byte> random_bytes(std::uint64_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> bytes(count);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
}

struct Way {
    std::uint32_t from = 0, to = 0;  // 0 pool, 1 host blocks
};

void copies(Check& check, const std::vector<PartShape>& shapes, std::uint32_t block_size, std::uint32_t tokens, const Way& way, std::uint64_t gap,
            std::size_t shift) {
    const Layout layout(shapes, block_size, gap);
    const std::vector<std::byte> before = random_bytes(layout.bytes[way.from], 3);
    std::vector<std::byte> expected = random_bytes(layout.bytes[way.to], 4);
    const DeviceArray<std::byte> from(before, shift);
    DeviceArray<std::byte> to(expected, shift);
    const DeviceArray<cuda::CopyPart> parts(layout.parts);
    cuda::BlockCopy copy;
    copy.from = {const_cast<std::byte*>(from.data()), way.from, 2};
    copy.to = {to.data(), way.to, 1};
    copy.parts = parts.data();
    copy.count = static_cast<std::uint32_t>(layout.parts.size());
    copy.tokens = tokens;
    for (const cuda::CopyPart& part : layout.parts) {
        copy.most_rows = std::max(copy.most_rows, part.rows);
        copy.longest_run = std::max(copy.longest_run, std::uint64_t{tokens} * part.code_bytes);
    }
    LAUNCHED(cuda::copy_block(copy, nullptr));
    for (const cuda::CopyPart& part : layout.parts)
        for (std::uint32_t row = 0; row < part.rows; ++row) {
            const auto at = [&](std::uint32_t lies, std::uint32_t block) {
                return part.lies[lies].begin + block * part.lies[lies].block_stride + std::uint64_t{row} * part.row_bytes;
            };
            const std::uint64_t from_at = at(way.from, 2), to_at = at(way.to, 1);
            std::memcpy(expected.data() + to_at, before.data() + from_at, std::uint64_t{tokens} * part.code_bytes);
            const std::uint32_t groups = part.group > 0 ? (tokens + part.group - 1) / part.group : 0;
            const std::uint64_t scales = std::uint64_t{tokens} * part.scale_bytes + std::uint64_t{groups} * part.group_bytes;
            std::memcpy(expected.data() + to_at + part.scale_begin, before.data() + from_at + part.scale_begin, scales);
        }
    CHECK_THAT(to.host() == expected);
    CHECK_THAT(from.host() == before);
    CHECK_THAT(from.guards_hold() && to.guards_hold());
}

Row rows_of(const char* what, const std::vector<PartShape>& shapes) {
    return {std::string("the first tokens of every row are copied with their scales, nothing else: ") + what, [=](Check& check) {
        const bool groups = std::any_of(shapes.begin(), shapes.end(), [](const PartShape& shape) { return shape.group > 0; });
        for (const Way& way : {Way{0, 0}, Way{0, 1}, Way{1, 0}}) {
            for (std::uint32_t block_size : {1u, 8u, 16u, 32u}) {
                if (groups && block_size % 8 != 0) continue;
                for (std::uint32_t tokens : {block_size / 2, block_size - 1, block_size}) copies(check, shapes, block_size, tokens, way, 256, 0);
            }
            copies(check, shapes, 256, 255, way, 256, 0);
            copies(check, shapes, 16, 15, way, 4, 4);  // not aligned to 16
            copies(check, shapes, 16, 15, way, 3, 1);  // to nothing
            if (!check.good()) return;
        }
    }};
}

void nothing(Check& check) {
    LAUNCHED(cuda::copy_block({}, nullptr));
    cuda::BlockCopy copy;
    copy.count = copy.most_rows = copy.tokens = 1;
    copy.to.lies = 2;
    CHECK_EQUAL(cuda::copy_block(copy, nullptr), cudaErrorInvalidValue);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    return {rows_of("f16", {{3, 128}, {3, 128}}),
            rows_of("f32 beside f16", {{2, 512}, {2, 256}}),
            rows_of("rows of 10, 20 and 34 bytes", {{1, 10}, {2, 20}, {3, 34}}),
            rows_of("int8 beside int4", {{2, 128, 4}, {4, 64, 4}}),
            rows_of("scales with K alone", {{2, 80, 4}, {2, 80}}),
            rows_of("KIVI", {{2, 16, 0, 8, 256}, {2, 16, 8}}),
            {"nothing launches nothing; a place that is neither pool nor host is refused", nothing}};
}
