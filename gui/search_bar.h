// SPDX-License-Identifier: GPL-3.0-or-later
//
// SearchBar: "next copy-on-write of request a": finds events of the lane in focus from the cursor on, by kind, request, block and
// words of their sentences. What is found moves the cursor and is locked. The search runs beside the window.
#pragma once

#include "views/background_job.h"
#include "views/cursor.h"
#include "views/event_search.h"

#include <QWidget>

class QComboBox;
class QLineEdit;
class QToolButton;

namespace kvloupe {

class ElidedLabel;

class SearchBar : public QWidget {
    Q_OBJECT

public:
    explicit SearchBar(Cursor* cursor, QWidget* parent = nullptr);

    void open();
    void close();
    // The next (or previous) event that matches; once the bar was open, also when it is closed again.
    void find(bool forwards);
    void stop();
    bool searching() const { return m_job.running(); }
    QString told() const;  // what came of it
    EventFilter filter() const;

Q_SIGNALS:
    void tellsHidden(const QString& sentence);  // what came of a search while the bar is closed

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    struct Search {
        std::shared_ptr<const Recording> recording;
        LaneId lane;
        EventFilter filter;
        SearchPlace from;
        bool forwards = true;
        std::optional<EventHit> hit;
    };
    void fillRequests();
    void tell(const QString& sentence, bool problem);
    void found(const Search& search);

    Cursor* m_cursor;
    QComboBox* m_kind;
    QComboBox* m_request;
    QLineEdit* m_block;
    QLineEdit* m_words;
    QToolButton *m_previous, *m_next, *m_close;
    ElidedLabel* m_told;
    BackgroundJob m_job;
};

}  // namespace kvloupe
