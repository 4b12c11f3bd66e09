// SPDX-License-Identifier: GPL-3.0-or-later
//
// Files that several tokenizer tests read. Everything is empty where a file is absent.
#pragma once

#include "engine/model/tokenizer.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"

#include <sstream>

namespace tokenizer_files {

inline std::string own(const std::string& name) { return KVLOUPE_SOURCE_DIR "/tests/tokenizer/" + name; }
inline std::string shared(const std::string& name) { return KVLOUPE_SHARED_DATA "/tokenizers/" + name; }

// The texts of a .inp file: between lines "__ggml_vocab_test__".
inline std::vector<std::string> shared_texts(const std::string& name) {
    const std::string all = kvloupe::test::read_file(shared(name));
    const std::string mark = "\n__ggml_vocab_test__\n";
    std::vector<std::string> texts;
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t end = std::min(all.find(mark, at), all.size());
        texts.push_back(all.substr(at, end - at));
        at = end + mark.size();
    }
    return texts;
}

// One line of ids for each text.
inline std::vector<std::vector<kvloupe::TokenId>> shared_ids(const std::string& name) {
    std::vector<std::vector<kvloupe::TokenId>> rows;
    std::istringstream lines(kvloupe::test::read_file(shared(name)));
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::vector<kvloupe::TokenId> row;
        for (kvloupe::TokenId id = 0; words >> id;) row.push_back(id);
        rows.push_back(std::move(row));
    }
    return rows;
}

inline std::shared_ptr<const kvloupe::Tokenizer> loaded(kvloupe::test::Check& check, const std::string& path) {
    auto tokenizer = kvloupe::load_tokenizer(path);
    if (!tokenizer) {
        check.fail(tokenizer.error().message(), __FILE__, __LINE__);
        return nullptr;
    }
    return *tokenizer;
}

}  // namespace tokenizer_files
