// SPDX-License-Identifier: GPL-3.0-or-later
//
// Actions, menus and toolbar of the window, and what they do to the session and the cursor.
#include "gui/main_window.h"

#include "gui/ceilings_measurement.h"
#include "gui/comparing.h"
#include "gui/elided_label.h"
#include "gui/glyph_icon.h"
#include "gui/length_sweep.h"
#include "gui/notice_bar.h"
#include "gui/recording_exports.h"
#include "gui/recording_desk.h"
#include "gui/tab_page.h"
#include "gui/time_machine.h"
#include "views/view.h"

#include <QAction>
#include <QActionGroup>
#include <QDockWidget>
#include <QLabel>
#include <QLayout>
#include <QMenu>
#include <QMenuBar>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QStackedWidget>
#include <QToolBar>
#include <QToolButton>

#include <algorithm>

namespace kvloupe {

QAction* MainWindow::action(const QString& text, const QString& icon, const QList<QKeySequence>& keys) {
    auto* created = new QAction(text, this);
    if (!icon.isEmpty()) created->setIcon(glyphIcon(icon, this));
    created->setShortcuts(keys);
    QString tip = QString(text).remove(QLatin1Char('&'));
    if (!keys.isEmpty()) tip += QStringLiteral(" (%1)").arg(keys.first().toString(QKeySequence::NativeText));
    created->setToolTip(tip);
    addAction(created);
    return created;
}

void MainWindow::buildActions() {
    m_rewind = action(tr("Rewind"), QStringLiteral("rewind"), {Qt::Key_Home});
    connect(m_rewind, &QAction::triggered, this, [this] { m_controller.cursor()->setStep(0); });
    auto* toEnd = action(tr("To the last step"), {}, {Qt::Key_End});
    connect(toEnd, &QAction::triggered, this,
            [this] { m_controller.cursor()->setStep(m_controller.cursor()->stepCount() - 1); });
    m_back = action(tr("Step back"), QStringLiteral("step-back"), {Qt::Key_Left});
    connect(m_back, &QAction::triggered, this, &MainWindow::stepBack);
    m_step = action(tr("Step"), QStringLiteral("step"), {Qt::Key_Right});
    connect(m_step, &QAction::triggered, this, &MainWindow::stepForward);
    m_run = action(tr("Run"), QStringLiteral("run"), {});
    connect(m_run, &QAction::triggered, this, [this] {
        if (m_controller.hasFile()) m_time->play();
        else m_controller.run();
    });
    m_pause = action(tr("Pause"), QStringLiteral("pause"), {});
    connect(m_pause, &QAction::triggered, this, [this] {
        m_time->stopPlaying();
        m_controller.pause();
    });
    auto* toggle = action(tr("Run or pause"), {}, {Qt::Key_Space});
    connect(toggle, &QAction::triggered, this, &MainWindow::toggleRun);
    m_reset = action(tr("Start over"), {}, {QKeySequence(Qt::CTRL | Qt::Key_R)});
    connect(m_reset, &QAction::triggered, &m_controller, &SessionController::reset);
    m_addRequest = action(tr("Add request…"), QStringLiteral("add"), {QKeySequence(Qt::CTRL | Qt::Key_A)});
    m_addRequest->setIconText(tr("Request"));
    connect(m_addRequest, &QAction::triggered, this, &MainWindow::addRequest);
    m_fork = action(tr("Fork…"), QStringLiteral("fork"), {QKeySequence(Qt::CTRL | Qt::Key_D)});
    m_fork->setIconText(tr("Fork"));
    connect(m_fork, &QAction::triggered, this, [this] {
        const Pick& locked = m_controller.cursor()->locked();
        fork(locked.sequence.value_or(m_controller.cursor()->sequence()), locked.position);
    });
    m_breakpoints = action(tr("Breakpoints…"), QStringLiteral("breakpoint"), {QKeySequence(Qt::CTRL | Qt::Key_B)});
    m_breakpoints->setIconText(tr("Breakpoints"));
    connect(m_breakpoints, &QAction::triggered, this, &MainWindow::editBreakpoints);
    m_continueUncached = action(tr("Let the uncached lane continue"), {}, {QKeySequence(Qt::CTRL | Qt::Key_U)});
    connect(m_continueUncached, &QAction::triggered, &m_controller, &SessionController::continueUncached);
    auto* clear = action(tr("Clear the lock"), {}, {Qt::Key_Escape});
    connect(clear, &QAction::triggered, m_controller.cursor(), &Cursor::clear);
    auto* fit = action(tr("Fit"), {}, {Qt::Key_F});
    connect(fit, &QAction::triggered, this, [this] {
        if (View* view = focusedView()) {
            view->fit();
            view->zoomChanged();
        } else {
            for (View* each : m_pages[m_tabs->currentIndex()]->views()) {
                each->fit();
                each->zoomChanged();
            }
        }
    });

    auto* tabs = new QActionGroup(this);
    const QString names[] = {tr("Step"), tr("Compare"), tr("Memory"), tr("Profile")};
    const Qt::Key keys[] = {Qt::Key_F1, Qt::Key_F2, Qt::Key_F3, Qt::Key_F4};
    for (int i = 0; i < 4; ++i) {
        QAction* tab = action(names[i], {}, {keys[i]});
        tab->setIconText(QStringLiteral("%1  %2").arg(names[i], tab->shortcut().toString()));
        tab->setCheckable(true);
        tabs->addAction(tab);
        connect(tab, &QAction::triggered, this, [this, i] { showTab(i); });
        m_tabActions << tab;
    }
    m_saveRecording = action(tr("Save recording…"), {}, {QKeySequence(Qt::CTRL | Qt::Key_S)});
    connect(m_saveRecording, &QAction::triggered, this, &MainWindow::saveRecording);
    m_saveResults = action(tr("Export results…"), {}, {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_E)});
    connect(m_saveResults, &QAction::triggered, this, &MainWindow::saveResults);
    m_closeSession = action(tr("Close session"), {}, {QKeySequence(Qt::CTRL | Qt::Key_W)});
    connect(m_closeSession, &QAction::triggered, &m_controller, &SessionController::close);
    addActions(m_time->searchActions() + m_time->jumpActions() + m_desk->actions());
}

