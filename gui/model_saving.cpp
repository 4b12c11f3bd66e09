// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/model_saving.h"

#include "engine/model/save_model.h"

#include <QDir>
#include <QMetaObject>

namespace kvloupe {

ModelSaving::~ModelSaving() {
    m_stop.request_stop();
    if (m_thread.joinable()) m_thread.join();
}

void ModelSaving::save(std::shared_ptr<const Model> model, const QString& lane, const QString& folder) {
    if (m_running) return;
    if (m_thread.joinable()) m_thread.join();
    m_running = true;
    m_stop = {};
    Q_EMIT runningChanged();
    Q_EMIT progressed(tr("Saving the model of lane %1 …").arg(lane));
    m_thread = std::jthread([this, model = std::move(model), lane, folder, stop = m_stop.get_token()] {
        LoadOptions run;
        run.stop = stop;
        int told = -1;
        run.progress = [this, &told, &lane](double fraction, const std::string&) {
            const int percent = static_cast<int>(100 * fraction);
            if (percent == told) return;
            told = percent;
            const QString line = tr("Saving the model of lane %1: %2 %.").arg(lane).arg(percent);
            QMetaObject::invokeMethod(this, [this, line] { if (m_running && !m_silent) Q_EMIT progressed(line); });
        };
        const auto saved = save_huggingface_folder(*model, folder.toStdString(), run);
        const QString sentence = saved ? tr("The model of lane %1 lies in %2.").arg(lane, QDir::toNativeSeparators(folder))
                                       : QString::fromStdString(saved.error().message());
        QMetaObject::invokeMethod(this, [this, sentence] {
            m_running = false;
            Q_EMIT runningChanged();
            if (!m_silent) Q_EMIT ended(sentence);
        });
    });
}

void ModelSaving::cancel() { m_stop.request_stop(); }

void ModelSaving::abandon() {
    m_silent = true;
    m_stop.request_stop();
}

}  // namespace kvloupe
