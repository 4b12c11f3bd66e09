// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/query_wiring.h"

#include "gui/session_controller.h"
#include "views/query_view.h"
#include "views/tracks_view.h"

namespace kvloupe {

QueryWiring::QueryWiring(QObject* parent) : QObject(parent), m_tracks(this) {
    m_count = m_tracks.tracks().size();
    connect(&m_tracks, &QueryTracks::changed, this, [this] {
        const std::size_t before = m_count;
        m_count = m_tracks.tracks().size();
        if (m_count > before) Q_EMIT pinned();
    });
}

void QueryWiring::attach(const QList<View*>& views, SessionController* controller) {
    for (View* view : views) {
        if (auto* drawn = qobject_cast<TracksView*>(view)) drawn->setTracks(&m_tracks);
        auto* asks = qobject_cast<QueryView*>(view);
        if (!asks) continue;
        asks->setTracks(&m_tracks);
        connect(controller, &SessionController::sessionChanged, asks, [asks, controller] { asks->setFile(controller->filePath()); });
    }
}

}  // namespace kvloupe
