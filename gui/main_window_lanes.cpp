// SPDX-License-Identifier: GPL-3.0-or-later
//
// The window's menu of lanes: converting a lane's model into a new lane, and saving a lane's model as a folder.
#include "gui/main_window.h"

#include "gui/convert_dialog.h"
#include "gui/model_saving.h"
#include "gui/notice_bar.h"
#include "gui/quality_source.h"
#include "views/lanes_view.h"

#include <QAction>
#include <QFileDialog>
#include <QMenu>
#include <QMenuBar>

#include <algorithm>

namespace kvloupe {

void MainWindow::buildLaneMenu() {
    m_saving = new ModelSaving(this);
    m_convertModel = action(tr("&Convert model…"), {}, {QKeySequence(Qt::CTRL | Qt::Key_L)});
    m_convertModel->setToolTip(tr("A lane's model with fewer KV heads or with latents, as a new lane beside the others (Ctrl+L)"));
    connect(m_convertModel, &QAction::triggered, this, &MainWindow::convertModel);
    m_saveModel = action(tr("&Save model…"), {}, {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_S)});
    m_saveModel->setToolTip(tr("The model of the lane in focus as a Hugging Face folder (Ctrl+Shift+S)"));
    connect(m_saveModel, &QAction::triggered, this, &MainWindow::chooseSaveFolder);
    QMenu* lane = menuBar()->addMenu(tr("&Lane"));
    lane->setToolTipsVisible(true);
    lane->addActions({m_convertModel, m_saveModel});
    connect(&m_controller, &SessionController::sessionChanged, this, [this] {
        for (View* view : views())
            if (auto* lanes = qobject_cast<LanesView*>(view)) lanes->setRecorded(m_controller.hasFile());
    });
    connect(m_saving, &ModelSaving::runningChanged, this, &MainWindow::updateState);
    connect(m_saving, &ModelSaving::progressed, this,
            [this](const QString& sentence) { m_notice->showPassing(sentence, tr("Stop")); });
    connect(m_saving, &ModelSaving::ended, this, [this](const QString& sentence) { m_notice->showPassing(sentence); });
    connect(m_notice, &NoticeBar::passingActed, m_saving, &ModelSaving::cancel);
}

// Cached lanes with a model as it was loaded; a model that only converted lanes have, or lanes without a cache, stands there by the
// first of them, as it was before.
std::vector<ConvertSource> MainWindow::convertSources() const {
    const Session& session = *m_controller.session();
    const Scenario& scenario = session.scenario();
    std::vector<ConvertSource> sources;
    const auto model_of = [&](const LaneOptions& lane) { return lane.model.empty() ? scenario.model : lane.model; };
    for (const bool plain : {true, false})  // cached lanes as they are, then the others
        for (std::uint32_t i = 0; i < scenario.lanes.size(); ++i) {
            const LaneOptions& lane = scenario.lanes[i];
            const auto model = session.model(LaneId(i));
            if (!model || (lane.kv_cache && !lane.convert) != plain) continue;
            const auto same = [&](const ConvertSource& other) { return model_of(other.lane) == model_of(lane); };
            if (!plain && std::any_of(sources.begin(), sources.end(), same)) continue;
            const ModelConfig& before = lane.convert && model->source ? model->source->config : model->config;
            sources.push_back({lane, before, is_bundled(*model), session.device(LaneId(i)).own_memory});
        }
    return sources;
}

void MainWindow::convertModel() {
    if (!m_controller.hasSession()) return;
    std::vector<ConvertSource> sources = convertSources();
    if (sources.empty()) return m_notice->show(tr("No lane has a model, so there is nothing to convert."));
    const LaneRecord* focused = m_controller.cursor()->laneRecord();
    std::size_t index = 0;
    for (std::size_t i = 0; focused && i < sources.size(); ++i)
        if (sources[i].lane.name == focused->info().name) index = i;
    ConvertDialog dialog(std::move(sources), index, laneNames(), this);
    if (dialog.exec() == QDialog::Accepted) addLane(dialog.lane());
}

// All lanes start over together, because a lane steps with the others from the first token on. What fails to open leaves the
// session that is there.
void MainWindow::addLane(const LaneOptions& lane) {
    Scenario scenario = m_controller.session()->scenario();
    scenario.lanes.push_back(lane);
    m_controller.pause();
    m_controller.openScenario(scenario);
}

void MainWindow::chooseSaveFolder() {
    if (!m_controller.hasSession()) return;
    if (m_saving->running()) return m_saving->cancel();
    const LaneRecord* lane = m_controller.cursor()->laneRecord();
    if (!lane || !m_controller.session()->model(m_controller.cursor()->lane()))
        return m_notice->show(tr("The lane in focus has no model to save."));
    const QString folder = QFileDialog::getExistingDirectory(
        this, tr("A new or empty folder for the model of lane %1").arg(QString::fromStdString(lane->info().name)));
    if (!folder.isEmpty()) saveModel(m_controller.cursor()->lane(), folder);
}

void MainWindow::saveModel(LaneId lane, const QString& folder) {
    const auto model = m_controller.session()->model(lane);
    if (model) m_saving->save(model, laneNames().value(static_cast<int>(lane.value)), folder);
}

void MainWindow::updateLaneActions() {
    m_convertModel->setEnabled(m_controller.hasSession() && !isMeasuring());
    m_saveModel->setEnabled(m_controller.hasSession());
    m_saveModel->setText(m_saving->running() ? tr("&Stop saving the model") : tr("&Save model…"));
}

}  // namespace kvloupe
