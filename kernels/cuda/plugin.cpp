// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/plugin.h"

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device_query.h"

namespace {

constexpr kvloupe::cuda::PluginEntry entry{
    kvloupe::cuda::plugin_version,
    kvloupe::cuda::plugin_fingerprint(),
    [] { return kvloupe::cuda::list_cards(); },
    [](int card) { return kvloupe::cuda::make_cuda_backend(card, {}); },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const kvloupe::cuda::PluginEntry* kvloupe_cuda_plugin() { return &entry; }
