// SPDX-License-Identifier: GPL-3.0-or-later
//
// Result<T>: a value or an Error. Libraries return it; they never print and never abort.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace kvloupe {

// What went wrong, for a person: one sentence that names the thing and the value, and what to do about it.
struct Error {
    std::string sentence;  // "model.gguf: tensor 'blk.0.attn_q.weight' ends at byte 9,000 of a file of 8,192 bytes"
    std::string hint;      // "Download the file again; it was cut off." (may be empty)

    // The text shown to a person: the sentence, then the hint.
    std::string message() const {
        if (hint.empty()) return sentence + (sentence.empty() || sentence.back() == '.' ? "" : ".");
        return sentence + (sentence.empty() || sentence.back() == '.' ? " " : ". ") + hint;
    }
};

template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : m_state(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : m_state(std::in_place_index<1>, std::move(error)) {}

    explicit operator bool() const { return m_state.index() == 0; }
    T& value() & { return std::get<0>(m_state); }
    const T& value() const& { return std::get<0>(m_state); }
    T&& value() && { return std::get<0>(std::move(m_state)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::get<0>(std::move(m_state)); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    const Error& error() const { return std::get<1>(m_state); }

private:
    std::variant<T, Error> m_state;
};

template <>
class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error error) : m_error(std::move(error)) {}

    explicit operator bool() const { return !m_error.has_value(); }
    const Error& error() const { return *m_error; }

private:
    std::optional<Error> m_error;
};

}  // namespace kvloupe
