// SPDX-License-Identifier: GPL-3.0-or-later
//
// QualityStore: what was measured of lanes on held-out text, kept in one JSON file of the user's, by text, reference lane and lane
// (weights, cache, kind of device). A file that is absent or cannot be read is a store without entries.
#pragma once

#include "engine/record/quality.h"
#include "engine/record/result.h"

#include <optional>
#include <string>
#include <vector>

namespace kvloupe {

class QualityStore {
public:
    static constexpr std::size_t most_entries = 32;  // pairs of text and reference; the oldest go
    static constexpr std::size_t most_lanes = 64;    // of one of them

    // path: of the file; "" keeps nothing.
    explicit QualityStore(std::string path = default_path());

    // $XDG_DATA_HOME/kvloupe/quality.json, by default under ~/.local/share; "" without a home.
    static std::string default_path();

    struct Lane {
        std::string name;  // in the session
        std::string key;   // quality_key()
    };
    // The newest measurement whose reference is one of the lanes, with what is known of the others; lanes have the names given.
    std::optional<QualityReport> find(const std::vector<Lane>& lanes) const;
    // Replaces what was known of these lanes on that text against that reference; other lanes stay. Only complete reports are kept,
    // and of them the lanes that did not fail. Errors: the file's.
    Result<void> keep(const QualityReport& report) const;

private:
    std::string m_path;
};

}  // namespace kvloupe
