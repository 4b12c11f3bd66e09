// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/added_tokens.h"

#include "engine/model/utf8.h"

#include <algorithm>

namespace kvloupe {

namespace {

bool is_word(const std::optional<TextRegex>& word, std::string_view text, std::size_t at) {
    const Utf8Char c = utf8_at(text, at);
    return word && c.valid && !word->matches(text.substr(at, c.length)).empty();
}

bool word_before(const std::optional<TextRegex>& word, std::string_view text, std::size_t at) {
    if (at == 0) return false;
    std::size_t start = at - 1;
    while (start > 0 && at - start < 4 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    return is_word(word, text.substr(0, at), start);
}

}  // namespace

AddedTokenSearch::AddedTokenSearch(std::vector<AddedToken> tokens) : m_tokens(std::move(tokens)), m_ends(1, -1) {
    for (std::size_t i = 0; i < m_tokens.size(); ++i) {
        const std::string& content = m_tokens[i].content;
        if (content.empty()) continue;
        m_starts[static_cast<unsigned char>(content.front())] = true;
        std::uint32_t node = 0;
        for (const char c : content) {
            const std::uint64_t key = std::uint64_t{node} * 256 + static_cast<unsigned char>(c);
            const auto [it, inserted] = m_edges.try_emplace(key, static_cast<std::uint32_t>(m_ends.size()));
            if (inserted) m_ends.push_back(-1);
            node = it->second;
        }
        if (m_ends[node] < 0) m_ends[node] = static_cast<std::int32_t>(i);
        if (m_tokens[i].single_word && !m_word) {
            if (Result<TextRegex> word = TextRegex::compile("\\w")) m_word = std::move(*word);
        }
    }
}

const AddedToken* AddedTokenSearch::longest_at(std::string_view text, std::size_t at) const {
    const AddedToken* longest = nullptr;
    std::uint32_t node = 0;
    for (std::size_t i = at; i < text.size(); ++i) {
        const auto it = m_edges.find(std::uint64_t{node} * 256 + static_cast<unsigned char>(text[i]));
        if (it == m_edges.end()) break;
        node = it->second;
        if (m_ends[node] >= 0) longest = &m_tokens[static_cast<std::size_t>(m_ends[node])];
    }
    return longest;
}

void AddedTokenSearch::split(std::string_view text, bool parse_special, std::vector<TextFragment>& out) const {
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size();) {
        const AddedToken* const token =
            m_starts[static_cast<unsigned char>(text[at])] ? longest_at(text, at) : nullptr;
        if (token == nullptr) {
            ++at;
            continue;
        }
        std::size_t begin = at;
        std::size_t end = at + token->content.size();
        at = end;
        if (token->special && !parse_special) continue;
        if (token->single_word && (word_before(m_word, text, begin) || is_word(m_word, text, end))) continue;
        if (token->lstrip) begin = std::max(done, begin - trailing_space_bytes(text.substr(0, begin)));
        if (token->rstrip) end += leading_space_bytes(text.substr(end));
        if (done < begin) out.push_back({text.substr(done, begin - done), -1});
        out.push_back({{}, token->id});
        done = end;
    }
    if (done < text.size()) out.push_back({text.substr(done), -1});
}

}  // namespace kvloupe
