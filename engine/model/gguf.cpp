// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/gguf.h"

#include "engine/model/ggml_types.h"
#include "engine/model/message.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <exception>
#include <set>
#include <utility>

namespace kvloupe {

namespace {

static_assert(std::endian::native == std::endian::little, "GGUF values are read as they lie in the file");

constexpr std::uint64_t max_key_bytes = 65535;         // FORMATS 2.2
constexpr std::uint64_t max_tensor_name_bytes = 64;    // FORMATS 2.2
constexpr std::uint32_t max_dims = 4;                  // FORMATS 2.2
constexpr int max_array_depth = 4;                     // ours: no known file nests arrays at all
constexpr std::uint64_t max_alignment = 1u << 20;      // ours: a page is 4,096, a huge page 2 MiB
constexpr std::uint64_t min_key_value_bytes = 8 + 1 + 4 + 1;    // length, one character, type, one byte
constexpr std::uint64_t min_tensor_info_bytes = 8 + 1 + 4 + 4 + 8;

const char* const cut_off = "The file was cut off or damaged; download it again.";

enum ValueType : std::uint32_t {
    type_u8, type_i8, type_u16, type_i16, type_u32, type_i32, type_f32, type_bool, type_string, type_array, type_u64,
    type_i64, type_f64, type_count
};

constexpr std::array<std::string_view, type_count> type_names = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
// Smallest size of one element in the file.
constexpr std::array<std::uint64_t, type_count> type_bytes = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

// Reads values from the front of the file; every read is checked. A failure keeps the first error.
class Reader {
public:
    Reader(std::span<const std::byte> bytes, const std::string& path) : m_bytes(bytes), m_path(path) {}

    std::uint64_t position() const { return m_position; }
    std::uint64_t remaining() const { return m_bytes.size() - m_position; }
    const Error& error() const { return m_error; }

    bool fail(const std::string& what, const std::string& hint = cut_off) {
        m_error = {m_path + ": " + what, hint};
        return false;
    }

    template <class T>
    bool read(T& value, const std::string& what) {
        if (remaining() < sizeof(T)) return truncated(what, sizeof(T));
        std::memcpy(&value, m_bytes.data() + m_position, sizeof(T));
        m_position += sizeof(T);
        return true;
    }

    bool read_string(std::string_view& text, const std::string& what) {
        std::uint64_t length = 0;
        // Composed here, not in an argument: a vocabulary is a few hundred thousand strings.
        if (remaining() < sizeof(length)) return truncated("the length of " + what, sizeof(length));
        if (!read(length, what)) return false;
        if (length > remaining()) return truncated(what, length);
        text = {reinterpret_cast<const char*>(m_bytes.data()) + m_position, static_cast<std::size_t>(length)};
        m_position += length;
        return true;
    }

private:
    bool truncated(const std::string& what, std::uint64_t needed) {
        return fail(what + " needs " + grouped(needed) + " bytes at byte " + grouped(m_position) +
                    ", but the file has only " + grouped(remaining()) + " bytes left (size " +
                    grouped(m_bytes.size()) + ")");
    }

