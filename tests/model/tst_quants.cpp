// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/gguf.h"
#include "engine/model/half.h"
#include "engine/model/mapped_file.h"
#include "engine/model/quants.h"
#include "engine/model/safetensors.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::uint16_t half_at(const std::vector<std::byte>& bytes, std::size_t at) {
    std::uint16_t value = 0;
    std::memcpy(&value, bytes.data() + at, 2);
    return value;
}

std::vector<std::byte> packed(DType type, const std::vector<float>& values) {
    std::vector<std::byte> out(row_bytes(type, values.size()));
    quantise_row(type, values, out.data());
    return out;
}

std::vector<float> unpacked(DType type, const std::vector<std::byte>& bytes, std::size_t count) {
    std::vector<float> out(count);
    dequantise_row(type, bytes.data(), out);
    return out;
}

// Values of both signs and several magnitudes, different in every block.
std::vector<float> sample(std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = std::sin(static_cast<float>(i) * 1.7f) * std::exp(static_cast<float>(i / 32 % 5) - 2.0f);
    return values;
}

// CACHE_SEMANTICS Q2: bytes per 32 values.
struct BlocksHaveTheirPublishedSizesCase {
    int type;
    std::uint64_t bytes;
};
Cases<BlocksHaveTheirPublishedSizesCase> blocksHaveTheirPublishedSizes_cases() {
    Cases<BlocksHaveTheirPublishedSizesCase> cases;
    cases.add("q8_0", {static_cast<int>(DType::q8_0), std::uint64_t{34}});
    cases.add("q4_0", {static_cast<int>(DType::q4_0), std::uint64_t{18}});
    cases.add("q4_1", {static_cast<int>(DType::q4_1), std::uint64_t{20}});
    cases.add("q5_0", {static_cast<int>(DType::q5_0), std::uint64_t{22}});
    cases.add("q5_1", {static_cast<int>(DType::q5_1), std::uint64_t{24}});
    return cases;
}
void blocksHaveTheirPublishedSizes(Check& check, const BlocksHaveTheirPublishedSizesCase& row) {
    const DType dtype = static_cast<DType>(row.type);
    CHECK_EQUAL(std::uint64_t{row_bytes(dtype, 32)}, row.bytes);
    // The quantiser writes all of them and nothing more.
    std::vector<std::byte> out(row.bytes + 8, std::byte{0xEE});
    const std::vector<float> values = sample(32);
    quantise_row(dtype, values, out.data());
    for (std::size_t i = row.bytes; i < out.size(); ++i) CHECK_EQUAL(out[i], std::byte{0xEE});
}

// CACHE_SEMANTICS Q2: f16 scale = absmax / 127.
void q8_0ScaleIsTheLargestMagnitudeOver127(Check& check) {
    std::vector<float> values(32, 0.5f);
    values[7] = -12.7f;
    const std::vector<std::byte> bytes = packed(DType::q8_0, values);
    CHECK_EQUAL(half_at(bytes, 0), f32_to_f16(12.7f / 127.0f));
    CHECK_EQUAL(static_cast<int>(static_cast<std::int8_t>(bytes[2 + 7])), -127);
    CHECK_EQUAL(static_cast<int>(static_cast<std::int8_t>(bytes[2 + 0])), 5);
}

void q8_0RoundsHalvesAwayFromZero(Check& check) {
    std::vector<float> values(32, 0.0f);
    values[0] = 127.0f;  // scale 1
    values[1] = 2.5f;
    values[2] = -2.5f;
    values[3] = 3.5f;
    values[4] = -0.49f;
    const std::vector<std::byte> bytes = packed(DType::q8_0, values);
    const auto code = [&](std::size_t i) { return static_cast<int>(static_cast<std::int8_t>(bytes[2 + i])); };
    CHECK_EQUAL(code(0), 127);
    CHECK_EQUAL(code(1), 3);
    CHECK_EQUAL(code(2), -3);
    CHECK_EQUAL(code(3), 4);
    CHECK_EQUAL(code(4), 0);
}

