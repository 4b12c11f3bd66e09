// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/recording_desk.h"

#include "gui/environment.h"
#include "gui/recording_dialogs.h"
#include "gui/session_controller.h"
#include "views/format.h"

#include <QAction>
#include <QFileDialog>
#include <QFileInfo>

#include <algorithm>
#include <cmath>

namespace kvloupe {

RecordingDesk::RecordingDesk(SessionController* controller, QWidget* window)
    : QObject(window), m_controller(controller), m_window(window), m_live(this), m_flight(this), m_saving(this),
      m_record(new QAction(tr("&Record to file…"), this)), m_saveSteps(new QAction(tr("Save a ran&ge of steps…"), this)),
      m_setFlight(new QAction(tr("&Flight recorder…"), this)), m_actions{m_record, m_saveSteps, m_setFlight} {
    m_record->setShortcut(Qt::Key_F9);
    m_record->setToolTip(tr("Write the session into a file while it runs (F9)"));
    m_setFlight->setToolTip(tr("Save the last minutes when a breakpoint fires or a run fails"));
    connect(m_record, &QAction::triggered, this, &RecordingDesk::toggleRecording);
    connect(m_saveSteps, &QAction::triggered, this, &RecordingDesk::chooseSteps);
    connect(m_setFlight, &QAction::triggered, this, &RecordingDesk::chooseFlight);
    connect(&m_live, &LiveRecording::ended, this, &RecordingDesk::told);
    connect(&m_flight, &FlightRecorder::told, this, &RecordingDesk::told);
    connect(&m_saving, &RecordingSaving::ended, this, &RecordingDesk::told);
    connect(&m_live, &LiveRecording::changed, this, [this] {
        updateActions();
        Q_EMIT statusChanged();
    });
    const Cursor* cursor = controller->cursor();
    connect(cursor, &Cursor::recordingChanged, this, [this] {
        // Another session, or this one from the start: what was written of the one before is whole.
        if (m_live.running() && m_live.recording() != m_controller->cursor()->recording()) m_live.stop();
        m_damageTold = false;
        updateActions();
    });
    // A run of a few steps pauses again before anybody has seen it running.
    const auto look = [this] {
        if (m_flight.on() && m_controller->hasSession()) m_flight.look(m_controller->recording(), scenario());
    };
    connect(controller, &SessionController::phaseChanged, this, look);
    for (const auto moved : {&Cursor::stepChanged, &Cursor::grew}) connect(cursor, moved, this, look);
    connect(cursor, &Cursor::stepChanged, this, &RecordingDesk::lookForDamage);
    updateActions();
}

void RecordingDesk::updateActions() {
    m_record->setText(m_live.running() ? tr("Stop &recording to file") : tr("&Record to file…"));
    m_record->setEnabled(m_live.running() || (m_controller->hasSession() && !m_live.closing()));
    m_saveSteps->setEnabled(m_controller->cursor()->stepCount() > 0 || m_controller->recording());
}

std::string RecordingDesk::scenario() const {
    return m_controller->scenarioJson();
}

void RecordingDesk::toggleRecording() {
    if (m_live.running()) return m_live.stop();
    const auto recording = m_controller->recording();
    if (!recording || !m_controller->hasSession()) return;
    QString path = QFileDialog::getSaveFileName(m_window, tr("Record the session to"),
            QString::fromStdString(recording->title()) + QStringLiteral(".kvt"),
                                                tr("Recordings (*.kvt)"));
    if (path.isEmpty()) return;
    if (!path.endsWith(QLatin1String(".kvt"))) path += QStringLiteral(".kvt");
    recordTo(path);
}

void RecordingDesk::recordTo(const QString& path) {
    const auto recording = m_controller->recording();
    if (!recording || !m_controller->hasSession()) return;
    const QString problem = m_live.start(recording, kvt_options(path.toStdString(), scenario()));
    if (!problem.isEmpty()) Q_EMIT told(problem);
}

void RecordingDesk::chooseSteps() {
    const Cursor* cursor = m_controller->cursor();
    const int steps = cursor->stepCount();
    if (steps == 0) return Q_EMIT told(tr("No step is recorded yet, so there is nothing to save."));
    int first = 0, last = steps - 1;
    if (const auto& range = cursor->stepRange()) {
        first = std::clamp(static_cast<int>(std::floor(range->first)), 0, steps - 1);
        last = std::clamp(static_cast<int>(std::ceil(range->second)) - 1, first, steps - 1);
    }
    StepRangeDialog dialog(steps, first, last, m_window);
    if (dialog.exec() != QDialog::Accepted) return;
    QString path = QFileDialog::getSaveFileName(m_window, tr("Save these steps"),
            QString::fromStdString(cursor->recording()->title()) + QStringLiteral(".kvt"),
                                                tr("Recordings (*.kvt)"));
    if (path.isEmpty()) return;
    if (!path.endsWith(QLatin1String(".kvt"))) path += QStringLiteral(".kvt");
    saveSteps(path, dialog.steps());
}

// The opened file itself is being read: it is not replaced.
void RecordingDesk::saveSteps(const QString& path, SavedSteps steps) {
    if (m_saving.running()) return Q_EMIT told(tr("Steps are being saved already. Wait until that has ended."));
    if (m_controller->hasFile() && QFileInfo(path) == QFileInfo(m_controller->filePath()))
        return Q_EMIT told(tr("%1 is open: choose another name for a part of it.").arg(path));
    SavedSteps wanted = SavedSteps::of(m_controller->file() ? &*m_controller->file() : nullptr);
    wanted.first = steps.first;
    wanted.end = steps.end;
    m_saving.save(m_controller->recording(), path, scenario(), wanted);
}

void RecordingDesk::chooseFlight() {
    FlightDialog dialog(m_flight.settings(), m_window);
    if (dialog.exec() != QDialog::Accepted) return;
    m_flight.setSettings(dialog.settings());
    Q_EMIT statusChanged();
}

QString RecordingDesk::statusText() const {
    if (m_live.running() || m_live.closing()) return m_live.statusText();
    if (m_controller->hasFile()) {
        const StoredRecording& file = *m_controller->file();
        const QString size = QStringLiteral("%1 %2").arg(originMark(Origin::measured), formatBytes(file.file_bytes));
        return file.recovered ? tr("Recovered recording, %1").arg(size) : tr("Recording file, %1").arg(size);
    }
    if (m_controller->hasSession() && m_flight.on()) return tr("Flight recorder: %1 min").arg(m_flight.settings().minutes);
    return {};
}

QString RecordingDesk::titleSuffix() const {
    if (!m_controller->hasFile()) return {};
    const QString name = QFileInfo(m_controller->filePath()).fileName();
    return m_controller->file()->recovered ? tr(" — recovered recording %1, not live").arg(name)
            : tr(" — recording %1, not live").arg(name);
}

// Damage shows when what is damaged is read.
void RecordingDesk::lookForDamage() {
    if (m_damageTold || !m_controller->hasFile()) return;
    const auto recording = m_controller->recording();
    for (const auto& lane : recording->lanes()) {
        const std::string damage = lane->damage();
        if (damage.empty()) continue;
        m_damageTold = true;
        return Q_EMIT told(tr("This recording is damaged: %1. What cannot be read is shown as empty.").arg(QString::fromStdString(damage)));
    }
}

}  // namespace kvloupe
