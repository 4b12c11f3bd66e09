// SPDX-License-Identifier: GPL-3.0-or-later
//
// Rows that hold a backend against the scalar double reference (kernels/cpu/scalar.h) and against the CPU's backend, through
// engine/backend.h alone. Emulated tests run them over an emulated card, tests/gpu over a real one.
#pragma once

#include "engine/backend.h"
#include "tests/support/rows.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe::test {

struct BackendSubject {
    // A fresh backend. An error's text skips the row where `absent` says that there is nothing to test, else fails it.
    std::function<Result<std::unique_ptr<Backend>>()> make;
    bool absent = false;
    bool large = false;          // sizes for a real card; else for one that is interpreted
    std::string device = "cuda:0";
};

// The subject's backend, or null after a failure or skip was noted.
std::unique_ptr<Backend> make_subject(const BackendSubject& subject, Check& check);

std::vector<Row> operation_rows(const BackendSubject& subject);   // embedding, norms, products, activation, gathering, logits
std::vector<Row> part_rows(const BackendSubject& subject);        // operations that only some models need
std::vector<Row> form_rows(const BackendSubject& subject);        // attention with caps, over latents, with whole scores
std::vector<Row> attention_rows(const BackendSubject& subject);   // cache writes, attention, watched heads
std::vector<Row> cache_rows(const BackendSubject& subject);       // copies, swaps, poison, overflow, memory
std::vector<Row> format_rows(const BackendSubject& subject);      // cache precisions: written, read, attended, sealed
std::vector<Row> format_rule_rows(const BackendSubject& subject); // among them: rounding, saturation, moves, pages, shared places
std::vector<Row> pass_rows(const BackendSubject& subject);        // recorded passes, timers
std::vector<Row> session_rows(const BackendSubject& subject);     // whole runs over tests/fixtures
std::vector<Row> family_rows(const BackendSubject& subject);      // the same with models of other architectures, and converted ones

inline void append(std::vector<Row>& to, std::vector<Row> rows) {
    for (Row& row : rows) to.push_back(std::move(row));
}

}  // namespace kvloupe::test