void MainWindow::buildMenus() {
    QMenu* file = menuBar()->addMenu(tr("&File"));
    file->addAction(tr("&New session…"), QKeySequence::New, this, &MainWindow::newSession);
    file->addAction(glyphIcon(QStringLiteral("open"), this), tr("&Open a model or scenario…"), QKeySequence::Open, this,
                    &MainWindow::openDialog);
    file->addAction(tr("Open the &bundled models"), &m_controller, &SessionController::openBundled);
    file->addAction(m_comparing->openAction());
    QMenu* recent = file->addMenu(tr("&Recent files"));
    connect(recent, &QMenu::aboutToShow, this, [this, recent] {
        recent->clear();
        for (const QString& path : m_recent)
            recent->addAction(path, this, [this, path] { openPath(path); });
        if (m_recent.isEmpty()) recent->addAction(tr("None yet"))->setEnabled(false);
    });
    file->addSeparator();
    file->addAction(m_saveRecording);
    file->addActions(m_desk->actions());
    file->addAction(m_saveResults);
    file->addAction(tr("&Export this view…"), QKeySequence(Qt::CTRL | Qt::Key_E), this,
                    [this] { exportView(focusedView()); });
    m_exports = new RecordingExports(&m_controller, [this] { return focusedView(); }, this);
    connect(m_exports, &RecordingExports::ended, this, [this](const QString& sentence) { m_notice->show(sentence); });
    m_exports->addTo(file);
    file->addSeparator();
    file->addAction(m_closeSession);
    file->addAction(tr("&Quit"), QKeySequence::Quit, this, &QWidget::close);

    QMenu* edit = menuBar()->addMenu(tr("&Edit"));
    QAction* undo = m_controller.cursor()->zoomStack()->createUndoAction(this, tr("Undo"));
    undo->setShortcut(QKeySequence::Undo);
    QAction* redo = m_controller.cursor()->zoomStack()->createRedoAction(this, tr("Redo"));
    redo->setShortcut(QKeySequence::Redo);
    edit->addActions({undo, redo});
    edit->addSeparator();
    edit->addActions(m_time->searchActions());
    edit->addSeparator();
    edit->addAction(tr("&Copy this view"), QKeySequence::Copy, this, [this] { copyView(focusedView()); });
    QMenu* run = menuBar()->addMenu(tr("&Run"));
    run->addActions({m_step, m_back, m_rewind, m_run, m_pause, m_reset});
    run->addSeparator();
    run->addActions({m_addRequest, m_fork, m_breakpoints, m_continueUncached});
    buildBranchActions(run);
    run->addSeparator();
    run->addAction(tr("Length s&weep…"), this, &MainWindow::chooseSweep);
    QMenu* device = run->addMenu(tr("&Device"));
    connect(device, &QMenu::aboutToShow, this, [this, device] { fillDeviceMenu(device); });
    run->addAction(tr("CPU &threads…"), this, &MainWindow::chooseThreads);
    buildLaneMenu();
    buildAnalyseMenu();
    QMenu* go = menuBar()->addMenu(tr("&Go"));
    go->addActions(m_time->jumpActions());
    go->addSeparator();
    go->addMenu(m_comparing->firstMenu());

    QMenu* view = menuBar()->addMenu(tr("&View"));
    auto* themes = new QActionGroup(view);
    for (const auto& [theme, name] : {std::pair(Theme::system, tr("Colours of the &system")),
                                      std::pair(Theme::light, tr("&Light")), std::pair(Theme::dark, tr("&Dark"))}) {
        QAction* choice = view->addAction(name, this, [this, t = theme] { setTheme(t); });
        choice->setCheckable(true);
        themes->addAction(choice);
        connect(view, &QMenu::aboutToShow, choice, [this, choice, t = theme] { choice->setChecked(m_theme == t); });
    }
    view->addSeparator();
    view->addMenu(m_comparing->menu());
    buildMoreMenu(view);
    view->addSeparator();
    view->addAction(tr("Larger &type"), QKeySequence::ZoomIn, this, [this] { setFontScale(m_fontScale * 1.15); });
    view->addAction(tr("&Smaller type"), QKeySequence::ZoomOut, this, [this] { setFontScale(m_fontScale / 1.15); });
    view->addAction(tr("Type as the s&ystem"), QKeySequence(Qt::CTRL | Qt::Key_0), this, [this] { setFontScale(1.0); });
    view->addAction(tr("&Projector: full screen, large type"), QKeySequence(Qt::Key_F11), this, [this] {
        if (isFullScreen()) {
            showNormal();
            setFontScale(1.0);
        } else {
            showFullScreen();
            setFontScale(1.5);
        }
    });

    QMenu* window = menuBar()->addMenu(tr("&Window"));
    connect(window, &QMenu::aboutToShow, this, [this, window] {
        window->clear();
        window->addActions(m_tabActions);
        window->addSeparator();
        TabPage* page = m_pages[m_tabs->currentIndex()];
        for (QDockWidget* dock : page->docks()) window->addAction(dock->toggleViewAction());
        window->addSeparator();
        window->addAction(tr("&Reset this tab's layout"), page, &TabPage::resetLayout);
    });
    QMenu* help = menuBar()->addMenu(tr("&Help"));
    help->addAction(tr("&Keys and origins"), this, &MainWindow::about);
}

