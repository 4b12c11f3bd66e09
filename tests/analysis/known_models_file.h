// SPDX-License-Identifier: GPL-3.0-or-later
//
// The table of known models as it is installed.
#pragma once

#include "engine/analysis/known_models.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"

#include <memory>

namespace kvloupe::test {

inline Result<KnownModels> installed_models() {
    const std::string path = KVLOUPE_SOURCE_DIR "/resources/known_models.json";
    const std::string text = read_file(path);
    return KnownModels::parse(std::as_bytes(std::span(text)), path);
}

// Null where the table or the model is missing: then the row has failed.
inline std::shared_ptr<const SizedModel> known_model(Check& check, const std::string& name) {
    const auto table = installed_models();
    if (!succeeded(check, table, "known_models.json", __FILE__, __LINE__)) return nullptr;
    const KnownModel* const found = table->find(name);
    if (!found) {
        check.fail("no known model " + name, __FILE__, __LINE__);
        return nullptr;
    }
    return std::make_shared<const SizedModel>(found->model);
}

}  // namespace kvloupe::test
