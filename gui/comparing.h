// SPDX-License-Identifier: GPL-3.0-or-later
//
// Comparing: what the lane in focus is compared with, for the window: its menus, a bar above the views that says what stands beside
// what, and the opening of the other recording on a thread of its own. What fails to open leaves everything as it was.
#pragma once

#include <QObject>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/record/kvt_reader.h"
#include "engine/record/recording_diff.h"
#include "engine/record/result.h"
#include "views/background_job.h"
#include "views/cursor.h"

#include <QPointer>
#include <QString>

class QAction;
class QComboBox;
class QFrame;
class QLabel;
class QMenu;

namespace kvloupe {

class DifferenceView;
class View;

class Comparing : public QObject {
    Q_OBJECT

public:
    Comparing(Cursor* cursor, QWidget* window);
    ~Comparing() override;

    void attach(const QList<View*>& views);
    QAction* openAction() const { return m_open; }   // "Compare with recording…"
    QMenu* menu() const { return m_menu; }           // lanes, alignment, what views show, the end of it
    QMenu* firstMenu() const { return m_first; }     // to the first other token, block table, logit
    QWidget* bar() const;                            // hidden while nothing is compared

    void choose();                    // asks for a file
    void open(const QString& path);   // a recording (.kvt); another one that is being opened is dropped
    bool isOpening() const { return m_job.running(); }
    // The lane in focus against another one of its recording, or of the other recording that is open.
    void compareWithLane(LaneId lane);
    void compareWithOther(LaneId lane);
    void alignBy(Alignment alignment);
    void stop();
    void goToFirst(Parting::Kind kind);
    QString sentence() const;         // what the bar says; "" while nothing is compared

Q_SIGNALS:
    void told(const QString& sentence);  // why it did not open, or what there is to know about it
    void differencesWanted();

private:
    void buildBar(QWidget* window);
    void buildMenu();
    void fillLanes(QMenu* lanes);
    void start();
    void opened(const QString& path, Result<StoredRecording>& stored);
    void follow();   // the lane in focus changed
    void update();
    void updateText();
    bool eventFilter(QObject* object, QEvent* event) override;

    Cursor* m_cursor;
    QPointer<QWidget> m_window;
    QList<View*> m_views;             // that can draw a difference
    DifferenceView* m_differences = nullptr;
    QAction *m_open, *m_stop = nullptr, *m_shown = nullptr;
    QMenu *m_menu, *m_first;
    QFrame* m_bar = nullptr;
    QLabel* m_text = nullptr;
    QComboBox* m_alignmentBox = nullptr;
    Alignment m_alignment = Alignment::step;
    std::shared_ptr<const Recording> m_other;  // opened beside the one that is shown
    QString m_otherName;
    QString m_wanted;                 // path to be opened next
    LaneId m_lane;                    // in focus before
    BackgroundJob m_job;
};

}  // namespace kvloupe
