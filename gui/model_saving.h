// SPDX-License-Identifier: GPL-3.0-or-later
//
// ModelSaving: writes a lane's model into a folder beside the window, with progress and cancel. The folder appears whole or not at
// all.
#pragma once

#include <QObject>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/model/model.h"

#include <QString>

#include <memory>
#include <stop_token>
#include <thread>

namespace kvloupe {

class ModelSaving : public QObject {
    Q_OBJECT

public:
    explicit ModelSaving(QObject* parent = nullptr) : QObject(parent) {}
    ~ModelSaving() override;

    // folder: new or empty; its parent exists. lane: for the sentences.
    void save(std::shared_ptr<const Model> model, const QString& lane, const QString& folder);
    void cancel();
    // The window closes: no word about it.
    void abandon();
    bool running() const { return m_running; }

Q_SIGNALS:
    void runningChanged();
    void progressed(const QString& sentence);
    void ended(const QString& sentence);  // where it lies, or why it does not; not after abandon()

private:
    bool m_running = false;
    bool m_silent = false;
    std::stop_source m_stop;  // of the saving at hand
    std::jthread m_thread;
};

}  // namespace kvloupe