// CACHE_SEMANTICS Q2: scale = signed extreme / -8.
Cases<float> q4_0ScaleIsTheSignedExtremeOverMinus8_cases() {
    Cases<float> cases;
    cases.add("positive", 4.0f);
    cases.add("negative", -4.0f);
    return cases;
}
void q4_0ScaleIsTheSignedExtremeOverMinus8(Check& check, float extreme) {
    std::vector<float> values(32, 0.0f);
    values[20] = extreme;
    values[3] = -extreme / 2;
    const std::vector<std::byte> bytes = packed(DType::q4_0, values);
    CHECK_EQUAL(f16_to_f32(half_at(bytes, 0)), extreme / -8.0f);
    const std::vector<float> back = unpacked(DType::q4_0, bytes, 32);
    CHECK_EQUAL(back[20], extreme);
    CHECK_EQUAL(back[3], -extreme / 2);
    CHECK_EQUAL(back[0], 0.0f);
}

void q4_0TakesTheFirstOfEqualExtremes(Check& check) {
    std::vector<float> values(32, 0.0f);
    values[5] = -8.0f;
    values[6] = 8.0f;
    CHECK_EQUAL(f16_to_f32(half_at(packed(DType::q4_0, values), 0)), 1.0f);
    std::swap(values[5], values[6]);
    CHECK_EQUAL(f16_to_f32(half_at(packed(DType::q4_0, values), 0)), -1.0f);
}

// The value opposite to the extreme would need code 16 and is held at 15.
void q4_0HoldsTheOppositeExtremeAtSeven(Check& check) {
    std::vector<float> values(32, 0.0f);
    values[0] = -8.0f;
    values[1] = 8.0f;
    CHECK_EQUAL(unpacked(DType::q4_0, packed(DType::q4_0, values), 32)[1], 7.0f);
}

void q4_1SpansFromMinimumToMaximum(Check& check) {
    std::vector<float> values(32);
    for (std::size_t i = 0; i < 32; ++i) values[i] = 10.0f + static_cast<float>(i % 16);
    const std::vector<std::byte> bytes = packed(DType::q4_1, values);
    CHECK_EQUAL(f16_to_f32(half_at(bytes, 0)), 1.0f);
    CHECK_EQUAL(f16_to_f32(half_at(bytes, 2)), 10.0f);
    CHECK_EQUAL(unpacked(DType::q4_1, bytes, 32), values);
}

// Low nibble of byte j is element j, high nibble element j + 16.
struct NibblesHoldTheTwoHalvesOfABlockCase {
    int type;
    std::uint64_t codes_at;
};
Cases<NibblesHoldTheTwoHalvesOfABlockCase> nibblesHoldTheTwoHalvesOfABlock_cases() {
    Cases<NibblesHoldTheTwoHalvesOfABlockCase> cases;
    cases.add("q4_0", {static_cast<int>(DType::q4_0), std::uint64_t{2}});
    cases.add("q4_1", {static_cast<int>(DType::q4_1), std::uint64_t{4}});
    return cases;
}
void nibblesHoldTheTwoHalvesOfABlock(Check& check, const NibblesHoldTheTwoHalvesOfABlockCase& row) {
    const DType dtype = static_cast<DType>(row.type);
    std::vector<std::byte> bytes(row_bytes(dtype, 32));
    const std::uint16_t one = f32_to_f16(1.0f);
    std::memcpy(bytes.data(), &one, 2);
    bytes[row.codes_at + 3] = std::byte{0xA5};
    const std::vector<float> values = unpacked(dtype, bytes, 32);
    const float zero = dtype == DType::q4_0 ? 8.0f : 0.0f;
    CHECK_EQUAL(values[3], 5.0f - zero);
    CHECK_EQUAL(values[19], 10.0f - zero);
    CHECK_EQUAL(values[4], -zero);
}

Cases<int> blocksOfZerosStayZero_cases() {
    Cases<int> cases;
    for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1})
        cases.add(std::string(name_of(type)), static_cast<int>(type));
    return cases;
}
void blocksOfZerosStayZero(Check& check, int type) {
    const std::vector<float> zeros(64, 0.0f);
    const DType dtype = static_cast<DType>(type);
    CHECK_EQUAL(unpacked(dtype, packed(dtype, zeros), 64), zeros);
}

