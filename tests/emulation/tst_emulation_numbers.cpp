// SPDX-License-Identifier: GPL-3.0-or-later
//
// The emulation's 16-bit floats against the engine's, which were written apart.
#include "engine/model/half.h"
#include "kernels/cuda/platform.h"
#include "tests/support/rows.h"

#include <bit>
#include <cstdint>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

bool same(float a, float b) {
    return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// f32 values on, beside and half-way between neighbours of 16 bits, and bit patterns of all sizes.
template <class Visit>
void floats(float (*widen)(std::uint16_t), Visit visit) {
    for (std::uint32_t bits = 0; bits < 0xFFFF; ++bits) {
        const double low = static_cast<double>(widen(static_cast<std::uint16_t>(bits)));
        const double high = static_cast<double>(widen(static_cast<std::uint16_t>(bits + 1)));
        for (double part : {0.0, 0.25, 0.5, 0.75}) visit(static_cast<float>(low + (high - low) * part));
        const float middle = static_cast<float>((low + high) / 2);
        visit(std::nextafter(middle, 0.0f));
        visit(std::nextafter(middle, 1e38f));
    }
    for (std::uint64_t bits = 0; bits < 0x100000000ull; bits += 9973)
        visit(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
}

void widens_halves(Check& check) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        if (!same(__half2float(__ushort_as_half(half)), f16_to_f32(half)))
            check.fail("f16 " + shown(bits) + " widens differently", __FILE__, __LINE__);
        if (!same(__bfloat162float(__ushort_as_bfloat16(half)), bf16_to_f32(half)))
            check.fail("bf16 " + shown(bits) + " widens differently", __FILE__, __LINE__);
    }
}

void narrows_to_f16(Check& check) {
    floats(f16_to_f32, [&check](float value) {
        const std::uint16_t bits = __half_as_ushort(__float2half_rn(value));
        if (std::isnan(value) ? !std::isnan(f16_to_f32(bits)) : bits != f32_to_f16(value))
            check.fail("f32 " + shown(value) + " becomes f16 " + shown(bits) + ", not " + shown(f32_to_f16(value)),
                       __FILE__, __LINE__);
    });
}

void narrows_to_bf16(Check& check) {
    floats(bf16_to_f32, [&check](float value) {
        const std::uint16_t bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
        if (std::isnan(value) ? !std::isnan(bf16_to_f32(bits)) : bits != f32_to_bf16(value))
            check.fail("f32 " + shown(value) + " becomes bf16 " + shown(bits) + ", not " + shown(f32_to_bf16(value)),
                       __FILE__, __LINE__);
    });
}

// Every half with some others: the exact result, rounded once.
template <class Half>
void calculates(Check& check, Half (*of_bits)(std::uint16_t), std::uint16_t (*narrow)(float), float (*widen)(std::uint16_t)) {
    for (std::uint32_t bits = 0; bits < 0x10000; bits += 7)
        for (std::uint32_t other : {0x0001u, 0x03FFu, 0x3555u, 0x3C00u, 0x4249u, 0x7BFFu, 0xB555u, 0x8400u}) {
            const Half a = of_bits(static_cast<std::uint16_t>(bits)), b = of_bits(static_cast<std::uint16_t>(other));
            const float x = widen(static_cast<std::uint16_t>(bits)), y = widen(static_cast<std::uint16_t>(other));
            const bool right = same(float(a + b), widen(narrow(x + y))) && same(float(a - b), widen(narrow(x - y))) &&
                               same(float(a * b), widen(narrow(x * y))) && same(float(a / b), widen(narrow(x / y))) &&
                               same(float(-a), -x);
            if (!right) check.fail("arithmetic of " + shown(x) + " and " + shown(y), __FILE__, __LINE__);
        }
}

void pairs(Check& check) {
    const __half2 halves = __floats2half2_rn(1.5f, -2.25f);
    CHECK_EQUAL(std::bit_cast<std::uint32_t>(halves), 0xC0803E00u);  // the first in the low half
    CHECK_EQUAL(__half22float2(halves + halves).y, -4.5f);
    CHECK_EQUAL(__low2float(halves * halves), 2.25f);
    const __nv_bfloat162 others = __floats2bfloat162_rn(1.5f, -2.0f);
    CHECK_EQUAL(std::bit_cast<std::uint32_t>(others), 0xC0003FC0u);
    CHECK_EQUAL(__bfloat1622float2(others * others).x, 2.25f);
}

void angles_in_half_turns(Check& check) {
    float sine, cosine;
    sincospif(0.5f, &sine, &cosine);
    CHECK_BELOW(std::fabs(sine - 1) + std::fabs(cosine), 1e-7);
    sincospif(1000001.5f, &sine, &cosine);
    CHECK_BELOW(std::fabs(sine + 1) + std::fabs(cosine), 1e-7);
    CHECK_EQUAL(__popc(0xF0F0u), 8);
    CHECK_EQUAL(__ffs(8), 4);
    CHECK_EQUAL(__clz(1), 31);
    CHECK_EQUAL(min(3u, 4u) + max(3u, 4u), 7u);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    return {
        {"all 65,536 f16 and bf16 widen as the engine widens them", widens_halves},
        {"f32 becomes f16 as the engine rounds it, ties and neighbours included", narrows_to_f16},
        {"f32 becomes bf16 as the engine rounds it, ties and neighbours included", narrows_to_bf16},
        {"sums, differences, products and quotients of f16 are rounded once",
         [](Check& check) { calculates<__half>(check, __ushort_as_half, f32_to_f16, f16_to_f32); }},
        {"sums, differences, products and quotients of bf16 are rounded once",
         [](Check& check) { calculates<__nv_bfloat16>(check, __ushort_as_bfloat16, f32_to_bf16, bf16_to_f32); }},
        {"pairs keep their first element in the low half of the word", pairs},
        {"half turns, bit counts, minimum and maximum", angles_in_half_turns},
    };
}
