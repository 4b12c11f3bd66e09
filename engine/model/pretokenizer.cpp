// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/pretokenizer.h"

#include "engine/model/utf8.h"

#include <algorithm>

namespace kvloupe {

namespace {

struct Cut {
    TextRange range;
    bool match = false;
};

std::vector<TextRange> literal_matches(std::string_view text, std::string_view literal) {
    std::vector<TextRange> found;
    if (literal.empty()) return found;
    for (std::size_t at = text.find(literal); at != std::string_view::npos; at = text.find(literal, at + literal.size())) {
        found.push_back({at, at + literal.size()});
    }
    return found;
}

// The whole of the text, matches and what lies between them.
std::vector<Cut> cuts_of(const PretokenizerStep& step, std::string_view text) {
    const std::vector<TextRange> found = step.regex ? step.regex->matches(text) : literal_matches(text, step.literal);
    std::vector<Cut> cuts;
    cuts.reserve(found.size() + 1);
    std::size_t at = 0;
    for (const TextRange& match : found) {
        if (at < match.begin) cuts.push_back({{at, match.begin}, step.invert});
        cuts.push_back({match, !step.invert});
        at = match.end;
    }
    if (at < text.size()) cuts.push_back({{at, text.size()}, step.invert});
    return cuts;
}

void merge_with_previous(std::vector<Cut>& cuts) {
    std::vector<Cut> out;
    bool previous = false;
    for (const Cut& cut : cuts) {
        if (cut.match && !previous && !out.empty()) {
            out.back().range.end = cut.range.end;
        } else {
            out.push_back({cut.range, false});
        }
        previous = cut.match;
    }
    cuts = std::move(out);
}

void merge_with_next(std::vector<Cut>& cuts) {
    std::vector<Cut> out;
    bool previous = false;
    for (auto it = cuts.rbegin(); it != cuts.rend(); ++it) {
        if (it->match && !previous && !out.empty()) {
            out.back().range.begin = it->range.begin;
        } else {
            out.push_back({it->range, false});
        }
        previous = it->match;
    }
    std::reverse(out.begin(), out.end());
    cuts = std::move(out);
}

void merge_contiguous(std::vector<Cut>& cuts) {
    std::vector<Cut> out;
    bool previous = false;
    for (const Cut& cut : cuts) {
        if (!out.empty() && cut.match == previous) {
            out.back().range.end = cut.range.end;
        } else {
            out.push_back({cut.range, false});
        }
        previous = cut.match;
    }
    cuts = std::move(out);
}

// Hugging Face tokenizers, NormalizedString::split.
std::vector<Cut> split_once(const PretokenizerStep& step, std::string_view text) {
    std::vector<Cut> cuts = cuts_of(step, text);
    switch (step.behaviour) {
    case SplitBehaviour::isolated:
        for (Cut& cut : cuts) cut.match = false;
        break;
    case SplitBehaviour::removed: break;
    case SplitBehaviour::merged_with_previous: merge_with_previous(cuts); break;
    case SplitBehaviour::merged_with_next: merge_with_next(cuts); break;
    case SplitBehaviour::contiguous: merge_contiguous(cuts); break;
    }
    return cuts;
}

bool is_cut(const PretokenizerStep& step) { return step.regex || !step.literal.empty(); }

struct Piece {
    TextRange range;
    bool valid = true;   // UTF-8
    bool glued = false;  // cut from the piece before it only because one of the two is no UTF-8
};

std::vector<Piece> valid_runs(std::string_view text) {
    std::vector<Piece> runs;
    for (std::size_t at = 0; at < text.size();) {
        const Utf8Char c = utf8_at(text, at);
        if (runs.empty() || runs.back().valid != c.valid) runs.push_back({{at, at}, c.valid, !runs.empty()});
        at += c.length;
        runs.back().range.end = at;
    }
    return runs;
}

// The pieces again, each with a space in front if it does not begin with one.
std::string with_spaces(std::vector<Piece>& pieces, std::string_view text) {
    std::string spaced;
    spaced.reserve(text.size() + pieces.size());
    for (Piece& piece : pieces) {
        const std::string_view bytes = text.substr(piece.range.begin, piece.range.end - piece.range.begin);
        piece.range.begin = spaced.size();
        if (!piece.glued && bytes.front() != ' ') spaced += ' ';
        spaced += bytes;
        piece.range.end = spaced.size();
    }
    return spaced;
}

void cut_pieces(const PretokenizerStep& step, std::string_view text, std::vector<Piece>& pieces) {
    std::vector<Piece> out;
    out.reserve(pieces.size() * 2);
    for (const Piece& piece : pieces) {
        if (!piece.valid) {
            out.push_back(piece);
            continue;
        }
        const std::size_t base = piece.range.begin;
        bool glued = piece.glued;
        for (const Cut& cut : split_once(step, text.substr(base, piece.range.end - base))) {
            if (cut.match || cut.range.empty()) continue;
            out.push_back({{base + cut.range.begin, base + cut.range.end}, true, glued});
            glued = false;
        }
    }
    pieces = std::move(out);
}

}  // namespace

std::vector<std::string_view> Pretokenizer::split(std::string_view text, std::string& store) const {
    std::vector<Piece> pieces = valid_runs(text);
    for (const PretokenizerStep& step : m_steps) {
        if (step.prefix_space) {
            store = with_spaces(pieces, text);
            text = store;
        }
        if (is_cut(step)) cut_pieces(step, text, pieces);
    }
    std::vector<std::string_view> out;
    out.reserve(pieces.size());
    for (const Piece& piece : pieces) out.push_back(text.substr(piece.range.begin, piece.range.end - piece.range.begin));
    return out;
}

bool Pretokenizer::adds_prefix_space() const {
    return std::any_of(m_steps.begin(), m_steps.end(), [](const PretokenizerStep& step) { return step.prefix_space; });
}

}  // namespace kvloupe
