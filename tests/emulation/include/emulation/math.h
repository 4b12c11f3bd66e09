// SPDX-License-Identifier: GPL-3.0-or-later
//
// Device functions that the host's mathematics lacks. Fast approximations are exact here. Some names are macros, because
// the C library declares functions of these names.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include <math.h>  // NOLINT: isfinite, isnan and the rest in the global namespace, as nvcc has them

#define __expf(x) (::expf(x))
#define __exp10f(x) (::exp10f(x))
#define __logf(x) (::logf(x))
#define __log2f(x) (::log2f(x))
#define __sinf(x) (::sinf(x))
#define __cosf(x) (::cosf(x))
#define __powf(x, y) (::powf(x, y))
#define __sincosf(x, sine, cosine) (::sincosf(x, sine, cosine))

inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

// Sine and cosine of pi * x.
inline void sincospi(double x, double* sine, double* cosine) {
    const double turned = std::remainder(x, 2.0);  // exact
    *sine = std::sin(turned * 3.14159265358979323846);
    *cosine = std::cos(turned * 3.14159265358979323846);
}
inline void sincospif(float x, float* sine, float* cosine) {
    double s, c;
    sincospi(static_cast<double>(x), &s, &c);
    *sine = static_cast<float>(s);
    *cosine = static_cast<float>(c);
}

inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __int2float_rn(int value) { return static_cast<float>(value); }

inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __ffs(int bits) { return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1; }
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }

#define KVLOUPE_MINIMUM_MAXIMUM(type)                          \
    constexpr type min(type a, type b) { return b < a ? b : a; } \
    constexpr type max(type a, type b) { return a < b ? b : a; }
KVLOUPE_MINIMUM_MAXIMUM(int)
KVLOUPE_MINIMUM_MAXIMUM(unsigned)
KVLOUPE_MINIMUM_MAXIMUM(long)
KVLOUPE_MINIMUM_MAXIMUM(unsigned long)
KVLOUPE_MINIMUM_MAXIMUM(long long)
KVLOUPE_MINIMUM_MAXIMUM(unsigned long long)
#undef KVLOUPE_MINIMUM_MAXIMUM
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }
