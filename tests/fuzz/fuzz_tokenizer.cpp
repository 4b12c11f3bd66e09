// SPDX-License-Identifier: GPL-3.0-or-later
//
// Any bytes as a tokenizer.json: either an error with a sentence, or a tokenizer whose ids lie in its vocabulary, whose
// pieces are what the text was made of, and whose labels are valid UTF-8. The text is the end of the input.
#include "engine/model/tokenizer.h"
#include "engine/model/utf8.h"
#include "tests/fuzz/require.h"

#include <algorithm>
#include <cstdint>

using namespace kvloupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
    const auto loaded = tokenizer_from_json(bytes, "input", std::nullopt, {});
    if (!loaded) {
        KVLOUPE_REQUIRE(loaded.error().sentence.size() > 7 && loaded.error().sentence.substr(0, 5) == "input");
        return 0;
    }
    const Tokenizer& tokenizer = **loaded;
    const std::string_view all(reinterpret_cast<const char*>(data), size);
    const std::string_view text = all.substr(size - std::min<std::size_t>(size, 512));
    for (const bool special : {false, true}) {
        for (const TokenId id : tokenizer.encode_prompt(text, special)) {
            KVLOUPE_REQUIRE(id >= 0 && static_cast<std::size_t>(id) < tokenizer.size());
        }
    }
    const std::vector<TokenId> ids = tokenizer.encode(text, false);
    const std::string decoded = tokenizer.decode(ids, true);
    KVLOUPE_REQUIRE(to_valid_utf8(decoded) == decoded);
    Utf8Stream stream;
    for (const TokenId id : ids) {
        const std::string part = stream.feed(tokenizer.piece(id));
        KVLOUPE_REQUIRE(to_valid_utf8(part) == part);
        const std::string label = tokenizer.shown(id);
        KVLOUPE_REQUIRE(to_valid_utf8(label) == label);
    }
    return 0;
}
