// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/gguf_config_reader.h"

#include "engine/model/message.h"


namespace kvloupe {

bool GgufConfigReader::fail(const std::string& what, const std::string& hint) {
    error = {m_file.path + ": " + what, hint};
    return false;
}

bool GgufConfigReader::refuse(const std::string& what) {
    return fail(what, "KVLoupe reads models without it; other forms are not built yet.");
}

const GgufValue* GgufConfigReader::find(const std::string& key) const {
    const auto found = m_file.metadata.find(full(key));
    return found == m_file.metadata.end() ? nullptr : &found->second;
}

void GgufConfigReader::assume(const std::string& key, const std::string& value) {
    m_assumed.push_back(full(key) + " = " + value + " (not in the GGUF file)");
}

bool GgufConfigReader::check_count(const std::string& name, std::uint64_t number, std::uint64_t limit, std::uint32_t& value) {
    if (number == 0 || number > limit)
        return fail("key " + in_quotes(name) + " is " + grouped(number) + ", outside 1 to " + grouped(limit));
    value = static_cast<std::uint32_t>(number);
    return true;
}

bool GgufConfigReader::need_count(const std::string& key, std::uint64_t limit, std::uint32_t& value) {
    const GgufValue* const found = find(key);
    if (!found) return fail("has no key " + in_quotes(full(key)));
    const std::optional<std::uint64_t> number = m_file.unsigned_integer(full(key));
    if (!number) return fail("key " + in_quotes(full(key)) + " is " + describe(*found) + ", not an unsigned integer");
    return check_count(full(key), *number, limit, value);
}

bool GgufConfigReader::read_count(const std::string& key, std::uint64_t limit, std::uint32_t& value) {
    if (has(key)) return need_count(key, limit, value);
    assume(key, std::to_string(value));
    return true;
}

bool GgufConfigReader::read_optional_count(const std::string& key, std::uint64_t limit, std::uint32_t& value) {
    if (!has(key)) return true;
    if (m_file.unsigned_integer(full(key)) == 0u) {
        value = 0;
        return true;
    }
    return need_count(key, limit, value);
}

bool GgufConfigReader::need_counts(const std::string& key, std::uint64_t limit, std::uint32_t layers,
                                   std::vector<std::uint32_t>& values) {
    const GgufArray* const array = m_file.array(full(key));
    if (!array) {
        std::uint32_t value = 0;
        if (!need_count(key, limit, value)) return false;
        values.assign(layers, value);
        return true;
    }
    if (array->numbers.size() != layers)
        return fail("key " + in_quotes(full(key)) + " is an array of " + grouped(array->numbers.size()) + " numbers for " +
                    grouped(layers) + " layers");
    values.clear();
    for (const double number : array->numbers) {
        // Also false for NaN.
        if (!(number >= 1 && number <= static_cast<double>(limit)) ||
            number != static_cast<double>(static_cast<std::uint32_t>(number)))
            return fail("key " + in_quotes(full(key)) + " holds " + shortest(number) + ", outside 1 to " + grouped(limit));
        values.push_back(static_cast<std::uint32_t>(number));
    }
    return true;
}

bool GgufConfigReader::need_number(const std::string& key, float& value) {
    const GgufValue* const found = find(key);
    if (!found) return fail("has no key " + in_quotes(full(key)));
    const std::optional<double> number = m_file.number(full(key));
    if (!number) return fail("key " + in_quotes(full(key)) + " is " + describe(*found) + ", not a number");
    value = static_cast<float>(*number);
    return true;
}

bool GgufConfigReader::read_number(const std::string& key, float& value) {
    if (has(key)) return need_number(key, value);
    assume(key, shortest(value));
    return true;
}

bool GgufConfigReader::read_optional_number(const std::string& key, float& value) { return !has(key) || need_number(key, value); }

bool GgufConfigReader::read_flag(const std::string& key, bool& value) {
    const GgufValue* const found = find(key);
    if (!found) return true;
    const std::optional<bool> flag = m_file.boolean(full(key));
    if (!flag) return fail("key " + in_quotes(full(key)) + " is " + describe(*found) + ", not true or false");
    value = *flag;
    return true;
}

}  // namespace kvloupe
