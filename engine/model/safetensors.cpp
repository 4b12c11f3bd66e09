// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/safetensors.h"

#include "engine/model/json_document.h"
#include "engine/model/message.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <exception>
#include <tuple>
#include <utility>

namespace kvloupe {

namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors values are read as they lie in the file");

constexpr std::uint64_t max_header_bytes = 100'000'000;  // FORMATS 2.1, the reference's limit
constexpr std::uint64_t length_bytes = 8;

const char* const header_cut_off = "The file was cut off or damaged; download it again.";

// Bits per element; FORMATS 2.1.
constexpr std::array<std::pair<std::string_view, std::uint64_t>, 22> dtype_bits = {{
    {"F32", 32},     {"F16", 16},         {"BF16", 16},        {"F64", 64},    {"I64", 64},    {"I32", 32},
    {"I16", 16},     {"I8", 8},           {"U64", 64},         {"U32", 32},    {"U16", 16},    {"U8", 8},
    {"BOOL", 8},     {"F8_E5M2", 8},      {"F8_E4M3", 8},      {"F8_E8M0", 8}, {"C64", 64},    {"F4", 4},
    {"F6_E2M3", 6},  {"F6_E3M2", 6},      {"F8_E4M3FNUZ", 8},  {"F8_E5M2FNUZ", 8},
}};

std::uint64_t bits_of(std::string_view dtype) {
    for (const auto& entry : dtype_bits)
        if (entry.first == dtype) return entry.second;
    return 0;
}

// Checks in the order of FORMATS 2.1; the first failure stays in `error`.
class HeaderParser {
public:
    HeaderParser(SafetensorsFile& file) : m_file(file) {}
    Error error;

    bool parse() {
        std::span<const std::byte> header;
        if (!find_header(header)) return false;
        Result<json> document = parse_json(header, m_file.path);
        if (!document) {
            error = document.error();
            return false;
        }
        if (!document->is_object())
            return fail("its header is " + describe(*document) + ", not an object of tensors");
        for (const auto& item : document->items()) {
            const bool good = item.key() == "__metadata__" ? read_metadata(item.value())
                                                           : read_tensor(item.key(), item.value());
            if (!good) return false;
        }
        return check_layout();
    }

private:
    bool fail(const std::string& what, const char* hint = header_cut_off) {
        error = {m_file.path + ": " + what, hint};
        return false;
    }

    bool find_header(std::span<const std::byte>& header) {
        const std::uint64_t size = m_file.bytes.size();
        if (size < length_bytes)
            return fail("is " + grouped(size) + " bytes long, too short for a safetensors header (8 bytes)");
        std::uint64_t length = 0;
        std::memcpy(&length, m_file.bytes.data(), length_bytes);
        if (length > max_header_bytes)
            return fail("claims a header of " + grouped(length) + " bytes; safetensors allows 100,000,000",
                        "It is no safetensors file, or it is damaged.");
        if (length > size - length_bytes)
            return fail("claims a header of " + grouped(length) + " bytes, but the file has only " + grouped(size) +
                        " bytes");
        header = m_file.bytes.subspan(length_bytes, static_cast<std::size_t>(length));
        if (header.empty() || static_cast<char>(header.front()) != '{')
            return fail("its header does not begin with '{'", "It is no safetensors file, or it is damaged.");
        m_data = length_bytes + length;
        return true;
    }

    bool read_metadata(const json& value) {
        if (!value.is_object()) return fail("'__metadata__' is " + describe(value) + ", not an object of strings");
        for (const auto& item : value.items()) {
            if (!item.value().is_string())
                return fail("'__metadata__' key " + in_quotes(item.key()) + " is " + describe(item.value()) +
                            ", not a string");
            m_file.metadata.emplace(item.key(), item.value().get<std::string>());
        }
        return true;
    }

    // The unsigned integers of an array under `key`.
    bool read_integers(const std::string& what, const json& entry, const char* key, std::vector<std::uint64_t>& out) {
        const auto found = entry.find(key);
        if (found == entry.end()) return fail(what + " has no '" + key + "'");
        if (!found->is_array()) return fail(what + " has " + describe(*found) + " as '" + key + "', not an array");
        for (const json& value : *found) {
            if (!value.is_number_unsigned())
                return fail(what + " has " + describe(value) + " in '" + key + "', not an unsigned integer");
            out.push_back(value.get<std::uint64_t>());
        }
        return true;
    }

