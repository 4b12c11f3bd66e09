// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/half.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <bit>
#include <cmath>
#include <limits>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// The value of a binary16 pattern by its definition, in double.
double f16_by_definition(std::uint16_t bits) {
    const int exponent = (bits >> 10) & 31;
    const int mantissa = bits & 1023;
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
    if (exponent == 0) return sign * std::ldexp(mantissa, -24);
    return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

// The pattern nearest to a value by search over all finite ones; ties go to the even pattern.
std::uint16_t nearest_f16(double value) {
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::fabs(value);
    if (magnitude >= 65520) return sign | 0x7C00;
    std::uint16_t low = 0, high = 0x7BFF;  // magnitudes grow with the pattern
    while (high - low > 1) {
        const auto middle = static_cast<std::uint16_t>((low + high) / 2);
        (f16_by_definition(middle) <= magnitude ? low : high) = middle;
    }
    const double below = magnitude - f16_by_definition(low);
    const double above = f16_by_definition(high) - magnitude;
    const bool up = above < below || (above == below && (low & 1));
    return sign | (up ? high : low);
}

void everyF16WidensToItsDefinition(Check& check) {
    for (unsigned bits = 0; bits < 65536; ++bits) {
        const double expected = f16_by_definition(static_cast<std::uint16_t>(bits));
        const float actual = f16_to_f32(static_cast<std::uint16_t>(bits));
        if (std::isnan(expected)) {
            CHECK_OR_SAY(std::isnan(actual), printed("%x", bits));
        } else {
            CHECK_OR_SAY(static_cast<double>(actual) == expected && std::signbit(actual) == std::signbit(expected),
                         printed("%x", bits));
        }
    }
}

void everyF16SurvivesTheWayThroughF32(Check& check) {
    for (unsigned bits = 0; bits < 65536; ++bits) {
        const float wide = f16_to_f32(static_cast<std::uint16_t>(bits));
        const std::uint16_t back = f32_to_f16(wide);
        if (std::isnan(wide)) {
            CHECK_OR_SAY(std::isnan(f16_to_f32(back)) && (back & 0x200), printed("%x", bits));
        } else {
            CHECK_OR_SAY(back == bits, printed("%x", bits));
        }
    }
}

// Between every two neighbours: the middle, and the f32 values just below and above it.
void f16RoundsToNearestEvenBetweenAllNeighbours(Check& check) {
    for (unsigned bits = 0; bits < 0x7C00; ++bits) {
        const double low = f16_by_definition(static_cast<std::uint16_t>(bits));
        const double high = bits == 0x7BFF ? 65536.0 : f16_by_definition(static_cast<std::uint16_t>(bits + 1));
        const float middle = static_cast<float>((low + high) / 2);
        for (const float value : {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f)}) {
            CHECK_OR_SAY(f32_to_f16(value) == nearest_f16(value), printed("%.10g", double(value)));
            CHECK_OR_SAY(f32_to_f16(-value) == nearest_f16(-value), printed("%.10g", double(-value)));
        }
    }
}

void f16OverflowsToInfinityAndUnderflowsToSignedZero(Check& check) {
    CHECK_EQUAL(f32_to_f16(65519.996f), std::uint16_t{0x7BFF});
    CHECK_EQUAL(f32_to_f16(65520.0f), std::uint16_t{0x7C00});
    CHECK_EQUAL(f32_to_f16(-std::numeric_limits<float>::infinity()), std::uint16_t{0xFC00});
    CHECK_EQUAL(f32_to_f16(-1e-30f), std::uint16_t{0x8000});
    CHECK_EQUAL(f32_to_f16(0x1p-25f), std::uint16_t{0});  // half of the smallest: a tie, to even
    CHECK_EQUAL(f32_to_f16(std::nextafter(0x1p-25f, 1.0f)), std::uint16_t{1});
}

void everyBf16IsTheUpperHalfOfItsF32(Check& check) {
    for (unsigned bits = 0; bits < 65536; ++bits) {
        const float wide = bf16_to_f32(static_cast<std::uint16_t>(bits));
        CHECK_EQUAL(std::bit_cast<std::uint32_t>(wide), std::uint32_t{bits} << 16);
        const std::uint16_t back = f32_to_bf16(wide);
        if (std::isnan(wide)) {
            CHECK_THAT(std::isnan(bf16_to_f32(back)));
        } else {
            CHECK_EQUAL(unsigned{back}, bits);
        }
    }
}

void bf16RoundsToNearestEven(Check& check) {
    for (unsigned bits = 0; bits < 0x7F80; ++bits) {
        const std::uint32_t middle = (std::uint32_t{bits} << 16) | 0x8000u;
        const auto even = static_cast<std::uint16_t>(bits + (bits & 1));
        CHECK_EQUAL(f32_to_bf16(std::bit_cast<float>(middle)), even);
        CHECK_EQUAL(f32_to_bf16(std::bit_cast<float>(middle - 1)), static_cast<std::uint16_t>(bits));
        CHECK_EQUAL(f32_to_bf16(std::bit_cast<float>(middle + 1)), static_cast<std::uint16_t>(bits + 1));
    }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(everyF16WidensToItsDefinition));
    claims.add(CLAIM(everyF16SurvivesTheWayThroughF32));
    claims.add(CLAIM(f16RoundsToNearestEvenBetweenAllNeighbours));
    claims.add(CLAIM(f16OverflowsToInfinityAndUnderflowsToSignedZero));
    claims.add(CLAIM(everyBf16IsTheUpperHalfOfItsF32));
    claims.add(CLAIM(bf16RoundsToNearestEven));
    return claims.rows();
}
