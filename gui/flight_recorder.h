// SPDX-License-Identifier: GPL-3.0-or-later
//
// FlightRecorder: when a breakpoint pauses a session, or the session fails, the last minutes of it are saved into a folder. Off until
// somebody chooses how many.
#pragma once

#include <QObject>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/record/recording.h"
#include "gui/recording_saving.h"

#include <QString>

#include <memory>

namespace kvloupe {

struct FlightSettings {
    int minutes = 0;  // 0: off
    QString folder;
    bool operator==(const FlightSettings&) const = default;
};

class FlightRecorder : public QObject {
    Q_OBJECT

public:
    explicit FlightRecorder(QObject* parent = nullptr);  // reads the settings

    const FlightSettings& settings() const { return m_settings; }
    void setSettings(const FlightSettings& settings);  // and keeps them
    bool on() const { return m_settings.minutes > 0 && !m_settings.folder.isEmpty(); }

    // Call when the session pauses or fails: saves once for each breakpoint's event and for a failure.
    void look(const std::shared_ptr<const Recording>& recording, const std::string& scenario);
    bool saving() const { return m_saving.running(); }

    // "bundled family, step 41, 2026-11-30 19-22-57.kvt", with only what file systems take.
    static QString fileName(const QString& title, std::size_t step, const QString& time);

Q_SIGNALS:
    void told(const QString& sentence);

private:
    FlightSettings m_settings;
    RecordingSaving m_saving;
    std::weak_ptr<const Recording> m_saved;  // what the newest file is of
    QString m_why;                           // and for which pause
};

}  // namespace kvloupe
