// SPDX-License-Identifier: GPL-3.0-or-later
//
// How a check compares two values, and how it prints them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace kvloupe::test {

template <class T>
inline constexpr bool is_whole_number =
    std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> && !std::is_same_v<T, wchar_t> &&
    !std::is_same_v<T, char8_t> && !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>;

template <class T>
inline constexpr bool is_plain_text = std::is_convertible_v<const T&, std::string_view> && !std::is_class_v<T>;

// Equal by their operator; whole numbers by value whatever their signs, C strings by their letters.
template <class A, class B>
bool same(const A& a, const B& b) {
    if constexpr (is_plain_text<A> && is_plain_text<B>) return std::string_view(a) == std::string_view(b);
    else if constexpr (is_whole_number<A> && is_whole_number<B>) return std::cmp_equal(a, b);
    else return a == b;
}

// Equal but for the last digits: 5 of a float, 12 of a double agree. Not finite ones are close to their own kind only.
template <class T>
bool close(T a, T b) {
    static_assert(std::is_floating_point_v<T>);
    if (!std::isfinite(a) || !std::isfinite(b)) return (std::isnan(a) && std::isnan(b)) || a == b;
    const T digits = std::is_same_v<T, float> ? T(1e5) : T(1e12);
    return std::abs(a - b) * digits <= std::fmin(std::abs(a), std::abs(b));
}

// Letters as they are, other bytes by their numbers, so that two texts that look alike do not.
inline std::string quoted(std::string_view text) {
    std::string out = "'";
    for (const char letter : text) {
        const auto byte = static_cast<unsigned char>(letter);
        char number[8];
        std::snprintf(number, sizeof number, "\\x%02X", unsigned{byte});
        if (letter == '\n') out += "\\n";
        else if (byte < 0x20 || byte == 0x7F) out += number;
        else out += letter;
    }
    return out + "'";
}

template <class T>
std::string shown(const T& value);

template <class Range>
std::string shown_elements(const Range& range) {
    constexpr std::size_t most = 64;
    std::string out = "[";
    std::size_t count = 0;
    for (auto element = range.begin(); element != range.end(); ++element, ++count) {
        if (count >= most) continue;
        // A copy: elements of vector<bool> and of our own ranges are made when asked for.
        const std::decay_t<decltype(*element)> one = *element;
        out += (count > 0 ? ", " : "") + shown(one);
    }
    if (count > most) out += ", … " + std::to_string(count) + " in all";
    return out + "]";
}

template <class Tuple, std::size_t... places>
std::string shown_parts(const Tuple& parts, std::index_sequence<places...>) {
    std::string out = "(";
    ((out += (places > 0 ? ", " : "") + shown(std::get<places>(parts))), ...);
    return out + ")";
}

template <class T>
std::string shown(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
        return value ? "true" : "false";
    } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
        return quoted(std::string_view(value));
    } else if constexpr (std::is_same_v<T, char>) {
        return quoted(std::string_view(&value, 1));
    } else if constexpr (std::is_floating_point_v<T>) {
        std::ostringstream out;
        out.precision(std::numeric_limits<T>::max_digits10);
        out << value;
        return out.str();
    } else if constexpr (std::is_integral_v<T>) {
        return std::to_string(value);
    } else if constexpr (std::is_enum_v<T>) {
        if constexpr (requires { std::string_view(name_of(value)); }) return quoted(std::string_view(name_of(value)));
        else return std::to_string(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::is_same_v<T, std::nullopt_t>) {
        return "nothing";
    } else if constexpr (requires(std::ostream& out) { out << value; }) {
        std::ostringstream out;
        out << value;
        return out.str();
    } else if constexpr (requires { value.has_value(); *value; }) {
        return value.has_value() ? shown(*value) : "nothing";
    } else if constexpr (requires { value.begin(); value.end(); }) {
        return shown_elements(value);
    } else if constexpr (requires { std::tuple_size<T>::value; }) {
        return shown_parts(value, std::make_index_sequence<std::tuple_size_v<T>>());
    } else if constexpr (requires { std::to_string(value.value); }) {
        return std::to_string(value.value);  // an index type
    } else {
        return "(a value without a text)";
    }
}

}  // namespace kvloupe::test
