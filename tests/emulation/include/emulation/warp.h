// SPDX-License-Identifier: GPL-3.0-or-later
//
// Operations of a warp: every lane that the mask names brings some words; the last to arrive computes what all take away.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace kvloupe::emulation {

inline constexpr unsigned warp_lanes = 32;
inline constexpr unsigned lane_words_in = 10;  // a tensor-core product brings 4 + 2 + 4 registers
inline constexpr unsigned lane_words_out = 4;

struct LaneWords {
    std::uint32_t in[lane_words_in];
    std::uint32_t out[lane_words_out];
};

// Computes `out` of the lanes of `mask` from their `in`. Returns null, or what is wrong, as a sentence.
using Exchange = const char* (*)(LaneWords* lanes, std::uint32_t mask);

// One operation of a warp, told apart by its exchange: a static object per operation.
struct WarpOperation {
    const char* name;
    Exchange exchange;
    bool orders_memory;  // as __syncwarp does
};
extern const WarpOperation shuffle_index, shuffle_up, shuffle_down, shuffle_xor, vote_ballot, synchronise_lanes,
    multiply_f16, multiply_bf16, load_matrices, load_matrices_transposed;

// in: `words` words; out: the results, in `results` words. The caller is lane threadIdx % 32 (linear) of its warp.
void exchange(const WarpOperation& operation, std::uint32_t mask, const std::uint32_t* in, unsigned words,
              std::uint32_t* out, unsigned results);

// Value in words 0 and 1, the lane, distance or lane mask in word 2, the width in word 3.
template <class T>
T shuffle(const WarpOperation& operation, std::uint32_t mask, T value, std::uint32_t argument, int width) {
    static_assert(sizeof(T) <= 8);
    std::uint32_t in[4] = {0, 0, argument, static_cast<std::uint32_t>(width)}, out[2];
    std::memcpy(in, &value, sizeof value);
    exchange(operation, mask, in, 4, out, 2);
    std::memcpy(&value, out, sizeof value);
    return value;
}

}  // namespace kvloupe::emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
    return kvloupe::emulation::shuffle(kvloupe::emulation::shuffle_index, mask, value, static_cast<unsigned>(lane), width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
    return kvloupe::emulation::shuffle(kvloupe::emulation::shuffle_up, mask, value, distance, width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
    return kvloupe::emulation::shuffle(kvloupe::emulation::shuffle_down, mask, value, distance, width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
    return kvloupe::emulation::shuffle(kvloupe::emulation::shuffle_xor, mask, value, static_cast<unsigned>(lanes), width);
}
inline unsigned __ballot_sync(unsigned mask, int vote) {
    const std::uint32_t in = vote != 0 ? 1 : 0;
    std::uint32_t out;
    kvloupe::emulation::exchange(kvloupe::emulation::vote_ballot, mask, &in, 1, &out, 1);
    return out;
}
inline int __any_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) != 0 ? 1 : 0; }
inline int __all_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) == mask ? 1 : 0; }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) {
    kvloupe::emulation::exchange(kvloupe::emulation::synchronise_lanes, mask, nullptr, 0, nullptr, 0);
}
