// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/text_regex.h"

#include "engine/model/message.h"
#include "engine/model/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>

namespace kvloupe {

namespace {

constexpr std::size_t longest_pattern = 16384;  // bytes; the longest known (DeepSeek's) has 600
constexpr std::size_t jit_limit = 65536;        // bytes of compiled pattern

struct MatchDataFree {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextFree {
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct CompileContextFree {
    void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};

}  // namespace

Result<TextRegex> TextRegex::compile(std::string_view pattern) {
    if (pattern.size() > longest_pattern) {
        return Error{"the regular expression has " + grouped(pattern.size()) + " bytes; at most " +
                         grouped(longest_pattern) + " are taken", ""};
    }
    Result<std::string> translated = translate_oniguruma(pattern);
    if (!translated) return translated.error();

    const std::unique_ptr<pcre2_compile_context, CompileContextFree> context(pcre2_compile_context_create(nullptr));
    if (!context) return Error{"there is not enough memory for a regular expression", ""};
    pcre2_set_parens_nest_limit(context.get(), 50);
    int code = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                                         PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code,
                                         &offset, context.get());
    if (compiled == nullptr) {
        std::array<PCRE2_UCHAR, 256> text{};
        pcre2_get_error_message(code, text.data(), text.size());
        return Error{"the regular expression " + in_quotes(pattern) + " is not understood: " +
                         reinterpret_cast<const char*>(text.data()), ""};
    }
    TextRegex regex;
    regex.m_code = std::shared_ptr<const void>(
        compiled, [](const void* p) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p))); });
    std::size_t size = 0;
    pcre2_pattern_info(compiled, PCRE2_INFO_SIZE, &size);
    // Without the just-in-time compiler (not on every machine) matching is slower, not different.
    if (size <= jit_limit) pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    return regex;
}

std::vector<TextRange> TextRegex::matches(std::string_view text) const {
    std::vector<TextRange> found;
    const auto* code = static_cast<const pcre2_code*>(m_code.get());
    const std::unique_ptr<pcre2_match_data, MatchDataFree> data(pcre2_match_data_create(1, nullptr));
    const std::unique_ptr<pcre2_match_context, MatchContextFree> context(pcre2_match_context_create(nullptr));
    if (!data || !context) return found;
    const std::size_t limit = std::min<std::size_t>(100000 + 8 * text.size(), 0xFFFFFFFFu);
    pcre2_set_match_limit(context.get(), static_cast<std::uint32_t>(limit));
    pcre2_set_heap_limit(context.get(), 64 * 1024);  // KiB

    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    std::size_t at = 0;
    std::size_t last_end = text.size() + 1;
    while (at <= text.size()) {
        int rc = pcre2_match(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, data.get(), context.get());
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
            rc = pcre2_match(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.get(),
                             context.get());
        }
        if (rc < 0) break;
        const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(data.get());
        const TextRange match{ends[0], ends[1]};
        if (match.end < match.begin || match.begin < at) break;
        if (match.empty() && match.end == last_end) {
            at += std::max<std::size_t>(1, utf8_at(text, at).length);
            continue;
        }
        found.push_back(match);
        at = match.end;
        last_end = match.end;
    }
    return found;
}

}  // namespace kvloupe
