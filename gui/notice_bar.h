// SPDX-License-Identifier: GPL-3.0-or-later
//
// One sentence above the views that stays until it is answered or closed: what could not be opened, why a lane stopped.
#pragma once

#include <QFrame>

class QLabel;
class QPushButton;

namespace kvloupe {

class NoticeBar : public QFrame {
    Q_OBJECT

public:
    explicit NoticeBar(QWidget* parent = nullptr);

    // action "": no button.
    void show(const QString& sentence, const QString& action = {});
    QString sentence() const;
    bool hasAction() const;

Q_SIGNALS:
    void acted();

private:
    QLabel* m_text;
    QPushButton* m_action;
};

}  // namespace kvloupe
