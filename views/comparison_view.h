// SPDX-License-Identifier: GPL-3.0-or-later
//
// ComparisonView ("comparison"): the lanes side by side as a table, at the cursor's step.
#pragma once

#include "views/comparison_model.h"
#include "views/quality_holder.h"
#include "views/table_pane.h"

namespace kvloupe {

class ComparisonView : public TablePane, public QualityHolder {
    Q_OBJECT

public:
    explicit ComparisonView(Cursor* cursor, QWidget* parent = nullptr);

    void setQuality(std::shared_ptr<const QualityReport> report) override;

protected:
    void refresh() override;
    std::vector<int> columnsByWeight() const override;

private:
    QString formula() const;

    ComparisonModel* m_model;
};

}  // namespace kvloupe
