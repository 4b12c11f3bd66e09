// SPDX-License-Identifier: GPL-3.0-or-later
//
// The ggml_type ids a GGUF file may carry, with their block sizes: also of the types this program does not compute
// with, so that a file is understood and refused by name. Ids: FORMATS 2.2.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvloupe {

struct GgmlType {
    std::uint32_t id = 0;
    std::string_view name;
    std::uint32_t elements = 1;  // per block
    std::uint32_t bytes = 0;     // per block
};

// Nothing for ids that were never given or were removed.
const GgmlType* find_ggml_type(std::uint32_t id);

}  // namespace kvloupe
