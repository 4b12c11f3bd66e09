// SPDX-License-Identifier: GPL-3.0-or-later
//
// Look-ups in a parsed GGUF file (gguf.h). Reading one is in gguf.cpp.
#include "engine/model/gguf.h"

#include "engine/model/message.h"

namespace kvloupe {

namespace {

template <class T>
const T* value_of(const GgufFile& file, std::string_view key) {
    const auto found = file.metadata.find(key);
    return found == file.metadata.end() ? nullptr : std::get_if<T>(&found->second);
}

}  // namespace

const GgufTensor* GgufFile::tensor(std::string_view name) const {
    for (const GgufTensor& candidate : tensors)
        if (candidate.name == name) return &candidate;
    return nullptr;
}

const std::string* GgufFile::string(std::string_view key) const { return value_of<std::string>(*this, key); }

std::optional<std::uint64_t> GgufFile::unsigned_integer(std::string_view key) const {
    if (const auto* value = value_of<std::uint64_t>(*this, key)) return *value;
    const auto* value = value_of<std::int64_t>(*this, key);
    if (value && *value >= 0) return static_cast<std::uint64_t>(*value);
    return std::nullopt;
}

std::optional<double> GgufFile::number(std::string_view key) const {
    if (const auto* value = value_of<double>(*this, key)) return *value;
    if (const auto* value = value_of<std::uint64_t>(*this, key)) return static_cast<double>(*value);
    if (const auto* value = value_of<std::int64_t>(*this, key)) return static_cast<double>(*value);
    return std::nullopt;
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
    const auto* value = value_of<bool>(*this, key);
    return value ? std::optional<bool>(*value) : std::nullopt;
}

const GgufArray* GgufFile::array(std::string_view key) const { return value_of<GgufArray>(*this, key); }

std::string describe(const GgufValue& value) {
    if (const auto* number = std::get_if<std::uint64_t>(&value)) return "the integer " + std::to_string(*number);
    if (const auto* number = std::get_if<std::int64_t>(&value)) return "the integer " + std::to_string(*number);
    if (const auto* number = std::get_if<double>(&value)) return "the number " + std::to_string(*number);
    if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "the bool true" : "the bool false";
    if (const auto* text = std::get_if<std::string>(&value)) return "the string " + in_quotes(*text);
    const auto& array = std::get<GgufArray>(value);
    return "an array of " + grouped(array.size()) + (array.element_type == 8 ? " strings" : " elements");
}

std::uint64_t row_count(const GgufTensor& tensor) {
    std::uint64_t rows = 1;
    for (std::size_t axis = 1; axis < tensor.dims.size(); ++axis) rows *= tensor.dims[axis];
    return rows;
}

}  // namespace kvloupe
