// SPDX-License-Identifier: GPL-3.0-or-later
//
// QualityDialog: on which text, how much of it, and against which lane quality is measured.
#pragma once

#include "gui/quality_measurement.h"

#include <QDialog>

class QComboBox;
class QLabel;
class QLineEdit;
class QPushButton;
class QSpinBox;

namespace kvloupe {

class QualityDialog : public QDialog {
    Q_OBJECT

public:
    // lanes: those with a model. stories: they all know the bundled models' stories.
    QualityDialog(const QStringList& lanes, bool stories, QWidget* parent = nullptr);

    QualityChoice choice() const;
    void setFile(const QString& path);

private:
    void check();

    QComboBox* m_text;
    QLineEdit* m_file;
    QPushButton* m_browse;
    QSpinBox *m_texts, *m_questions;
    QComboBox* m_reference;
    QLabel* m_sentence;
    QPushButton* m_measure;
    bool m_stories;
};

}  // namespace kvloupe
