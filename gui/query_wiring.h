// SPDX-License-Identifier: GPL-3.0-or-later
//
// QueryWiring: gives the window's views of questions and tracks what they share: the pinned tracks, and the file that is open.
#pragma once

#include "views/query_tracks.h"

#include <QList>

namespace kvloupe {

class SessionController;
class View;

class QueryWiring : public QObject {
    Q_OBJECT

public:
    explicit QueryWiring(QObject* parent = nullptr);

    // controller: outlives it.
    void attach(const QList<View*>& views, SessionController* controller);
    QueryTracks* tracks() { return &m_tracks; }

Q_SIGNALS:
    void pinned();  // there is a track more

private:
    QueryTracks m_tracks;
    std::size_t m_count = 0;
};

}  // namespace kvloupe
