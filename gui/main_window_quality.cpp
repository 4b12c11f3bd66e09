// SPDX-License-Identifier: GPL-3.0-or-later
//
// The window's measurement of quality: its menu entry, its notices, and where results are kept.
#include "gui/main_window.h"

#include "gui/ceilings_measurement.h"
#include "gui/notice_bar.h"
#include "gui/quality_dialog.h"
#include "gui/quality_measurement.h"
#include "gui/quality_source.h"

#include <QAction>
#include <QMenu>
#include <QStandardPaths>

namespace kvloupe {

void MainWindow::buildQuality() {
    const QString folder = QStandardPaths::writableLocation(QStandardPaths::GenericDataLocation);
    m_quality = new QualityMeasurement(
        QualityStore(folder.isEmpty() ? std::string() : (folder + QStringLiteral("/kvloupe/quality.json")).toStdString()), this);
    connect(m_quality, &QualityMeasurement::runningChanged, this, &MainWindow::updateState);
    connect(m_quality, &QualityMeasurement::began, this, [this](const QString& sentence) { m_notice->showPassing(sentence, tr("Stop")); });
    connect(m_quality, &QualityMeasurement::progressed, this, [this](const QString& sentence) { m_notice->showPassing(sentence, tr("Stop")); });
    connect(m_quality, &QualityMeasurement::ended, this, [this](const QString& sentence) { m_notice->showPassing(sentence); });
}

void MainWindow::buildQualityMenu(QMenu* analyse) {
    m_measureQuality = analyse->addAction(tr("Measure &quality…"), this, &MainWindow::measureQuality);
    m_measureQuality->setToolTip(tr("Perplexity, recall and divergence of all lanes on held-out text"));
    connect(m_notice, &NoticeBar::passingActed, m_quality, &QualityMeasurement::cancel);
}

void MainWindow::measureQuality() {
    if (m_quality->running()) return m_quality->cancel();
    if (!m_controller.hasSession()) return;
    if (m_ceilings->running())  // both would measure each other
        return m_notice->show(tr("The ceilings are being measured. Quality can be measured when that has ended."));
    QStringList lanes;
    for (const auto& lane : m_controller.session()->recording()->lanes())
        if (lane->info().weights_id != 0) lanes << QString::fromStdString(lane->info().name);
    if (lanes.isEmpty()) return m_notice->show(tr("No lane has a model, so there is nothing to measure."));
    QualityDialog dialog(lanes, knows_stories(m_controller.session()->scenario()), this);
    if (dialog.exec() == QDialog::Accepted) m_quality->measure(dialog.choice());
}

// A step beside a measurement would spoil ceilings, and takes threads that quality computes with.
bool MainWindow::isMeasuring() const { return m_ceilings->running() || m_quality->running(); }

void MainWindow::updateQualityAction() {
    m_measureQuality->setText(m_quality->running() ? tr("Stop measuring &quality") : tr("Measure &quality…"));
    m_measureQuality->setEnabled(m_controller.hasSession() && !m_ceilings->running());
    m_measureCeilings->setEnabled(m_controller.hasSession() && !m_quality->running());
}

}  // namespace kvloupe
