// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/arguments.h"

#include <charconv>

namespace kvloupe {

Result<Arguments> Arguments::parse(const std::vector<std::string>& words, const ArgumentSpec& spec) {
    const std::string usage = "Usage: " + spec.usage;
    Arguments parsed;
    bool only_words = false;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i];
        // What has a space before any '=' is no option's name: SQL that begins with a comment, say.
        const bool spaced = word.find_first_of(" \t\r\n") < word.find('=');
        if (only_words || spaced || word.rfind("--", 0) != 0) {
            parsed.m_words.push_back(word);
            continue;
        }
        if (word == "--") {
            only_words = true;
            continue;
        }
        const std::size_t equals = word.find('=');
        const std::string name = word.substr(0, equals);
        if (spec.flags.count(name)) {
            if (equals != std::string::npos) return Error{"'" + name + "' takes no value", usage};
            parsed.m_flags.insert(name);
        } else if (spec.options.count(name)) {
            if (parsed.m_values.count(name)) return Error{"'" + name + "' is given twice", usage};
            if (equals != std::string::npos) {
                parsed.m_values[name] = word.substr(equals + 1);
            } else {
                if (i + 1 >= words.size()) return Error{"'" + name + "' needs a value", usage};
                parsed.m_values[name] = words[++i];
            }
        } else {
            return Error{"'" + name + "' is no option of this command", usage};
        }
    }
    if (parsed.m_words.size() < spec.least_words) return Error{"An argument is missing", usage};
    if (parsed.m_words.size() > spec.most_words)
        return Error{"'" + parsed.m_words[spec.most_words] + "' is one argument too many", usage};
    return parsed;
}

std::optional<std::string> Arguments::value(const std::string& option) const {
    const auto found = m_values.find(option);
    return found == m_values.end() ? std::nullopt : std::optional(found->second);
}

Result<unsigned> Arguments::number(const std::string& option, unsigned otherwise, unsigned least,
                                   unsigned most) const {
    const auto text = value(option);
    if (!text) return otherwise;
    unsigned parsed = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), parsed);
    if (error != std::errc() || end != text->data() + text->size() || parsed < least || parsed > most)
        return Error{"'" + option + " " + *text + "' is not a whole number from " + std::to_string(least) + " to " +
                         std::to_string(most),
                     ""};
    return parsed;
}

}  // namespace kvloupe
