// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/tokenizer.h"

#include "engine/model/utf8.h"

namespace kvloupe {

std::vector<TokenId> Tokenizer::encode_prompt(std::string_view text, bool parse_special) const {
    std::vector<TokenId> tokens = encode(text, parse_special);
    const bool wants_bos = m_adds_bos && m_bos;
    if (wants_bos && (tokens.empty() || tokens.front() != *m_bos)) tokens.insert(tokens.begin(), *m_bos);
    return tokens;
}

std::shared_ptr<const VocabularyText> Tokenizer::vocabulary_text() const {
    auto text = std::make_shared<VocabularyText>();
    text->pieces.reserve(size());
    text->shown.reserve(size());
    for (std::size_t id = 0; id < size(); ++id) {
        text->pieces.push_back(piece(static_cast<TokenId>(id)));
        text->shown.push_back(shown(static_cast<TokenId>(id)));
    }
    text->strips_leading_space = m_strips_leading_space;
    return text;
}

std::string Utf8Stream::feed(std::string_view bytes) {
    m_pending += bytes;
    std::string out;
    std::size_t at = 0;
    while (at < m_pending.size()) {
        const Utf8Char c = utf8_at(m_pending, at);
        if (c.incomplete) break;
        append_utf8(out, c.code);
        at += c.length;
    }
    m_pending.erase(0, at);
    return out;
}

std::string Utf8Stream::finish() {
    std::string out = to_valid_utf8(m_pending);
    m_pending.clear();
    return out;
}

}  // namespace kvloupe
