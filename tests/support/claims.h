// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rows from claims: a claim is a function whose name says what holds, alone or over a table of cases. A test program
// writes its claims into an unnamed namespace, so that one that rows() forgets is a warning of the compiler:
//
//     void everyPartRunsOnce(Check& check) { … }
//     Cases<int> lengths() { … }
//     void aRunHasItsLength(Check& check, int length) { … }
//
//     std::vector<Row> kvloupe::test::rows() {
//         Claims claims;
//         claims.add(CLAIM(everyPartRunsOnce));
//         claims.add(CLAIM(aRunHasItsLength), lengths());   // one row per case: "aRunHasItsLength: one block"
//         return claims.rows();
//     }
#pragma once

#include "tests/support/rows.h"

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvloupe::test {

// The cases of one claim by their names.
template <class T>
class Cases {
public:
    void add(std::string name, T given) { m_cases.emplace_back(std::move(name), std::move(given)); }
    auto begin() const { return m_cases.begin(); }
    auto end() const { return m_cases.end(); }
    bool empty() const { return m_cases.empty(); }

private:
    std::vector<std::pair<std::string, T>> m_cases;
};

class Claims {
public:
    void add(std::string name, void (*claim)(Check&)) { m_rows.push_back({std::move(name), claim}); }
    template <class Given, class T>
    void add(const std::string& name, void (*claim)(Check&, Given), const Cases<T>& cases) {
        static_assert(std::is_same_v<std::decay_t<Given>, T>, "the claim takes what its cases hold");
        if (cases.empty())
            m_rows.push_back({name, [](Check& check) { check.fail("the claim has no case", __FILE__, __LINE__); }});
        for (const auto& one : cases)
            m_rows.push_back({name + ": " + one.first, [claim, given = one.second](Check& check) { claim(check, given); }});
    }
    std::vector<Row> rows() { return std::move(m_rows); }

private:
    std::vector<Row> m_rows;
};

template <class Result>
bool succeeded(Check& check, const Result& result, const char* text, const char* file, int line) {
    return result || check.fail(std::string(text) + " is an error: " + result.error().message(), file, line);
}

template <class T>
bool near(Check& check, T actual, std::type_identity_t<T> expected, const char* text, const char* file, int line) {
    return close(actual, expected) ||
           check.fail(std::string(text) + " is " + shown(actual) + ", not close to " + shown(expected), file, line);
}

}  // namespace kvloupe::test

// A claim's name and the claim.
#define CLAIM(function) #function, function

// As CHECK_THAT, with words of one's own.
#define CHECK_OR_SAY(claim, words)                                                                       \
    do {                                                                                                 \
        if (!(claim)) {                                                                                  \
            check.fail(std::string("not true: " #claim ": ") + std::string(words), __FILE__, __LINE__);  \
            return;                                                                                      \
        }                                                                                                \
    } while (false)
// A Result holds a value; its error is printed otherwise.
#define CHECK_RESULT(result)                                                                             \
    do {                                                                                                 \
        if (!::kvloupe::test::succeeded(check, result, #result, __FILE__, __LINE__)) return;             \
    } while (false)
// Floating-point numbers that rounding may have moved (close(), compare.h).
#define CHECK_CLOSE(actual, expected)                                                                    \
    do {                                                                                                 \
        if (!::kvloupe::test::near(check, actual, expected, #actual, __FILE__, __LINE__)) return;        \
    } while (false)
#define FAIL_ROW(words)                                                                                  \
    do {                                                                                                 \
        check.fail(words, __FILE__, __LINE__);                                                           \
        return;                                                                                          \
    } while (false)
#define SKIP_ROW(reason)                                                                                 \
    do {                                                                                                 \
        check.skip(reason);                                                                              \
        return;                                                                                          \
    } while (false)
