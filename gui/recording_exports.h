// SPDX-License-Identifier: GPL-3.0-or-later
//
// RecordingExports: what menu File writes of the recording that is shown, beside its views' own pictures: a picture sequence, a
// report, a Chrome trace. Works on sessions and on files alike; a session that runs is paused first.
#pragma once

#include <QObject>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "gui/picture_sequence_dialog.h"

#include <QString>

#include <functional>
#include <memory>
#include <thread>

class QAction;
class QMenu;
class QProgressDialog;

namespace kvloupe {

class SessionController;
class StepPictures;
class View;

class RecordingExports : public QObject {
    Q_OBJECT

public:
    // focused: the view that a sequence is proposed of, or null. window: parent of what is asked.
    RecordingExports(SessionController* controller, std::function<View*()> focused, QWidget* window);
    ~RecordingExports() override;

    void addTo(QMenu* file);

    // Without asking; how it went is said by ended().
    void writeReport(const QString& path);
    void writeTrace(const QString& path);
    void writePictures(const PictureSequence& sequence);
    void cancelPictures() { m_cancelled = true; }
    bool running() const { return m_tracing || m_pictures; }

Q_SIGNALS:
    void ended(const QString& sentence);

private:
    void updateActions();
    void standStill();  // pauses a session that runs
    void askPictures();
    void nextPicture();
    void endPictures(const QString& sentence);

    SessionController* m_controller;
    std::function<View*()> m_focused;
    QWidget* m_window;
    QAction *m_sequenceAction, *m_reportAction, *m_traceAction;
    bool m_tracing = false;
    std::unique_ptr<StepPictures> m_pictures;
    PictureSequence m_sequence;
    std::size_t m_nextStep = 0;
    bool m_cancelled = false;
    QProgressDialog* m_progress = nullptr;
    std::jthread m_thread;
};

}  // namespace kvloupe
