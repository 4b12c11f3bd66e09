// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/pictures.h"

#include "views/cursor.h"
#include "views/view.h"
#include "views/view_factory.h"

#include <QDir>
#include <QString>

namespace kvloupe {

std::vector<AttentionWatch> watch_everything() {
    std::vector<AttentionWatch> watch;
    for (std::uint32_t layer = 0; layer < 4; ++layer) watch.push_back({layer, {}});
    return watch;
}

Result<void> write_pictures(std::shared_ptr<const Recording> recording, const std::string& folder) {
    Cursor cursor;
    cursor.setRecording(std::move(recording));
    cursor.advanced();
    for (const ViewDescription& description : viewDescriptions()) {
        const std::unique_ptr<View> view = createView(description.id, &cursor, nullptr);
        view->resize(1000, 640);
        view->ensurePolished();
        for (const char* suffix : {".png", ".svg"}) {
            const QString path = QDir(QString::fromStdString(folder)).filePath(description.id + QLatin1String(suffix));
            const QString problem = view->exportTo(path, suffix[1] == 'p' ? 2.0 : 1.0);
            if (!problem.isEmpty()) return Error{problem.toStdString(), ""};
        }
    }
    return {};
}

}  // namespace kvloupe
