// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/device_query.h"

#include "kernels/cuda/runtime.h"

namespace kvloupe::cuda {

namespace {

// Why the driver counts no cards. The count itself is left untouched on failure: only the status tells.
std::string why_none(cudaError_t status) {
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    (void)cudaGetLastError();
    if (status == cudaErrorInsufficientDriver)
        return "The NVIDIA driver" + (driver > 0 ? " (for CUDA " + version_text(driver) + ")" : std::string()) +
               " is older than the CUDA runtime " + version_text(runtime) + " that this build uses; install a newer driver";
    if (status == cudaErrorNoDevice || status == cudaSuccess)
        return "An NVIDIA driver is installed, but it finds no CUDA device";
    return std::string("The NVIDIA driver does not answer: ") + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")";
}

CardReport describe(int index) {
    CardReport card;
    card.index = index;
    cudaDeviceProp properties;
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (const cudaError_t status = cudaGetDeviceProperties(&properties, index); status != cudaSuccess) {
        card.name = "NVIDIA GPU";
        card.refusal = std::string("The driver does not describe it: ") + cudaGetErrorString(status);
        (void)cudaGetLastError();
        return card;
    }
    card.name = properties.name;
    card.major = properties.major;
    card.minor = properties.minor;
    card.memory_bytes = properties.totalGlobalMem;
    card.detail = "compute capability " + std::to_string(card.major) + "." + std::to_string(card.minor) + ", " +
                  std::to_string(properties.multiProcessorCount) + " multiprocessors, driver for CUDA " + version_text(driver);
    if (card.major < oldest_major) {
        card.refusal = "Its compute capability " + std::to_string(card.major) + "." + std::to_string(card.minor) +
                       " is below 8.0, the oldest that the CUDA backend is built for";
        return card;
    }
    std::size_t free = 0, total = 0;
    cudaError_t status = cudaSetDevice(index);
    if (status == cudaSuccess) status = cudaMemGetInfo(&free, &total);
    if (status != cudaSuccess) {
        card.refusal = std::string("It cannot be used now: ") + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")";
        (void)cudaGetLastError();
        return card;
    }
    card.memory_bytes = total;
    card.free_bytes = free;
    return card;
}

}  // namespace

std::string version_text(int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); }

CardList list_cards() {
    CardList list;
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
        list.none = why_none(status);
        return list;
    }
    for (int index = 0; index < count; ++index) list.cards.push_back(describe(index));
    return list;
}

}  // namespace kvloupe::cuda
