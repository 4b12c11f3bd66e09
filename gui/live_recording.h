// SPDX-License-Identifier: GPL-3.0-or-later
//
// LiveRecording: writes a session into a file while it runs, on a thread of its own. Where the disk is behind, attention rows are left
// out and counted; where it is full, writing ends with a sentence, what was written stays, and the session goes on.
#pragma once

#include <QObject>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/record/kvt_writer.h"

#include <QString>
#include <QTimer>

#include <memory>
#include <thread>

namespace kvloupe {

class LiveRecording : public QObject {
    Q_OBJECT

public:
    explicit LiveRecording(QObject* parent = nullptr);
    ~LiveRecording() override;  // closes the file

    // A file of that name is replaced, unless the new one cannot be made. Returns why there is none, "" on success.
    QString start(std::shared_ptr<const Recording> recording, const KvtOptions& options);
    // Writes the rest and closes the file in the background; ended() says how that went.
    void stop();
    bool running() const { return m_writer != nullptr; }
    bool closing() const { return m_closing; }
    const Recording* recording() const { return m_recording.get(); }  // being written, or null
    QString path() const { return m_path; }

    KvtProgress progress() const;  // of the file being written
    quint64 bytes() const;         // of it, its log included (measured)
    // "Recording to run.kvt: 120 steps, 3.2 MiB", and what was left out; "" where nothing is written.
    QString statusText() const;

Q_SIGNALS:
    void changed();
    void ended(const QString& sentence);

private:
    void look();
    void close(const QString& sentence);

    std::shared_ptr<const Recording> m_recording;
    std::unique_ptr<KvtWriter> m_writer;
    QString m_path;
    QTimer m_timer;
    bool m_closing = false;
    std::jthread m_closer;
};

}  // namespace kvloupe
