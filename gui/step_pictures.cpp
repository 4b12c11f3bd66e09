// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/step_pictures.h"

#include "views/view.h"
#include "views/view_factory.h"

#include <QDir>
#include <QFileInfo>

namespace kvloupe {

StepPictures::StepPictures(std::shared_ptr<const Recording> recording, LaneId lane, const QString& view, QSize size) {
    m_cursor.setRecording(std::move(recording));
    m_cursor.advanced();
    m_cursor.setLane(lane);
    m_view = createView(view, &m_cursor, nullptr);
    m_view->resize(size);
    m_view->ensurePolished();
}

StepPictures::~StepPictures() = default;

Result<QString> StepPictures::write(std::size_t step, const QString& path, double scale) {
    m_cursor.setStep(static_cast<int>(step));
    const bool pixels = path.endsWith(QLatin1String(".png"), Qt::CaseInsensitive);
    if (const QString problem = m_view->exportTo(path, pixels ? scale : 1.0); !problem.isEmpty()) return Error{problem.toStdString(), ""};
    return m_view->emptyReason();
}

bool StepPictures::namesFolder(const QString& to) {
    return to.endsWith(QLatin1Char('/')) || QFileInfo(to).isDir() || QFileInfo(to).suffix().isEmpty();
}

QString StepPictures::pathOf(const QString& to, const QString& view, std::size_t step, std::size_t lastStep) {
    const bool folder = namesFolder(to);
    const QFileInfo info(to);
    const QString name = QStringLiteral("%1-%2.%3")
                             .arg(folder ? view : info.completeBaseName())
                             .arg(step, static_cast<int>(std::to_string(lastStep).size()), 10, QLatin1Char('0'))
                             .arg(folder ? QStringLiteral("png") : info.suffix());
    return (folder ? QDir(to) : info.dir()).filePath(name);
}

}  // namespace kvloupe
