// SPDX-License-Identifier: GPL-3.0-or-later
//
// How wide every layer's latent becomes when all of them share a budget.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe {

// squared: (layers)(rank) squared singular values, descending. weights: (layers) how much a layer's share counts; empty: alike.
// Returns widths of at least 1 and at most the layer's rank that add up to the budget and maximise the sum of weight × share of
// the squared singular values kept. Every value that is added to a layer gains no more than the one before it, so taking the
// best gain first is optimal; of equal gains the lower layer's counts first.
// The budget lies between the number of layers and the sum of the ranks.
std::vector<std::uint32_t> share_budget(std::span<const std::vector<double>> squared, std::span<const double> weights,
                                        std::uint64_t budget);

}  // namespace kvloupe
