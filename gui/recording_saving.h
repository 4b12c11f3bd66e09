// SPDX-License-Identifier: GPL-3.0-or-later
//
// RecordingSaving: writes a recording, as far as it has come, into a file beside the window. The file appears whole or not at all;
// one that stood there is replaced only by a whole one.
#pragma once

#include <QObject>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/record/recording.h"

#include <QString>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace kvloupe {

struct StoredRecording;

// Steps first … end - 1 of each lane; end is cut at the steps there are when saving begins.
struct SavedSteps {
    std::size_t first = 0;
    std::size_t end = SIZE_MAX;
    // Of a file that is saved again: what was left out of it stays so, and it tells of the machine where it ran.
    bool stripped = false;
    std::string machine{};  // "": this one
    // All steps of what is open: a session (null) or a file.
    static SavedSteps of(const StoredRecording* file);
};

class RecordingSaving : public QObject {
    Q_OBJECT

public:
    explicit RecordingSaving(QObject* parent = nullptr) : QObject(parent) {}
    ~RecordingSaving() override;

    // scenario: JSON, or "" where there is none. One at a time; another one while it runs is left out.
    void save(std::shared_ptr<const Recording> recording, const QString& path, const std::string& scenario, SavedSteps steps = {});
    bool running() const { return m_running; }

Q_SIGNALS:
    void ended(const QString& sentence);  // where it lies, or why it does not

private:
    bool m_running = false;
    std::jthread m_thread;
};

}  // namespace kvloupe
