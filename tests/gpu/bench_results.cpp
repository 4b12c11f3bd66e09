// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/gpu/bench_results.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace kvloupe::test {

std::string fixed(double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

void BenchResults::row(const std::string& what, const std::string& measured, const std::string& reach, bool holds) {
    const std::string verdict = reach.empty() ? "as measured" : holds ? "holds" : "MISSED";
    m_rows.push_back(what + '\t' + measured + '\t' + reach + '\t' + verdict);
    note(what + ": " + measured + (reach.empty() ? "" : " (asked: " + reach + ", " + verdict + ")"));
}

void BenchResults::figure(const std::string& name, double value) { m_figures.emplace_back(name, value); }

void BenchResults::note(const std::string& line) const {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
}

bool BenchResults::write(const std::string& folder) const {
    std::ofstream rows(folder + "/rows.tsv"), figures(folder + "/figures.tsv");
    for (const std::string& line : m_rows) rows << line << '\n';
    figures.precision(12);
    for (const auto& [name, value] : m_figures) figures << name << '\t' << value << '\n';
    return bool(rows.flush()) && bool(figures.flush());
}

}  // namespace kvloupe::test
