// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the window asks the user: files, requests, breakpoints, exports.
#include "gui/main_window.h"
#include "gui/recording_saving.h"

#include "gui/breakpoint_dialog.h"
#include "gui/ceilings_measurement.h"
#include "gui/comparing.h"
#include "gui/environment.h"
#include "gui/length_sweep.h"
#include "gui/notice_bar.h"
#include "gui/request_dialog.h"
#include "gui/size_dialog.h"
#include "gui/tab_page.h"
#include "views/view.h"

#include "engine/record/results.h"

#include <QApplication>
#include <QClipboard>
#include <QDir>
#include <QDockWidget>
#include <QFileDialog>
#include <QFileInfo>
#include <QInputDialog>
#include <QMenu>
#include <QMessageBox>
#include <QMimeData>
#include <QRegularExpression>
#include <QStackedWidget>

#include <algorithm>

namespace kvloupe {

void MainWindow::openDialog() {
    QMenu menu(this);
    QAction* file = menu.addAction(tr("A GGUF file, a scenario, a recording or a memory snapshot…"));
    QAction* folder = menu.addAction(tr("A Hugging Face folder…"));
    const QAction* chosen = menu.exec(QCursor::pos());
    QString path;
    if (chosen == file) {
        path = QFileDialog::getOpenFileName(
            this, tr("Open a model, a scenario or a recording"), {},
            tr("Models, scenarios, recordings, snapshots (*.gguf *.json *.safetensors *.kvt *.pickle);;All files (*)"));
    } else if (chosen == folder) {
        path = QFileDialog::getExistingDirectory(this, tr("Open a Hugging Face folder (config.json, tokenizer.json, "
                                                          "model.safetensors)"));
    }
    if (!path.isEmpty()) openPath(path);
}

void MainWindow::newSession() {
    const Scenario start =
        m_controller.hasSession() ? m_controller.session()->scenario() : SessionController::bundledScenario();
    RequestDialog dialog(RequestDialog::Purpose::newSession, start, this);
    if (dialog.exec() == QDialog::Accepted) m_controller.openScenario(dialog.scenario());
}

void MainWindow::addRequest() {
    if (!m_controller.hasSession()) return;
    RequestDialog dialog(RequestDialog::Purpose::addRequest, m_controller.session()->scenario(), this);
    if (dialog.exec() != QDialog::Accepted) return;
    RequestOptions request = dialog.request();
    // Ids a, b, …, z, r27, r28, …: the first that is free.
    const auto& known = m_controller.session()->recording()->requests();
    for (int n = 0;; ++n) {
        request.id = n < 26 ? std::string(1, static_cast<char>('a' + n)) : "r" + std::to_string(n + 1);
        bool taken = false;
        for (std::size_t i = 0; i < known.size(); ++i) taken = taken || known[i].id == request.id;
        for (const RequestOptions& each : m_controller.session()->scenario().requests)
            taken = taken || each.id == request.id;
        if (!taken) break;
    }
    if (const auto submitted = m_controller.session()->submit(request); !submitted) {
        m_notice->show(QString::fromStdString(submitted.error().message()));
        return;
    }
    m_controller.step();
}

void MainWindow::editBreakpoints() {
    if (!m_controller.hasSession()) return;
    BreakpointDialog dialog(m_controller.session()->breakpoints(), laneNames(), this);
    dialog.setRequests(requestNames());
    if (dialog.exec() == QDialog::Accepted) setBreakpoints(dialog.breakpoints());
}

void MainWindow::saveRecording() {
    const auto recording = m_controller.recording();
    if (!recording) return;
    QString path = QFileDialog::getSaveFileName(this, tr("Save the recording"), QString::fromStdString(recording->title()) + QStringLiteral(".kvt"),
                                                tr("Recordings (*.kvt)"));
    if (path.isEmpty()) return;
    if (!path.endsWith(QLatin1String(".kvt"))) path += QStringLiteral(".kvt");
    if (!m_recordingSaving) {
        m_recordingSaving = new RecordingSaving(this);
        connect(m_recordingSaving, &RecordingSaving::ended, this, [this](const QString& sentence) { m_notice->show(sentence); });
    }
    const StoredRecording* const file = m_controller.file() ? &*m_controller.file() : nullptr;
    m_recordingSaving->save(recording, path, m_controller.scenarioJson(), SavedSteps::of(file));
}

void MainWindow::saveResults() {
    const auto recording = m_controller.cursor()->sharedRecording();
    if (!recording) return;
    const QString folder = QFileDialog::getExistingDirectory(
        this, tr("Folder for summary.json, steps.csv, events.csv and trace.json"));
    if (folder.isEmpty()) return;
    QApplication::setOverrideCursor(Qt::WaitCursor);
    if (m_controller.hasSession() && m_controller.phase() == Phase::running) {
        // Between two steps, with the stages of all of them.
        m_controller.pause();
        m_controller.session()->wait();
    }
    const auto written = write_results(*recording, folder.toStdString(), ResultOptions{true});
    QApplication::restoreOverrideCursor();
    m_notice->show(written ? tr("Wrote summary.json, steps.csv, events.csv, trace.json and blocks.json to %1.")
                                 .arg(QDir::toNativeSeparators(folder))
                           : QString::fromStdString(written.error().message()));
}

void MainWindow::chooseSweep() {
    bool chosen = false;
    const int most = QInputDialog::getInt(this, tr("Length sweep"),
                                          tr("Generate up to this many tokens, with and without a cache:"),
                                          m_sweep->most(), m_sweep->least(), 100000, 10, &chosen);
    if (!chosen) return;
    m_sweep->setRange(std::min(m_sweep->least(), most), most);
    showTab(3);
    for (QDockWidget* dock : m_pages[3]->docks())
        if (dock->objectName() == QLatin1String("Profile/sweep")) dock->raise();
    m_sweep->start();
}

void MainWindow::showSizes() {
    auto known = known_models();
    if (!known) {
        m_notice->show(QString::fromStdString(known.error().message()));
        return;
    }
    const std::string model = m_controller.hasSession() ? m_controller.session()->scenario().model : std::string();
    SizeDialog dialog(std::move(*known), model == "none" ? QString() : QString::fromStdString(model), this);
    dialog.exec();
}

void MainWindow::chooseThreads() {
    bool chosen = false;
    const int threads = QInputDialog::getInt(this, tr("CPU threads"),
                                             tr("Threads of sessions opened from now on (0: one per core):"),
                                             static_cast<int>(m_controller.threads()), 0, 1024, 1, &chosen);
    if (chosen) m_controller.setThreads(static_cast<unsigned>(threads));
}

View* MainWindow::focusedView() const {
    for (QWidget* widget = QApplication::focusWidget(); widget; widget = widget->parentWidget())
        if (auto* view = qobject_cast<View*>(widget)) return view;
    for (View* view : m_pages[m_tabs->currentIndex()]->views())
        if (view->isVisible() && view->underMouse()) return view;
    return nullptr;
}

void MainWindow::exportView(View* view) {
    if (!view) {
        m_notice->show(tr("No view is chosen. Click into a view, or use the export button in its head."));
        return;
    }
    QString kind;
    QString path = QFileDialog::getSaveFileName(
        this, tr("Export %1").arg(view->title()), view->id() + QStringLiteral(".png"),
        tr("Picture (*.png);;Vector picture (*.svg);;Document (*.pdf);;Table (*.csv)"), &kind);
    if (path.isEmpty()) return;
    // A name without a suffix gets that of the chosen kind: "Picture (*.png)".
    if (QFileInfo(path).suffix().isEmpty())
        if (const QRegularExpressionMatch suffix = QRegularExpression(QStringLiteral("\\*(\\.\\w+)")).match(kind); suffix.hasMatch()) path += suffix.captured(1);
    const QString problem = view->exportTo(path, path.endsWith(QLatin1String(".png")) ? 2.0 : 1.0);
    if (!problem.isEmpty()) m_notice->show(problem);
    else if (!view->emptyReason().isEmpty())
        m_notice->show(tr("%1 has nothing to show here, and the file says so: %2").arg(view->title(), view->emptyReason()));
    else m_notice->show(tr("%1 is in %2.").arg(view->title(), path));
}

void MainWindow::copyView(View* view) {
    if (!view) {
        m_notice->show(tr("No view is chosen. Click into a view, or use the copy button in its head."));
        return;
    }
    auto* copied = new QMimeData;
    copied->setImageData(view->image(2.0));
    copied->setText(view->csv());
    QApplication::clipboard()->setMimeData(copied);
}

void MainWindow::viewAction(const QString& name) {
    if (name == QLatin1String("measure-ceilings")) {
        m_ceilings->measure();
    } else if (name == QLatin1String("measure-quality")) {
        measureQuality();
    } else if (name == QLatin1String("run-sweep")) {
        m_sweep->start();
    } else if (name == QLatin1String("cancel-sweep")) {
        m_sweep->cancel();
    } else if (name == QLatin1String("step")) {
        if (!isMeasuring()) m_controller.step();
    } else if (name == QLatin1String("compare")) {
        m_comparing->choose();
    } else if (name == QLatin1String("open")) {
        openDialog();
    } else if (name.startsWith(QLatin1String("watch:")) && m_controller.hasSession()) {
        const Cursor* cursor = m_controller.cursor();
        std::vector<AttentionWatch> watch = m_controller.session()->watch();
        const std::uint32_t layer = name.mid(6).toUInt();
        watch.push_back({layer, {}});
        m_controller.session()->set_watch(std::move(watch));
        m_notice->show(tr("Attention of layer %1 is recorded from the next step on (lane %2).")
                           .arg(layer)
                           .arg(QString::fromStdString(cursor->laneRecord()->info().name)));
    }
}

void MainWindow::about() {
    QMessageBox::information(
        this, tr("KVLoupe"),
        tr("<p><b>KVLoupe %1</b> shows where a model's KV cache lies, who holds it, and what it costs.</p>"
           "<table cellpadding=3>"
           "<tr><td>Space</td><td>run, pause</td></tr>"
           "<tr><td>→ &nbsp; ←</td><td>one step forward (at the end: a new one), one step back</td></tr>"
           "<tr><td>Home, End</td><td>first, last step</td></tr>"
           "<tr><td>Ctrl+PageUp, Ctrl+PageDown</td><td>10 steps, or a hundredth of the recording, back and forward</td></tr>"
           "<tr><td>Ctrl+←, Ctrl+→</td><td>previous, next step with a copy, an eviction or a preemption</td></tr>"
           "<tr><td>Ctrl+F, Ctrl+G</td><td>find events, the next one</td></tr>"
           "<tr><td>Ctrl+S, F9</td><td>save the recording, record to a file</td></tr>"
           "<tr><td>Ctrl+Shift+R, Ctrl+Shift+B</td><td>restart from this step, branch from it</td></tr>"
           "<tr><td>Ctrl+Shift+O</td><td>compare with another recording</td></tr>"
           "<tr><td>Hover, click, Esc</td><td>preview in every view, lock, clear</td></tr>"
           "<tr><td>F</td><td>fit the view</td></tr>"
           "<tr><td>C, Shift+C</td><td>what the view with the focus shows (colour, order); its context menu has all</td></tr>"
           "<tr><td>N, Shift+N</td><td>in the events: next, previous of the kind</td></tr>"
           "<tr><td>Ctrl+D, Ctrl+B</td><td>fork a sequence, breakpoints</td></tr>"
           "<tr><td>F1, F2, F3, F4</td><td>Step, Compare, Memory, Profile</td></tr>"
           "<tr><td>Ctrl+A, Ctrl+R</td><td>add a request, start over</td></tr>"
           "<tr><td>Ctrl+U</td><td>let the uncached lane continue</td></tr>"
           "<tr><td>Ctrl+L, Ctrl+Shift+S</td><td>convert a lane's model, save the model of the lane in focus</td></tr>"
           "<tr><td>Ctrl+N, Ctrl+O, Ctrl+W</td><td>new session, open, close the session</td></tr>"
           "<tr><td>+ &nbsp; −</td><td>closer, wider: the history, the genealogy, the prefix tree, plots</td></tr>"
           "<tr><td>F11</td><td>projector: full screen, large type</td></tr>"
           "<tr><td>Ctrl+E, Ctrl+C</td><td>export, copy the view that has the focus</td></tr>"
           "</table>"
           "<p>● measured: a clock, a counter, the bytes of a real buffer. ◐ derived: a formula over measured values. "
           "○ predicted: a model of what would be.</p>"
           "<p>Free software under the GNU General Public License, version 3 or later.</p>")
            .arg(QStringLiteral(KVLOUPE_VERSION)));
}

}  // namespace kvloupe
