// SPDX-License-Identifier: GPL-3.0-or-later
//
// Branch: a lane that continues another one from a step, and what is different about it.
#pragma once

#include <QDialog>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/record/recording.h"
#include "engine/serve/branch.h"

#include <functional>
#include <memory>

class QComboBox;
class QDialogButtonBox;
class QLabel;
class QLineEdit;
class QSpinBox;

namespace kvloupe {

class BranchDialog : public QDialog {
    Q_OBJECT

public:
    // What is shown first.
    struct Start {
        LaneId lane;
        SequenceId sequence;  // in focus: its alternatives stand first
        int step = 0;
    };
    // The scenario with the branch, or why there is none.
    using Try = std::function<Result<Scenario>(const BranchWish&)>;

    BranchDialog(std::shared_ptr<const Recording> recording, const Start& start, Try tryOut, QWidget* parent = nullptr);

    BranchWish wish() const;
    void accept() override;  // stays open, with the reason, where the branch cannot be

private:
    const LaneRecord& lane() const;
    void fillTokens();
    void fillHints();
    void check();

    std::shared_ptr<const Recording> m_recording;
    SequenceId m_sequence;
    Try m_try;
    QComboBox* m_lane;
    QSpinBox* m_step;
    QLineEdit* m_name;
    QComboBox *m_policy, *m_precision;
    QSpinBox *m_blockSize, *m_blocks;
    QComboBox* m_token;
    QLineEdit* m_more;
    QLabel* m_sentence;
    QDialogButtonBox* m_buttons;
};

}  // namespace kvloupe
