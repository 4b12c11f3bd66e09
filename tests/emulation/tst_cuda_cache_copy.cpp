// SPDX-License-Identifier: GPL-3.0-or-later
//
// Copies of cache blocks, emulated: row sizes with and without 16-byte pieces, block sizes, token counts, layers with strides
// of their own on either side. Only the first tokens of every head arrive; all else stays as it was.
#include "kernels/cuda/kernels.h"
#include "tests/emulation/device_memory.h"
#include "tests/emulation/random_values.h"
#include "tests/support/rows.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

struct Shape {
    std::uint32_t key_bytes = 0, value_bytes = 0, block_size = 0, tokens = 0;
};
constexpr std::uint32_t layers = 2, kv_heads = 3, blocks = 3;

// One allocation holds keys and values of all layers: (layers, blocks, kv_heads, block_size, row), keys first.
struct Pool {
    std::uint64_t key_stride, value_stride, values_begin, bytes;

    Pool(const Shape& shape, std::uint64_t gap)
        : key_stride(std::uint64_t{blocks} * kv_heads * shape.block_size * shape.key_bytes + gap),
          value_stride(std::uint64_t{blocks} * kv_heads * shape.block_size * shape.value_bytes + gap),
          values_begin(layers * key_stride), bytes(layers * (key_stride + value_stride)) {}
    std::uint64_t key(const Shape& shape, std::uint32_t layer, std::uint32_t block) const {
        return layer * key_stride + std::uint64_t{block} * kv_heads * shape.block_size * shape.key_bytes;
    }
    std::uint64_t value(const Shape& shape, std::uint32_t layer, std::uint32_t block) const {
        return values_begin + layer * value_stride + std::uint64_t{block} * kv_heads * shape.block_size * shape.value_bytes;
    }
};

std::vector<std::byte> random_bytes(std::uint64_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> bytes(count);
    for (std::uint64_t at = 0; at < count; at += 4) {
        const std::uint32_t word = static_cast<std::uint32_t>(random());
        std::memcpy(bytes.data() + at, &word, std::min<std::uint64_t>(4, count - at));
    }
    return bytes;
}

void copies(Check& check, const Shape& shape, std::uint64_t gap, std::size_t shift) {
    const Pool source(shape, gap), target(shape, 3 * gap);
    const std::vector<std::byte> before = random_bytes(source.bytes, 3);
    std::vector<std::byte> expected = random_bytes(target.bytes, 4);
    DeviceArray<std::byte> from(before, shift), to(expected, shift);
    const std::uint32_t from_block = 2, to_block = 1;
    cuda::BlockCopy copy;
    copy.from = {from.data() + source.key(shape, 0, from_block), from.data() + source.value(shape, 0, from_block),
                 source.key_stride, source.value_stride};
    copy.to = {to.data() + target.key(shape, 0, to_block), to.data() + target.value(shape, 0, to_block), target.key_stride,
               target.value_stride};
    copy.layers = layers, copy.kv_heads = kv_heads, copy.block_size = shape.block_size, copy.tokens = shape.tokens;
    copy.key_bytes = shape.key_bytes, copy.value_bytes = shape.value_bytes;
    LAUNCHED(cuda::copy_block(copy, nullptr));
    for (std::uint32_t layer = 0; layer < layers; ++layer)
        for (std::uint32_t head = 0; head < kv_heads; ++head) {
            const auto run = [&](std::uint64_t from_at, std::uint64_t to_at, std::uint64_t row) {
                const std::uint64_t begin = head * shape.block_size * row;
                std::memcpy(expected.data() + to_at + begin, before.data() + from_at + begin, shape.tokens * row);
            };
            run(source.key(shape, layer, from_block), target.key(shape, layer, to_block), shape.key_bytes);
            run(source.value(shape, layer, from_block), target.value(shape, layer, to_block), shape.value_bytes);
        }
    CHECK_THAT(to.host() == expected);
    CHECK_THAT(from.host() == before);
    CHECK_THAT(from.guards_hold() && to.guards_hold());
}

Row rows_of(std::uint32_t key_bytes, std::uint32_t value_bytes) {
    return {"the first tokens of every head and layer are copied, nothing else: rows of " + std::to_string(key_bytes) + " and " +
                std::to_string(value_bytes) + " bytes",
            [=](Check& check) {
                for (std::uint32_t block_size : {1u, 8u, 16u, 32u})
                    for (std::uint32_t tokens : {block_size / 2, block_size - 1, block_size})
                        copies(check, {key_bytes, value_bytes, block_size, tokens}, 256, 0);
                copies(check, {key_bytes, value_bytes, 256, 255}, 256, 0);
                copies(check, {key_bytes, value_bytes, 16, 15}, 4, 4);   // not aligned to 16
                copies(check, {key_bytes, value_bytes, 16, 15}, 3, 1);   // to nothing
            }};
}

void within_a_pool(Check& check) {
    // A fork: both blocks lie in one pool.
    const std::uint32_t row = 64, block_size = 8;
    std::vector<std::byte> pool = random_bytes(4ull * 2 * block_size * row, 9);
    DeviceArray<std::byte> device(pool);
    const std::uint64_t block = std::uint64_t{block_size} * row;
    cuda::BlockCopy copy;
    copy.from = {device.data(), device.data() + 4 * block, 0, 0};
    copy.to = {device.data() + 3 * block, device.data() + 7 * block, 0, 0};
    copy.layers = 1, copy.kv_heads = 1, copy.block_size = block_size, copy.tokens = 5, copy.key_bytes = copy.value_bytes = row;
    LAUNCHED(cuda::copy_block(copy, nullptr));
    std::memcpy(pool.data() + 3 * block, pool.data(), 5 * row);
    std::memcpy(pool.data() + 7 * block, pool.data() + 4 * block, 5 * row);
    CHECK_THAT(device.host() == pool);
    copy.tokens = 9;
    CHECK_EQUAL(cuda::copy_block(copy, nullptr), cudaErrorInvalidValue);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    return {rows_of(128, 128), rows_of(512, 256), rows_of(160, 160), rows_of(20, 20), rows_of(10, 10), rows_of(34, 17), rows_of(256, 0),
            {"a block is copied within its pool; more tokens than it holds are refused", within_a_pool}};
}
