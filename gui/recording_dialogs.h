// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the user says about recordings: which steps are saved, and what the flight recorder keeps.
#pragma once

#include <QDialog>

#include "gui/flight_recorder.h"

class QLineEdit;
class QSpinBox;

namespace kvloupe {

// Steps of a recording of `steps` steps, from 0; what is in sight is proposed.
class StepRangeDialog : public QDialog {
    Q_OBJECT

public:
    StepRangeDialog(int steps, int first, int last, QWidget* parent = nullptr);

    SavedSteps steps() const;

private:
    QSpinBox *m_first, *m_last;
};

class FlightDialog : public QDialog {
    Q_OBJECT

public:
    explicit FlightDialog(const FlightSettings& settings, QWidget* parent = nullptr);

    FlightSettings settings() const;

private:
    QSpinBox* m_minutes;
    QLineEdit* m_folder;
};

}  // namespace kvloupe
