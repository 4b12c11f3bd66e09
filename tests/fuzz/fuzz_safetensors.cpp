// SPDX-License-Identifier: GPL-3.0-or-later
//
// Any bytes: either an error with a sentence, or tensors that fill the data section without hole or overlap.
#include "engine/model/safetensors.h"
#include "tests/fuzz/require.h"

#include <cstdint>
#include <cstring>

using namespace kvloupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
    const Result<SafetensorsFile> file = parse_safetensors(bytes, "input");
    if (!file) {
        KVLOUPE_REQUIRE(file.error().sentence.size() > 7 && file.error().sentence.substr(0, 5) == "input");
        return 0;
    }
    std::uint64_t header = 0;
    KVLOUPE_REQUIRE(size >= 8);
    std::memcpy(&header, data, 8);
    std::uint64_t end = 8 + header;
    for (const SafetensorsTensor& tensor : file->tensors) {
        KVLOUPE_REQUIRE(tensor.offset == end);
        KVLOUPE_REQUIRE(tensor.bytes <= size - tensor.offset);
        KVLOUPE_REQUIRE(file->tensor(tensor.name) == &tensor);
        end = tensor.offset + tensor.bytes;
    }
    KVLOUPE_REQUIRE(end == size);
    return 0;
}