    std::span<const std::byte> m_bytes;
    const std::string& m_path;
    std::uint64_t m_position = 0;
    Error m_error;
};

template <class T, class Wide>
bool read_as(Reader& reader, const std::string& what, Wide& wide) {
    T value{};
    if (!reader.read(value, what)) return false;
    wide = static_cast<Wide>(value);
    return true;
}

bool read_bool(Reader& reader, const std::string& what, bool& flag) {
    std::uint8_t byte = 0;
    if (!reader.read(byte, what)) return false;
    if (byte > 1)
        return reader.fail(what + " is a bool with the value " + std::to_string(byte) + "; a bool is 0 or 1");
    flag = byte == 1;
    return true;
}

// One element of a numeric array, as double.
bool read_number(Reader& reader, std::uint32_t type, const std::string& what, double& value) {
    switch (type) {
    case type_u8: return read_as<std::uint8_t>(reader, what, value);
    case type_i8: return read_as<std::int8_t>(reader, what, value);
    case type_u16: return read_as<std::uint16_t>(reader, what, value);
    case type_i16: return read_as<std::int16_t>(reader, what, value);
    case type_u32: return read_as<std::uint32_t>(reader, what, value);
    case type_i32: return read_as<std::int32_t>(reader, what, value);
    case type_f32: return read_as<float>(reader, what, value);
    case type_u64: return read_as<std::uint64_t>(reader, what, value);
    case type_i64: return read_as<std::int64_t>(reader, what, value);
    case type_f64: return read_as<double>(reader, what, value);
    default: break;
    }
    bool flag = false;
    if (!read_bool(reader, what, flag)) return false;
    value = flag ? 1 : 0;
    return true;
}

bool read_array(Reader& reader, const std::string& what, int depth, GgufArray& array) {
    if (depth > max_array_depth)
        return reader.fail(what + " nests arrays more than " + std::to_string(max_array_depth) + " deep",
                           "No model needs that; the file is damaged or not a model.");
    std::uint64_t count = 0;
    if (!reader.read(array.element_type, "the element type of " + what)) return false;
    if (array.element_type >= type_count)
        return reader.fail(what + " is an array of value type " + std::to_string(array.element_type) +
                           "; GGUF has the types 0 to 12");
    if (!reader.read(count, "the number of elements of " + what)) return false;
    if (count > reader.remaining() / type_bytes[array.element_type])
        return reader.fail(what + " claims " + grouped(count) + " elements of type " +
                           std::string(type_names[array.element_type]) + ", but the file has only " +
                           grouped(reader.remaining()) + " bytes left");
    if (array.element_type == type_string) {
        array.strings.resize(count);
        for (std::string_view& text : array.strings)
            if (!reader.read_string(text, what)) return false;
    } else if (array.element_type == type_array) {
        for (std::uint64_t i = 0; i < count; ++i) {
            array.arrays.emplace_back();
            if (!read_array(reader, what, depth + 1, array.arrays.back())) return false;
        }
    } else {
        array.numbers.resize(count);
        for (double& number : array.numbers)
            if (!read_number(reader, array.element_type, what, number)) return false;
    }
    return true;
}

template <class T, class Wide>
bool read_into(Reader& reader, const std::string& what, GgufValue& value) {
    Wide wide{};
    if (!read_as<T>(reader, what, wide)) return false;
    value = wide;
    return true;
}

bool read_value(Reader& reader, std::uint32_t type, const std::string& what, GgufValue& value) {
    switch (type) {
    case type_u8: return read_into<std::uint8_t, std::uint64_t>(reader, what, value);
    case type_u16: return read_into<std::uint16_t, std::uint64_t>(reader, what, value);
    case type_u32: return read_into<std::uint32_t, std::uint64_t>(reader, what, value);
    case type_u64: return read_into<std::uint64_t, std::uint64_t>(reader, what, value);
    case type_i8: return read_into<std::int8_t, std::int64_t>(reader, what, value);
    case type_i16: return read_into<std::int16_t, std::int64_t>(reader, what, value);
    case type_i32: return read_into<std::int32_t, std::int64_t>(reader, what, value);
    case type_i64: return read_into<std::int64_t, std::int64_t>(reader, what, value);
    case type_f32: return read_into<float, double>(reader, what, value);
    case type_f64: return read_into<double, double>(reader, what, value);
    case type_bool: return read_bool(reader, what, value.emplace<bool>());
    case type_string: {
        std::string_view text;
        if (!reader.read_string(text, what)) return false;
        value = std::string(text);
        return true;
    }
    case type_array: return read_array(reader, what, 1, value.emplace<GgufArray>());
    default: break;
    }
    return reader.fail(what + " has value type " + std::to_string(type) + "; GGUF has the types 0 to 12");
}

bool read_header(Reader& reader, GgufFile& file, std::uint64_t& tensors, std::uint64_t& keys) {
    std::array<char, 4> magic{};
    if (!reader.read(magic, "the GGUF header")) return false;
    if (std::string_view(magic.data(), 4) != "GGUF")
        return reader.fail("is not a GGUF file: it begins with " + in_quotes({magic.data(), 4}) + " instead of 'GGUF'",
                           "Give a GGUF file or a Hugging Face folder.");
    if (!reader.read(file.version, "the GGUF version")) return false;
    if (file.version != 0 && (file.version & 0xFFFFu) == 0)
        return reader.fail("is a big-endian GGUF file (its version reads as " + std::to_string(file.version) + ")",
                           "Convert it to little-endian, or download that form.");
    if (file.version != 2 && file.version != 3)
        return reader.fail("is GGUF version " + std::to_string(file.version) + "; this program reads versions 2 and 3",
                           "Convert the model again with a current converter.");
    if (!reader.read(tensors, "the tensor count") || !reader.read(keys, "the metadata count")) return false;
    if (keys > reader.remaining() / min_key_value_bytes)
        return reader.fail("claims " + grouped(keys) + " metadata keys, but has only " + grouped(reader.remaining()) +
                           " bytes left");
    if (tensors > reader.remaining() / min_tensor_info_bytes)
        return reader.fail("claims " + grouped(tensors) + " tensors, but has only " + grouped(reader.remaining()) +
                           " bytes left");
    return true;
}

bool read_metadata(Reader& reader, std::uint64_t count, GgufFile& file) {
    for (std::uint64_t i = 0; i < count; ++i) {
        std::string_view key;
        if (!reader.read_string(key, "metadata key " + grouped(i + 1) + " of " + grouped(count))) return false;
        if (key.empty() || key.size() > max_key_bytes)
            return reader.fail("metadata key " + grouped(i + 1) + " is " + grouped(key.size()) +
                               " bytes long; a key has 1 to 65,535");
        const std::string what = "key " + in_quotes(key);
        std::uint32_t type = 0;
        GgufValue value;
        if (!reader.read(type, "the type of " + what) || !read_value(reader, type, what, value)) return false;
        if (!file.metadata.emplace(std::string(key), std::move(value)).second)
            return reader.fail(what + " appears twice", "The file is damaged or was made to mislead; use another.");
    }
    const auto alignment = file.metadata.find("general.alignment");
    if (alignment == file.metadata.end()) return true;
    const std::optional<std::uint64_t> bytes = file.unsigned_integer("general.alignment");
    if (!bytes)
        return reader.fail("key 'general.alignment' is " + describe(alignment->second) + ", not an unsigned integer");
    if (*bytes == 0 || *bytes % 8 != 0 || *bytes > max_alignment)
        return reader.fail("key 'general.alignment' is " + grouped(*bytes) + "; it must be a multiple of 8 up to " +
                           grouped(max_alignment));
    file.alignment = *bytes;
    return true;
}

// Everything about a tensor but where it lies: name, dims, type, bytes. offset is still relative to the data section.
bool read_tensor(Reader& reader, const std::string& ordinal, GgufTensor& tensor) {
    std::string_view name;
    if (!reader.read_string(name, "the name of " + ordinal)) return false;
    if (name.empty() || name.size() > max_tensor_name_bytes)
        return reader.fail("the name of " + ordinal + " is " + grouped(name.size()) + " bytes long; a name has 1 to 64");
    tensor.name = name;
    const std::string what = "tensor " + in_quotes(name);
    std::uint32_t dims = 0;
    if (!reader.read(dims, "the number of dimensions of " + what)) return false;
    if (dims < 1 || dims > max_dims)
        return reader.fail(what + " has " + grouped(dims) + " dimensions; GGUF allows 1 to 4");
    tensor.dims.resize(dims);
    std::uint64_t elements = 1;
    for (std::uint64_t& dim : tensor.dims) {
        if (!reader.read(dim, "a dimension of " + what)) return false;
        if (dim == 0) return reader.fail(what + " has a dimension of 0");
        if (!multiply(elements, dim, elements))
            return reader.fail(what + " has more elements than 64 bits can count (dimension " + grouped(dim) + ")");
    }
    if (!reader.read(tensor.type, "the type of " + what) || !reader.read(tensor.offset, "the offset of " + what))
        return false;
    const GgmlType* const type = find_ggml_type(tensor.type);
    if (!type)
        return reader.fail(what + " has the unknown tensor type " + std::to_string(tensor.type),
                           "Use a file with F32, F16, BF16, Q8_0, Q5_0, Q5_1, Q4_0, Q4_1, Q4_K, Q5_K or Q6_K tensors.");
    if (tensor.dims[0] % type->elements != 0)
        return reader.fail(what + " has rows of " + grouped(tensor.dims[0]) + " elements, which is no multiple of the " +
                           std::to_string(type->elements) + " of a " + std::string(type->name) + " block");
    if (!multiply(elements / type->elements, type->bytes, tensor.bytes))
        return reader.fail(what + " has more bytes than 64 bits can count (" + grouped(elements) + " elements)");
    return true;
}

// Turns relative offsets into offsets in the file and checks that every tensor lies in it and shares no byte.
bool place_tensors(Reader& reader, GgufFile& file) {
    const std::uint64_t size = file.bytes.size();
    file.data_offset = (reader.position() + file.alignment - 1) / file.alignment * file.alignment;
    for (GgufTensor& tensor : file.tensors) {
        const std::string what = "tensor " + in_quotes(tensor.name);
        if (tensor.offset % file.alignment != 0)
            return reader.fail(what + " has offset " + grouped(tensor.offset) + ", which is no multiple of the alignment " +
                               grouped(file.alignment));
        if (file.data_offset > size || tensor.offset > size - file.data_offset ||
            tensor.bytes > size - file.data_offset - tensor.offset)
            return reader.fail(what + " of " + grouped(tensor.bytes) + " bytes at offset " + grouped(tensor.offset) +
                               " reaches beyond the end of the file (" + grouped(size) +
                               " bytes, data from byte " + grouped(file.data_offset) + ")");
        tensor.offset += file.data_offset;
    }
    std::vector<const GgufTensor*> by_offset;
    by_offset.reserve(file.tensors.size());
    for (const GgufTensor& tensor : file.tensors) by_offset.push_back(&tensor);
    std::sort(by_offset.begin(), by_offset.end(),
              [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
    for (std::size_t i = 1; i < by_offset.size(); ++i)
        if (by_offset[i - 1]->offset + by_offset[i - 1]->bytes > by_offset[i]->offset)
            return reader.fail("tensors " + in_quotes(by_offset[i - 1]->name) + " and " + in_quotes(by_offset[i]->name) +
                               " overlap at byte " + grouped(by_offset[i]->offset));
    return true;
}

bool parse(Reader& reader, GgufFile& file) {
    std::uint64_t tensors = 0;
    std::uint64_t keys = 0;
    if (!read_header(reader, file, tensors, keys) || !read_metadata(reader, keys, file)) return false;
    if (tensors > reader.remaining() / min_tensor_info_bytes)
        return reader.fail("claims " + grouped(tensors) + " tensors, but has only " + grouped(reader.remaining()) +
                           " bytes left after its metadata");
    std::set<std::string, std::less<>> names;
    file.tensors.reserve(tensors);
    for (std::uint64_t i = 0; i < tensors; ++i) {
        GgufTensor tensor;
        if (!read_tensor(reader, "tensor " + grouped(i + 1) + " of " + grouped(tensors), tensor)) return false;
        if (!names.insert(tensor.name).second)
            return reader.fail("tensor " + in_quotes(tensor.name) + " appears twice",
                               "The file is damaged or was made to mislead; use another.");
        file.tensors.push_back(std::move(tensor));
    }
    return place_tensors(reader, file);
}

}  // namespace

Result<GgufFile> parse_gguf(std::span<const std::byte> bytes, const std::string& path) {
    try {
        GgufFile file;
        file.path = path;
        file.bytes = bytes;
        Reader reader(bytes, path);
        if (!parse(reader, file)) return reader.error();
        return file;
    } catch (const std::exception& failure) {
        return Error{path + ": its header cannot be held in memory (" + failure.what() + ")", "Close other programs."};
    }
}

}  // namespace kvloupe
