// SPDX-License-Identifier: GPL-3.0-or-later
//
// What is undefined on the device fails the launch here, in every build, with a sentence; the next launch runs.
#include "kernels/cuda/async_copy.h"
#include "kernels/cuda/mma.h"
#include "tests/emulation/device_memory.h"
#include "tests/support/rows.h"

using namespace kvloupe;
using namespace kvloupe::test;
using cuda::launch;

namespace {

enum class Fault : int {
    none, barrier_not_reached, barrier_of_another_line, barrier_and_shuffle, mask_without_self, masks_differ,
    operations_differ, lane_returned, lane_elsewhere, reads_outside_mask, width_of_three, product_of_half_a_warp,
    row_misaligned, row_not_shared, copy_misaligned, copy_not_shared, too_much_shared,
};

__global__ void commit(Fault fault, int* out) {
    KVLOUPE_KERNEL(commit);
    struct alignas(16) Sixteen {
        unsigned char at[16];
    };
    KVLOUPE_SHARED(Sixteen, tile, 33);  // one row more: a misaligned access of the last lane stays inside
    const unsigned lane = threadIdx.x;
    Sixteen own[2] = {};
    std::uint32_t matrices[4] = {}, pair[2] = {};
    float sum[4] = {};
    tile[lane] = own[0];
    __syncthreads();
    switch (fault) {
    case Fault::none: break;
    case Fault::barrier_not_reached: if (lane != 3) __syncthreads(); break;
    case Fault::barrier_of_another_line:
        if (lane < 16) __syncthreads();
        else
            __syncthreads();
        break;
    case Fault::barrier_and_shuffle:
        if (lane < 16) __syncthreads();
        else __shfl_sync(0xFFFFFFFFu, 1, 0);
        break;
    case Fault::mask_without_self: __shfl_sync(0x0000FFFFu, 1, 0); break;
    case Fault::masks_differ: __shfl_xor_sync(lane < 16 ? 0xFFFFFFFFu : 0xFFFF8000u, 1, 1); break;
    case Fault::operations_differ:
        if (lane % 2 == 0) __shfl_xor_sync(0xFFFFFFFFu, 1, 1);
        else __ballot_sync(0xFFFFFFFFu, 1);
        break;
    case Fault::lane_returned:
        if (lane == 5) return;
        __syncwarp();
        break;
    case Fault::lane_elsewhere:
        if (lane < 8) __syncwarp(0x000001FFu);
        break;
    case Fault::reads_outside_mask:
        if (lane < 16) __shfl_xor_sync(0x0000FFFFu, 1, 16);
        break;
    case Fault::width_of_three: __shfl_xor_sync(0xFFFFFFFFu, 1, 1, 3); break;
    case Fault::product_of_half_a_warp:
        if (lane < 16) cuda::multiply_accumulate<__half>(sum, matrices, pair);
        break;
    case Fault::row_misaligned: cuda::load_matrices(matrices, tile[lane].at + 8); break;
    case Fault::row_not_shared: cuda::load_matrices(matrices, own); break;
    case Fault::copy_misaligned: cuda::copy_async(tile[lane].at + 4, own); break;
    case Fault::copy_not_shared: cuda::copy_async(&own[0], &own[1]); break;
    case Fault::too_much_shared: {
        KVLOUPE_SHARED(Sixteen, large, 3072);
        large[lane] = own[0];
        break;
    }
    }
    out[blockIdx.x * 32 + lane] = static_cast<int>(sum[0]) + 1;
}

Row fails(const char* what, Fault fault, const char* part) {
    return {std::string("fails with a sentence: ") + what, [fault, part](Check& check) {
        DeviceArray<int> out(4 * 32);
        emulation::forget_failure();
        CHECK_EQUAL(launch(commit, 4, 32, 0, nullptr, fault, out.data()), cudaErrorLaunchFailure);
        const std::string sentence = emulation::last_failure();
        if (sentence.find(part) == std::string::npos) check.fail("the sentence is: " + sentence, __FILE__, __LINE__);
        CHECK_THAT(sentence.find("Kernel commit, block (") == 0);
        check.note(sentence);
        // The next one runs.
        LAUNCHED(launch(commit, 4, 32, 0, nullptr, Fault::none, out.data()));
        for (int i = 0; i < 4 * 32; ++i) CHECK_EQUAL(out.data()[i], 1);
        CHECK_THAT(out.guards_hold());
    }};
}

void configurations(Check& check) {
    DeviceArray<int> out(4 * 32);
    const auto tried = [&out](dim3 grid, dim3 block, std::size_t shared_bytes) {
        return launch(commit, grid, block, shared_bytes, nullptr, Fault::none, out.data());
    };
    CHECK_EQUAL(tried(0, 32, 0), cudaErrorInvalidConfiguration);
    CHECK_EQUAL(tried(1, 0, 0), cudaErrorInvalidConfiguration);
    CHECK_EQUAL(tried(1, 1025, 0), cudaErrorInvalidConfiguration);
    CHECK_EQUAL(tried(1, dim3(1, 1, 65), 0), cudaErrorInvalidConfiguration);
    CHECK_EQUAL(tried(dim3(1, 65536), 32, 0), cudaErrorInvalidConfiguration);
    CHECK_EQUAL(tried(1, 32, 163 * 1024 + 1), cudaErrorInvalidValue);
    CHECK_EQUAL(tried(1, 32, 163 * 1024), cudaSuccess);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    return {
        fails("a thread returns without the barrier that the others wait at", Fault::barrier_not_reached,
              "divergent __syncthreads"),
        fails("threads wait at two barriers", Fault::barrier_of_another_line, "divergent __syncthreads"),
        fails("some wait at a barrier, some for their warp", Fault::barrier_and_shuffle, "divergent __syncthreads"),
        fails("a mask does not name the lane itself", Fault::mask_without_self, "does not name the lane itself"),
        fails("two lanes have different masks", Fault::masks_differ, "with mask 0xffff8000"),
        fails("two lanes are in different operations", Fault::operations_differ, "in a vote"),
        fails("a mask names a lane that has returned", Fault::lane_returned, "return"),
        fails("a mask names a lane that never comes", Fault::lane_elsewhere, "__syncwarp with mask 0x000001ff"),
        fails("a shuffle reads a lane outside its mask", Fault::reads_outside_mask, "that its mask does not name"),
        fails("a shuffle has a width of three", Fault::width_of_three, "no power of two"),
        fails("half a warp multiplies matrices", Fault::product_of_half_a_warp, "mma.sync"),
        fails("ldmatrix reads a row not aligned to 16", Fault::row_misaligned, "not aligned to 16"),
        fails("ldmatrix reads memory that is not shared", Fault::row_not_shared, "not shared"),
        fails("an asynchronous copy goes to an address not aligned to 16", Fault::copy_misaligned, "not aligned to 16"),
        fails("an asynchronous copy goes to memory that is not shared", Fault::copy_not_shared, "not shared"),
        fails("static arrays exceed 48 KiB", Fault::too_much_shared, "48 KiB"),
        {"a grid or block beyond CUDA's limits is refused with CUDA's error", configurations},
    };
}
