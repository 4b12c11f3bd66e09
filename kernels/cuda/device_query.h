// SPDX-License-Identifier: GPL-3.0-or-later
//
// Which cards there are, and for each that cannot compute here, why.
#pragma once

#include "kernels/cuda/plugin.h"

#include <string>

namespace kvloupe::cuda {

// The oldest architecture that the kernels are built for: sm_80.
inline constexpr int oldest_major = 8;

// "12.4" of 12040.
std::string version_text(int number);

CardList list_cards();

}  // namespace kvloupe::cuda
