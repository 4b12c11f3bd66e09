// SPDX-License-Identifier: GPL-3.0-or-later
//
// Test cases that hold every pair of levels of every two factors at least once, in few rows: greedy, the best of several
// random candidates each time, always the same for the same factors.
#pragma once

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

namespace kvloupe::test {

class AllPairs {
public:
    // levels: how many levels each factor has. rows()[i][f] is the level of factor f in case i.
    explicit AllPairs(std::vector<std::size_t> levels) : m_levels(std::move(levels)) {
        for (std::size_t level : m_levels) {
            m_first.push_back(m_all);
            m_all += level;
        }
        m_covered.assign(m_all * m_all, false);
        while (true) {
            const std::vector<std::size_t> seed = first_uncovered();
            if (seed.empty()) break;
            cover(best_candidate(seed));
        }
    }

    const std::vector<std::vector<std::size_t>>& rows() const { return m_rows; }
    // Whether some row holds level a of factor f together with level b of factor g.
    bool holds(std::size_t f, std::size_t a, std::size_t g, std::size_t b) const {
        for (const std::vector<std::size_t>& row : m_rows)
            if (row[f] == a && row[g] == b) return true;
        return false;
    }

private:
    static constexpr int candidates = 30;

    bool covered(std::size_t f, std::size_t a, std::size_t g, std::size_t b) const {
        return m_covered[(m_first[f] + a) * m_all + m_first[g] + b];
    }
    // {f, a, g, b} of a pair that no row holds yet; empty: there is none.
    std::vector<std::size_t> first_uncovered() const {
        for (std::size_t f = 0; f < m_levels.size(); ++f)
            for (std::size_t g = f + 1; g < m_levels.size(); ++g)
                for (std::size_t a = 0; a < m_levels[f]; ++a)
                    for (std::size_t b = 0; b < m_levels[g]; ++b)
                        if (!covered(f, a, g, b)) return {f, a, g, b};
        return {};
    }
    // Fills the other factors in random order, each with the level that covers most new pairs with those before it.
    std::vector<std::size_t> candidate(const std::vector<std::size_t>& seed, std::size_t& gain) {
        std::vector<std::size_t> row(m_levels.size(), 0), order = {seed[0], seed[2]};
        row[seed[0]] = seed[1];
        row[seed[2]] = seed[3];
        gain = 1;
        std::vector<std::size_t> rest;
        for (std::size_t f = 0; f < m_levels.size(); ++f)
            if (f != seed[0] && f != seed[2]) rest.push_back(f);
        while (!rest.empty()) {
            const std::size_t at = m_random() % rest.size(), f = rest[at];
            rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(at));
            std::size_t best = 0, best_gain = 0;
            const std::size_t start = m_random() % m_levels[f];
            for (std::size_t i = 0; i < m_levels[f]; ++i) {
                const std::size_t level = (start + i) % m_levels[f];
                std::size_t found = 0;
                for (std::size_t g : order) found += covered(f, level, g, row[g]) ? 0 : 1;
                if (i == 0 || found > best_gain) {
                    best = level;
                    best_gain = found;
                }
            }
            row[f] = best;
            gain += best_gain;
            order.push_back(f);
        }
        return row;
    }
    std::vector<std::size_t> best_candidate(const std::vector<std::size_t>& seed) {
        std::vector<std::size_t> best;
        std::size_t best_gain = 0;
        for (int i = 0; i < candidates; ++i) {
            std::size_t gain = 0;
            std::vector<std::size_t> row = candidate(seed, gain);
            if (gain <= best_gain) continue;
            best = std::move(row);
            best_gain = gain;
        }
        return best;
    }
    void cover(const std::vector<std::size_t>& row) {
        for (std::size_t f = 0; f < row.size(); ++f)
            for (std::size_t g = 0; g < row.size(); ++g)
                m_covered[(m_first[f] + row[f]) * m_all + m_first[g] + row[g]] = true;
        m_rows.push_back(row);
    }

    std::vector<std::size_t> m_levels, m_first;
    std::size_t m_all = 0;
    std::vector<bool> m_covered;  // (all levels, all levels)
    std::vector<std::vector<std::size_t>> m_rows;
    std::mt19937 m_random{1};     // its raw output is the same everywhere
};

}  // namespace kvloupe::test
