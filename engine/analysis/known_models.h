// SPDX-License-Identifier: GPL-3.0-or-later
//
// The table of known models: shapes by name, from resources/known_models.json. Families that KVLoupe cannot run are
// among them; their sizes follow from the shape alone.
#pragma once

#include "engine/analysis/sized_model.h"
#include "engine/record/result.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

struct KnownModel {
    std::vector<std::string> names;  // the first is shown
    SizedModel model;
};

class KnownModels {
public:
    // path is used in messages only. Errors: not JSON; an entry (by its name) with a key that is missing, unknown or
    // impossible, or with a name that another one has.
    static Result<KnownModels> parse(std::span<const std::byte> bytes, const std::string& path);

    const std::vector<KnownModel>& models() const { return m_models; }
    // By one of its names, whatever their case, hyphens and spaces; null: unknown.
    const KnownModel* find(std::string_view name) const;
    std::vector<std::string> names() const;      // shown ones, in the table's order
    std::vector<std::string> all_names() const;  // other spellings too

private:
    std::vector<KnownModel> m_models;
};

}  // namespace kvloupe
