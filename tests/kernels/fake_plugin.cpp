// SPDX-License-Identifier: GPL-3.0-or-later
//
// Stands in for the CUDA plugin where its opening is tested: one of this build, one of another.
#include "kernels/cuda/plugin.h"

namespace {

using namespace kvloupe;

#if defined(KVLOUPE_OF_ANOTHER_BUILD)
constexpr std::uint32_t fingerprint = cuda::plugin_fingerprint() + 1;
#else
constexpr std::uint32_t fingerprint = cuda::plugin_fingerprint();
#endif

cuda::CardList cards() {
    cuda::CardList list;
    list.cards.resize(2);
    list.cards[0].name = "card 0";
    list.cards[1].index = 1;
    list.cards[1].name = "card 1";
    list.cards[1].refusal = "too old";
    return list;
}

Result<std::unique_ptr<Backend>> refuse(int card) { return Error{"card " + std::to_string(card) + ": too old", ""}; }

constexpr cuda::PluginEntry entry{cuda::plugin_version, fingerprint, cards, refuse};

}  // namespace

extern "C" const kvloupe::cuda::PluginEntry* kvloupe_cuda_plugin() { return &entry; }
