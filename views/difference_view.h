// SPDX-License-Identifier: GPL-3.0-or-later
//
// DifferenceView ("difference"): the table of what differs between the lane in focus and the one that it is compared with. It is
// worked out by a job; Enter or a double click on where they part moves both cursors there.
#pragma once

#include "views/background_job.h"
#include "views/difference_model.h"
#include "views/table_pane.h"

namespace kvloupe {

class DifferenceView : public TablePane {
    Q_OBJECT

public:
    explicit DifferenceView(Cursor* cursor, QWidget* parent = nullptr);
    ~DifferenceView() override;

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    std::vector<ViewChoice> choices() const override;
    const DifferenceModel* model() const { return m_model; }
    // Both cursors to the first difference of a kind, as soon as it is known; told() says where there is none.
    void goToFirst(Parting::Kind kind);
    bool computing() const { return m_job.running(); }
    void settle() override;  // waits for the job

Q_SIGNALS:
    void told(const QString& sentence);

protected:
    int refreshInterval() const override { return 500; }
    void refresh() override;
    void refreshSelection() override {}
    void setChoice(const QString& key, int index) override;
    std::vector<int> columnsByWeight() const override;
    bool eventFilter(QObject* object, QEvent* event) override;

private:
    // What is compared, and up to which steps.
    struct Subject {
        std::shared_ptr<const Recording> here, there;
        LaneId lane, other;
        std::size_t hereSteps = 0, thereSteps = 0;
        bool times = true;
        bool operator==(const Subject&) const = default;
        bool sameLanes(const Subject& o) const {
            return here == o.here && there == o.there && lane == o.lane && other == o.other && times == o.times;
        }
    };
    Subject subject() const;  // here is null where nothing is compared
    void compute();
    void showDiff(RecordingDiff diff);
    void goTo(int row);
    void jump(Parting::Kind kind);
    void forget();
    void tellRow();
    void limitTexts();
    void explain();

    DifferenceModel* m_model;
    BackgroundJob m_job;
    Subject m_of;         // what the model shows
    Subject m_computing;  // what the job works on
    std::optional<Parting::Kind> m_wanted;
    bool m_times = true;
};

}  // namespace kvloupe
