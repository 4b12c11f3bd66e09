// SPDX-License-Identifier: GPL-3.0-or-later
//
// What each operation of a warp computes from the words that its lanes brought. Fragment layouts: PTX ISA, "Matrix fragments
// for mma.m16n8k16" and "ldmatrix".
#include "emulation/half.h"
#include "emulation/bfloat16.h"
#include "emulation/warp.h"

namespace kvloupe::emulation {

namespace {

// Lane that `lane` reads, or itself where that lies outside its part of the warp (width lanes).
using Source = unsigned (*)(unsigned lane, unsigned argument, unsigned width);

unsigned of_index(unsigned lane, unsigned argument, unsigned width) { return lane / width * width + argument % width; }
unsigned of_up(unsigned lane, unsigned argument, unsigned width) {
    return argument > lane % width ? lane : lane - argument;
}
unsigned of_down(unsigned lane, unsigned argument, unsigned width) {
    return argument >= width - lane % width ? lane : lane + argument;
}
unsigned of_xor(unsigned lane, unsigned argument, unsigned width) {
    // Lanes of an earlier part may be read, those of a later part may not.
    const unsigned other = lane ^ argument;
    return other >= (lane / width + 1) * width ? lane : other;
}

template <Source source>
const char* shuffle_lanes(LaneWords* lanes, std::uint32_t mask) {
    for (unsigned lane = 0; lane < warp_lanes; ++lane) {
        if ((mask >> lane & 1u) == 0) continue;
        const unsigned width = lanes[lane].in[3];
        if (width == 0 || width > warp_lanes || (width & (width - 1)) != 0) return "the width is no power of two up to 32";
        const unsigned from = source(lane, lanes[lane].in[2], width);
        if (from >= warp_lanes || (mask >> from & 1u) == 0) return "a lane reads from a lane that its mask does not name";
        lanes[lane].out[0] = lanes[from].in[0];
        lanes[lane].out[1] = lanes[from].in[1];
    }
    return nullptr;
}

const char* ballot(LaneWords* lanes, std::uint32_t mask) {
    std::uint32_t votes = 0;
    for (unsigned lane = 0; lane < warp_lanes; ++lane)
        if ((mask >> lane & 1u) != 0 && lanes[lane].in[0] != 0) votes |= 1u << lane;
    for (unsigned lane = 0; lane < warp_lanes; ++lane)
        if ((mask >> lane & 1u) != 0) lanes[lane].out[0] = votes;
    return nullptr;
}

const char* meet(LaneWords*, std::uint32_t) { return nullptr; }

// Low or high 16 bits of a register, as a number.
template <float (*value)(std::uint16_t)>
double part(std::uint32_t word, unsigned high) {
    return static_cast<double>(value(static_cast<std::uint16_t>(word >> (16 * high))));
}

// D (16, 8) = A (16, 16) * B (16, 8) + C (16, 8). in: 4 registers of A, 2 of B, 4 of C. The sum is taken in double and
// rounded once; the hardware's order and truncation are its own.
template <float (*value)(std::uint16_t)>
const char* multiply(LaneWords* lanes, std::uint32_t mask) {
    if (mask != 0xFFFFFFFFu) return "a tensor-core product needs all 32 lanes";
    double a[16][16], b[16][8];
    for (unsigned lane = 0; lane < warp_lanes; ++lane) {
        const unsigned group = lane / 4, pair = lane % 4 * 2;
        for (unsigned half = 0; half < 2; ++half) {
            for (unsigned word = 0; word < 4; ++word)
                a[group + word % 2 * 8][pair + half + word / 2 * 8] = part<value>(lanes[lane].in[word], half);
            for (unsigned word = 0; word < 2; ++word)
                b[pair + half + word * 8][group] = part<value>(lanes[lane].in[4 + word], half);
        }
    }
    for (unsigned lane = 0; lane < warp_lanes; ++lane)
        for (unsigned word = 0; word < 4; ++word) {
            const unsigned row = lane / 4 + word / 2 * 8, col = lane % 4 * 2 + word % 2;
            double sum = static_cast<double>(std::bit_cast<float>(lanes[lane].in[6 + word]));
            for (unsigned k = 0; k < 16; ++k) sum += a[row][k] * b[k][col];
            lanes[lane].out[word] = std::bit_cast<std::uint32_t>(static_cast<float>(sum));
        }
    return nullptr;
}

// Four 8x8 matrices of 16-bit elements; lane 8 m + r brings row r of matrix m (4 registers).
template <bool transposed>
const char* distribute(LaneWords* lanes, std::uint32_t mask) {
    if (mask != 0xFFFFFFFFu) return "ldmatrix needs all 32 lanes";
    const auto element = [lanes](unsigned matrix, unsigned row, unsigned col) {
        return lanes[8 * matrix + row].in[col / 2] >> (16 * (col % 2)) & 0xFFFFu;
    };
    for (unsigned lane = 0; lane < warp_lanes; ++lane) {
        const unsigned group = lane / 4, pair = lane % 4 * 2;
        for (unsigned matrix = 0; matrix < 4; ++matrix)
            lanes[lane].out[matrix] = transposed
                ? element(matrix, pair, group) | element(matrix, pair + 1, group) << 16
                : element(matrix, group, pair) | element(matrix, group, pair + 1) << 16;
    }
    return nullptr;
}

}  // namespace

constinit const WarpOperation shuffle_index{"__shfl_sync", shuffle_lanes<of_index>, false};
constinit const WarpOperation shuffle_up{"__shfl_up_sync", shuffle_lanes<of_up>, false};
constinit const WarpOperation shuffle_down{"__shfl_down_sync", shuffle_lanes<of_down>, false};
constinit const WarpOperation shuffle_xor{"__shfl_xor_sync", shuffle_lanes<of_xor>, false};
constinit const WarpOperation vote_ballot{"a vote (__ballot_sync, __any_sync, __all_sync)", ballot, false};
constinit const WarpOperation synchronise_lanes{"__syncwarp", meet, true};
constinit const WarpOperation multiply_f16{"mma.sync (f16)", multiply<half_value>, false};
constinit const WarpOperation multiply_bf16{"mma.sync (bf16)", multiply<bfloat16_value>, false};
constinit const WarpOperation load_matrices{"ldmatrix", distribute<false>, false};
constinit const WarpOperation load_matrices_transposed{"ldmatrix.trans", distribute<true>, false};

}  // namespace kvloupe::emulation