// Half a step of the block, and what rounding the scale to f16 costs (at most 2^-11 of the value; codes up to 15
// and the minimum for the 4-bit forms).
Cases<int> errorsStayWithinHalfAStep_cases() {
    Cases<int> cases;
    for (const DType type : {DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1})
        cases.add(std::string(name_of(type)), static_cast<int>(type));
    return cases;
}
void errorsStayWithinHalfAStep(Check& check, int type) {
    const DType dtype = static_cast<DType>(type);
    const std::vector<float> values = sample(32 * 40);
    const std::vector<float> back = unpacked(dtype, packed(dtype, values), values.size());
    for (std::size_t block = 0; block < values.size(); block += 32) {
        float low = values[block], high = values[block], largest = 0;
        for (std::size_t i = block; i < block + 32; ++i) {
            low = std::min(low, values[i]);
            high = std::max(high, values[i]);
            largest = std::max(largest, std::fabs(values[i]));
        }
        const float halves = largest * 0x1p-10f;
        for (std::size_t i = block; i < block + 32; ++i) {
            float allowed = std::fabs(values[i]) * (dtype == DType::bf16 ? 0x1p-8f : 0x1p-11f) + 0x1p-25f;
            if (dtype == DType::q8_0) allowed = largest / 127 / 2 + halves;
            if (dtype == DType::q4_0) allowed = largest / 8 + halves;  // a whole step for the opposite extreme
            if (dtype == DType::q4_1) allowed = (high - low) / 15 / 2 + 2 * halves;
            if (dtype == DType::q5_0) allowed = largest / 16 + halves;
            if (dtype == DType::q5_1) allowed = (high - low) / 31 / 2 + 2 * halves;
            CHECK_OR_SAY(std::fabs(values[i] - back[i]) <= allowed, shown(values[i]) + " became " + shown(back[i]));
        }
    }
}

void valuesThatAreNotFiniteMakeNoUndefinedCode(Check& check, int type) {
    const DType dtype = static_cast<DType>(type);
    std::vector<float> values = sample(64);
    values[3] = std::numeric_limits<float>::quiet_NaN();
    values[40] = std::numeric_limits<float>::infinity();
    values[41] = -std::numeric_limits<float>::infinity();
    // A NaN leaves its neighbours near themselves; an infinity makes its block not finite rather than wrong.
    const std::vector<float> back = unpacked(dtype, packed(dtype, values), 64);
    CHECK_THAT(std::fabs(back[4] - values[4]) <= 1.0f);
    CHECK_THAT(!std::isfinite(back[40]));
}

// The fixture's GGUF files were packed by numpy code that equals ggml's own quantisers bit for bit.
struct PackingEqualsTheFixturesBytesCase {
    int type;
    std::string file;
};
Cases<PackingEqualsTheFixturesBytesCase> packingEqualsTheFixturesBytes_cases() {
    Cases<PackingEqualsTheFixturesBytesCase> cases;
    const std::pair<DType, const char*> files[] = {{DType::f32, "F32"},   {DType::f16, "F16"},   {DType::bf16, "BF16"},
                                                   {DType::q8_0, "Q8_0"}, {DType::q4_0, "Q4_0"}, {DType::q4_1, "Q4_1"}};
    for (const auto& entry : files)
        cases.add(entry.second, {static_cast<int>(entry.first), printed("tiny-gqa.%s.gguf", entry.second)});
    return cases;
}
void packingEqualsTheFixturesBytes(Check& check, const PackingEqualsTheFixturesBytesCase& row) {
    const DType dtype = static_cast<DType>(row.type);
    const std::string folder = KVLOUPE_SOURCE_DIR "/tests/fixtures/tiny-gqa/";
    const auto weights = MappedFile::open(folder + "model.safetensors");
    const auto gguf = MappedFile::open(folder + row.file);
    CHECK_THAT(weights && gguf);
    const auto plain = parse_safetensors((*weights)->bytes(), "plain");
    const auto pack = parse_gguf((*gguf)->bytes(), "packed");
    CHECK_THAT(plain && pack);
    const std::pair<const char*, const char*> names[] = {
        {"model.embed_tokens.weight", "token_embd.weight"},
        {"model.layers.1.mlp.down_proj.weight", "blk.1.ffn_down.weight"},
        {"model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight"}};
    for (const auto& name : names) {
        const SafetensorsTensor* const from = plain->tensor(name.first);
        const GgufTensor* const to = pack->tensor(name.second);
        CHECK_THAT(from && to);
        std::vector<float> values(from->bytes / 4);
        std::memcpy(values.data(), plain->bytes.data() + from->offset, from->bytes);
        const std::vector<std::byte> bytes = packed(dtype, values);
        CHECK_EQUAL(std::uint64_t{bytes.size()}, std::uint64_t{to->bytes});
        CHECK_OR_SAY(std::memcmp(bytes.data(), pack->bytes.data() + to->offset, bytes.size()) == 0, name.second);
    }
}

