// SPDX-License-Identifier: GPL-3.0-or-later
//
// Builds model files byte by byte, right or wrong ones, for the tests of the readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace kvloupe {

inline std::span<const std::byte> as_bytes(const std::string& text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// A GGUF file that grows from the front.
class GgufBytes {
public:
    std::string out;

    template <class T>
    GgufBytes& put(T value) {
        out.append(reinterpret_cast<const char*>(&value), sizeof(T));
        return *this;
    }
    GgufBytes& text(std::string_view value) {
        put<std::uint64_t>(value.size());
        out += value;
        return *this;
    }
    GgufBytes& header(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
        out += "GGUF";
        return put(version).put(tensors).put(keys);
    }
    // Key and type; the value follows.
    GgufBytes& key(std::string_view name, std::uint32_t type) { return text(name).put(type); }
    GgufBytes& string(std::string_view name, std::string_view value) { return key(name, 8).text(value); }
    GgufBytes& u32(std::string_view name, std::uint32_t value) { return key(name, 4).put(value); }
    GgufBytes& f32(std::string_view name, float value) { return key(name, 6).put(value); }
    GgufBytes& tensor(std::string_view name, std::initializer_list<std::uint64_t> dims, std::uint32_t type,
                      std::uint64_t offset) {
        text(name).put(static_cast<std::uint32_t>(dims.size()));
        for (const std::uint64_t dim : dims) put(dim);
        return put(type).put(offset);
    }
    GgufBytes& pad(std::size_t alignment = 32) {
        out.append((alignment - out.size() % alignment) % alignment, '\0');
        return *this;
    }
    GgufBytes& zeros(std::size_t count) {
        out.append(count, '\0');
        return *this;
    }
};

// Length, header and data of a safetensors file.
inline std::string safetensors_bytes(std::string_view header, std::size_t data_bytes) {
    const std::uint64_t length = header.size();
    std::string out(reinterpret_cast<const char*>(&length), sizeof(length));
    out += header;
    out.append(data_bytes, '\1');
    return out;
}

}  // namespace kvloupe
