// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a bench found: rows of the table that tests/gpu/run.sh prints last, and plain figures that the comparison with
// PyTorch reads. Every row names its unit and its conditions; ratios are of numbers from the same run.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kvloupe::test {

class BenchResults {
public:
    // reach: what is asked for, "" where a figure is printed as measured. holds: only read where reach says something.
    void row(const std::string& what, const std::string& measured, const std::string& reach = "", bool holds = true);
    void figure(const std::string& name, double value);
    void note(const std::string& line) const;  // to standard output at once

    // rows.tsv (what, measured, reach, verdict) and figures.tsv (name, value). False where the folder cannot be written.
    bool write(const std::string& folder) const;

private:
    std::vector<std::string> m_rows;
    std::vector<std::pair<std::string, double>> m_figures;
};

std::string fixed(double value, int digits);
double median(std::vector<double> values);  // 0 of nothing

}  // namespace kvloupe::test
