// SPDX-License-Identifier: GPL-3.0-or-later
//
// Tokenizer: text <-> token ids. Implementations: SentencePiece-style (GGUF "llama") and byte-level BPE (GGUF "gpt2",
// tokenizer.json). Rules: FORMATS 2.5, llama.cpp and Hugging Face tokenizers.
#pragma once

#include "engine/record/ids.h"
#include "engine/record/recording.h"
#include "engine/record/result.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

struct GgufFile;

class Tokenizer {
public:
    virtual ~Tokenizer() = default;

    // Text is taken as bytes; invalid UTF-8 is encoded byte for byte where the vocabulary can.
    // parse_special: text such as "<s>" becomes the special token; else it is plain text. Adds neither BOS nor EOS.
    virtual std::vector<TokenId> encode(std::string_view text, bool parse_special) const = 0;

    // Ids as the model wants to see a prompt: BOS in front where the tokenizer sets one, special text counts only if
    // parse_special, no second BOS if the text brings it.
    std::vector<TokenId> encode_prompt(std::string_view text, bool parse_special = false) const;

    // Raw bytes of one token as they appear in running text (SentencePiece: "▁" is a space). Control tokens: "".
    virtual std::string piece(TokenId token) const = 0;
    // For a label: valid UTF-8; control tokens by their name, lone bytes as "<0xE4>".
    virtual std::string shown(TokenId token) const = 0;
    // Text of a whole sequence (a leading space that the tokenizer itself added is removed); bytes that are no valid
    // UTF-8 become U+FFFD. Control tokens are left out unless with_special.
    virtual std::string decode(std::span<const TokenId> tokens, bool with_special = false) const = 0;

    virtual std::size_t size() const = 0;
    virtual bool is_control(TokenId token) const = 0;
    virtual std::string kind() const = 0;  // "SentencePiece (llama)", "byte-level BPE (gpt-2)"
    std::optional<TokenId> bos() const { return m_bos; }
    std::span<const TokenId> end_tokens() const { return m_end_tokens; }  // EOS, end of turn
    bool adds_bos() const { return m_adds_bos; }

    // Pieces and labels of the whole vocabulary, for recordings.
    std::shared_ptr<const VocabularyText> vocabulary_text() const;

protected:
    std::optional<TokenId> m_bos;
    std::vector<TokenId> m_end_tokens;
    bool m_adds_bos = false;
    bool m_strips_leading_space = false;  // encoding puts a space in front of a text, decoding takes one away
};

// Streaming: feeds pieces, hands out only whole characters; finish() gives what is left as U+FFFD.
class Utf8Stream {
public:
    std::string feed(std::string_view bytes);
    std::string finish();

private:
    std::string m_pending;
};

// From the metadata of a GGUF file (also one without tensors). Unknown tokenizer kinds and pre-tokenizers are refused
// by name.
Result<std::shared_ptr<const Tokenizer>> tokenizer_from_gguf(const GgufFile& file);

// From the bytes of a tokenizer.json. `file_name` appears in errors. end tokens come from the config (eos_token_id).
Result<std::shared_ptr<const Tokenizer>> tokenizer_from_json(std::span<const std::byte> json,
                                                             const std::string& file_name,
                                                             std::optional<TokenId> bos, std::vector<TokenId> end_tokens);

// MODEL of `kvloupe tokenize`: a GGUF file (tensors not needed), a tokenizer.json, or a folder with one.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const std::string& path);

}  // namespace kvloupe
