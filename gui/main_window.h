// SPDX-License-Identifier: GPL-3.0-or-later
//
// MainWindow: menus, toolbar, tabs and status around the session. Wiring only; what is shown is the views' matter.
#pragma once

#include "gui/convert_dialog.h"
#include "gui/session_controller.h"
#include "gui/theme.h"

#include <QMainWindow>
#include <QStringList>

#include <optional>

class QAction;
class QLabel;
class QMenu;
class QSpinBox;
class QStackedWidget;
class QToolBar;

namespace kvloupe {

class BlockValuesStore;
class CeilingsMeasurement;
class ElidedLabel;
class LengthSweep;
class ModelSaving;
class NoticeBar;
class QualityMeasurement;
class RecordingSaving;
class StartPage;
class TabPage;
class View;

class MainWindow : public QMainWindow {
    Q_OBJECT

public:
    explicit MainWindow(QWidget* parent = nullptr);
    ~MainWindow() override;

    SessionController* controller() { return &m_controller; }
    QList<View*> views() const;
    TabPage* page(int index) const { return m_pages[index]; }
    // Shows the view on its tab, also one that is hidden at first; false for an unknown id.
    bool showView(const QString& id);
    void showTab(int index);
    void setTheme(Theme theme);
    void setFontScale(double scale);
    // Milliseconds from the start of the process to the first paint of the window (10 ms steps); empty before.
    std::optional<double> firstPaintMs() const { return m_firstPaintMs; }
    QString notice() const;
    // What the context menu of a view offers for what was pointed at.
    void fillViewMenu(QMenu* menu, View* view, const Pick& meant);
    static void addChoices(QMenu* menu, View* view);
    // The devices that a session may be moved to: its scenario from the start, on another one.
    void fillDeviceMenu(QMenu* menu);
    void chooseDevice(const QString& id);
    CeilingsMeasurement* ceilings() const { return m_ceilings; }
    QualityMeasurement* quality() const { return m_quality; }
    ModelSaving* saving() const { return m_saving; }
    void restartFrom(int step);
    void branchFrom(int step);  // asks what is to differ
    // The session from the start with one lane more, opened beside what is there.
    void addLane(const LaneOptions& lane);
    // Lanes whose models can be converted.
    std::vector<ConvertSource> convertSources() const;
    // Writes the lane's model into a new or empty folder; the notice says how it went.
    void saveModel(LaneId lane, const QString& folder);
    // "Stages: every 10th step", with what the clocks cost where that is known.
    QString stagesText() const;

protected:
    void closeEvent(QCloseEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dropEvent(QDropEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void buildPages();
    void buildActions();
    void buildMenus();
    void buildAnalyseMenu();
    void buildMoreMenu(QMenu* view);
    void buildLaneMenu();
    void buildBranchActions(QMenu* run);
    void updateBranchActions();
    void addBranchActions(QMenu* menu, const Pick& meant);
    void buildQuality();
    void buildQualityMenu(QMenu* analyse);
    void buildToolBar();
    void buildStatusBar();
    void fitToolBar();     // labels where there is room for them
    void fitStatusBar();
    void fitScreen();
    QAction* action(const QString& text, const QString& icon, const QList<QKeySequence>& keys);
    void restore();
    void save();

    void openDialog();
    void openPath(const QString& path);
    void rememberFile(const QString& path);
    void newSession();
    void addRequest();
    void editBreakpoints();
    void proposeBreakpoint(const Breakpoint& breakpoint);
    void setBreakpoints(std::vector<Breakpoint> breakpoints);
    QStringList laneNames() const;
    QStringList requestNames() const;
    void fork(SequenceId chosen, std::optional<std::uint32_t> position);
    void act(const ScenarioAction& action);
    void showViewMenu(View* view, const QPoint& global, const Pick& meant);
    void restoreChoices();
    void saveChoices() const;
    void saveRecording();
    void saveResults();
    void chooseSweep();
    void showSizes();
    void chooseThreads();
    void exportView(View* view);
    void copyView(View* view);
    View* focusedView() const;
    void viewAction(const QString& action);
    void measureQuality();
    void updateQualityAction();
    void convertModel();
    void chooseSaveFolder();
    void updateLaneActions();

    void stepForward();
    void stepBack();
    void toggleRun();
    bool isMeasuring() const;  // the engine stands still for a measurement
    void updateState();    // actions, step field, reason
    void updateNumbers();  // status bar
    static QString memoryTip(const Recording& recording);
    static double measuredMarkCost();
    void showReason();
    void updateCentre();   // start page or tabs
    void about();

    SessionController m_controller;
    QStackedWidget* m_centre = nullptr;
    StartPage* m_start = nullptr;
    NoticeBar* m_notice = nullptr;
    QStackedWidget* m_tabs = nullptr;
    QList<TabPage*> m_pages;
    QList<QAction*> m_tabActions;
    QToolBar* m_toolBar = nullptr;
    QAction *m_rewind = nullptr, *m_back = nullptr, *m_step = nullptr, *m_run = nullptr, *m_pause = nullptr;
    QAction *m_addRequest = nullptr, *m_fork = nullptr, *m_breakpoints = nullptr, *m_continueUncached = nullptr, *m_reset = nullptr;
    QAction *m_restart = nullptr, *m_branch = nullptr;
    QAction *m_saveRecording = nullptr, *m_saveResults = nullptr, *m_closeSession = nullptr;
    RecordingSaving* m_recordingSaving = nullptr;
    QSpinBox* m_stepField = nullptr;
    QLabel* m_stepCount = nullptr;
    ElidedLabel* m_reason = nullptr;
    ElidedLabel* m_modelText = nullptr;
    ElidedLabel *m_deviceText = nullptr, *m_stepText = nullptr, *m_stagesText = nullptr, *m_recorderText = nullptr,
                *m_frameText = nullptr;
    QLabel* m_origins = nullptr;
    QAction* m_measureCeilings = nullptr;
    CeilingsMeasurement* m_ceilings = nullptr;
    QAction* m_measureQuality = nullptr;
    QualityMeasurement* m_quality = nullptr;
    BlockValuesStore* m_blockValues = nullptr;
    QAction *m_convertModel = nullptr, *m_saveModel = nullptr;
    ModelSaving* m_saving = nullptr;
    double m_markCost = 0;  // nanoseconds of a mark of the CPU's stage clock, measured when the window is made
    LengthSweep* m_sweep = nullptr;
    QStringList m_recent;
    Theme m_theme = Theme::system;
    double m_fontScale = 1.0;
    std::optional<double> m_firstPaintMs;
};

}  // namespace kvloupe
