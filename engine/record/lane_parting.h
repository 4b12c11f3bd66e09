// SPDX-License-Identifier: GPL-3.0-or-later
//
// Where two lanes that served the same requests part.
#pragma once

#include "engine/record/recording_diff.h"

#include <vector>

namespace kvloupe {

// At most one of each kind. Tokens and logits are aligned by sequence name and position, tables by step. Logits are those of the
// alternatives that were recorded with the tokens, up to and with the first token that differs.
std::vector<Parting> partings(const Recording& a, const LaneRecord& left, const Recording& b, const LaneRecord& right);

}  // namespace kvloupe
