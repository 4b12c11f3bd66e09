// SPDX-License-Identifier: GPL-3.0-or-later
//
// The emulation computes what CUDA defines: indices, barriers, shuffles, votes, atomics, shared memory, streams.
#include "tests/emulation/device_memory.h"
#include "tests/support/rows.h"

#include <algorithm>
#include <bit>
#include <numeric>

using namespace kvloupe;
using namespace kvloupe::test;
using cuda::launch;

namespace {

constexpr unsigned all_lanes = 0xFFFFFFFFu;

__global__ void write_indices(uint3* threads, uint3* blocks) {
    KVLOUPE_KERNEL(write_indices);
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned at = block * blockDim.x * blockDim.y * blockDim.z + thread;
    threads[at] = threadIdx;
    blocks[at] = blockIdx;
}

void indices(Check& check) {
    const dim3 grid(3, 2, 2), block(5, 4, 3);
    DeviceArray<uint3> threads(12 * 60), blocks(12 * 60);
    LAUNCHED(launch(write_indices, grid, block, 0, nullptr, threads.data(), blocks.data()));
    for (unsigned i = 0; i < 720; ++i) {
        const uint3 thread = threads.data()[i], at = blocks.data()[i];
        CHECK_EQUAL(thread.x + 5 * (thread.y + 4 * thread.z), i % 60);
        CHECK_EQUAL(at.x + 3 * (at.y + 2 * at.z), i / 60);
    }
}

// Each thread hands its number round the block through shared memory, many times: a barrier that lets one pass too early
// gives another value.
template <int rounds>
__global__ void hand_round(unsigned* out) {
    KVLOUPE_KERNEL(hand_round);
    KVLOUPE_SHARED(unsigned, place, 256);
    unsigned mine = threadIdx.x;
    for (int i = 0; i < rounds; ++i) {
        place[threadIdx.x] = mine;
        __syncthreads();
        mine = place[(threadIdx.x + 1) % blockDim.x];
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = mine;
}

void barriers(Check& check) {
    for (unsigned threads : {1u, 31u, 32u, 33u, 250u, 256u}) {
        DeviceArray<unsigned> out(5 * threads);
        LAUNCHED(launch(hand_round<7>, 5, threads, 0, nullptr, out.data()));
        for (unsigned i = 0; i < 5 * threads; ++i) CHECK_EQUAL(out.data()[i], (i % threads + 7) % threads);
    }
}

struct Shuffled {
    int index, part_index, up, down, crossed, part_crossed;
    double wide;
    unsigned even, any, all;
};

__global__ void shuffle_all(Shuffled* out) {
    KVLOUPE_KERNEL(shuffle_all);
    const int lane = static_cast<int>(threadIdx.x % 32), value = 100 + lane;
    Shuffled it;
    it.index = __shfl_sync(all_lanes, value, 5);
    it.part_index = __shfl_sync(all_lanes, value, 9, 8);
    it.up = __shfl_up_sync(all_lanes, value, 3u);
    it.down = __shfl_down_sync(all_lanes, value, 3u, 16);
    it.crossed = __shfl_xor_sync(all_lanes, value, 17);
    it.part_crossed = __shfl_xor_sync(all_lanes, value, 12, 8);
    it.wide = __shfl_xor_sync(all_lanes, 1.0 / (1 + lane), 1);
    it.even = __ballot_sync(all_lanes, lane % 2 == 0);
    it.any = static_cast<unsigned>(__any_sync(all_lanes, lane == 31));
    it.all = static_cast<unsigned>(__all_sync(all_lanes, lane < 31));
    out[threadIdx.x] = it;
}

void shuffles(Check& check) {
    DeviceArray<Shuffled> out(64);
    LAUNCHED(launch(shuffle_all, 1, 64, 0, nullptr, out.data()));
    for (int i = 0; i < 64; ++i) {
        const int lane = i % 32;
        const Shuffled& it = out.data()[i];
        CHECK_EQUAL(it.index, 105);
        CHECK_EQUAL(it.part_index, 100 + lane / 8 * 8 + 1);
        CHECK_EQUAL(it.up, 100 + (lane < 3 ? lane : lane - 3));
        CHECK_EQUAL(it.down, 100 + (lane % 16 >= 13 ? lane : lane + 3));
        CHECK_EQUAL(it.crossed, 100 + (lane ^ 17));
        // An earlier part of the warp may be read, a later one may not (CUDA C++ guide, warp shuffle functions).
        CHECK_EQUAL(it.part_crossed, 100 + ((lane ^ 12) >= (lane / 8 + 1) * 8 ? lane : lane ^ 12));
        CHECK_EQUAL(it.wide, 1.0 / (1 + (lane ^ 1)));
        CHECK_EQUAL(it.even, 0x55555555u);
        CHECK_EQUAL(it.any, 1u);
        CHECK_EQUAL(it.all, 0u);
    }
}

// The two halves of a warp sum apart, with masks of their own, in branches.
__global__ void sum_halves(int* out) {
    KVLOUPE_KERNEL(sum_halves);
    int sum = static_cast<int>(threadIdx.x);
    if (threadIdx.x < 16) {
        for (int lanes = 8; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0x0000FFFFu, sum, lanes);
    } else {
        for (int lanes = 4; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xFFFF0000u, sum, lanes);
    }
    out[threadIdx.x] = sum;
}

void parts_of_a_warp(Check& check) {
    DeviceArray<int> out(32);
    LAUNCHED(launch(sum_halves, 1, 32, 0, nullptr, out.data()));
    CHECK_EQUAL(out.data()[3], 120);
    CHECK_EQUAL(out.data()[17], 16 + 17 + 18 + 19 + 20 + 21 + 22 + 23);
    CHECK_EQUAL(out.data()[31], 24 + 25 + 26 + 27 + 28 + 29 + 30 + 31);
}

__global__ void count_all(unsigned* counted, unsigned long long* wide, float* sum, int* most, int* voted) {
    KVLOUPE_KERNEL(count_all);
    const int number = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    atomicAdd(counted, 1u);
    atomicAdd(wide, 1ull << 33);
    atomicAdd(sum, 0.5f);
    atomicMax(most, number);
    const int vote = __syncthreads_or(blockIdx.x == 2 && threadIdx.x == 7);
    const int again = __syncthreads_or(0);
    if (threadIdx.x == 0) voted[blockIdx.x] = vote + 10 * again;
}

void atomics(Check& check) {
    DeviceArray<unsigned> counted(std::vector<unsigned>{0});
    DeviceArray<unsigned long long> wide(std::vector<unsigned long long>{0});
    DeviceArray<float> sum(std::vector<float>{0});
    DeviceArray<int> most(std::vector<int>{-1}), voted(6);
    LAUNCHED(launch(count_all, 6, 50, 0, nullptr, counted.data(), wide.data(), sum.data(), most.data(), voted.data()));
    CHECK_EQUAL(*counted.data(), 300u);
    CHECK_EQUAL(*wide.data(), 300ull << 33);
    CHECK_EQUAL(*sum.data(), 150.0f);
    CHECK_EQUAL(*most.data(), 299);
    for (int block = 0; block < 6; ++block) CHECK_EQUAL(voted.data()[block], block == 2 ? 1 : 0);
}

// The last block to count itself sees what all others wrote.
__global__ void last_block_sums(float* parts, unsigned* counter, float* out) {
    KVLOUPE_KERNEL(last_block_sums);
    KVLOUPE_SHARED(unsigned, place, 1);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = static_cast<float>(blockIdx.x);
        __threadfence();
        place[0] = atomicAdd(counter, 1u);
    }
    __syncthreads();
    if (place[0] + 1 != gridDim.x || threadIdx.x != 0) return;
    __threadfence();
    float sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += parts[i];
    *out = sum;
}

void fences(Check& check) {
    DeviceArray<float> parts(20), out(1);
    DeviceArray<unsigned> counter(std::vector<unsigned>{0});
    LAUNCHED(launch(last_block_sums, 20, 32, 0, nullptr, parts.data(), counter.data(), out.data()));
    CHECK_EQUAL(*out.data(), 190.0f);
}

struct Fresh {
    float statics, dynamics;
    unsigned differ;
};

template <class T>
__global__ void read_fresh(Fresh* out, unsigned dynamic_count) {
    KVLOUPE_KERNEL(read_fresh);
    KVLOUPE_SHARED(T, first, 3);
    KVLOUPE_SHARED(T, second, 3);
    KVLOUPE_DYNAMIC_SHARED(float, dynamics);
    if (threadIdx.x == 0) {
        out[blockIdx.x] = {static_cast<float>(first[1] + second[2]), dynamics[dynamic_count - 1], &first[0] != &second[0]};
        for (T& value : first) value = T(0);
        for (T& value : second) value = T(0);
        for (unsigned i = 0; i < dynamic_count; ++i) dynamics[i] = 0;
    }
}

void fresh_shared_memory(Check& check) {
    DeviceArray<Fresh> out(6);
    LAUNCHED(launch(read_fresh<float>, 6, 1, 100, nullptr, out.data(), 25u));
    LAUNCHED(launch(read_fresh<double>, 6, 1, 60000, nullptr, out.data(), 15000u));
    for (int block = 0; block < 6; ++block) {
        CHECK_THAT(std::isnan(out.data()[block].statics) && std::isnan(out.data()[block].dynamics));
        CHECK_EQUAL(out.data()[block].differ, 1u);
    }
}

__global__ void one(int* out) {
    KVLOUPE_KERNEL(one);
    *out = 1;
}

void streams(Check& check) {
    std::vector<std::function<cudaError_t()>> waiting;
    CUstream_st stream;
    stream.submit = [&waiting](std::function<cudaError_t()> work) {
        waiting.push_back(std::move(work));
        return cudaSuccess;
    };
    DeviceArray<int> out(1);
    LAUNCHED(launch(one, 1, 1, 0, &stream, out.data()));
    CHECK_EQUAL(waiting.size(), 1u);
    CHECK_EQUAL(*out.data(), -1);
    CHECK_EQUAL(waiting[0](), cudaSuccess);
    CHECK_EQUAL(*out.data(), 1);
    CHECK_THAT(emulation::launched_kernels().count("one") == 1);
    CHECK_THAT(emulation::launched_kernels().count("no such kernel") == 0);
}

void guards(Check& check) {
    DeviceArray<float> array(5, 4);
    CHECK_THAT(array.guards_hold());
    CHECK_THAT(std::isnan(array.data()[0]) && std::isnan(array.data()[4]));
    CHECK_EQUAL(reinterpret_cast<std::uintptr_t>(array.data()) % 256, 4u);
#if !defined(KVLOUPE_EMULATION_ASAN)
    float* const past = array.data() + 5;
    std::memset(past, 0, 4);
    CHECK_THAT(!array.guards_hold());
#endif
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    return {
        {"every thread of a grid has its indices, x fastest", indices},
        {"a barrier lets nobody pass before all are there", barriers},
        {"shuffles and votes give what the guide defines, with widths and 64-bit values", shuffles},
        {"parts of a warp shuffle apart, with masks of their own", parts_of_a_warp},
        {"atomics count every thread; a block's vote reaches all its threads and no other block", atomics},
        {"the last block to count itself sees what the others wrote before their fences", fences},
        {"shared memory is NaN when a block starts, whatever the block before left", fresh_shared_memory},
        {"a stream decides when a launch runs, and kernels are known by name", streams},
        {"a device array is NaN at first, shifted as asked, and notices a write beside it", guards},
    };
}
