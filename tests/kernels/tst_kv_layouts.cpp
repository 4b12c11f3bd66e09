// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/quants.h"
#include "kernels/cpu/cpu_cache.h"
#include "kernels/cpu/fp8.h"
#include "kernels/cpu/kv_quantise.h"
#include "kernels/cpu/kv_rows.h"
#include "kernels/cpu/scalar_kv.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"
#include "tests/support/kernel_data.h"

#include <bit>
#include <cstring>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::string packs_folder() { return std::string(KVLOUPE_SOURCE_DIR) + "/tests/fixtures/packs/"; }

constexpr DType pack_types[] = {DType::q8_0, DType::q5_1, DType::q5_0, DType::q4_1, DType::q4_0};

std::vector<float> public_values() {
    const std::string bytes = read_file(packs_folder() + "values.f32");
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

// The cache's rows in packs are the bytes of the public gguf package (make_packs.py), and stay so beside other rows.
void packsAreThePublicOnesBitForBit(Check& check) {
    const std::vector<float> values = public_values();
    CHECK_EQUAL(values.size(), std::size_t{4 * 256});
    for (const DType type : pack_types) {
        const std::string want = read_file(packs_folder() + std::string(name_of(type)) + ".bin");
        const std::uint64_t row = row_bytes(type, 256);
        CHECK_EQUAL(want.size(), 4 * row);
        std::vector<std::byte> packed(want.size());
        quantise_row(type, values, packed.data());
        CHECK_THAT(std::memcmp(packed.data(), want.data(), want.size()) == 0);
        // Two heads of 128 by four tokens: a token's row of a head is a quarter of the fixture's row.
        cpu::Counters counters;
        auto made = cpu::CpuKvCache::make(KvCacheShape::uniform(1, 2, 4, 2, 128, type, type), Purpose::kv_cache, counters);
        CHECK_THAT(bool(made));
        auto& cache = static_cast<cpu::CpuKvCache&>(**made);
        for (std::uint32_t t = 0; t < 4; ++t) {
            const float* row_of_token = values.data() + t * 256;
            CHECK_EQUAL(cpu::store_token(cache, 0, {1, t, 0}, row_of_token, row_of_token), 0u);
        }
        for (std::uint32_t t = 0; t < 4; ++t)
            for (std::uint32_t head = 0; head < 2; ++head)
                for (const KvPart part : {KvPart::keys, KvPart::values})
                    CHECK_THAT(std::memcmp(cache.plane(0, part).codes(1, head, t), want.data() + t * row + head * row / 2, row / 2) == 0);
        std::vector<float> back(128), twin(128);
        cpu::expand_rows(cache, 0, KvPart::keys, 1, {1, 0, 3, 1}, back.data());
        dequantise_row(type, reinterpret_cast<const std::byte*>(want.data()) + 3 * row + row / 2, twin);
        for (std::size_t i = 0; i < 128; ++i) CHECK_BELOW(std::fabs(back[i] - twin[i]), 1e-6 * std::fabs(twin[i]) + 1e-7);
    }
}

// A pack goes over two heads of 16, as in llama.cpp, whose packs go over a token's whole row.
void narrowHeadsSharePacks(Check& check) {
    const std::vector<float> values = public_values();
    for (const DType type : pack_types) {
        const std::string want = read_file(packs_folder() + std::string(name_of(type)) + ".bin");
        cpu::Counters counters;
        auto made = cpu::CpuKvCache::make(KvCacheShape::uniform(1, 1, 2, 4, 16, type, type), Purpose::kv_cache, counters);
        CHECK_THAT(bool(made));
        auto& cache = static_cast<cpu::CpuKvCache&>(**made);
        CHECK_EQUAL(cache.keys(0).plane.rows(), 2u);
        cpu::store_token(cache, 0, {0, 1, 0}, values.data(), values.data());
        for (std::uint32_t row = 0; row < 2; ++row)
            CHECK_THAT(std::memcmp(cache.keys(0).codes(0, row, 1), want.data() + row * bytes_per_pack(type), bytes_per_pack(type)) == 0);
    }
}

// Every code is what the specification says, and the nearest of all codes is taken, ties to even.
void eightBitFloatsAreExact(Check& check) {
    for (const DType type : {DType::fp8_e4m3, DType::fp8_e5m2}) {
        for (unsigned code = 0; code < 256; ++code) {
            const float value = cpu::fp8_to_f32(type, static_cast<std::uint8_t>(code));
            const unsigned magnitude = code & 0x7F;
            if (type == DType::fp8_e4m3 ? magnitude == 0x7F : magnitude > 0x7C) {
                CHECK_THAT(std::isnan(value));
                continue;
            }
            if (type == DType::fp8_e5m2 && magnitude == 0x7C) {
                CHECK_THAT(std::isinf(value));
                continue;
            }
            CHECK_EQUAL(unsigned(cpu::f32_to_fp8(type, value)), code);
            CHECK_EQUAL(cpu::scalar::nearest_fp8(type, value), value);
            // Between two neighbours: below, at and above the middle.
            if (magnitude == (type == DType::fp8_e4m3 ? 0x7Eu : 0x7Bu)) continue;
            const float next = cpu::fp8_to_f32(type, static_cast<std::uint8_t>(code + 1)), middle = (value + next) / 2;
            for (const float x : {middle, std::nextafter(middle, value), std::nextafter(middle, next)}) {
                const float got = cpu::fp8_to_f32(type, cpu::f32_to_fp8(type, x));
                CHECK_EQUAL(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(cpu::scalar::nearest_fp8(type, x)));
            }
        }
        for (const float x : random_floats(20000, 3, 100))
            for (const float scaled : {x, x * 1e-4f, x * 1e4f})
                CHECK_EQUAL(cpu::fp8_to_f32(type, cpu::f32_to_fp8(type, scaled)), cpu::scalar::nearest_fp8(type, scaled));
        CHECK_THAT(std::isnan(cpu::fp8_to_f32(type, cpu::f32_to_fp8(type, std::nanf("")))));
        CHECK_EQUAL(cpu::fp8_to_f32(type, cpu::f32_to_fp8(type, -std::numeric_limits<float>::infinity())), -cpu::largest_of_fp8(type));
    }
    CHECK_EQUAL(cpu::fp8_to_f32(DType::fp8_e4m3, 0x7E), 448.0f);
    CHECK_EQUAL(cpu::fp8_to_f32(DType::fp8_e4m3, 0x01), 0x1p-9f);
    CHECK_EQUAL(cpu::fp8_to_f32(DType::fp8_e5m2, 0x7B), 57344.0f);
    CHECK_EQUAL(cpu::fp8_to_f32(DType::fp8_e5m2, 0x01), 0x1p-16f);
}

// KIVI's codes lie low bits first, element j at bit b * j, and steps and minima in f16 behind the codes of the block.
void kivisCodesLieLowBitsFirst(Check& check) {
    for (const DType type : {DType::kivi2, DType::kivi4}) {
        const std::uint32_t bits = type == DType::kivi2 ? 2 : 4, top = (1u << bits) - 1, dim = 16, tokens = 8;
        KvCacheShape shape = KvCacheShape::uniform(1, 2, tokens, 1, dim, DType::f16, DType::f16);
        shape.layers[0].keys = shape.layers[0].values = KvFormat::of(type);
        shape.layers[0].keys.group = shape.layers[0].values.group = 8;
        shape.residual_pages = 1;
        cpu::Counters counters;
        auto made = cpu::CpuKvCache::make(shape, Purpose::kv_cache, counters);
        CHECK_THAT(bool(made));
        auto& cache = static_cast<cpu::CpuKvCache&>(**made);
        // Channel c holds minimum c and step 2 over the tokens; a value row minimum t and step 1/2 in each group.
        std::vector<std::vector<unsigned>> codes;
        for (std::uint32_t t = 0; t < tokens; ++t) {
            std::vector<float> k(dim), v(dim);
            codes.emplace_back();
            for (std::uint32_t c = 0; c < dim; ++c) {
                const unsigned code = t == 0 || c % 8 == 0 ? 0 : t == 1 || c % 8 == 1 ? top : (c * 5 + t * 3) % (top + 1);
                codes.back().push_back(code);
                k[c] = static_cast<float>(c) + 2.0f * static_cast<float>(t == 1 ? top : code);
                v[c] = static_cast<float>(t) + 0.5f * static_cast<float>(c % 8 == 1 ? top : code);
            }
            cpu::store_token(cache, 0, {1, t, 1}, k.data(), v.data());
        }
        cpu::seal_block(cache, 1, 0);
        const auto code_at = [&](const std::byte* row, std::uint32_t j) {
            return static_cast<unsigned>(row[j * bits / 8]) >> (j * bits % 8) & top;
        };
        const auto half_at = [](const std::byte* at) {
            std::uint16_t half;
            std::memcpy(&half, at, 2);
            return f16_to_f32(half);
        };
        for (std::uint32_t t = 0; t < tokens; ++t)
            for (std::uint32_t c = 0; c < dim; ++c) {
                const bool column_is_constant = c % 8 == 0;  // codes of that key channel are 0 but for token 1
                if (!column_is_constant) CHECK_EQUAL(code_at(cache.keys(0).codes(1, 0, t), c), t == 1 ? top : codes[t][c]);
                if (t != 0) CHECK_EQUAL(code_at(cache.values(0).codes(1, 0, t), c), c % 8 == 1 ? top : codes[t][c]);
            }
        for (std::uint32_t c = 0; c < dim; ++c) {
            CHECK_EQUAL(half_at(cache.keys(0).scales(1, 0, 0) + 4 * c), 2.0f);
            CHECK_EQUAL(half_at(cache.keys(0).scales(1, 0, 0) + 4 * c + 2), static_cast<float>(c));
        }
        for (std::uint32_t t = 1; t < tokens; ++t)
            for (std::uint32_t group = 0; group < 2; ++group) {
                CHECK_EQUAL(half_at(cache.values(0).scales(1, 0, t) + 4 * group), 0.5f);
                CHECK_EQUAL(half_at(cache.values(0).scales(1, 0, t) + 4 * group + 2), static_cast<float>(t));
            }
    }
}

// FORMATS 3.8: bits per element are b + 32 / G.
void kivisBitsPerElementAreThePapers(Check& check) {
    for (const auto& [type, group, bits] :
         {std::tuple{DType::kivi2, 32u, 3.0}, {DType::kivi2, 64u, 2.5}, {DType::kivi2, 128u, 2.25}, {DType::kivi4, 32u, 5.0}})
        for (const KvPart part : {KvPart::keys, KvPart::values}) {
            KvFormat format = KvFormat::of(type);
            format.group = group;
            const auto plane = KvPlane::of(format, part, 8, 128, 128);
            CHECK_THAT(bool(plane));
            CHECK_EQUAL(plane->bytes_per_token() * 8 / (8 * 128), bits);
        }
}

// CACHE_SEMANTICS, "Per K or V row of 128 values".
void rowsOf128TakeTheirBytes(Check& check) {
    const auto bytes = [](KvFormat format) { return KvPlane::of(format, KvPart::keys, 1, 128, 16)->bytes_per_token(); };
    for (const auto& [type, want] : {std::pair{DType::f16, 256.0}, {DType::fp8_e4m3, 128.0}, {DType::fp8_e5m2, 128.0},
                                     {DType::int8, 132.0}, {DType::q8_0, 136.0}, {DType::q5_1, 96.0}, {DType::q5_0, 88.0},
                                     {DType::q4_1, 80.0}, {DType::q4_0, 72.0}, {DType::int4, 68.0}})
        CHECK_EQUAL(bytes(KvFormat::of(type)), want);
    KvFormat joint = KvFormat::of(DType::int8);
    joint.scale = KvScale::joint;
    CHECK_EQUAL(KvPlane::of(joint, KvPart::keys, 1, 128, 16)->bytes_per_token(), 132.0);
    CHECK_EQUAL(KvPlane::of(joint, KvPart::values, 1, 128, 16)->bytes_per_token(), 128.0);
}

// So a card reads a scale, or a step and a minimum, in one access, whatever head and block size; where codes fill whole words
// nothing is added.
void scalesBeginAtWholeWords(Check& check) {
    for (const DType type : {DType::int8, DType::int4, DType::kivi4, DType::kivi2})
        for (const std::uint32_t head_dim : {12u, 20u, 64u, 80u, 128u})
            for (const std::uint32_t block_size : {1u, 2u, 16u})
                for (const KvPart part : {KvPart::keys, KvPart::values}) {
                    KvFormat format = KvFormat::of(type);
                    if (format.keeps_residual()) {
                        format.group = part == KvPart::keys ? block_size : 4;
                        format.residual = block_size;
                    }
                    const auto plane = KvPlane::of(format, part, 3, head_dim, block_size);
                    CHECK_THAT(bool(plane));
                    if (!plane) continue;
                    for (std::uint32_t row = 0; row < plane->rows(); ++row) CHECK_EQUAL(plane->scales(2, row, block_size - 1) % 4, 0u);
                    const std::uint64_t codes = plane->block_size * plane->code_bytes;
                    CHECK_THAT(plane->scale_begin >= codes && plane->scale_begin < codes + 4);
                    if (codes % 4 == 0) CHECK_EQUAL(plane->scale_begin, codes);
                }
}

// A block whose bytes do not fit into 64 bits is refused, not wrapped.
void blocksBeyondAnyMemoryAreRefused(Check& check) {
    CHECK_THAT(!KvPlane::of(KvFormat::of(DType::f32), KvPart::keys, 1, 1u << 31, 1u << 31));
    CHECK_THAT(!KvPlane::of(KvFormat::of(DType::f16), KvPart::keys, 4, 1u << 31, 1u << 31));
    CHECK_THAT(bool(KvPlane::of(KvFormat::of(DType::f16), KvPart::keys, 4, 128, 1u << 20)));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(packsAreThePublicOnesBitForBit));
    claims.add(CLAIM(narrowHeadsSharePacks));
    claims.add(CLAIM(eightBitFloatsAreExact));
    claims.add(CLAIM(kivisCodesLieLowBitsFirst));
    claims.add(CLAIM(kivisBitsPerElementAreThePapers));
    claims.add(CLAIM(rowsOf128TakeTheirBytes));
    claims.add(CLAIM(scalesBeginAtWholeWords));
    claims.add(CLAIM(blocksBeyondAnyMemoryAreRefused));
    return claims.rows();
}
