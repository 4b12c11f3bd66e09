// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/spm_tokenizer.h"

#include "engine/model/token_text.h"
#include "engine/model/utf8.h"

#include <algorithm>
#include <queue>

namespace kvloupe {

namespace {

constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581

struct Symbol {
    std::size_t begin = 0;
    std::size_t length = 0;  // bytes; 0 once merged into the one before
    std::int32_t previous = -1;
    std::int32_t next = -1;
};

struct PieceMerge {
    float score = 0;
    std::int32_t left = 0;
    std::size_t length = 0;  // of both when it was queued; symbols only grow, so another length means it is stale
    std::int32_t right = 0;
    friend bool operator<(const PieceMerge& a, const PieceMerge& b) {
        return a.score != b.score ? a.score < b.score : a.left > b.left;
    }
};

std::string spaces_from_marks(std::string_view token) {
    std::string out;
    out.reserve(token.size());
    for (std::size_t at = 0; at < token.size();) {
        if (token.substr(at, space_mark.size()) == space_mark) {
            out += ' ';
            at += space_mark.size();
        } else {
            out += token[at++];
        }
    }
    return out;
}

// Where a mark follows something else: the end of a word.
std::size_t word_end(std::string_view text, std::size_t from) {
    bool in_word = false;
    for (std::size_t at = from; at < text.size(); ++at) {
        if (text.substr(at, space_mark.size()) != space_mark) {
            in_word = true;
        } else if (in_word) {
            return at;
        } else {
            at += space_mark.size() - 1;
        }
    }
    return text.size();
}

}  // namespace

SpmTokenizer::SpmTokenizer(SpmParts parts) : m_parts(std::move(parts)), m_search(m_parts.added_tokens) {
    m_bos = m_parts.bos;
    m_adds_bos = m_parts.adds_bos && m_bos.has_value();
    m_end_tokens = m_parts.end_tokens;
    m_strips_leading_space = m_parts.add_space_prefix;
    m_byte_tokens.fill(-1);
    m_ids.reserve(size());
    for (std::size_t id = 0; id < size(); ++id) {
        const std::string& token = m_parts.tokens[id];
        switch (m_parts.types[id]) {
        case GgufTokenType::byte: {
            const int byte = byte_of_name(token);
            if (byte >= 0) m_byte_tokens[static_cast<std::size_t>(byte)] = static_cast<TokenId>(id);
            break;
        }
        case GgufTokenType::unknown:
        case GgufTokenType::control: break;
        case GgufTokenType::normal:
        case GgufTokenType::user_defined:
        case GgufTokenType::unused:
            m_ids.try_emplace(token, static_cast<TokenId>(id));
            m_longest = std::max(m_longest, token.size());
            if (word_end(token, 0) != token.size()) m_merges_stay_in_words = false;
            break;
        }
    }
}

bool SpmTokenizer::is_control(TokenId token) const {
    if (!contains(token)) return false;
    const GgufTokenType type = m_parts.types[static_cast<std::size_t>(token)];
    return type == GgufTokenType::control || type == GgufTokenType::unknown;
}

std::string SpmTokenizer::piece(TokenId token) const {
    if (!contains(token) || is_control(token)) return {};
    const std::string& text = m_parts.tokens[static_cast<std::size_t>(token)];
    const GgufTokenType type = m_parts.types[static_cast<std::size_t>(token)];
    if (type == GgufTokenType::byte) {
        const int byte = byte_of_name(text);
        return byte < 0 ? text : std::string(1, static_cast<char>(static_cast<unsigned char>(byte)));
    }
    return type == GgufTokenType::user_defined ? text : spaces_from_marks(text);
}

std::string SpmTokenizer::shown(TokenId token) const {
    if (!contains(token)) return {};
    return label_of(is_control(token) ? m_parts.tokens[static_cast<std::size_t>(token)] : piece(token));
}

std::string SpmTokenizer::decode(std::span<const TokenId> tokens, bool with_special) const {
    return joined_text(*this, tokens, with_special, m_strips_leading_space);
}

std::vector<TokenId> SpmTokenizer::encode(std::string_view text, bool parse_special) const {
    std::vector<TokenId> out;
    std::vector<TextFragment> fragments;
    m_search.split(text, parse_special, fragments);
    bool wants_space = m_parts.add_space_prefix;  // at the start and after each special token
    for (const TextFragment& fragment : fragments) {
        if (fragment.token >= 0) {
            out.push_back(fragment.token);
            wants_space = m_parts.add_space_prefix;
            continue;
        }
        std::string marked;
        marked.reserve(fragment.text.size() + fragment.text.size() / 2 + space_mark.size());
        if (wants_space) marked += space_mark;
        for (const char c : fragment.text) {
            if (c == ' ') {
                marked += space_mark;
            } else {
                marked += c;
            }
        }
        encode_words(marked, out);
        wants_space = false;
    }
    return out;
}

TokenId SpmTokenizer::mergeable(std::string_view text) const {
    if (text.size() > m_longest) return -1;
    const auto it = m_ids.find(text);
    return it == m_ids.end() ? -1 : it->second;
}

void SpmTokenizer::append_bytes(std::string_view bytes, std::vector<TokenId>& out) const {
    for (const char c : bytes) {
        const TokenId token = m_byte_tokens[static_cast<unsigned char>(c)];
        if (token >= 0) {
            out.push_back(token);
        } else if (m_parts.unknown) {
            out.push_back(*m_parts.unknown);
        }
    }
}

// No token reaches over the end of a word (so in every vocabulary trained with split_by_whitespace): then words can be
// merged one by one with the same result, from a small heap.
void SpmTokenizer::encode_words(std::string_view text, std::vector<TokenId>& out) const {
    if (!m_merges_stay_in_words) {
        encode_stretch(text, out);
        return;
    }
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = word_end(text, at);
        encode_stretch(text.substr(at, end - at), out);
        at = end;
    }
}

