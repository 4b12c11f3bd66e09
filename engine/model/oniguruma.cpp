// SPDX-License-Identifier: GPL-3.0-or-later
//
// Oniguruma to PCRE2, for what tokenizers use. \s and \w are written out, because PCRE2 10.42 counts U+180E as a space and
// leaves marks and Roman numerals out of words; \p{Name} with a script's name means its script extensions in PCRE2, so it becomes sc:Name.
#include "engine/model/message.h"
#include "engine/model/text_regex.h"

#include <algorithm>
#include <array>
#include <optional>

namespace kvloupe {

namespace {

constexpr std::string_view spaces =
    "\\x{09}-\\x{0D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}";
constexpr std::string_view word = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";

bool is_ascii_alnum(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class Translation {
public:
    explicit Translation(std::string_view pattern) : m_pattern(pattern) {}

    Result<std::string> run() {
        while (m_at < m_pattern.size() && m_refused.empty()) step();
        if (m_refused.empty() && m_in_class) m_refused = "'[' without ']'";
        if (!m_refused.empty()) {
            return Error{"the regular expression " + in_quotes(m_pattern) + " uses " + m_refused +
                             ", which is not supported", ""};
        }
        return std::move(m_out);
    }

private:
    bool next_is(std::string_view text) const { return m_pattern.substr(m_at).substr(0, text.size()) == text; }

    void take(std::size_t count) {
        m_out += m_pattern.substr(m_at, count);
        m_at += std::min(count, m_pattern.size() - m_at);
    }

    void step() {
        const char c = m_pattern[m_at];
        if (c == '\\') {
            escape();
        } else if (m_in_class) {
            in_class(c);
        } else if (c == '[') {
            m_in_class = true;
            take(1);
            if (next_is("^")) take(1);
            if (next_is("]")) take(1);  // a literal bracket in both
        } else if (c == '(') {
            group();
        } else if (c == '}') {
            take(1);
            if (next_is("+")) m_refused = "'{...}+'";  // possessive in PCRE2, a repetition of a repetition there
        } else {
            take(1);
        }
    }

    void in_class(char c) {
        if (c == '[') {
            m_refused = "a class inside a class";
        } else if (next_is("&&")) {
            m_refused = "'&&' in a class";
        } else {
            if (c == ']') m_in_class = false;
            take(1);
        }
    }

    void group() {
        static constexpr std::array<std::string_view, 8> known = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?i)"};
        if (next_is("(*")) {
            m_refused = "'(*'";
        } else if (next_is("(?")) {
            const auto it = std::find_if(known.begin(), known.end(), [this](std::string_view k) { return next_is(k); });
            if (it == known.end()) {
                m_refused = in_quotes(m_pattern.substr(m_at, 4));
            } else {
                take(it->size());
            }
        } else {
            take(1);
        }
    }

    void escape() {
        if (m_at + 1 >= m_pattern.size()) {
            m_refused = "a '\\' at its end";
            return;
        }
        const char c = m_pattern[m_at + 1];
        switch (c) {
        case 's': replace(m_in_class ? std::string(spaces) : "[" + std::string(spaces) + "]"); return;
        case 'w': replace(m_in_class ? std::string(word) : "[" + std::string(word) + "]"); return;
        case 'S':
        case 'W':
            if (m_in_class) break;
            replace("[^" + std::string(c == 'S' ? spaces : word) + "]");
            return;
        case 'p':
        case 'P': property(); return;
        case 'u': unicode(); return;
        case 'x': hexadecimal(); return;
        case 'd':
        case 'D':
        case 'n':
        case 'r':
        case 't':
        case 'f':
        case 'A':
        case 'z': take(2); return;
        default:
            if (!is_ascii_alnum(c) && static_cast<unsigned char>(c) < 0x80) {
                take(2);
                return;
            }
        }
        m_refused = in_quotes(m_pattern.substr(m_at, 2));
    }

    void replace(const std::string& with) {
        m_out += with;
        m_at += 2;
    }

    void property() {
        const std::size_t close = m_pattern.find('}', m_at);
        if (m_at + 2 >= m_pattern.size() || m_pattern[m_at + 2] != '{' || close == std::string_view::npos) {
            m_refused = in_quotes(m_pattern.substr(m_at, 4));
            return;
        }
        std::string_view name = m_pattern.substr(m_at + 3, close - m_at - 3);
        m_out += m_pattern.substr(m_at, 3);
        if (!name.empty() && name.front() == '^') {
            m_out += '^';
            name.remove_prefix(1);
        }
        if (name.size() > 2) m_out += "sc:";
        m_out += name;
        m_out += '}';
        m_at = close + 1;
    }

    void unicode() {
        const std::string_view digits = m_pattern.substr(m_at + 2, 4);
        if (digits.size() != 4 || !std::all_of(digits.begin(), digits.end(), is_hex)) {
            m_refused = in_quotes(m_pattern.substr(m_at, 6));
            return;
        }
        m_out += "\\x{" + std::string(digits) + "}";
        m_at += 6;
    }

    // \x{H...}; \xHH only for ASCII (beyond it Oniguruma means a byte).
    void hexadecimal() {
        const std::string_view rest = m_pattern.substr(m_at + 2);
        const std::size_t close = rest.find('}');
        if (rest.substr(0, 1) == "{" && close != std::string_view::npos && close > 1 && close < 10) {
            take(2 + close + 1);
        } else if (rest.size() >= 2 && rest[0] >= '0' && rest[0] <= '7' && is_hex(rest[1])) {
            take(4);
        } else {
            m_refused = in_quotes(m_pattern.substr(m_at, 4));
        }
    }

    std::string_view m_pattern;
    std::size_t m_at = 0;
    bool m_in_class = false;
    std::string m_out;
    std::string m_refused;
};

}  // namespace

Result<std::string> translate_oniguruma(std::string_view pattern) { return Translation(pattern).run(); }

}  // namespace kvloupe
