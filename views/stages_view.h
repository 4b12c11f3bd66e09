// SPDX-License-Identifier: GPL-3.0-or-later
//
// StagesView ("stages"): where a step's time went, stage by stage: µs, bytes, GB/s, what bounds it and its share of what the
// device reaches. One step, or the sum over the decode steps up to the cursor; a click on a column's head sorts. A pinned
// step stays to be compared with.
#pragma once

#include "views/ceilings_view.h"
#include "views/stages_model.h"
#include "views/table_pane.h"

class QComboBox;
class QLabel;
class QPushButton;

namespace kvloupe {

class StagesView : public TablePane, public CeilingsView {
    Q_OBJECT

public:
    explicit StagesView(Cursor* cursor, QWidget* parent = nullptr);

    void setCeilings(const Ceilings& ceilings) override;
    const Ceilings& ceilings() const { return m_ceilings; }
    void setSummed(bool summed);
    // The step shown now becomes the one to compare with.
    void setPinned(bool pinned);
    StagesModel* model() const { return m_model; }

protected:
    void refresh() override;
    void refreshSelection() override {}
    std::vector<int> columnsByWeight() const override;

private:
    void showCeilings(const LaneRecord& lane);
    void updateColumns();
    void goTo(const QModelIndex& index);

    StagesModel* m_model;
    StagesProxy* m_proxy;
    QComboBox* m_sumBox;
    QPushButton* m_pin;
    QLabel* m_ceilingsLabel;
    QPushButton* m_measure;
    Ceilings m_ceilings;
    int m_shownStep = -1;      // that the numbers are of, or up to which they are summed
    bool m_compared = false;   // the columns of differences are there
};

}  // namespace kvloupe
