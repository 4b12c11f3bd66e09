// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/main_window.h"

#include "gui/block_values_store.h"
#include "gui/ceilings_measurement.h"
#include "gui/comparing.h"
#include "gui/elided_label.h"
#include "gui/environment.h"
#include "gui/glyph_icon.h"
#include "gui/length_sweep.h"
#include "gui/model_saving.h"
#include "gui/notice_bar.h"
#include "gui/quality_measurement.h"
#include "gui/query_wiring.h"
#include "gui/recording_desk.h"
#include "gui/start_page.h"
#include "gui/tab_page.h"
#include "gui/time_machine.h"
#include "views/cached_heads.h"
#include "views/format.h"
#include "views/view.h"

#include <QAction>
#include <QApplication>
#include <QCloseEvent>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QFileInfo>
#include <QLabel>
#include <QMimeData>
#include <QScreen>
#include <QSettings>
#include <QSpinBox>
#include <QStandardPaths>
#include <QStackedWidget>
#include <QStatusBar>
#include <QStyle>
#include <QUrl>
#include <QVBoxLayout>

#include <algorithm>

namespace kvloupe {

MainWindow::MainWindow(QWidget* parent) : QMainWindow(parent) {
    setWindowIcon(glyphIcon(QStringLiteral("app"), nullptr));
    setAcceptDrops(true);
    setUnifiedTitleAndToolBarOnMac(true);
    m_sweep = new LengthSweep(this);
    const QString folder = QStandardPaths::writableLocation(QStandardPaths::GenericDataLocation);
    m_ceilings = new CeilingsMeasurement(
        CeilingsStore(folder.isEmpty() ? std::string() : (folder + QStringLiteral("/kvloupe/ceilings.json")).toStdString()), this);
    m_markCost = measuredMarkCost();

    m_centre = new QStackedWidget;
    m_start = new StartPage;
    auto* work = new QWidget;
    auto* column = new QVBoxLayout(work);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    m_notice = new NoticeBar;
    buildQuality();
    m_time = new TimeMachine(m_controller.cursor());
    m_desk = new RecordingDesk(&m_controller, this);
    m_queries = new QueryWiring(this);
    column->addWidget(m_time);
    column->addWidget(m_notice);
    m_comparing = new Comparing(m_controller.cursor(), this);
    column->addWidget(m_comparing->bar());
    m_centre->addWidget(m_start);
    m_tabs = new QStackedWidget;
    m_centre->addWidget(m_tabs);
    column->addWidget(m_centre, 1);
    setCentralWidget(work);

    buildPages();
    buildActions();
    buildMenus();
    buildToolBar();
    buildStatusBar();

    connect(m_start, &StartPage::bundledRequested, &m_controller, &SessionController::openBundled);
    connect(m_start, &StartPage::pathRequested, this, &MainWindow::openPath);
    connect(m_start, &StartPage::openRequested, this, &MainWindow::openDialog);
    connect(m_start, &StartPage::cancelRequested, &m_controller, &SessionController::cancelLoading);
    connect(&m_controller, &SessionController::loadingChanged, this, &MainWindow::updateCentre);
    connect(&m_controller, &SessionController::loadingProgress, m_start, &StartPage::showLoading);
    connect(&m_controller, &SessionController::sessionChanged, this, [this] {
        m_notice->clear();
        // What a sample asks its reader to look at.
        const Session* session = m_controller.session();
        QStringList sentences;
        if (session && !session->scenario().comment.empty()) sentences << QString::fromStdString(session->scenario().comment);
        if (session && session->scenario().requests.empty())
            sentences << tr("The scenario has no requests: add one (Ctrl+A).");
        if (m_controller.hasFile() && m_controller.file()->recovered)
            sentences << tr("This recording was cut off: what is shown is all that was written until then. The file stays as it is.");
        if (!sentences.isEmpty()) m_notice->show(sentences.join(QLatin1Char(' ')));
        updateCentre();
        updateState();
    });
    connect(m_comparing, &Comparing::told, this, [this](const QString& sentence) { m_notice->showPassing(sentence); });
    connect(m_comparing, &Comparing::differencesWanted, this, [this] { showView(QStringLiteral("difference")); });
    connect(&m_controller, &SessionController::failed, this,
            [this](const QString& sentence) { m_notice->show(sentence); });
    connect(&m_controller, &SessionController::phaseChanged, this, [this] {
        showReason();
        updateState();
    });
    connect(m_notice, &NoticeBar::acted, this, [this] {
        m_controller.continueUncached();
        m_controller.run();
    });
    connect(m_time, &TimeMachine::told, this, [this](const QString& sentence) { m_notice->showPassing(sentence); });
    connect(m_desk, &RecordingDesk::told, this, [this](const QString& sentence) { m_notice->showPassing(sentence); });
    connect(m_desk, &RecordingDesk::statusChanged, this, &MainWindow::updateNumbers);
    connect(m_queries, &QueryWiring::pinned, this, [this] { showView(QStringLiteral("tracks")); });
    connect(m_time, &TimeMachine::playingChanged, this, &MainWindow::updateState);
    connect(m_controller.cursor(), &Cursor::stepChanged, this, &MainWindow::updateState);
    connect(m_controller.cursor(), &Cursor::grew, this, &MainWindow::updateState);
    connect(m_controller.cursor(), &Cursor::focusChanged, this, &MainWindow::updateNumbers);

    const QSize frame(0, style()->pixelMetric(QStyle::PM_TitleBarHeight));  // the window manager's, before it is known
    resize(QSize(1600, 1000).boundedTo(screen()->availableSize() - frame));
    restore();
    updateCentre();
    updateState();
    qApp->installEventFilter(this);
}

MainWindow::~MainWindow() { qApp->removeEventFilter(this); }

QList<View*> MainWindow::views() const {
    QList<View*> all;
    for (const TabPage* page : m_pages) all += page->views();
    return all;
}

void MainWindow::buildPages() {
    const std::pair<QString, TabLayout> tabs[] = {{QStringLiteral("Step"), stepLayout()},
                                                  {QStringLiteral("Compare"), compareLayout()},
                                                  {QStringLiteral("Memory"), memoryLayout()},
                                                  {QStringLiteral("Profile"), profileLayout()}};
    for (const auto& [name, layout] : tabs) {
        auto* page = new TabPage(name, layout, m_controller.cursor());
        connect(page, &TabPage::exportRequested, this, &MainWindow::exportView);
        connect(page, &TabPage::copyRequested, this, &MainWindow::copyView);
        for (View* view : page->views()) {
            connect(view, &View::emptyAction, this, &MainWindow::viewAction);
            connect(view, &View::menuRequested, this,
                    [this, view](const QPoint& global, const Pick& meant) { showViewMenu(view, global, meant); });
        }
        m_tabs->addWidget(page);
        m_pages << page;
    }
    m_sweep->attach(views(), &m_controller);
    m_ceilings->attach(views(), &m_controller);
    m_quality->attach(views(), &m_controller);
    m_blockValues = new BlockValuesStore(&m_controller, this);
    m_blockValues->attach(views());
    m_comparing->attach(views());
    m_queries->attach(views(), &m_controller);
}

void MainWindow::showTab(int index) {
    m_tabs->setCurrentIndex(index);
    m_tabActions[index]->setChecked(true);
}

void MainWindow::setTheme(Theme theme) {
    m_theme = theme;
    applyTheme(*qApp, m_theme, m_fontScale);
}

void MainWindow::setFontScale(double scale) {
    m_fontScale = std::clamp(scale, 0.7, 3.0);
    applyTheme(*qApp, m_theme, m_fontScale);
    m_controller.cursor()->setFontScale(m_fontScale);
    fitToolBar();
    fitStatusBar();
}

void MainWindow::resizeEvent(QResizeEvent* event) {
    QMainWindow::resizeEvent(event);
    fitToolBar();
    fitStatusBar();
}

QString MainWindow::notice() const { return m_notice->sentence(); }

void MainWindow::buildStatusBar() {
    m_modelText = new ElidedLabel;
    m_modelText->setContentsMargins(6, 0, 10, 0);
    statusBar()->addWidget(m_modelText, 1);
    for (ElidedLabel** label : {&m_deviceText, &m_stepText, &m_fileText, &m_stagesText, &m_recorderText, &m_frameText}) {
        *label = new ElidedLabel;
        (*label)->setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Preferred);
        (*label)->setContentsMargins(6, 0, 10, 0);
        statusBar()->addWidget(*label);
    }
    m_origins = new QLabel(QStringLiteral("%1 %2   %3 %4   %5 %6")
                                   .arg(originMark(Origin::measured), originName(Origin::measured),
                                        originMark(Origin::derived), originName(Origin::derived),
                                        originMark(Origin::predicted), originName(Origin::predicted)));
    m_origins->setToolTip(tr("Every number carries its origin: a clock or counter, a formula over measured values, or a "
                           "model of what would be."));
    statusBar()->addPermanentWidget(m_origins);
}

