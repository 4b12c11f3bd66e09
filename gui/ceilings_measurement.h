// SPDX-License-Identifier: GPL-3.0-or-later
//
// CeilingsMeasurement: what the device of the lane in focus reaches, as kept from an earlier day or measured now, handed to
// every view that holds stages against it. A measurement runs beside the window while the engine stands still, with cancel.
#pragma once

#include <QObject>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "gui/ceilings_store.h"

#include <QList>
#include <QString>

#include <thread>

namespace kvloupe {

class SessionController;
class View;

class CeilingsMeasurement : public QObject {
    Q_OBJECT

public:
    // store: where measurements are kept.
    explicit CeilingsMeasurement(CeilingsStore store, QObject* parent = nullptr);
    ~CeilingsMeasurement() override;

    void attach(const QList<View*>& views, SessionController* controller);
    // Pauses the engine, measures the device of the lane in focus, and lets the engine go on if it ran.
    void measure();
    void cancel();
    // The window closes: no word about it, and nothing goes on.
    void abandon();
    bool running() const { return m_running; }
    // Of the device of the lane in focus; not measured(): unknown.
    const Ceilings& ceilings() const { return m_kept.best; }
    // What is known of a device in one sentence, with the data sheet's numbers beside where it is a card that we know.
    static QString sentence(const DeviceInfo& device, const KeptCeilings& kept);

Q_SIGNALS:
    void runningChanged();
    void began(const QString& sentence);
    void ended(const QString& sentence);  // what was measured, or why nothing was; not after abandon()

private:
    DeviceInfo deviceInFocus() const;
    void showKept();
    void drop(const QString& why);
    void handOver(const KeptCeilings& kept);
    void finish(const DeviceInfo& device, const Ceilings& ceilings, const QString& problem, bool cancelled);

    CeilingsStore m_store;
    QList<View*> m_views;
    SessionController* m_controller = nullptr;
    KeptCeilings m_kept;
    QString m_shownKey;
    bool m_running = false;
    bool m_still = false;    // the engine stands still, and the measurement began
    bool m_goOn = false;     // the engine ran when it was asked for
    bool m_silent = false;
    QString m_dropped;       // why it was given up, "" if it was not
    std::jthread m_thread;
};

}  // namespace kvloupe
