// SPDX-License-Identifier: GPL-3.0-or-later
//
// GGUF v2/v3 reader: metadata and tensor directory over a span of bytes. Format: FORMATS 2.2.
// Every size is checked against the remaining bytes before anything is allocated.
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
#include <variant>
#include <vector>

namespace kvloupe {

struct GgufArray;
// Integers are widened to int64 / uint64, floats to double.
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string, GgufArray>;

struct GgufArray {
    std::uint32_t element_type = 0;          // GGUF value type id
    std::vector<std::string_view> strings;   // element type 8; views into the file
    std::vector<double> numbers;             // numeric and bool element types
    std::vector<GgufArray> arrays;           // element type 9
    std::size_t size() const { return strings.size() + numbers.size() + arrays.size(); }
};

struct GgufTensor {
    std::string name;
    std::vector<std::uint64_t> dims;   // ne[0] innermost
    std::uint32_t type = 0;            // ggml_type id
    std::uint64_t offset = 0;          // in the file
    std::uint64_t bytes = 0;
};

struct GgufFile {
    std::string path;                  // for messages
    std::uint32_t version = 0;
    std::map<std::string, GgufValue, std::less<>> metadata;
    std::vector<GgufTensor> tensors;
    std::span<const std::byte> bytes;  // the whole file
    std::uint64_t alignment = 32;      // of tensors, general.alignment
    std::uint64_t data_offset = 0;     // of the data section; beyond the end where a file has no tensors

    const GgufTensor* tensor(std::string_view name) const;
    const std::string* string(std::string_view key) const;
    std::optional<std::uint64_t> unsigned_integer(std::string_view key) const;  // u8..u64 and non-negative i8..i64
    std::optional<double> number(std::string_view key) const;
    std::optional<bool> boolean(std::string_view key) const;
    const GgufArray* array(std::string_view key) const;
};

// What a value is, for messages: "the integer 5", "an array of 12 strings".
std::string describe(const GgufValue& value);

// path is used in messages only. Errors name key or tensor, value and remedy.
Result<GgufFile> parse_gguf(std::span<const std::byte> bytes, const std::string& path);

// Rows that a tensor of these dims has when its innermost axis is a row: the product of all axes but the first.
std::uint64_t row_count(const GgufTensor& tensor);

// Stored type of a ggml_type id, if this program computes with it.
std::optional<DType> dtype_from_ggml(std::uint32_t ggml_type);
// "Q4_K", or "type 77" where it is unknown.
std::string ggml_type_name(std::uint32_t ggml_type);

}  // namespace kvloupe
