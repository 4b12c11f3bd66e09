// SPDX-License-Identifier: GPL-3.0-or-later
//
// Attention of sequences with several rows: chooses the kernel.
//
// Operations: 4 * head_dim for each pair of a query and a key it sees; 4,096 causal tokens, 32 heads of 128: 137 GFLOP.
// Bytes: q and out once in f32 (134 MB there), K and V (17 MB) from memory once, then from the second-level cache: a block reads
// the keys of its rows, 1.1 GB in all for 1,024 blocks. Floor: the operations over the matrix rate (0.2 ms at 700 TFLOP/s);
// the bytes take a seventh of that from memory, and hide.
// Form (attention_prefill_tensor.h): 64 rows times two query heads of a group a block, four warps, tiles of 64 keys (32 for heads
// of 256), online softmax in registers, P handed from one product to the next without leaving them.
//
// Per warp and tile, heads of 128, two heads: 256 mma of 4,096 FLOP, and 80 ldmatrix of 512 bytes (16 of Q, 32 of K, 32 of V):
// 160 bytes of shared memory an mma. A multiprocessor reads 128 bytes a cycle, which allows 0.8 mma a cycle; mma.sync itself
// reaches about 0.6 of the one that the newest cards' wgmma does, so that the tensor cores and not shared memory are the bound.
// With one head (an odd group) it is 288 bytes and 0.44 mma a cycle: shared memory is the bound.
// Beside them a warp issues about 290 instructions of softmax (64 scores a lane: maximum, multiply-add, 2^x, sum, and half a
// conversion), 230 that send the 16 copies of the next tile on their way, and 64 multiplications that bring outputs to a new
// maximum, left out where no maximum of the warp moved. About 850 in all, where 256 mma take their scheduler 1,660 cycles at
// 0.6, with two warps a scheduler to fill the gaps. The special function unit is busy for 512 of them.
// Registers: 128 of outputs, 64 of scores, 255 in all without spills (sm_80 and sm_90): two blocks a multiprocessor. Shared memory: 70,144 bytes,
// so that sm_80 holds two blocks and sm_86 (99 KiB) one; heads of 256 take 67,840.
// Expected, not measured: 40 to 50 % of the rate that a large f16 product reaches on the same card; the causal diagonal wastes
// half a tile in 32. Blocks with the most keys start first, so that the last to finish are short.
//
// Codes (fp8, integers, packs, KIVI): the same kernel over tiles that are expanded to f16, scales included, on their way into
// shared memory: some 20 instructions for four elements, 320 a thread and tile for heads of 128, a third of what is there. Where
// the tile is expanded, nothing hides its loads but the other block. One axis more (codes or not) for head sizes 64, 128 and
// 256; the precision is chosen at run time, because it costs a branch per four elements and saves 14 x 14 instances. Expanding
// rounds to f16 (2^-12 of a value), as an f16 cache would have; values beyond 65,504 become infinite.
//
// Rejected: 128 rows of one head (K and V would be shared as well, but a group of two heads does it with shorter tiles, which
// waste less of the diagonal and of short prompts); wgmma (sm_90 only, a second kernel to keep right); both K and V twice in
// shared memory (one block on sm_80 and none on sm_86; K arrives during softmax and P V, V during Q K^T as it is); Q in
// registers (64 more); an exclusive-or swizzle (it needs a power of two of chunks; a 16-byte pad costs 6 % of the room).
#include "kernels/cuda/attention_prefill_plain.h"
#include "kernels/cuda/attention_prefill_tensor.h"
#include "kernels/cuda/conversions.h"
#include "kernels/cuda/kernels.h"

