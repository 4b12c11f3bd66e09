// SPDX-License-Identifier: GPL-3.0-or-later
//
// The window's choice of device, what the device reaches, and how often stages are measured on it.
#include "gui/main_window.h"

#include "gui/ceilings_measurement.h"
#include "gui/notice_bar.h"
#include "kernels/cpu/stage_clock.h"
#include "kernels/make_backend.h"
#include "views/format.h"

#include <QAction>
#include <QActionGroup>
#include <QLabel>
#include <QMenu>
#include <QMenuBar>
#include <QMessageBox>

#include <utility>

namespace kvloupe {

void MainWindow::buildAnalyseMenu() {
    QMenu* analyse = menuBar()->addMenu(tr("&Analyse"));
    m_measureCeilings = analyse->addAction(tr("Measure &ceilings"), this, [this] {
        if (m_ceilings->running()) m_ceilings->cancel();
        else m_ceilings->measure();
    });
    m_measureCeilings->setToolTip(tr("Read and copy bandwidth and the matrix rate of the device of the lane in focus"));
    buildQualityMenu(analyse);
    QMenu* stages = analyse->addMenu(tr("Measure &stages"));
    auto* group = new QActionGroup(stages);
    for (const auto& [every, name] : {std::pair(1u, tr("In &every step")), std::pair(10u, tr("In every &10th step")),
                                      std::pair(100u, tr("In every 1&00th step")), std::pair(0u, tr("&Never"))}) {
        QAction* choice = stages->addAction(name, this, [this, n = every] {
            if (!m_controller.hasSession()) return;
            m_controller.session()->set_stages_every(n);
            updateNumbers();
        });
        choice->setCheckable(true);
        group->addAction(choice);
        connect(stages, &QMenu::aboutToShow, choice, [this, choice, n = every] {
            choice->setEnabled(m_controller.hasSession());
            choice->setChecked(m_controller.hasSession() && m_controller.session()->stages_every() == n);
        });
    }
    analyse->addSeparator();
    analyse->addAction(tr("Si&ze…"), this, &MainWindow::showSizes)
        ->setToolTip(tr("What a model's cache and weights cost, and how many sequences fit on a GPU"));
    connect(m_ceilings, &CeilingsMeasurement::runningChanged, this, &MainWindow::updateState);
    connect(m_ceilings, &CeilingsMeasurement::began, this,
            [this](const QString& sentence) { m_notice->showPassing(sentence, tr("Stop")); });
    connect(m_notice, &NoticeBar::passingActed, m_ceilings, &CeilingsMeasurement::cancel);
    connect(m_ceilings, &CeilingsMeasurement::ended, this, [this](const QString& sentence) { m_notice->showPassing(sentence); });
}

// Every device by name, and why one cannot be chosen. Asked for when the menu opens: a card may have come or gone.
void MainWindow::fillDeviceMenu(QMenu* menu) {
    menu->clear();
    const bool session = m_controller.hasSession();
    const QString current = session ? QString::fromStdString(m_controller.session()->scenario().device) : QString();
    const auto add = [&](const QString& id, const QString& text, bool available) {
        QAction* choice = menu->addAction(text, this, [this, id] { chooseDevice(id); });
        choice->setData(id);
        choice->setCheckable(true);
        choice->setChecked(session && id == current);
        choice->setEnabled(session && available);
    };
    add(QStringLiteral("auto"), tr("Automatic"), true);
    for (const DeviceReport& device : list_devices()) {
        const QString id = QString::fromStdString(device.id);
        const QString what = QString::fromStdString(device.available ? device.name : device.detail);
        add(id, tr("%1: %2").arg(id, what), device.available);
    }
}

// The same device again is no choice; another one asks before it costs a recording.
void MainWindow::chooseDevice(const QString& id) {
    if (!m_controller.hasSession()) return;
    const Session& session = *m_controller.session();
    const Scenario& scenario = session.scenario();
    bool named = scenario.device == id.toStdString(), used = true;
    for (std::uint32_t lane = 0; lane < scenario.lanes.size(); ++lane) {
        const std::string device = session.device(LaneId(lane)).id;
        named = named && scenario.lanes[lane].device.empty();
        used = used && (device.empty() || device == id.toStdString());  // an accounting lane runs on none
    }
    if (named || used) return;
    const int steps = m_controller.cursor()->stepCount();
    if (steps > 0) {
        const QString where = id == QLatin1String("auto") ? tr("the device that is found") : id;
        const QString what = steps == 1 ? tr("the recording of 1 step is lost") : tr("the recording of %1 steps is lost").arg(steps);
        if (QMessageBox::question(this, tr("Another device"), tr("The session starts again from step 0 on %1; %2.").arg(where, what),
                                  QMessageBox::Ok | QMessageBox::Cancel) != QMessageBox::Ok)
            return;
    }
    m_controller.chooseDevice(id);
}

// How often stages are measured and, on a CPU, what its clocks cost: the marks of the last measured step by the measured
// cost of one, as a share of all steps.
QString MainWindow::stagesText() const {
    if (!m_controller.hasSession()) return {};
    const std::uint32_t every = m_controller.session()->stages_every();
    if (every == 0) return tr("Stages: never measured");
    QString text = every == 1 ? tr("Stages: every step") : tr("Stages: every %1th step").arg(every);
    const Cursor* cursor = m_controller.cursor();
    const LaneRecord* lane = cursor->laneRecord();
    if (!lane || m_controller.session()->device(cursor->lane()).id != "cpu") return text;
    constexpr std::size_t looked_back = 200;
    const std::size_t steps = lane->step_count();
    for (std::size_t step = steps; step-- > 0 && step + looked_back > steps;) {
        const LogRange range = lane->stages_of(step);
        const std::uint64_t duration = lane->step(step).duration_ns;
        if (range.size() == 0 || duration == 0) continue;
        double marks = 0;
        for (std::uint64_t i = range.begin; i < range.end; ++i)
            marks += lane->stages()[i].kind == StageKind::sample ? 1 : lane->stages()[i].calls;
        const double share = marks * m_markCost / static_cast<double>(duration) / every;
        return text + tr(" · clocks cost %1 %2").arg(originMark(Origin::derived), formatPercent(share));
    }
    return text;
}

// The driver's numbers beside ours, for a card.
QString MainWindow::memoryTip(const Recording& recording) {
    QString tip;
    for (const DeviceMemory& device : recording.device_memory()) {
        if (!tip.isEmpty()) tip += QLatin1String("\n\n");
        const QString residual = device.residual_bytes() < 0
                                     ? QStringLiteral("−") + formatBytes(static_cast<quint64>(-device.residual_bytes()))
                                     : formatBytes(static_cast<quint64>(device.residual_bytes()));
        tip += tr("%1: %2 of %3 in use, as the driver says %4\nweights %5, KV pools %6, activations %7 %4\nwhat the driver "
                  "counts beyond these: %8 %9")
                   .arg(QString::fromStdString(device.name), formatBytes(device.used_bytes()), formatBytes(device.total_bytes),
                        originMark(Origin::measured), formatBytes(device.weight_bytes), formatBytes(device.kv_cache_bytes),
                        formatBytes(device.activation_bytes), originMark(Origin::derived), residual);
    }
    return tip;
}

double MainWindow::measuredMarkCost() { return cpu::stage_clock_cost_ns(); }

}  // namespace kvloupe
