// SPDX-License-Identifier: GPL-3.0-or-later
//
// Test rows as plain functions: a test program of engine or kernels defines rows(), and one of two mains runs them, Qt Test
// in the ordinary build (qt_rows_main.cpp), a small one of its own in a build without Qt (plain_rows_main.cpp).
// CMake: kvloupe_rows_test().
#pragma once

#include "tests/support/compare.h"

#include <functional>
#include <string>
#include <vector>

namespace kvloupe::test {

// What one row found. The first failure counts; a row goes on only where it wants to.
class Check {
public:
    // Notes a failure with its place. Returns false, so that `return check.fail(…)` ends a helper.
    bool fail(const std::string& what, const char* file, int line) {
        if (m_failure.empty()) m_failure = what + " [" + file + ":" + std::to_string(line) + "]";
        return false;
    }
    // The row cannot run here, with the reason.
    void skip(const std::string& reason) { m_skipped = reason; }
    // A line for the reader of the output.
    void note(const std::string& line) { m_notes.push_back(line); }

    bool good() const { return m_failure.empty(); }
    const std::string& failure() const { return m_failure; }
    const std::string& skipped() const { return m_skipped; }
    const std::vector<std::string>& notes() const { return m_notes; }

private:
    std::string m_failure, m_skipped;
    std::vector<std::string> m_notes;
};

struct Row {
    std::string name;  // a claim, with the case: "decode attention equals its twin: f16, head 128, 4 of 32 heads"
    std::function<void(Check&)> run;
};

// Defined by each test program.
std::vector<Row> rows();

// Whether two values are the same; a failure says both. `text` is the first one's source.
template <class A, class B>
bool equal(Check& check, const A& actual, const B& expected, const char* text, const char* file, int line) {
    return same(actual, expected) || check.fail(std::string(text) + " is " + shown(actual) + ", not " + shown(expected), file, line);
}

}  // namespace kvloupe::test

// A false claim ends the row (the function that it stands in, which returns nothing).
#define CHECK_THAT(claim)                                                    \
    do {                                                                     \
        if (!(claim)) {                                                      \
            check.fail("not true: " #claim, __FILE__, __LINE__);             \
            return;                                                          \
        }                                                                    \
    } while (false)
#define CHECK_EQUAL(actual, expected)                                                                         \
    do {                                                                                                     \
        if (!::kvloupe::test::equal(check, actual, expected, #actual, __FILE__, __LINE__)) return;           \
    } while (false)
// NaN is never below anything.
#define CHECK_BELOW(value, limit)                                                                            \
    do {                                                                                                     \
        const double value_ = static_cast<double>(value), limit_ = static_cast<double>(limit);               \
        if (!(value_ < limit_)) {                                                                            \
            check.fail(#value " is " + ::kvloupe::test::shown(value_) + ", not below " +                     \
                           ::kvloupe::test::shown(limit_), __FILE__, __LINE__);                              \
            return;                                                                                          \
        }                                                                                                    \
    } while (false)
