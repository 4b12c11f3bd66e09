// SPDX-License-Identifier: GPL-3.0-or-later
//
// One request (while a session runs) or a whole new session over one prompt.
#pragma once

#include <QDialog>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/serve/scenario.h"

class QCheckBox;
class QComboBox;
class QDialogButtonBox;
class QDoubleSpinBox;
class QLabel;
class QPlainTextEdit;
class QSpinBox;

namespace kvloupe {

class RequestDialog : public QDialog {
    Q_OBJECT

public:
    enum class Purpose { addRequest, newSession };

    // start: what the fields show first; for newSession the scenario's lanes and first request.
    RequestDialog(Purpose purpose, const Scenario& start, QWidget* parent = nullptr);

    RequestOptions request() const;
    // newSession: the scenario with the fields' values.
    Scenario scenario() const;

private:
    void checkText();

    Purpose m_purpose;
    Scenario m_start;
    QPlainTextEdit* m_prompt;
    QSpinBox* m_newTokens;
    QDoubleSpinBox* m_temperature;
    QSpinBox* m_topK;
    QDoubleSpinBox* m_topP;
    QSpinBox* m_seed;
    QSpinBox* m_blockSize = nullptr;
    QSpinBox* m_blocks = nullptr;
    QComboBox* m_dtype = nullptr;
    QString m_startDtype;
    QSpinBox* m_uncachedLimit = nullptr;
    QList<QCheckBox*> m_lanes;
    QDialogButtonBox* m_buttons;
};

}  // namespace kvloupe
