// SPDX-License-Identifier: GPL-3.0-or-later
//
// QualityMeasurement: what the lanes of the session are worth on held-out text, as kept from an earlier day or measured now, handed
// to every view that shows it. A measurement runs beside the window while the engine stands still, on lanes of its own, with
// progress and cancel; what is cancelled leaves what was there.
#pragma once

#include <QObject>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/record/quality.h"
#include "gui/quality_store.h"

#include <QList>
#include <QString>

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace kvloupe {

class SessionController;
class View;

// What the user asks for.
struct QualityChoice {
    QString file;              // a text of their own; "": what fits the models
    QString reference;         // a lane; "": the first one
    unsigned texts = 0;        // the first so many; 0: all
    unsigned questions = 0;
};

class QualityMeasurement : public QObject {
    Q_OBJECT

public:
    // store: where measurements are kept.
    explicit QualityMeasurement(QualityStore store, QObject* parent = nullptr);
    ~QualityMeasurement() override;

    void attach(const QList<View*>& views, SessionController* controller);
    // Pauses the engine, measures all lanes with a model, and lets the engine go on if it ran.
    void measure(const QualityChoice& choice = {});
    void cancel();
    // The window closes: no word about it, and nothing goes on.
    void abandon();
    bool running() const { return m_running; }
    // What the views show; null: nothing is known.
    std::shared_ptr<const QualityReport> report() const { return m_shown; }
    // One sentence about it.
    static QString sentence(const QualityReport& report);

Q_SIGNALS:
    void runningChanged();
    void began(const QString& sentence);
    void progressed(const QString& sentence);
    void ended(const QString& sentence);  // what was measured, or why nothing was; not after abandon()

private:
    std::vector<QualityStore::Lane> lanesAtHand() const;
    void showKept();
    void drop(const QString& why);
    void handOver(std::shared_ptr<const QualityReport> report);
    void finish(std::shared_ptr<const QualityReport> report, const QString& problem);

    QualityStore m_store;
    QList<View*> m_views;
    SessionController* m_controller = nullptr;
    std::shared_ptr<const QualityReport> m_shown;
    std::shared_ptr<const QualityReport> m_before;  // shown when the measurement began
    bool m_running = false;
    bool m_goOn = false;     // the engine ran when it was asked for
    bool m_silent = false;
    QString m_dropped;       // why it was given up, "" if it was not
    std::jthread m_thread;
};

}  // namespace kvloupe
