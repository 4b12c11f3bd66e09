// SPDX-License-Identifier: GPL-3.0-or-later
//
// Files that several tokenizer tests read. Everything is empty where a file is absent.
#pragma once

#include "engine/model/tokenizer.h"

#include <QFile>
#include <QTest>

#include <sstream>

namespace tokenizer_files {

inline QByteArray bytes_of(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

inline QString own(const QString& name) { return QStringLiteral(KVLOUPE_SOURCE_DIR "/tests/tokenizer/") + name; }
inline QString shared(const QString& name) { return QStringLiteral(KVLOUPE_SHARED_DATA "/tokenizers/") + name; }

// The texts of a .inp file: between lines "__ggml_vocab_test__".
inline std::vector<std::string> shared_texts(const QString& name) {
    const std::string all = bytes_of(shared(name)).toStdString();
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
inline std::vector<std::vector<kvloupe::TokenId>> shared_ids(const QString& name) {
    std::vector<std::vector<kvloupe::TokenId>> rows;
    std::istringstream lines(bytes_of(shared(name)).toStdString());
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::vector<kvloupe::TokenId> row;
        for (kvloupe::TokenId id = 0; words >> id;) row.push_back(id);
        rows.push_back(std::move(row));
    }
    return rows;
}

inline std::shared_ptr<const kvloupe::Tokenizer> loaded(const QString& path) {
    auto tokenizer = kvloupe::load_tokenizer(path.toStdString());
    if (!tokenizer) {
        QTest::qFail(tokenizer.error().message().c_str(), __FILE__, __LINE__);
        return nullptr;
    }
    return *tokenizer;
}

}  // namespace tokenizer_files