// What is asked for least goes first, as a whole: half a word says nothing. The step stays, the model is elided.
void MainWindow::fitStatusBar() {
    if (!m_origins) return;
    const bool lane = m_controller.cursor()->laneRecord() != nullptr;
    const QList<QLabel*> labels = {m_stepText, m_fileText, m_deviceText, m_stagesText, m_recorderText, m_origins, m_frameText};
    int room = width() - fontMetrics().averageCharWidth() * (lane ? 28 : 2);  // for the head of the model's text
    for (QLabel* label : labels) {
        const bool has = (lane || label == m_origins) && !label->text().isEmpty();
        if (has) room -= label->sizeHint().width() + 8;  // and what the status bar leaves between two
        label->setVisible(has && (room >= 0 || label == m_stepText));
    }
}

void MainWindow::restore() {
    QSettings settings;
    m_recent = settings.value(QStringLiteral("recent")).toStringList();
    m_controller.setThreads(settings.value(QStringLiteral("threads"), 0).toUInt());
    setTheme(themeFromName(settings.value(QStringLiteral("theme")).toString()));
    setFontScale(settings.value(QStringLiteral("fontScale"), 1.0).toDouble());
    restoreChoices();
    restoreGeometry(settings.value(QStringLiteral("geometry")).toByteArray());
    fitScreen();
    for (TabPage* page : m_pages)
        page->restoreLayout(settings.value(QStringLiteral("layout/") + page->name()).toByteArray());
    showTab(std::clamp(settings.value(QStringLiteral("tab"), 0).toInt(), 0, static_cast<int>(m_pages.size()) - 1));
    m_start->setRecentFiles(m_recent);
}