// make_quant_blocks.py: packs, and what the gguf package makes of them and packs itself.
struct PublicPacksHoldThePublicNumbersCase {
    DType type;
    std::string name;
};
Cases<PublicPacksHoldThePublicNumbersCase> publicPacksHoldThePublicNumbers_cases() {
    Cases<PublicPacksHoldThePublicNumbersCase> cases;
    for (const auto& [type, name] : {std::pair{DType::q5_0, "Q5_0"}, {DType::q5_1, "Q5_1"}, {DType::q4_k, "Q4_K"},
                                     {DType::q5_k, "Q5_K"}, {DType::q6_k, "Q6_K"}})
        cases.add(name, {type, name});
    return cases;
}
void publicPacksHoldThePublicNumbers(Check& check, const PublicPacksHoldThePublicNumbersCase& row) {
    const auto mapped = MappedFile::open(KVLOUPE_SOURCE_DIR "/tests/fixtures/quant-blocks.safetensors");
    CHECK_THAT(mapped);
    const auto file = parse_safetensors((*mapped)->bytes(), "blocks");
    CHECK_RESULT(file);
    const auto bytes_of = [&](const char* part) {
        const SafetensorsTensor* const tensor = file->tensor(row.name + part);
        if (!tensor) return std::vector<std::byte>();
        const std::byte* const data = file->bytes.data() + tensor->offset;
        return std::vector<std::byte>(data, data + tensor->bytes);
    };
    const auto floats_of = [&](const char* part) {
        const std::vector<std::byte> bytes = bytes_of(part);
        std::vector<float> values(bytes.size() / sizeof(float));
        std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
        return values;
    };
    const std::vector<float> expected = floats_of(".values");
    const std::vector<std::byte> packs = bytes_of(".packs");
    CHECK_EQUAL(std::uint64_t{packs.size()}, row_bytes(row.type, expected.size()));
    CHECK_THAT(expected.size() >= 6 * 32);
    CHECK_EQUAL(unpacked(row.type, packs, expected.size()), expected);
    if (elements_per_pack(row.type) == 32) CHECK_EQUAL(packed(row.type, floats_of(".source")), bytes_of(".packed"));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(blocksHaveTheirPublishedSizes), blocksHaveTheirPublishedSizes_cases());
    claims.add(CLAIM(q8_0ScaleIsTheLargestMagnitudeOver127));
    claims.add(CLAIM(q8_0RoundsHalvesAwayFromZero));
    claims.add(CLAIM(q4_0ScaleIsTheSignedExtremeOverMinus8), q4_0ScaleIsTheSignedExtremeOverMinus8_cases());
    claims.add(CLAIM(q4_0TakesTheFirstOfEqualExtremes));
    claims.add(CLAIM(q4_0HoldsTheOppositeExtremeAtSeven));
    claims.add(CLAIM(q4_1SpansFromMinimumToMaximum));
    claims.add(CLAIM(nibblesHoldTheTwoHalvesOfABlock), nibblesHoldTheTwoHalvesOfABlock_cases());
    claims.add(CLAIM(blocksOfZerosStayZero), blocksOfZerosStayZero_cases());
    claims.add(CLAIM(errorsStayWithinHalfAStep), errorsStayWithinHalfAStep_cases());
    claims.add(CLAIM(valuesThatAreNotFiniteMakeNoUndefinedCode), blocksOfZerosStayZero_cases());
    claims.add(CLAIM(packingEqualsTheFixturesBytes), packingEqualsTheFixturesBytes_cases());
    claims.add(CLAIM(publicPacksHoldThePublicNumbers), publicPacksHoldThePublicNumbers_cases());
    return claims.rows();
}
