// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/json_document.h"

#include "engine/model/message.h"

#include <exception>
#include <utility>
#include <vector>

namespace kvloupe {

namespace {

using nlohmann::json;

// Builds the document from the parser's events and stops at the first thing that is not allowed.
class Builder final : public nlohmann::json_sax<json> {
public:
    json document;
    std::string failure;  // empty: none so far

    bool null() override { return add(json(nullptr)) != nullptr; }
    bool boolean(bool value) override { return add(json(value)) != nullptr; }
    bool number_integer(number_integer_t value) override { return add(json(value)) != nullptr; }
    bool number_unsigned(number_unsigned_t value) override { return add(json(value)) != nullptr; }
    bool number_float(number_float_t value, const string_t&) override { return add(json(value)) != nullptr; }
    bool string(string_t& value) override { return add(json(std::move(value))) != nullptr; }
    bool binary(binary_t&) override { return false; }  // JSON text has none

    bool start_object(std::size_t) override { return open(json::object()); }
    bool start_array(std::size_t) override { return open(json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }

    bool key(string_t& name) override {
        if (m_open.back()->contains(name)) {
            failure = "the key " + in_quotes(name) + " appears twice in one object";
            return false;
        }
        m_key = std::move(name);
        return true;
    }

    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
        // nlohmann: "[json.exception.parse_error.101] parse error at line 1, column 5: <what is wrong>"
        const std::string text = error.what();
        const std::size_t column = text.find("column ");
        const std::size_t colon = column == std::string::npos ? std::string::npos : text.find(": ", column);
        failure = "is no valid JSON at byte " + grouped(position) +
                  (colon == std::string::npos ? std::string() : ": " + in_quotes(text.substr(colon + 2), 160));
        return false;
    }

private:
    json* add(json value) {
        if (m_open.empty()) {
            document = std::move(value);
            return &document;
        }
        json& parent = *m_open.back();
        if (parent.is_array()) {
            parent.push_back(std::move(value));
            return &parent.back();
        }
        return &(parent[m_key] = std::move(value));
    }
    bool open(json empty) {
        if (static_cast<int>(m_open.size()) >= max_json_depth) {
            failure = "nests JSON deeper than " + std::to_string(max_json_depth) + " levels";
            return false;
        }
        m_open.push_back(add(std::move(empty)));
        return true;
    }
    bool close() {
        m_open.pop_back();
        return true;
    }

    std::vector<json*> m_open;  // stable: a parent does not grow while one of its children is open
    std::string m_key;
};

}  // namespace

Result<json> parse_json(std::span<const std::byte> bytes, const std::string& path) {
    try {
        const char* const text = reinterpret_cast<const char*>(bytes.data());
        Builder builder;
        if (!json::sax_parse(text, text + bytes.size(), &builder))
            return Error{path + ": " + builder.failure, "The file is damaged; download or write it again."};
        return std::move(builder.document);
    } catch (const std::exception& error) {
        return Error{path + ": cannot be read as JSON (" + error.what() + ")", "The file is damaged; download it again."};
    }
}

std::string describe(const json& value) {
    switch (value.type()) {
    case json::value_t::null: return "null";
    case json::value_t::boolean: return value.get<bool>() ? "true" : "false";
    case json::value_t::string: return "the string " + in_quotes(value.get_ref<const std::string&>());
    case json::value_t::array: return "an array of " + grouped(value.size());
    case json::value_t::object: return "an object with " + grouped(value.size()) + " keys";
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
    case json::value_t::number_float: return "the number " + value.dump();
    default: return "something else";
    }
}

}  // namespace kvloupe
