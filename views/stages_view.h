// SPDX-License-Identifier: GPL-3.0-or-later
//
// StagesView ("stages"): where a step's time went, stage by stage: µs, bytes, GB/s and their share of what the memory can
// do. One step, or the sum over the decode steps up to the cursor; a click on a column's head sorts.
#pragma once

#include "views/stages_model.h"
#include "views/table_pane.h"

class QComboBox;
class QLabel;
class QPushButton;

namespace kvloupe {

class StagesView : public TablePane {
    Q_OBJECT

public:
    explicit StagesView(Cursor* cursor, QWidget* parent = nullptr);

    // Bytes per second of a read, measured on this machine; 0: not measured.
    void setMeasuredBandwidth(double bytesPerSecond);
    double measuredBandwidth() const { return m_bandwidth; }
    void setSummed(bool summed);
    StagesModel* model() const { return m_model; }

Q_SIGNALS:
    // The button "Measure bandwidth" was pressed; emptyAction("measure-bandwidth") is sent as well.
    void measureBandwidthRequested();

protected:
    void refresh() override;
    void refreshSelection() override {}

private:
    QString lastStepWithStages() const;

    StagesModel* m_model;
    StagesProxy* m_proxy;
    QComboBox* m_sumBox;
    QLabel* m_bandwidthLabel;
    QPushButton* m_measure;
    double m_bandwidth = 0;
};

}  // namespace kvloupe
