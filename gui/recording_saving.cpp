// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/recording_saving.h"

#include "gui/environment.h"

#include "engine/record/kvt_reader.h"
#include "engine/record/kvt_writer.h"

#include <QDir>
#include <QMetaObject>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace kvloupe {

namespace {

// Beside its place first: what stands there stays until the new one is whole.
Result<void> write_beside(const std::shared_ptr<const Recording>& recording, const std::string& path, const std::string& scenario,
                          const SavedSteps& wanted) {
    const std::string part = path + ".part";
    std::error_code error;
    std::filesystem::remove(part, error);
    std::size_t steps = 0;  // those of now: a session that runs on would never be written out
    for (const auto& lane : recording->lanes()) steps = std::max(steps, lane->step_count());
    const std::size_t end = std::min(wanted.end, steps);
    KvtOptions options = kvt_options(part, scenario);
    options.strip = wanted.stripped;
    if (!wanted.machine.empty()) options.machine = wanted.machine;
    if (auto written = write_kvt(recording, options, wanted.first, end); !written) return written;
    std::filesystem::rename(part, path, error);
    if (!error) return {};
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    return Error{path + " cannot be written (" + error.message() + ")", "Choose another name or folder"};
}

}  // namespace

SavedSteps SavedSteps::of(const StoredRecording* file) {
    SavedSteps steps;
    if (!file) return steps;
    if (const auto found = file->meta.find("stripped"); found != file->meta.end()) steps.stripped = found->second == "1";
    if (const auto found = file->meta.find("machine"); found != file->meta.end()) steps.machine = found->second;
    return steps;
}

RecordingSaving::~RecordingSaving() = default;

void RecordingSaving::save(std::shared_ptr<const Recording> recording, const QString& path, const std::string& scenario,
                           SavedSteps steps) {
    if (m_running || !recording) return;
    m_running = true;
    m_thread = std::jthread([this, recording = std::move(recording), path, scenario, steps] {
        const auto written = write_beside(recording, path.toStdString(), scenario, steps);
        const QString sentence = written ? tr("The recording lies in %1.").arg(QDir::toNativeSeparators(path))
                                         : QString::fromStdString(written.error().message());
        QMetaObject::invokeMethod(this, [this, sentence] {
            m_running = false;
            Q_EMIT ended(sentence);
        });
    });
}

}  // namespace kvloupe
