// SPDX-License-Identifier: GPL-3.0-or-later
//
// safetensors reader: tensor directory over a span of bytes. Format and order of the checks: FORMATS 2.1.
#pragma once

#include "engine/record/dtype.h"
#include "engine/record/result.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

struct SafetensorsTensor {
    std::string name;
    std::string dtype;                 // as the file spells it: "F32", "BF16", "F8_E4M3"
    std::vector<std::uint64_t> shape;  // outermost first; empty: a scalar
    std::uint64_t offset = 0;          // in the file
    std::uint64_t bytes = 0;
};

struct SafetensorsFile {
    std::string path;                             // for messages
    std::vector<SafetensorsTensor> tensors;       // ascending in offset; without holes or overlap
    std::map<std::string, std::string> metadata;  // __metadata__
    std::span<const std::byte> bytes;             // the whole file

    const SafetensorsTensor* tensor(std::string_view name) const;
};

// path is used in messages only. Errors name the tensor, the value and the remedy.
Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes, const std::string& path);

// Stored type of a dtype name, if this program computes with it.
std::optional<DType> dtype_from_safetensors(std::string_view dtype);

}  // namespace kvloupe