void MainWindow::buildToolBar() {
    m_toolBar = addToolBar(tr("Session"));
    m_toolBar->setObjectName(QStringLiteral("session"));
    m_toolBar->setMovable(false);
    m_toolBar->setIconSize({16, 16});
    m_toolBar->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    m_toolBar->addActions({m_rewind, m_back, m_step, m_run, m_pause});
    m_toolBar->addSeparator();
    m_toolBar->addActions({m_addRequest, m_fork, m_breakpoints});
    m_toolBar->addSeparator();
    m_toolBar->addWidget(new QLabel(tr(" Step ")));
    m_stepField = new QSpinBox;
    m_stepField->setAccessibleName(tr("Step shown"));
    m_stepField->setKeyboardTracking(false);
    m_stepField->setButtonSymbols(QAbstractSpinBox::NoButtons);
    m_stepField->setAlignment(Qt::AlignRight);
    m_stepField->setMinimumWidth(70);
    connect(m_stepField, &QSpinBox::valueChanged, this, [this](int step) { m_controller.cursor()->setStep(step); });
    m_toolBar->addWidget(m_stepField);
    m_stepCount = new QLabel;
    m_toolBar->addWidget(m_stepCount);
    m_reason = new ElidedLabel;
    m_reason->setContentsMargins(14, 0, 14, 0);
    m_toolBar->addWidget(m_reason);
    m_toolBar->addActions(m_tabActions);
}

