// SPDX-License-Identifier: GPL-3.0-or-later
//
// SavedQuestions: questions in SQL to recordings, ready-made ones and the user's own, which the settings keep.
#pragma once

#include <QString>

#include <vector>

namespace kvloupe {

struct SavedQuestion {
    QString title;
    QString sql;
    bool own = false;  // the user's
};

class SavedQuestions {
public:
    SavedQuestions();  // reads the settings

    // The user's first, then the ready-made.
    const std::vector<SavedQuestion>& all() const { return m_all; }
    static std::vector<SavedQuestion> readyMade();
    // Under an own title; one of that title is replaced.
    void keep(const QString& title, const QString& sql);
    // False where it is no own one.
    bool remove(const QString& title);

private:
    void write() const;

    std::vector<SavedQuestion> m_all;
};

}  // namespace kvloupe