// The screen may be smaller than the one on which the window was closed.
void MainWindow::fitScreen() {
    if (isMaximized() || isFullScreen()) return;
    const int title = style()->pixelMetric(QStyle::PM_TitleBarHeight);
    const QRect room = screen()->availableGeometry().adjusted(0, title, 0, 0);
    const QSize size = this->size().boundedTo(room.size());
    if (size != this->size()) resize(size);
    const QPoint corner(std::clamp(x(), room.left(), room.right() + 1 - size.width()),
                        std::clamp(y(), room.top(), room.bottom() + 1 - size.height()));
    if (corner != pos() && testAttribute(Qt::WA_Moved)) move(corner);
}

void MainWindow::save() {
    QSettings settings;
    settings.setValue(QStringLiteral("recent"), m_recent);
    settings.setValue(QStringLiteral("threads"), m_controller.threads());
    settings.setValue(QStringLiteral("theme"), nameOf(m_theme));
    settings.setValue(QStringLiteral("fontScale"), m_fontScale);
    settings.setValue(QStringLiteral("geometry"), saveGeometry());
    settings.setValue(QStringLiteral("tab"), m_tabs->currentIndex());
    saveChoices();
    for (const TabPage* page : m_pages) {
        const QString key = QStringLiteral("layout/") + page->name();
        const QByteArray layout = page->layoutToSave();
        if (layout.isEmpty())
            settings.remove(key);
        else
            settings.setValue(key, layout);
    }
}

void MainWindow::closeEvent(QCloseEvent* event) {
    save();
    m_sweep->cancel();
    m_ceilings->abandon();
    m_quality->abandon();
    m_saving->abandon();
    m_controller.cancelLoading();
    QMainWindow::closeEvent(event);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
    const QList<QUrl> urls = event->mimeData()->urls();
    if (urls.size() == 1 && urls.first().isLocalFile()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
    const QList<QUrl> urls = event->mimeData()->urls();
    if (urls.size() == 1 && urls.first().isLocalFile()) openPath(urls.first().toLocalFile());
}

bool MainWindow::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::Paint && !m_firstPaintMs && watched->isWidgetType() &&
        static_cast<QWidget*>(watched)->window() == this)
        m_firstPaintMs = process_age_ms();
    return QMainWindow::eventFilter(watched, event);
}

void MainWindow::openPath(const QString& path) {
    m_notice->clear();
    rememberFile(path);
    m_controller.openPath(path);
}

void MainWindow::rememberFile(const QString& path) {
    if (!QFileInfo::exists(path)) return;
    const QString whole = QFileInfo(path).absoluteFilePath();
    m_recent.removeAll(whole);
    m_recent.prepend(whole);
    while (m_recent.size() > 8) m_recent.removeLast();
    m_start->setRecentFiles(m_recent);
}

