// SPDX-License-Identifier: GPL-3.0-or-later
//
// Asks for a sequence of pictures: which view, which steps, how large, into which folder.
#pragma once

#include <QDialog>
#include <QSize>
#include <QString>

#include <cstddef>

class QComboBox;
class QDoubleSpinBox;
class QLabel;
class QLineEdit;
class QPushButton;
class QSpinBox;

namespace kvloupe {

struct PictureSequence {
    QString view;                       // id
    std::size_t first = 0, last = 0;    // steps, both included
    QSize size{1000, 640};              // device-independent pixels
    double scale = 2;
    QString folder;
};

class PictureSequenceDialog : public QDialog {
    Q_OBJECT

public:
    // proposed: what stands in the fields at first; steps: of the lane in focus.
    PictureSequenceDialog(const PictureSequence& proposed, std::size_t steps, QWidget* parent = nullptr);
    PictureSequence sequence() const;

private:
    void refreshText();

    QSize m_size;
    QComboBox* m_view;
    QSpinBox *m_first, *m_last;
    QDoubleSpinBox* m_scale;
    QLineEdit* m_folder;
    QLabel* m_says;
    QPushButton* m_write = nullptr;
};

}  // namespace kvloupe
