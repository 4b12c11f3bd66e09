// SPDX-License-Identifier: GPL-3.0-or-later
//
// RecordingDesk: the window's recordings: writing one while the session runs, saving a range of steps, the flight recorder, and what is
// to be said about an opened one.
#pragma once

#include <QObject>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "gui/flight_recorder.h"
#include "gui/live_recording.h"
#include "gui/recording_saving.h"

#include <QList>

class QAction;
class QWidget;

namespace kvloupe {

class SessionController;

class RecordingDesk : public QObject {
    Q_OBJECT

public:
    // controller and window: outlive it.
    RecordingDesk(SessionController* controller, QWidget* window);

    const QList<QAction*>& actions() const { return m_actions; }
    LiveRecording* live() { return &m_live; }
    FlightRecorder* flight() { return &m_flight; }

    // Writes the session into the file from now on, with all it has recorded so far.
    void recordTo(const QString& path);
    void saveSteps(const QString& path, SavedSteps steps);
    // Of the session or the opened file as JSON; "" where there is none.
    std::string scenario() const;

    // For the status bar: what is being written, or what file this is; "" for neither.
    QString statusText() const;
    // " — recording, not live" for the window's title; "" for a session.
    QString titleSuffix() const;
    void updateActions();

Q_SIGNALS:
    void told(const QString& sentence);
    void statusChanged();

private:
    void toggleRecording();
    void chooseSteps();
    void chooseFlight();
    void lookForDamage();

    SessionController* m_controller;
    QWidget* m_window;
    LiveRecording m_live;
    FlightRecorder m_flight;
    RecordingSaving m_saving;
    QAction *m_record, *m_saveSteps, *m_setFlight;
    QList<QAction*> m_actions;
    bool m_damageTold = false;
};

}  // namespace kvloupe
