// SPDX-License-Identifier: GPL-3.0-or-later
//
// What this machine reaches at best, with the backend's own threads: the numbers that its stages are held against.
#pragma once

#include "engine/record/ceilings.h"
#include "kernels/cpu/thread_pool.h"

#include <stop_token>

namespace kvloupe::cpu {

// Fills in what `known` lacks, each part the best of several tries, because the machine may be shared. stop: looked at
// between the tries. What there is no memory for stays 0.
Ceilings measure_ceilings(const Ceilings& known, ThreadPool& pool, bool blas, std::stop_token stop);

// Bytes per second that the pool's threads read together from a buffer far larger than the caches.
double measure_read_bandwidth(ThreadPool& pool, std::stop_token stop = {});
// Bytes per second, read and written, of copies between two such buffers.
double measure_copy_bandwidth(ThreadPool& pool, std::stop_token stop = {});
// FLOP per second of a product of f32 matrices whose operands fit no cache, as prefill computes them (matmul.h).
double measure_matrix_rate(ThreadPool& pool, bool blas, std::stop_token stop = {});

}  // namespace kvloupe::cpu