    bool read_tensor(const std::string& name, const json& entry) {
        const std::string what = "tensor " + in_quotes(name);
        if (!entry.is_object()) return fail(what + " is " + describe(entry) + ", not an object");
        SafetensorsTensor tensor;
        tensor.name = name;
        const auto dtype = entry.find("dtype");
        if (dtype == entry.end() || !dtype->is_string())
            return fail(what + (dtype == entry.end() ? " has no 'dtype'" : " has " + describe(*dtype) + " as 'dtype'"));
        tensor.dtype = dtype->get<std::string>();
        if (bits_of(tensor.dtype) == 0)
            return fail(what + " has the unknown dtype " + in_quotes(tensor.dtype), "Save the model in F32, F16 or BF16.");
        std::vector<std::uint64_t> offsets;
        if (!read_integers(what, entry, "shape", tensor.shape) ||
            !read_integers(what, entry, "data_offsets", offsets))
            return false;
        if (offsets.size() != 2)
            return fail(what + " has " + grouped(offsets.size()) + " 'data_offsets', not 2");
        // Relative to the data for now; check_layout makes it an offset in the file.
        tensor.offset = offsets[0];
        m_ends.emplace_back(offsets[0], offsets[1], m_file.tensors.size());
        m_file.tensors.push_back(std::move(tensor));
        return true;
    }

    bool check_layout() {
        std::sort(m_ends.begin(), m_ends.end());
        std::vector<SafetensorsTensor> ordered;
        ordered.reserve(m_ends.size());
        std::uint64_t previous_end = 0;
        for (const auto& [begin, end, index] : m_ends) {
            SafetensorsTensor& tensor = m_file.tensors[index];
            const std::string what = "tensor " + in_quotes(tensor.name);
            if (begin != previous_end || end < begin)
                return fail(what + " has data_offsets [" + grouped(begin) + ", " + grouped(end) +
                            "], but must begin at " + grouped(previous_end) + " without hole or overlap");
            if (!check_size(what, tensor, end - begin)) return false;
            previous_end = end;
            ordered.push_back(std::move(tensor));
        }
        const std::uint64_t data_bytes = m_file.bytes.size() - m_data;
        if (previous_end != data_bytes)
            return fail("its tensors end at byte " + grouped(previous_end) + " of the data, but the file has " +
                        grouped(data_bytes) + " bytes of data");
        for (SafetensorsTensor& tensor : ordered) tensor.offset += m_data;
        m_file.tensors = std::move(ordered);
        return true;
    }

    bool check_size(const std::string& what, SafetensorsTensor& tensor, std::uint64_t bytes) {
        std::uint64_t bits = bits_of(tensor.dtype);
        for (const std::uint64_t dim : tensor.shape)
            if (!multiply(bits, dim, bits))
                return fail(what + " has a shape with more bits than 64 bits can count (dimension " + grouped(dim) + ")");
        if (bits % 8 != 0)
            return fail(what + " of " + grouped(bits) + " bits (" + tensor.dtype + ") does not end on a byte");
        if (bits / 8 != bytes)
            return fail(what + " of its shape and dtype " + tensor.dtype + " takes " + grouped(bits / 8) +
                        " bytes, but its data_offsets span " + grouped(bytes));
        tensor.bytes = bytes;
        return true;
    }

    SafetensorsFile& m_file;
    std::uint64_t m_data = 0;  // where the data begins in the file
    std::vector<std::tuple<std::uint64_t, std::uint64_t, std::size_t>> m_ends;  // begin, end, tensor
};

}  // namespace

const SafetensorsTensor* SafetensorsFile::tensor(std::string_view name) const {
    for (const SafetensorsTensor& candidate : tensors)
        if (candidate.name == name) return &candidate;
    return nullptr;
}

Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes, const std::string& path) {
    try {
        SafetensorsFile file;
        file.path = path;
        file.bytes = bytes;
        HeaderParser parser(file);
        if (!parser.parse()) return parser.error;
        return file;
    } catch (const std::exception& failure) {
        return Error{path + ": its header cannot be held in memory (" + failure.what() + ")", "Close other programs."};
    }
}

std::optional<DType> dtype_from_safetensors(std::string_view dtype) {
    if (dtype == "F32") return DType::f32;
    if (dtype == "F16") return DType::f16;
    if (dtype == "BF16") return DType::bf16;
    return std::nullopt;
}

}  // namespace kvloupe
