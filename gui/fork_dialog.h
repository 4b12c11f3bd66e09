// SPDX-License-Identifier: GPL-3.0-or-later
//
// Fork: a new sequence that continues a running one from its end or from an earlier position, with a text of its own.
#pragma once

#include <QDialog>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

class QCheckBox;
class QComboBox;
class QDialogButtonBox;
class QLabel;
class QLineEdit;
class QPlainTextEdit;
class QSpinBox;

namespace kvloupe {

// A running sequence that can be forked.
struct ForkParent {
    std::string name;
    std::uint32_t tokens = 0;  // written so far: the latest position at which it can be forked
};

// What the dialog was filled with; absent: inherited from the parent.
struct ForkChoice {
    std::string parent, name;
    std::optional<std::uint32_t> position;
    std::optional<std::string> prompt;
    std::optional<std::uint32_t> max_new_tokens;
};

class ForkDialog : public QDialog {
    Q_OBJECT

public:
    // chosen: name of the parent shown first, with the position of the locked token where there is one; taken: names
    // that requests and sequences have; blockSize: for the sentence about what will be shared, 0 without a cache.
    ForkDialog(std::vector<ForkParent> parents, const std::string& chosen, std::optional<std::uint32_t> position,
               std::vector<std::string> taken, std::uint32_t blockSize, QWidget* parent = nullptr);

    ForkChoice choice() const;

private:
    void check();

    std::vector<ForkParent> m_parents;
    std::vector<std::string> m_taken;
    std::uint32_t m_blockSize;
    QComboBox* m_parent;
    QLineEdit* m_name;
    QCheckBox* m_atEnd;
    QSpinBox* m_position;
    QPlainTextEdit* m_prompt;
    QSpinBox* m_newTokens;
    QLabel* m_sentence;
    QDialogButtonBox* m_buttons;
};

// The first of a, b, …, z, f27, f28, … that is not taken.
std::string freeName(const std::vector<std::string>& taken);

}  // namespace kvloupe
