// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/ceilings_measurement.h"

#include "gui/session_controller.h"
#include "views/ceilings_view.h"
#include "views/format.h"
#include "views/view.h"

#include "engine/record/gpu_table.h"

#include <QMetaObject>

#include <spdlog/spdlog.h>

#include <chrono>

namespace kvloupe {

CeilingsMeasurement::CeilingsMeasurement(CeilingsStore store, QObject* parent) : QObject(parent), m_store(std::move(store)) {}

CeilingsMeasurement::~CeilingsMeasurement() {
    m_thread.request_stop();
    if (m_thread.joinable()) m_thread.join();
}

void CeilingsMeasurement::attach(const QList<View*>& views, SessionController* controller) {
    m_views = views;
    m_controller = controller;
    connect(controller, &SessionController::sessionChanged, this, &CeilingsMeasurement::showKept);
    connect(controller->cursor(), &Cursor::focusChanged, this, &CeilingsMeasurement::showKept);
    // What computes beside a measurement spoils it.
    connect(controller, &SessionController::loadingChanged, this, [this] {
        if (m_controller->isLoading()) drop(tr("another session was opened beside it"));
    });
    connect(controller, &SessionController::sessionChanged, this, [this] { drop(tr("the session changed")); });
    connect(controller, &SessionController::phaseChanged, this, [this] {
        if (m_still && m_controller->phase() == Phase::running) drop(tr("the engine went on beside it"));
    });
}

void CeilingsMeasurement::drop(const QString& why) {
    if (!m_running || !m_dropped.isEmpty()) return;
    m_dropped = why;
    m_goOn = false;
    m_thread.request_stop();
}

DeviceInfo CeilingsMeasurement::deviceInFocus() const {
    if (!m_controller || !m_controller->hasSession()) return {};
    return m_controller->session()->device(m_controller->cursor()->lane());
}

void CeilingsMeasurement::showKept() {
    const DeviceInfo device = deviceInFocus();
    const QString key = device.id.empty() ? QString() : QString::fromStdString(CeilingsStore::key_of(device));
    if (key == m_shownKey) return;
    m_shownKey = key;
    handOver(key.isEmpty() ? KeptCeilings{} : m_store.find(key.toStdString()).value_or(KeptCeilings{}));
}

void CeilingsMeasurement::handOver(const KeptCeilings& kept) {
    m_kept = kept;
    for (View* view : m_views) {
        if (auto* held = dynamic_cast<CeilingsView*>(view)) held->setCeilings(kept.best);
    }
}

QString CeilingsMeasurement::sentence(const DeviceInfo& device, const KeptCeilings& kept) {
    const Ceilings& ceilings = kept.best;
    const QString name = QString::fromStdString(device.name);
    if (!ceilings.measured()) return tr("Nothing has been measured on %1 yet.").arg(name);
    const auto bandwidth = [](double rate) { return rate > 0 ? formatRate(rate) : tr("not measured"); };
    const auto operations = [](double rate) {
        return rate > 0 ? tr("%1 TFLOP/s").arg(rate / 1e12, 0, 'g', 3) : tr("not measured");
    };
    QString day = QString::fromStdString(ceilings.measured_on);
    if (kept.measurements > 1) day += tr(", best of %1 measurements").arg(kept.measurements);
    QString text = tr("%1, measured %2: read %3, copy %4, %5 matrices %6.")
                       .arg(name, day, bandwidth(ceilings.read_bandwidth),
                            bandwidth(ceilings.copy_bandwidth),
                            QString::fromUtf8(name_of(ceilings.matrix_type).data(), qsizetype(name_of(ceilings.matrix_type).size())),
                            operations(ceilings.matrix_rate));
    if (const GpuEntry* entry = find_card(device.name))
        text += tr(" Data sheet of the %1: %2, bf16 %3.")
                    .arg(QString::fromUtf8(entry->name.data(), qsizetype(entry->name.size())), formatRate(entry->bandwidth),
                         operations(entry->bf16_flops));
    return text;
}

void CeilingsMeasurement::measure() {
    const DeviceInfo device = deviceInFocus();
    if (m_running) return;
    if (device.id.empty()) return Q_EMIT ended(tr("Open a model first: an accounting lane runs on no device."));
    if (m_thread.joinable()) m_thread.join();
    m_running = true;
    m_still = m_silent = false;
    m_dropped.clear();
    m_goOn = m_controller->phase() == Phase::running;
    Q_EMIT runningChanged();
    QString sentence = device.id == "cpu" ? tr("Measuring what the memory and the processor reach; about 2 s …")
                                          : tr("Measuring what %1 reaches …").arg(QString::fromStdString(device.name));
    if (m_goOn) sentence += tr(" The run pauses meanwhile and goes on afterwards.");
    Q_EMIT began(sentence);
    m_controller->pause();  // a step beside it would spoil both
    m_thread = std::jthread([this, device, make = m_controller->backendFactory(),
                            recording = m_controller->session()->recording()](std::stop_token stop) {
        while (!stop.stop_requested() && recording->phase() == Phase::running) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        Ceilings ceilings;
        QString problem;
        if (!stop.stop_requested()) {
            QMetaObject::invokeMethod(this, [this] { m_still = m_running; });
            // A backend of its own: the session's belongs to its worker.
            auto backend = make(device.id);
            if (backend) ceilings = (*backend)->measure_ceilings(stop);
            else problem = QString::fromStdString(backend.error().message());
        }
        const bool cancelled = stop.stop_requested();
        QMetaObject::invokeMethod(this, [this, device, ceilings, problem, cancelled] { finish(device, ceilings, problem, cancelled); });
    });
}

void CeilingsMeasurement::cancel() { m_thread.request_stop(); }

void CeilingsMeasurement::abandon() {
    m_silent = true;
    m_goOn = false;
    m_thread.request_stop();
}

void CeilingsMeasurement::finish(const DeviceInfo& device, const Ceilings& ceilings, const QString& problem, bool cancelled) {
    m_running = m_still = false;
    Q_EMIT runningChanged();
    if (m_silent) return;
    if (m_goOn && m_controller->hasSession() && m_controller->phase() == Phase::paused) m_controller->run();
    const QString name = QString::fromStdString(device.name);
    if (!m_dropped.isEmpty()) return Q_EMIT ended(tr("The measurement of %1 was dropped: %2.").arg(name, m_dropped));
    if (cancelled) return Q_EMIT ended(tr("The measurement of %1 was stopped; nothing was kept.").arg(name));
    if (!ceilings.measured()) {
        Q_EMIT ended(problem.isEmpty() ? tr("%1 could not be measured: there is no memory for it.").arg(name) : problem);
        return;
    }
    const std::string key = CeilingsStore::key_of(device);
    if (const auto kept = m_store.keep(key, ceilings); !kept) spdlog::warn("{}", kept.error().message());
    const bool inFocus = CeilingsStore::key_of(deviceInFocus()) == key;
    KeptCeilings known = inFocus ? m_kept : KeptCeilings{};
    known.add(ceilings);
    known = m_store.find(key).value_or(known);
    if (inFocus) handOver(known);
    Q_EMIT ended(sentence(device, known));
}

}  // namespace kvloupe