// In a narrow window the actions that have a sign of their own are shown by it alone, then the tabs go without their keys,
// so that tabs and the reason of a pause have room. What does not fit even so stands behind the arrow at the end.
void MainWindow::fitToolBar() {
    if (!m_toolBar) return;
    constexpr int roomForLabels = 1540;  // pixels at 100 %
    const bool labels = width() >= roomForLabels * m_fontScale;
    const auto needed = [this] {
        int sum = m_toolBar->layout()->contentsMargins().left() + m_toolBar->layout()->contentsMargins().right() + 16;  // its padding
        for (QAction* each : m_toolBar->actions()) {
            QWidget* widget = m_toolBar->widgetForAction(each);
            if (!widget || widget == m_reason) continue;
            widget->ensurePolished();
            sum += std::max(widget->sizeHint().width(), widget->minimumWidth()) + m_toolBar->layout()->spacing();
        }
        return sum;
    };
    for (int level = labels ? 0 : 1; level < 4; ++level) {
        const auto style = [](bool icon) { return icon ? Qt::ToolButtonIconOnly : Qt::ToolButtonTextBesideIcon; };
        for (QAction* each : {m_rewind, m_back, m_step, m_run, m_pause, m_addRequest, m_fork, m_breakpoints}) {
            const bool edits = each == m_addRequest || each == m_fork || each == m_breakpoints;
            if (auto* button = qobject_cast<QToolButton*>(m_toolBar->widgetForAction(each)))
                button->setToolButtonStyle(style(level >= (edits ? 3 : 1)));
        }
        for (QAction* tab : m_tabActions)
            tab->setIconText(level >= 2 ? tab->text() : QStringLiteral("%1  %2").arg(tab->text(), tab->shortcut().toString()));
        if (needed() <= width()) break;
    }
}

void MainWindow::stepForward() {
    Cursor* cursor = m_controller.cursor();
    if (m_controller.phase() == Phase::running) return;
    if (cursor->step() + 1 < cursor->stepCount())
        cursor->setStep(cursor->step() + 1);
    else
        m_controller.step();
}

void MainWindow::stepBack() {
    Cursor* cursor = m_controller.cursor();
    if (cursor->step() > 0) cursor->setStep(cursor->step() - 1);
}

void MainWindow::toggleRun() {
    if (m_controller.hasFile()) return m_time->playing() ? m_time->stopPlaying() : m_time->play();
    if (m_controller.phase() == Phase::running)
        m_controller.pause();
    else if (!isMeasuring())
        m_controller.run();
}

void MainWindow::updateState() {
    Cursor* cursor = m_controller.cursor();
    const bool session = m_controller.hasSession();
    const bool recorded = session || m_controller.hasFile();
    const Phase phase = m_controller.phase();
    const bool running = session && phase == Phase::running;
    const bool more = session && phase != Phase::finished && phase != Phase::failed;
    const int steps = cursor->stepCount();
    m_rewind->setEnabled(recorded && !running && cursor->step() > 0);
    m_back->setEnabled(recorded && !running && cursor->step() > 0);
    m_step->setEnabled(recorded && !running && !isMeasuring() && (more || cursor->step() + 1 < steps));
    const bool plays = m_time->playing();
    m_run->setEnabled((more && !running && !isMeasuring()) || (m_controller.hasFile() && !plays && steps > 1));
    m_measureCeilings->setText(m_ceilings->running() ? tr("Stop measuring &ceilings") : tr("Measure &ceilings"));
    updateQualityAction();
    updateLaneActions();
    m_pause->setEnabled(running || plays);
    updateBranchActions();
    m_fork->setEnabled(session && !running && phase != Phase::failed && steps > 0);
    const std::size_t breakpoints = session ? m_controller.session()->breakpoints().size() : 0;
    m_breakpoints->setIconText(breakpoints > 0 ? tr("Breakpoints %1").arg(breakpoints) : tr("Breakpoints"));
    for (QAction* each : {m_addRequest, m_breakpoints, m_reset}) each->setEnabled(session);
    for (QAction* each : {m_closeSession, m_saveResults, m_saveRecording}) each->setEnabled(recorded);
    m_continueUncached->setEnabled(session && !running);
    {
        const QSignalBlocker quiet(m_stepField);
        m_stepField->setEnabled(steps > 0);
        m_stepField->setRange(0, std::max(steps - 1, 0));
        m_stepField->setValue(std::max(cursor->step(), 0));
    }
    m_stepCount->setText(steps > 0 ? tr(" of %1 ").arg(steps - 1) : tr(" none yet "));
    QString reason;
    if (recorded) {
        // Why it paused; but what the notice above the views says at length is not said twice.
        reason = QString::fromStdString(m_controller.recording()->reason());
        const bool breakpoint = reason.startsWith(QLatin1String("Breakpoint"));
        if (!m_notice->sentence().isEmpty() && !breakpoint) reason.clear();
        if (reason.isEmpty()) {
            switch (phase) {
            case Phase::running: reason = tr("Running"); break;
            case Phase::paused: reason = tr("Paused"); break;
            case Phase::finished: reason = tr("Finished"); break;
            case Phase::failed: reason = tr("Failed"); break;
            case Phase::loading: break;
            }
        }
    }
    m_reason->setWholeText(reason);
    updateNumbers();
}

}  // namespace kvloupe