void SpmTokenizer::encode_stretch(std::string_view text, std::vector<TokenId>& out) const {
    std::vector<Symbol> symbols;
    symbols.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = utf8_at(text, at).length;
        const auto index = static_cast<std::int32_t>(symbols.size());
        symbols.push_back({at, length, index - 1, index + 1});
        at += length;
    }
    if (symbols.empty()) return;
    symbols.back().next = -1;
    const auto symbol = [&symbols](std::int32_t i) -> Symbol& { return symbols[static_cast<std::size_t>(i)]; };

    std::priority_queue<PieceMerge> queue;
    const auto consider = [&](std::int32_t left, std::int32_t right) {
        if (left < 0 || right < 0) return;
        const std::size_t length = symbol(left).length + symbol(right).length;
        const TokenId token = mergeable(text.substr(symbol(left).begin, length));
        if (token >= 0) queue.push({m_parts.scores[static_cast<std::size_t>(token)], left, length, right});
    };
    for (std::int32_t i = 0; i + 1 < static_cast<std::int32_t>(symbols.size()); ++i) consider(i, i + 1);
    while (!queue.empty()) {
        const PieceMerge top = queue.top();
        queue.pop();
        Symbol& left = symbol(top.left);
        Symbol& right = symbol(top.right);
        if (left.length == 0 || right.length == 0 || left.length + right.length != top.length) continue;
        left.length += right.length;
        right.length = 0;
        left.next = right.next;
        if (right.next >= 0) symbol(right.next).previous = top.left;
        consider(left.previous, top.left);
        consider(top.left, left.next);
    }
    for (std::int32_t i = 0; i >= 0; i = symbol(i).next) {
        const std::string_view piece = text.substr(symbol(i).begin, symbol(i).length);
        const TokenId token = mergeable(piece);
        if (token >= 0) {
            out.push_back(token);
        } else {
            append_bytes(piece, out);
        }
    }
}

}  // namespace kvloupe
