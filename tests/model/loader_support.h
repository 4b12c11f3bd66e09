// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the tests of load_model share.
#pragma once

#include "engine/model/model.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"

#include <string>

namespace kvloupe {

inline const std::string fixtures = KVLOUPE_SOURCE_DIR "/tests/fixtures/";

using Loaded = Result<std::shared_ptr<const Model>>;

inline Loaded load(const std::string& path, const LoadOptions& options = {}) { return load_model(path, options); }

// A writable copy of a fixture folder without its GGUF forms.
inline void copy_folder(test::Check& check, const std::string& name, const std::string& to) {
    for (const char* part : {"config.json", "tokenizer.json", "model.safetensors"})
        CHECK_THAT(test::write_bytes(to + "/" + part, test::read_file(fixtures + name + "/" + part)));
}

}  // namespace kvloupe
