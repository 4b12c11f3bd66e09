// SPDX-License-Identifier: GPL-3.0-or-later
//
// Next token: the ten most probable tokens where the sequence in focus sampled last, the chosen one marked.
#pragma once

#include "views/view.h"

#include "views/token_track.h"

namespace kvloupe {

class NextTokenView : public View {
    Q_OBJECT

public:
    explicit NextTokenView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    const TokenRecord* shownRecord() const { return m_record; }
    QString takenBy() const;  // "sampled", "beam", "forced": how the shown record's token was chosen

protected:
    void refresh() override;
    void settle() override { m_track.settle(); }

private:
    TokenTrack m_track;
    const TokenRecord* m_record = nullptr;
};

}  // namespace kvloupe