namespace kvloupe::cuda {

namespace {

template <class T, unsigned Dim, unsigned Heads, bool Codes>
cudaError_t run_tensor(const PrefillAttention& prefill, cudaStream_t stream) {
    using Layout = PrefillLayout<Dim, Heads, Codes>;
    return launch(prefill_tensor_kernel<T, Dim, Heads, Codes>, dim3(prefill.count * (prefill.args.query_heads / Heads)),
                  dim3(Layout::threads), Layout::shared_bytes, stream, prefill);
}

// Two query heads of a group read K and V together where there are two, and registers for them.
template <class T, unsigned Dim, bool Codes = false>
cudaError_t run_dim(const PrefillAttention& prefill, cudaStream_t stream) {
    if constexpr (Dim <= 128) {
        if (prefill.args.query_heads / prefill.args.cache.kv_heads % 2 == 0) return run_tensor<T, Dim, 2, Codes>(prefill, stream);
    }
    return run_tensor<T, Dim, 1, Codes>(prefill, stream);
}

template <class T>
cudaError_t run_type(const PrefillAttention& prefill, cudaStream_t stream) {
    switch (prefill.args.cache.head_dim_k) {
    case 64: return run_dim<T, 64>(prefill, stream);
    case 80: return run_dim<T, 80>(prefill, stream);
    case 96: return run_dim<T, 96>(prefill, stream);
    case 128: return run_dim<T, 128>(prefill, stream);
    default: return run_dim<T, 256>(prefill, stream);
    }
}

cudaError_t run_codes(const PrefillAttention& prefill, cudaStream_t stream) {
    switch (prefill.args.cache.head_dim_k) {
    case 64: return run_dim<__half, 64, true>(prefill, stream);
    case 128: return run_dim<__half, 128, true>(prefill, stream);
    default: return run_dim<__half, 256, true>(prefill, stream);
    }
}

// Codes, or f16 beside codes: what f16 holds.
bool codes_for_tensor_cores(const AttentionArgs& args) {
    const CacheLayer& cache = args.cache;
    const std::uint32_t dim = cache.head_dim_k;
    const auto narrow = [](const CacheTensor& tensor) { return tensor.dtype != DType::f32 && tensor.dtype != DType::bf16; };
    return (dim == 64 || dim == 128 || dim == 256) && dim == cache.head_dim_v && narrow(cache.keys) && narrow(cache.values) &&
           !(cache.keys.in_rows && cache.values.in_rows) && reads_fours(cache.keys) && reads_fours(cache.values) && is_aligned(args.out, 8);
}

bool for_tensor_cores(const AttentionArgs& args) {
    const CacheLayer& cache = args.cache;
    const std::uint32_t dim = cache.head_dim_k;
    const bool size = dim == 64 || dim == 80 || dim == 96 || dim == 128 || dim == 256;
    return size && dim == cache.head_dim_v && cache.keys.in_rows && cache.values.in_rows &&
           cache.keys.dtype == cache.values.dtype && cache.keys.dtype != DType::f32 && is_aligned(cache.keys.data, 16) && is_aligned(cache.values.data, 16) &&
           is_aligned(args.out, 8);
}

template <unsigned MaxDim, unsigned Rows = 32, unsigned Keys = 32>
cudaError_t run_plain(const PrefillAttention& prefill, cudaStream_t stream) {
    using Layout = PlainPrefillLayout<Rows, Keys>;
    constexpr unsigned pieces = prefill_rows / Rows;
    return launch(prefill_plain_kernel<MaxDim, Rows, Keys>, dim3(prefill.count * pieces * prefill.args.query_heads), dim3(Layout::threads),
                  Layout(prefill.args).shared_bytes(), stream, prefill);
}

}  // namespace

cudaError_t attention_prefill(const PrefillAttention& prefill, cudaStream_t stream) {
    const AttentionArgs& args = prefill.args;
    const CacheLayer& cache = args.cache;
    if (prefill.count == 0 || args.query_heads == 0) return cudaSuccess;
    if (cache.kv_heads == 0 || args.query_heads % cache.kv_heads != 0 || cache.block_size == 0 || !widths_fit(args) ||
        !readable(cache.keys) || !readable(cache.values))
        return cudaErrorInvalidValue;
    if (args.latent) return run_plain<512, 16, 16>(prefill, stream);
    if (args.soft_cap == 0 && for_tensor_cores(args))
        return cache.keys.dtype == DType::f16 ? run_type<__half>(prefill, stream) : run_type<__nv_bfloat16>(prefill, stream);
    if (args.soft_cap == 0 && codes_for_tensor_cores(args)) return run_codes(prefill, stream);
    if (cache.head_dim_v <= 64) return run_plain<64>(prefill, stream);
    if (cache.head_dim_v <= 128) return run_plain<128>(prefill, stream);
    return run_plain<256>(prefill, stream);
}

}  // namespace kvloupe::cuda
