// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/length_sweep.h"

#include "gui/session_controller.h"
#include "views/sweep_view.h"

#include <QMetaObject>

#include <algorithm>

namespace kvloupe {

LengthSweep::LengthSweep(QObject* parent) : QObject(parent) {}

LengthSweep::~LengthSweep() {
    m_thread.request_stop();
    if (m_thread.joinable()) m_thread.join();
}

void LengthSweep::attach(const QList<View*>& views, SessionController* controller) {
    m_controller = controller;
    for (View* view : views)
        if (auto* sweep = qobject_cast<SweepView*>(view)) m_view = sweep;
    if (m_view) {
        connect(m_view, &SweepView::startRequested, this, &LengthSweep::start);
        connect(m_view, &SweepView::cancelRequested, this, &LengthSweep::cancel);
    }
}

void LengthSweep::startThread(std::function<void(std::stop_token)> work) {
    if (m_busy) return;
    if (m_thread.joinable()) m_thread.join();
    m_busy = true;
    m_thread = std::jthread([this, work = std::move(work)](std::stop_token stop) {
        work(stop);
        QMetaObject::invokeMethod(this, [this] { m_busy = false; });
    });
}

void LengthSweep::start() {
    if (!m_view || !m_controller || !m_controller->hasSession() || m_busy) return;
    const LaneId lane = m_controller->cursor()->lane();
    const Scenario& scenario = m_controller->session()->scenario();
    SweepOptions options;
    options.model = scenario.lanes[lane.value].model.empty() ? scenario.model : scenario.lanes[lane.value].model;
    options.lengths = sweepLengths(m_least, m_most, 11);
    options.threads = static_cast<int>(m_controller->threads());
    const LaneInfo& info = m_controller->cursor()->laneRecord()->info();
    const QString subject =
        QString::fromStdString(info.model_name) + QStringLiteral(", ") + QString::fromStdString(info.device);
    m_view->setSubject(subject);
    m_view->setProgress(0, tr("starting"));
    m_controller->pause();  // the sweep's times would be worth little beside a running session
    startThread([this, options](std::stop_token stop) {
        auto result = runLengthSweep(options, stop, [this](double fraction, const std::string& what) {
            const QString text = QString::fromStdString(what);
            QMetaObject::invokeMethod(this, [this, fraction, text] {
                if (m_busy) m_view->setProgress(fraction, text);
            });
        });
        QMetaObject::invokeMethod(this, [this, result = std::move(result)] {
            m_view->setProgress(-1, result ? QString() : QString::fromStdString(result.error().message()));
            if (result) m_view->setResult(*result);
        });
    });
}

void LengthSweep::cancel() { m_thread.request_stop(); }

void LengthSweep::setRange(int least, int most) {
    m_least = least;
    m_most = most;
}

}  // namespace kvloupe
