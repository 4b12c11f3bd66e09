// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/bpe_tokenizer.h"

#include "engine/model/byte_alphabet.h"
#include "engine/model/token_text.h"
#include "engine/model/utf8.h"

namespace kvloupe {

namespace {

void replace_all(std::string& text, std::string_view pattern, std::string_view content) {
    if (pattern.empty()) return;
    std::string out;
    std::size_t done = 0;
    for (std::size_t at = text.find(pattern); at != std::string::npos; at = text.find(pattern, done)) {
        out.append(text, done, at - done);
        out += content;
        done = at + pattern.size();
    }
    if (done == 0) return;
    out.append(text, done);
    text = std::move(out);
}

// Raw bytes of a token in running text.
std::string raw_piece(const BpeParts& parts, std::size_t id) {
    const std::string& token = parts.tokens[id];
    if (parts.control[id]) return {};
    if (parts.byte_level) return parts.added[id] ? token : alphabet_to_bytes(token).value_or(token);
    if (parts.byte_fallback && !parts.added[id]) {
        const int byte = byte_of_name(token);
        if (byte >= 0) return std::string(1, static_cast<char>(static_cast<unsigned char>(byte)));
    }
    std::string text = token;
    for (const auto& [pattern, content] : parts.piece_replacements) replace_all(text, pattern, content);
    return text;
}

}  // namespace

BpeTokenizer::BpeTokenizer(BpeParts parts) : m_parts(std::move(parts)) {
    m_bos = m_parts.bos;
    m_adds_bos = m_parts.adds_bos && m_bos.has_value();
    m_end_tokens = m_parts.end_tokens;
    m_strips_leading_space = m_parts.strips_leading_space;

    m_pieces.reserve(size());
    for (std::size_t id = 0; id < size(); ++id) m_pieces.push_back(raw_piece(m_parts, id));
    m_byte_tokens.fill(-1);
    m_ids.reserve(size());
    for (std::size_t id = 0; id < size(); ++id) {
        const std::string& key = m_parts.byte_level ? m_pieces[id] : m_parts.tokens[id];
        if (m_parts.added[id] || m_parts.control[id] || key.empty()) continue;
        m_ids.try_emplace(key, static_cast<TokenId>(id));
        const int byte = m_parts.byte_level ? (key.size() == 1 ? static_cast<unsigned char>(key[0]) : -1)
                                            : byte_of_name(key);
        if (byte >= 0 && m_byte_tokens[static_cast<std::size_t>(byte)] < 0) {
            m_byte_tokens[static_cast<std::size_t>(byte)] = static_cast<TokenId>(id);
        }
    }

    std::vector<AddedToken> raw;
    std::vector<AddedToken> in_normalized;
    for (const AddedToken& token : m_parts.added_tokens) (token.normalized ? in_normalized : raw).push_back(token);
    for (AddedToken& token : in_normalized) token.content = normalized(token.content);
    m_raw_search = AddedTokenSearch(std::move(raw));
    m_normalized_search = AddedTokenSearch(std::move(in_normalized));
}

bool BpeTokenizer::is_control(TokenId token) const {
    return contains(token) && m_parts.control[static_cast<std::size_t>(token)];
}

std::string BpeTokenizer::piece(TokenId token) const {
    return contains(token) ? m_pieces[static_cast<std::size_t>(token)] : std::string();
}

std::string BpeTokenizer::shown(TokenId token) const {
    if (!contains(token)) return {};
    return label_of(is_control(token) ? m_parts.tokens[static_cast<std::size_t>(token)]
                                      : m_pieces[static_cast<std::size_t>(token)]);
}

std::string BpeTokenizer::decode(std::span<const TokenId> tokens, bool with_special) const {
    return joined_text(*this, tokens, with_special, m_strips_leading_space);
}

std::string BpeTokenizer::normalized(std::string_view text) const {
    std::string out(text);
    for (const NormalizerStep& step : m_parts.normalizer) {
        if (!step.prepend) {
            replace_all(out, step.pattern, step.content);
        } else if (!out.empty()) {
            out.insert(0, step.content);
        }
    }
    return out;
}

std::vector<TokenId> BpeTokenizer::encode(std::string_view text, bool parse_special) const {
    std::vector<TokenId> out;
    std::vector<TextFragment> stretches;
    m_raw_search.split(text, parse_special, stretches);
    std::vector<TextFragment> inner;
    for (const TextFragment& stretch : stretches) {
        if (stretch.token >= 0) {
            out.push_back(stretch.token);
            continue;
        }
        if (m_parts.normalizer.empty() && m_normalized_search.empty()) {
            encode_stretch(stretch.text, out);
            continue;
        }
        const std::string plain = normalized(stretch.text);
        inner.clear();
        m_normalized_search.split(plain, parse_special, inner);
        for (const TextFragment& fragment : inner) {
            if (fragment.token >= 0) {
                out.push_back(fragment.token);
            } else {
                encode_stretch(fragment.text, out);
            }
        }
    }
    return out;
}

void BpeTokenizer::encode_stretch(std::string_view text, std::vector<TokenId>& out) const {
    std::string store;
    for (const std::string_view piece : m_parts.pretokenizer.split(text, store)) encode_piece(piece, out);
}

void BpeTokenizer::encode_piece(std::string_view piece, std::vector<TokenId>& out) const {
    if (m_parts.ignore_merges) {
        if (const auto it = m_ids.find(piece); it != m_ids.end()) {
            out.push_back(it->second);
            return;
        }
    }
    const std::size_t begin = out.size();
    if (m_parts.byte_level) {
        append_byte_symbols(piece, out);
    } else {
        append_character_symbols(piece, out);
    }
    out.resize(begin + m_parts.merges.apply(std::span(out).subspan(begin)));
}

// A byte without a token is the unknown token, or is left out where there is none.
void BpeTokenizer::append_byte_symbols(std::string_view piece, std::vector<TokenId>& out) const {
    bool after_unknown = false;
    for (const char c : piece) {
        const TokenId token = m_byte_tokens[static_cast<unsigned char>(c)];
        if (token >= 0) {
            out.push_back(token);
        } else if (m_parts.unknown && !(after_unknown && m_parts.fuse_unknown)) {
            out.push_back(*m_parts.unknown);
        }
        after_unknown = token < 0;
    }
}

bool BpeTokenizer::append_fallback(std::string_view bytes, std::vector<TokenId>& out) const {
    if (!m_parts.byte_fallback) return false;
    for (const char c : bytes) {
        if (m_byte_tokens[static_cast<unsigned char>(c)] < 0) return false;
    }
    for (const char c : bytes) out.push_back(m_byte_tokens[static_cast<unsigned char>(c)]);
    return true;
}

void BpeTokenizer::append_character_symbols(std::string_view piece, std::vector<TokenId>& out) const {
    bool after_unknown = false;
    for (std::size_t at = 0; at < piece.size();) {
        const std::size_t length = utf8_at(piece, at).length;
        const std::string_view character = piece.substr(at, length);
        at += length;
        if (const auto it = m_ids.find(character); it != m_ids.end()) {
            out.push_back(it->second);
            after_unknown = false;
        } else if (append_fallback(character, out)) {
            after_unknown = false;
        } else if (m_parts.unknown) {
            if (!(after_unknown && m_parts.fuse_unknown)) out.push_back(*m_parts.unknown);
            after_unknown = true;
        }
    }
}

}  // namespace kvloupe
