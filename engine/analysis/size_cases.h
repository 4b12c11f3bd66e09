// SPDX-License-Identifier: GPL-3.0-or-later
//
// Seven everyday sizes: what people look up first, as presets of the command and the window.
#pragma once

#include "engine/analysis/size_report.h"

#include <span>
#include <string_view>

namespace kvloupe {

struct SizeCase {
    std::string_view title;  // "8 B, 128 K tokens, FP8"
    std::string_view model;  // in the table of known models
    std::uint64_t context = 0;
    std::uint64_t batch = 1;
    DType dtype = DType::f16;
    std::uint32_t kv_heads = 0;  // 0: the model's own

    SizeRequest request() const;
};

std::span<const SizeCase> size_cases();

// Why the numbers differ from what many a page says.
std::string_view size_cases_remark();

}  // namespace kvloupe
