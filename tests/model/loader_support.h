// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the tests of load_model share.
#pragma once

#include "engine/model/model.h"

#include <QByteArray>
#include <QFile>
#include <QString>
#include <QTest>

namespace kvloupe {

inline const QString fixtures = QStringLiteral(KVLOUPE_SOURCE_DIR "/tests/fixtures/");

using Loaded = Result<std::shared_ptr<const Model>>;

inline Loaded load(const QString& path, const LoadOptions& options = {}) {
    return load_model(path.toStdString(), options);
}

inline QByteArray read_all(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

inline void write_all(const QString& path, const QByteArray& bytes) {
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly | QIODevice::Truncate));
    QCOMPARE(file.write(bytes), qint64{bytes.size()});
}

// A writable copy of a fixture folder without its GGUF forms.
inline void copy_folder(const QString& name, const QString& to) {
    for (const char* part : {"config.json", "tokenizer.json", "model.safetensors"}) {
        QFile::remove(to + "/" + part);
        QVERIFY(QFile::copy(fixtures + name + "/" + part, to + "/" + part));
        QFile::setPermissions(to + "/" + part, QFile::ReadOwner | QFile::WriteOwner);
    }
}

}  // namespace kvloupe