void MainWindow::updateCentre() {
    const bool loading = m_controller.isLoading();
    m_centre->setCurrentIndex(!loading && m_controller.recording() ? 1 : 0);
    m_time->setVisible(m_centre->currentIndex() == 1);
    if (loading)
        m_start->showLoading(0, tr("Opening…"));
    else
        m_start->showOffers();
    const auto recording = m_controller.cursor()->sharedRecording();
    setWindowTitle(recording ? tr("%1 — KVLoupe").arg(QString::fromStdString(recording->title()) + m_desk->titleSuffix())
                             : QStringLiteral("KVLoupe"));
    updateNumbers();
}

void MainWindow::showReason() {
    const auto recording = m_controller.recording();
    if (!recording) return;
    if (recording->phase() == Phase::failed) {
        m_notice->show(QString::fromStdString(recording->reason()));
    } else if (const QString lane = m_controller.laneAtLimit(); !lane.isEmpty()) {
        m_notice->show(tr("Lane %1 recomputes every token in every step; it has stopped at the limit for lanes without a "
                          "cache.")
                           .arg(lane),
                       tr("Continue it for %1 tokens").arg(SessionController::uncachedLimit));
    } else if (m_notice->hasAction()) {
        m_notice->clear();
    }
}

void MainWindow::updateNumbers() {
    const Cursor* cursor = m_controller.cursor();
    const LaneRecord* lane = cursor->laneRecord();
    m_modelText->setVisible(lane != nullptr);
    if (!lane) return fitStatusBar();
    const LaneInfo& info = lane->info();
    if (info.layers == 0)
        m_modelText->setWholeText(tr("No model: an accounting lane, forced tokens and no arithmetic"));
    else if (info.latent_rank > 0)
        m_modelText->setWholeText(tr("%1 · %2 layers · %3 query heads, %4 · cache %5")
                             .arg(QString::fromStdString(info.model_name))
                             .arg(info.layers)
                             .arg(info.query_heads)
                             .arg(cachedHeads(info), QString::fromStdString(info.cache_dtype)));
    else m_modelText->setWholeText((info.kv_heads == 1 ? tr("%1 · %2 layers · %3 query heads / %4 KV head · head %5 · cache %6")
                                                       : tr("%1 · %2 layers · %3 query / %4 KV heads · head %5 · cache %6"))
                             .arg(QString::fromStdString(info.model_name))
                             .arg(info.layers)
                             .arg(info.query_heads)
                             .arg(info.kv_heads)
                             .arg(info.head_dim)
                             .arg(QString::fromStdString(info.cache_dtype)));
    m_deviceText->setText(m_controller.hasFile() ? tr("recording of %1").arg(QString::fromStdString(info.device))
                                                 : QString::fromStdString(info.device));
    m_deviceText->setToolTip(memoryTip(*cursor->recording()));
    m_stagesText->setText(stagesText());
    m_fileText->setWholeText(m_desk->statusText());
    const int step = cursor->stepOf(cursor->lane());
    if (step >= 0) {
        const StepRecord& record = lane->step(static_cast<std::size_t>(step));
        m_stepText->setText((record.computed_tokens == 1 ? tr("Step %1: %2 token in %3 %4") : tr("Step %1: %2 tokens in %3 %4"))
                                .arg(step)
                                .arg(record.computed_tokens)
                                .arg(originMark(Origin::measured),
                                     formatDuration(static_cast<double>(record.duration_ns))));
    } else {
        m_stepText->setText(tr("No step yet"));
    }
    const auto recording = cursor->sharedRecording();
    QString held = tr("Recording %1 %2").arg(originMark(Origin::measured), formatBytes(recording->memory_bytes()));
    quint64 dropped = 0;
    for (const auto& each : recording->lanes()) dropped += each->dropped_attention_rows();
    if (dropped > 0) held += tr(" (budget full: %1 attention rows not kept)").arg(formatCount(dropped));
    m_recorderText->setText(held);
    std::vector<double> gaps = m_controller.clock()->frameGaps();
    if (gaps.size() >= 20) {
        const std::size_t at = gaps.size() * 95 / 100;
        std::nth_element(gaps.begin(), gaps.begin() + static_cast<std::ptrdiff_t>(at), gaps.end());
        m_frameText->setText(tr("Frame gap, 95th percentile %1 %2 ms")
                                 .arg(originMark(Origin::measured))
                                 .arg(gaps[at], 0, 'f', 1));
    } else {
        m_frameText->clear();
    }
    fitStatusBar();
}

}  // namespace kvloupe
