// SPDX-License-Identifier: GPL-3.0-or-later
//
// One sentence above the views that stays until it is answered or closed: what could not be opened, why a lane stopped.
// A passing one (work that is done, what came of it) lies over it meanwhile; the newest is on top.
#pragma once

#include <QFrame>
#include <QString>

class QLabel;
class QPushButton;

namespace kvloupe {

class NoticeBar : public QFrame {
    Q_OBJECT

public:
    explicit NoticeBar(QWidget* parent = nullptr);

    // action "": no button.
    void show(const QString& sentence, const QString& action = {});
    // Over the one that stands, which comes back when this one is closed.
    void showPassing(const QString& sentence, const QString& action = {});
    // Takes away the one that stands.
    void clear();
    // What is read now; "" if nothing is.
    QString sentence() const;
    bool hasAction() const { return !m_standing.action.isEmpty(); }  // the one that stands

Q_SIGNALS:
    void acted();         // the button of the one that stands
    void passingActed();  // the passing one's

private:
    struct Message {
        QString sentence;
        QString action;
        bool operator==(const Message& other) const { return sentence == other.sentence && action == other.action; }
    };
    Message& top() { return m_passingOnTop ? m_passing : m_standing; }
    void dismiss();
    void refresh();

    Message m_standing;
    Message m_passing;
    bool m_passingOnTop = false;
    QLabel* m_text;
    QPushButton* m_action;
};

}  // namespace kvloupe
