// SPDX-License-Identifier: GPL-3.0-or-later
//
// LedgerView ("ledger"): every number that layouts predict beside the one that the allocator's counters measure, at the
// cursor's step, with the residual and what it is made of; below them what attention moved beside FlashAttention's formula.
// The row that was chosen is told in full below the table.
#pragma once

#include "views/ledger_model.h"
#include "views/table_pane.h"

namespace kvloupe {

class LedgerView : public TablePane {
    Q_OBJECT

public:
    explicit LedgerView(Cursor* cursor, QWidget* parent = nullptr);

    void paintContent(QPainter& painter, const QRectF& area) override;
    std::vector<ViewChoice> choices() const override;
    const LedgerModel* model() const { return m_model; }

protected:
    void refresh() override;
    void refreshSelection() override {}
    void setChoice(const QString& key, int index) override;
    std::vector<int> columnsByWeight() const override;
    int refreshInterval() const override { return 100; }  // walks the state of every lane
    bool eventFilter(QObject* object, QEvent* event) override;

private:
    void tellRow();
    void limitTexts();  // sentences get the room that the numbers leave

    LedgerModel* m_model;
    bool m_allLanes = true;
};

}  // namespace kvloupe
