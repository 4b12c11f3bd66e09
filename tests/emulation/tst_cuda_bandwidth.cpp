// SPDX-License-Identifier: GPL-3.0-or-later
//
// The kernel that the read bandwidth is measured with reads everything, once, and nothing else: emulated.
#include "kernels/cuda/kernels.h"
#include "tests/emulation/device_memory.h"
#include "tests/support/rows.h"

#include <numeric>
#include <random>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

void reads_all(Check& check) {
    for (std::size_t vectors : {1u, 2u, 255u, 256u, 257u, 1024u, 1025u, 8193u, 20000u})
        for (std::uint32_t processors : {1u, 3u, 132u}) {
            std::mt19937 random(static_cast<unsigned>(vectors));
            std::vector<unsigned> words(4 * vectors);
            for (unsigned& word : words) word = static_cast<unsigned>(random());
            const DeviceArray<unsigned> data(words);
            DeviceArray<unsigned> out(std::vector<unsigned>{17});
            LAUNCHED(cuda::read_all(reinterpret_cast<const std::byte*>(data.data()), data.bytes(), out.data(), processors, nullptr));
            CHECK_EQUAL(*out.data(), std::accumulate(words.begin(), words.end(), 17u));
            CHECK_THAT(out.guards_hold());
        }
}

void refuses(Check& check) {
    DeviceArray<unsigned> out(std::vector<unsigned>{17});
    CHECK_EQUAL(cuda::read_all(nullptr, 8, out.data(), 1, nullptr), cudaErrorInvalidValue);
    CHECK_EQUAL(cuda::read_all(nullptr, 16, out.data(), 0, nullptr), cudaErrorInvalidValue);
    LAUNCHED(cuda::read_all(nullptr, 0, out.data(), 1, nullptr));
    CHECK_EQUAL(*out.data(), 17u);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    return {{"every word is added once, whatever the size and the number of processors", reads_all},
            {"sizes that are no multiple of 16 are refused; none launches nothing", refuses}};
}
