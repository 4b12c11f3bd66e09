// SPDX-License-Identifier: GPL-3.0-or-later
//
// The command line, taken apart: positional words, flags and options with values. Wrong usage becomes one sentence.
#pragma once

#include "engine/record/result.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kvloupe {

struct ArgumentSpec {
    std::set<std::string> flags;          // "--json"
    std::set<std::string> options;        // "--export": takes a value, "--export DIR" or "--export=DIR"
    std::size_t least_words = 0;
    std::size_t most_words = 0;
    std::string usage;                    // "kvloupe run SCENARIO [--export DIR] …"
};

class Arguments {
public:
    // Error: an unknown option (the nearest is named), a missing value, too few or too many words.
    static Result<Arguments> parse(const std::vector<std::string>& words, const ArgumentSpec& spec);

    bool has(const std::string& flag) const { return m_flags.count(flag) > 0; }
    std::optional<std::string> value(const std::string& option) const;
    // The option as a whole number in [least, most]; absent: `otherwise`.
    Result<unsigned> number(const std::string& option, unsigned otherwise, unsigned least, unsigned most) const;
    const std::vector<std::string>& words() const { return m_words; }

private:
    std::set<std::string> m_flags;
    std::map<std::string, std::string> m_values;
    std::vector<std::string> m_words;
};

}  // namespace kvloupe
