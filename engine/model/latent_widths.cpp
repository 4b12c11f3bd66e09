// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/latent_widths.h"

#include <cassert>
#include <numeric>
#include <queue>

namespace kvloupe {

std::vector<std::uint32_t> share_budget(std::span<const std::vector<double>> squared, std::span<const double> weights,
                                        std::uint64_t budget) {
    struct Gain {
        double value;
        std::size_t layer;
        bool operator<(const Gain& other) const { return value != other.value ? value < other.value : layer > other.layer; }
    };
    std::vector<std::uint32_t> widths(squared.size(), 1);
    std::vector<double> factors;
    std::priority_queue<Gain> next;
    for (std::size_t layer = 0; layer < squared.size(); ++layer) {
        const double sum = std::accumulate(squared[layer].begin(), squared[layer].end(), 0.0);
        factors.push_back(sum > 0 ? (weights.empty() ? 1.0 : weights[layer]) / sum : 0.0);
        if (squared[layer].size() > 1) next.push({factors[layer] * squared[layer][1], layer});
    }
    assert(budget >= squared.size());
    for (std::uint64_t left = budget - squared.size(); left > 0; --left) {
        assert(!next.empty());
        const std::size_t layer = next.top().layer;
        next.pop();
        if (++widths[layer] < squared[layer].size()) next.push({factors[layer] * squared[layer][widths[layer]], layer});
    }
    return widths;
}

}  // namespace kvloupe
