// SPDX-License-Identifier: GPL-3.0-or-later
//
// Vector types with CUDA's alignments: a misaligned 8- or 16-byte access is undefined here too, and
// UndefinedBehaviorSanitizer reports it.
#pragma once

#include <cstdint>

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x = 1, y = 1, z = 1;

    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

#define KVLOUPE_VECTOR_TYPES(element, name)                                                                        \
    struct alignas(2 * sizeof(element)) name##2 { element x, y; };                                                 \
    struct alignas(sizeof(element) == 8 ? 16 : 4 * sizeof(element)) name##4 { element x, y, z, w; };               \
    constexpr name##2 make_##name##2(element x, element y) { return {x, y}; }                                      \
    constexpr name##4 make_##name##4(element x, element y, element z, element w) { return {x, y, z, w}; }

KVLOUPE_VECTOR_TYPES(float, float)
KVLOUPE_VECTOR_TYPES(int, int)
KVLOUPE_VECTOR_TYPES(unsigned, uint)
KVLOUPE_VECTOR_TYPES(short, short)
KVLOUPE_VECTOR_TYPES(unsigned short, ushort)
KVLOUPE_VECTOR_TYPES(signed char, char)
KVLOUPE_VECTOR_TYPES(unsigned char, uchar)

#undef KVLOUPE_VECTOR_TYPES

struct alignas(16) double2 { double x, y; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };
struct alignas(16) longlong2 { long long x, y; };
constexpr double2 make_double2(double x, double y) { return {x, y}; }
constexpr ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

struct float3 { float x, y, z; };
constexpr float3 make_float3(float x, float y, float z) { return {x, y, z}; }
constexpr uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
