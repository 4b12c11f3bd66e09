// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/flight_recorder.h"

#include "engine/record/last_minutes.h"

#include <QDateTime>
#include <QDir>
#include <QRegularExpression>
#include <QSettings>

#include <algorithm>

namespace kvloupe {

FlightRecorder::FlightRecorder(QObject* parent) : QObject(parent), m_saving(this) {
    const QSettings settings;
    m_settings.minutes = std::clamp(settings.value(QStringLiteral("flight/minutes"), 0).toInt(), 0, 24 * 60);
    m_settings.folder = settings.value(QStringLiteral("flight/folder")).toString();
    connect(&m_saving, &RecordingSaving::ended, this,
            [this](const QString& sentence) { Q_EMIT told(tr("Flight recorder: %1").arg(sentence)); });
}

void FlightRecorder::setSettings(const FlightSettings& chosen) {
    m_settings = chosen;
    QSettings settings;
    settings.setValue(QStringLiteral("flight/minutes"), chosen.minutes);
    settings.setValue(QStringLiteral("flight/folder"), chosen.folder);
}

QString FlightRecorder::fileName(const QString& title, std::size_t step, const QString& time) {
    QString name = QStringLiteral("%1, step %2, %3").arg(title.isEmpty() ? QStringLiteral("session") : title, QString::number(step), time);
    static const QRegularExpression unfit(QStringLiteral("[\\x00-\\x1f/\\\\:*?\"<>|]"));
    return name.replace(unfit, QStringLiteral("-")) + QStringLiteral(".kvt");
}

void FlightRecorder::look(const std::shared_ptr<const Recording>& recording, const std::string& scenario) {
    if (!on() || !recording || m_saving.running()) return;
    const Phase phase = recording->phase();
    const auto focus = recording->pause_focus();
    if (phase != Phase::failed && !(phase == Phase::paused && focus)) return;
    std::size_t steps = 0;
    for (const auto& lane : recording->lanes()) steps = std::max(steps, lane->step_count());
    const QString why = QStringLiteral("%1 %2").arg(QString::number(steps), QString::fromStdString(recording->reason()));
    if (steps == 0 || (m_saved.lock() == recording && m_why == why)) return;
    m_saved = recording;
    m_why = why;
    const QDir folder(m_settings.folder);
    if (!folder.mkpath(QStringLiteral("."))) {
        const QString shown = QDir::toNativeSeparators(m_settings.folder);
        Q_EMIT told(tr("Flight recorder: the folder %1 cannot be made. Choose another one.").arg(shown));
        return;
    }
    const QString name = fileName(QString::fromStdString(recording->title()), steps - 1,
            QDateTime::currentDateTime().toString(QStringLiteral("yyyy-MM-dd HH-mm-ss")));
    m_saving.save(recording, folder.filePath(name), scenario, {first_step_of_last_minutes(*recording, static_cast<unsigned>(m_settings.minutes)), steps});
}

}  // namespace kvloupe
