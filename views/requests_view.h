// SPDX-License-Identifier: GPL-3.0-or-later
//
// Requests of the lane in focus, grouped: running, waiting, arriving later, finished; with progress, bytes and latencies.
// Forks, samples and beams stand below the sequence they come from. Or in the order of a number, such as wasted slots.
#pragma once

#include "views/growing_data.h"
#include "views/list_view.h"
#include "views/request_timeline.h"
#include "views/sequence_facts.h"

namespace kvloupe {

class Canvas;

class RequestsView : public ListView {
    Q_OBJECT

public:
    explicit RequestsView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;

protected:
    int refreshInterval() const override { return 40; }
    void refresh() override;
    QString tipAt(const QPointF& position) const override;
    Pick pickOf(int card) const override;
    void choose(int card) override;

public:
    enum class Group { running, waiting, later, finished };
    struct Entry {
        Group group = Group::running;
        QString heading;                // a heading instead of a request
        RequestId request;
        SequenceId sequence;            // none while it has not arrived
        QString name, phase, outcome;
        std::uint32_t prompt = 0, tokens = 0, computed = 0, limit = 0;  // limit: prompt + most new tokens
        std::uint64_t blocks = 0, bytes = 0, shared = 0;
        SequenceWaste waste;
        SequenceId parent;
        QString parentName;
        std::uint32_t forkedAt = 0;
        int depth = 0;                  // below its parent
        std::optional<double> queue_ms, ttft_ms, itl_ms, itl95_ms;
        QString reason;
    };
    using Shown = std::shared_ptr<const Entry>;  // what does not change is shared from step to step
    const std::vector<Shown>& entries() const { return m_entries; }
    std::vector<ViewChoice> choices() const override;
    using View::choose;  // beside the choice of a card

private:
    enum class Order { state, waste, blocks, tokens };
    void setChoice(const QString& key, int index) override;
    std::vector<std::size_t> ordered(const std::vector<Shown>& found, std::optional<Group> group) const;
    // Entries of all requests at the step, not in order: those that arrived first.
    std::vector<Shown> findEntries(int step);
    Entry entryOf(SequenceId sequence, std::size_t step, const RequestTimes& times) const;
    void paintEntry(const Canvas& canvas, const QRectF& box, const Entry& entry) const;

    static void setGaps(Entry& entry, const RequestTimes& times);
    Entry whole(Entry entry) const;

    GrowingData<RequestTimeline> m_times;
    std::vector<Shown> m_gone;   // index: SequenceId; of those that have ended and hold nothing; may be null
    std::vector<Shown> m_later;  // index: RequestId; of those that have not arrived; may be null
    const Recording* m_goneOf = nullptr;
    LaneId m_goneLane;
    std::vector<Shown> m_entries;
    Order m_order = Order::state;
};

}  // namespace kvloupe
