// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/quality_measurement.h"

#include "engine/serve/quality_run.h"
#include "gui/quality_source.h"
#include "gui/session_controller.h"
#include "views/quality_holder.h"
#include "views/view.h"

#include <QLocale>
#include <QMetaObject>

#include <spdlog/spdlog.h>

#include <chrono>

namespace kvloupe {

QualityMeasurement::QualityMeasurement(QualityStore store, QObject* parent) : QObject(parent), m_store(std::move(store)) {}

QualityMeasurement::~QualityMeasurement() {
    m_thread.request_stop();
    if (m_thread.joinable()) m_thread.join();
}

void QualityMeasurement::attach(const QList<View*>& views, SessionController* controller) {
    m_views = views;
    m_controller = controller;
    connect(controller, &SessionController::sessionChanged, this, [this] {
        drop(tr("the session changed"));
        showKept();
    });
    connect(controller, &SessionController::loadingChanged, this, [this] {
        if (m_controller->isLoading()) drop(tr("another session was opened beside it"));
    });
}

void QualityMeasurement::drop(const QString& why) {
    if (!m_running || !m_dropped.isEmpty()) return;
    m_dropped = why;
    m_goOn = false;
    m_thread.request_stop();
}

std::vector<QualityStore::Lane> QualityMeasurement::lanesAtHand() const {
    std::vector<QualityStore::Lane> lanes;
    if (!m_controller || !m_controller->hasSession()) return lanes;
    for (const auto& lane : m_controller->session()->recording()->lanes())
        if (lane->info().weights_id != 0) lanes.push_back({lane->info().name, quality_key(lane->info())});
    return lanes;
}

void QualityMeasurement::showKept() {
    const auto kept = m_store.find(lanesAtHand());
    handOver(kept ? std::make_shared<const QualityReport>(*kept) : nullptr);
}

void QualityMeasurement::handOver(std::shared_ptr<const QualityReport> report) {
    m_shown = std::move(report);
    for (View* view : m_views)
        if (auto* holder = dynamic_cast<QualityHolder*>(view)) holder->setQuality(m_shown);
}

QString QualityMeasurement::sentence(const QualityReport& report) {
    const QLocale locale(QLocale::English);
    QStringList parts;
    for (const LaneQuality& lane : report.lanes)
        if (lane.perplexity.measured())
            parts << tr("%1 %2 (%3 to %4)").arg(QString::fromStdString(lane.lane))
                         .arg(lane.perplexity.value, 0, 'f', 3).arg(lane.perplexity.low, 0, 'f', 3).arg(lane.perplexity.high, 0, 'f', 3);
    return tr("Perplexity over %1, %2 tokens: %3.")
        .arg(QString::fromStdString(report.text), locale.toString(qulonglong(report.tokens)), parts.join(QStringLiteral(", ")));
}

void QualityMeasurement::measure(const QualityChoice& choice) {
    if (m_running) return;
    if (lanesAtHand().empty()) return Q_EMIT ended(tr("Open a model first: an accounting lane has nothing to measure."));
    const Scenario scenario = m_controller->session()->scenario();
    auto source = choice.file.isEmpty() ? default_quality_source(scenario) : quality_source_of_file(choice.file.toStdString());
    if (!source) return Q_EMIT ended(QString::fromStdString(source.error().message()));
    if (m_thread.joinable()) m_thread.join();
    m_running = true;
    m_silent = false;
    m_dropped.clear();
    m_before = m_shown;
    m_goOn = m_controller->phase() == Phase::running;
    Q_EMIT runningChanged();
    QString text = tr("Measuring quality on %1 …").arg(QString::fromStdString(source->name));
    if (m_goOn) text += tr(" The run pauses meanwhile and goes on afterwards.");
    Q_EMIT began(text);
    auto started = std::make_shared<QualityReport>();
    started->state = QualityReport::State::running;
    started->text = source->name;
    handOver(started);
    m_controller->pause();  // one computes at a time: both share the threads
    QualityOptions options;
    options.source = source->first(choice.texts, choice.questions);
    options.reference = choice.reference.toStdString();
    m_thread = std::jthread([this, scenario, options, session = m_controller->sessionOptions(),
                            recording = m_controller->session()->recording()](std::stop_token stop) mutable {
        while (!stop.stop_requested() && recording->phase() == Phase::running) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        options.stop = stop;
        options.progress = [this](double fraction, const std::string& what) {
            const QString line = tr("Measuring quality: %1 %. %2").arg(int(100 * fraction)).arg(QString::fromStdString(what));
            QMetaObject::invokeMethod(this, [this, line] { if (m_running && !m_silent && m_dropped.isEmpty()) Q_EMIT progressed(line); });
        };
        options.partial = [this](const QualityReport& partial) {
            auto shared = std::make_shared<const QualityReport>(partial);
            QMetaObject::invokeMethod(this, [this, shared] { if (m_running && !m_silent && m_dropped.isEmpty()) handOver(shared); });
        };
        auto measured = measure_quality(scenario, session, options);
        const QString problem = measured ? QString() : QString::fromStdString(measured.error().message());
        auto report = measured ? std::make_shared<const QualityReport>(std::move(*measured)) : nullptr;
        QMetaObject::invokeMethod(this, [this, report, problem] { finish(report, problem); });
    });
}

void QualityMeasurement::cancel() { m_thread.request_stop(); }

void QualityMeasurement::abandon() {
    m_silent = true;
    m_goOn = false;
    m_thread.request_stop();
}

void QualityMeasurement::finish(std::shared_ptr<const QualityReport> report, const QString& problem) {
    m_running = false;
    Q_EMIT runningChanged();
    if (m_silent) return;
    if (m_goOn && m_controller->hasSession() && m_controller->phase() == Phase::paused) m_controller->run();
    if (!m_dropped.isEmpty()) {
        showKept();
        return Q_EMIT ended(tr("Measuring quality was dropped: %1.").arg(m_dropped));
    }
    if (!report || !report->complete()) {
        handOver(m_before);
        return Q_EMIT ended(m_thread.get_stop_token().stop_requested() ? tr("Measuring quality was stopped; nothing was kept.") : problem);
    }
    if (const auto kept = m_store.keep(*report); !kept) spdlog::warn("{}", kept.error().message());
    handOver(report);
    for (const LaneQuality& lane : report->lanes)
        if (!lane.failure.empty())
            return Q_EMIT ended(tr("Lane %1 was not measured: %2").arg(QString::fromStdString(lane.lane), QString::fromStdString(lane.failure)));
    Q_EMIT ended(sentence(*report));
}

}  // namespace kvloupe
