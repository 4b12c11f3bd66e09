// SPDX-License-Identifier: GPL-3.0-or-later
//
// BlockValuesStore: the window's source of what blocks hold: asks the session's worker and looks for the answer while one is
// outstanding. The newest question counts; an answer that is still true is not asked for again.
#pragma once

#include "views/block_values_source.h"

#include <QList>
#include <QTimer>

#include <memory>
#include <optional>

namespace kvloupe {

class SessionController;
class View;

class BlockValuesStore : public BlockValuesSource {
    Q_OBJECT

public:
    // controller: outlives it.
    explicit BlockValuesStore(SessionController* controller, QObject* parent = nullptr);

    // Becomes the source of those of them that show blocks.
    void attach(const QList<View*>& views);

    void ask(const BlockQuestion& question) override;
    std::shared_ptr<const BlockValues> answer() const override { return m_answer; }

private:
    void look();

    SessionController* m_controller;
    QTimer m_timer;                              // runs while an answer is outstanding
    std::optional<BlockQuestion> m_asked;        // outstanding
    std::size_t m_askedSteps = 0;                // of its lane when it was asked
    std::shared_ptr<const BlockValues> m_before; // what the session had answered until then
    std::shared_ptr<const BlockValues> m_answer;
};

}  // namespace kvloupe
