// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/recording_exports.h"

#include "gui/environment.h"
#include "gui/report.h"
#include "gui/session_controller.h"
#include "gui/step_pictures.h"
#include "views/view.h"

#include "engine/record/file_output.h"
#include "engine/record/kvt_writer.h"
#include "engine/record/results.h"

#include <QAction>
#include <QApplication>
#include <QDir>
#include <QFileDialog>
#include <QMenu>
#include <QProgressDialog>
#include <QTimer>

namespace kvloupe {

RecordingExports::RecordingExports(SessionController* controller, std::function<View*()> focused, QWidget* window)
    : QObject(window), m_controller(controller), m_focused(std::move(focused)), m_window(window),
      m_sequenceAction(new QAction(tr("Export picture se&quence…"), this)), m_reportAction(new QAction(tr("Export re&port…"), this)),
      m_traceAction(new QAction(tr("Export &trace…"), this)) {
    const auto named = [this](const QString& end) {
        const auto recording = m_controller->recording();
        return (recording ? QString::fromStdString(recording->title()) : QString()) + end;
    };
    connect(m_sequenceAction, &QAction::triggered, this, &RecordingExports::askPictures);
    connect(m_reportAction, &QAction::triggered, this, [this, named] {
        const QString path = QFileDialog::getSaveFileName(m_window, tr("Export a report"), named(QStringLiteral(".html")), tr("Web page (*.html)"));
        if (!path.isEmpty()) writeReport(path);
    });
    connect(m_traceAction, &QAction::triggered, this, [this, named] {
        const QString path = QFileDialog::getSaveFileName(m_window, tr("Export a trace for Perfetto"), named(QStringLiteral("-trace.json")),
                                                          tr("Chrome trace events (*.json)"));
        if (!path.isEmpty()) writeTrace(path);
    });
    connect(m_controller, &SessionController::sessionChanged, this, &RecordingExports::updateActions);
    connect(m_controller, &SessionController::phaseChanged, this, &RecordingExports::updateActions);
    updateActions();
}

RecordingExports::~RecordingExports() = default;

void RecordingExports::addTo(QMenu* file) { file->addActions({m_sequenceAction, m_reportAction, m_traceAction}); }

void RecordingExports::updateActions() {
    const auto recording = m_controller->recording();
    for (QAction* action : {m_sequenceAction, m_reportAction, m_traceAction}) action->setEnabled(recording != nullptr);
}

void RecordingExports::standStill() {
    if (!m_controller->hasSession() || m_controller->phase() != Phase::running) return;
    m_controller->pause();
    m_controller->session()->wait();
}

void RecordingExports::writeReport(const QString& path) {
    if (!m_controller->recording()) return;
    QApplication::setOverrideCursor(Qt::WaitCursor);
    standStill();
    StoredRecording stored;
    if (m_controller->hasFile()) {
        stored = *m_controller->file();
    } else {
        const KvtOptions options = kvt_options({}, {});
        stored.recording = m_controller->recording();
        stored.meta = {{"program", options.program}, {"machine", options.machine}, {"reason", stored.recording->reason()}};
    }
    const auto report = report_html(stored);
    const auto written = report ? write_file(path.toStdString(), *report) : Result<void>(report.error());
    QApplication::restoreOverrideCursor();
    Q_EMIT ended(written ? tr("The report lies in %1.").arg(QDir::toNativeSeparators(path)) : QString::fromStdString(written.error().message()));
}

void RecordingExports::writeTrace(const QString& path) {
    if (m_tracing || !m_controller->recording()) return;
    standStill();
    m_tracing = true;
    m_thread = std::jthread([this, recording = m_controller->recording(), path] {
        const auto written = write_file(path.toStdString(), trace_json(*recording, ResultOptions{}.trace_limit_bytes));
        const QString sentence = written ? tr("The trace lies in %1. Open it at ui.perfetto.dev.").arg(QDir::toNativeSeparators(path))
                                         : QString::fromStdString(written.error().message());
        QMetaObject::invokeMethod(this, [this, sentence] {
            m_tracing = false;
            Q_EMIT ended(sentence);
        });
    });
}

void RecordingExports::askPictures() {
    const auto recording = m_controller->recording();
    const Cursor* cursor = m_controller->cursor();
    if (!recording || m_pictures) return;
    const std::size_t steps = recording->lane(cursor->lane()).step_count();
    if (steps == 0) return Q_EMIT ended(tr("The lane in focus has no step yet. Run it first."));
    PictureSequence proposed;
    if (const View* view = m_focused()) {
        proposed.view = view->id();
        proposed.size = view->size().expandedTo({400, 260});
    } else {
        proposed.view = QStringLiteral("pool");
    }
    proposed.first = 0;
    proposed.last = static_cast<std::size_t>(std::max(cursor->stepOf(cursor->lane()), 0));
    PictureSequenceDialog dialog(proposed, steps, m_window);
    if (dialog.exec() == QDialog::Accepted) writePictures(dialog.sequence());
}

void RecordingExports::writePictures(const PictureSequence& sequence) {
    const auto recording = m_controller->recording();
    if (!recording || m_pictures || sequence.first > sequence.last) return;
    if (!QDir().mkpath(sequence.folder)) return Q_EMIT ended(tr("%1: the folder cannot be made. Choose another.").arg(sequence.folder));
    standStill();
    const Cursor* cursor = m_controller->cursor();
    m_pictures = std::make_unique<StepPictures>(recording, cursor->lane(), sequence.view, sequence.size);
    // As the window shows it: what is locked, how large the type is, what the view's choices are.
    m_pictures->cursor().setFontScale(cursor->fontScale());
    m_pictures->cursor().lock(cursor->locked());
    if (const View* shown = m_focused(); shown && shown->id() == sequence.view)
        for (const ViewChoice& choice : shown->choices()) m_pictures->view().choose(choice.key, choice.current);
    m_sequence = sequence;
    m_nextStep = sequence.first;
    m_cancelled = false;
    m_progress = new QProgressDialog(tr("Writing pictures…"), tr("Cancel"), static_cast<int>(sequence.first),
                                     static_cast<int>(sequence.last) + 1, m_window);
    m_progress->setWindowModality(Qt::WindowModal);
    m_progress->setAutoClose(false);
    m_progress->setAutoReset(false);
    connect(m_progress, &QProgressDialog::canceled, this, &RecordingExports::cancelPictures);
    QTimer::singleShot(0, this, &RecordingExports::nextPicture);
}

void RecordingExports::nextPicture() {
    if (!m_pictures) return;
    const std::size_t done = m_nextStep - m_sequence.first;
    const QString folder = QDir::toNativeSeparators(m_sequence.folder);
    const QString sentence = (done == 1 ? tr("%1 picture lies in %2.") : tr("%1 pictures lie in %2.")).arg(done).arg(folder);
    if (m_cancelled) return endPictures(tr("Cancelled: %1").arg(sentence));
    if (m_nextStep > m_sequence.last) return endPictures(sentence);
    const QString path = StepPictures::pathOf(m_sequence.folder + QLatin1Char('/'), m_sequence.view, m_nextStep, m_sequence.last);
    const auto written = m_pictures->write(m_nextStep, path, m_sequence.scale);
    if (!written) return endPictures(QString::fromStdString(written.error().message()));
    ++m_nextStep;
    m_progress->setValue(static_cast<int>(m_nextStep));
    QTimer::singleShot(0, this, &RecordingExports::nextPicture);
}

void RecordingExports::endPictures(const QString& sentence) {
    m_pictures.reset();
    m_progress->disconnect(this);
    m_progress->deleteLater();
    m_progress = nullptr;
    Q_EMIT ended(sentence);
}

}  // namespace kvloupe
