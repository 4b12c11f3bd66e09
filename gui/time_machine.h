// SPDX-License-Identifier: GPL-3.0-or-later
//
// TimeMachine: what moves the window's cursor through a recording: the scrubber, the search, jumps by keys, and playing an opened
// recording at a steady pace.
#pragma once

#include "views/cursor.h"

#include <QList>
#include <QTimer>
#include <QWidget>

class QAction;
class QMenu;

namespace kvloupe {

class SearchBar;
class StepScrubber;

class TimeMachine : public QWidget {
    Q_OBJECT

public:
    static constexpr int stepsPerSecond = 20;  // of playing

    explicit TimeMachine(Cursor* cursor, QWidget* parent = nullptr);

    StepScrubber* scrubber() const { return m_scrubber; }
    SearchBar* search() const { return m_search; }
    // For a window's menus; all of them are to become the window's own actions, so that their keys work everywhere.
    const QList<QAction*>& searchActions() const { return m_searchActions; }
    const QList<QAction*>& jumpActions() const { return m_jumpActions; }

    // From the cursor to the last step; from the first one where it stands at the end.
    void play();
    void stopPlaying();
    bool playing() const { return m_player.isActive(); }

Q_SIGNALS:
    void told(const QString& sentence);
    void playingChanged();

private:
    QAction* addAction(QList<QAction*>& to, const QString& text, const QKeySequence& key);
    void updateActions();
    void jumpBy(int direction);
    void jumpToMark(bool forwards);

    Cursor* m_cursor;
    StepScrubber* m_scrubber;
    SearchBar* m_search;
    QList<QAction*> m_searchActions, m_jumpActions;
    QTimer m_player;
};

}  // namespace kvloupe
