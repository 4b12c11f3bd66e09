// SPDX-License-Identifier: GPL-3.0-or-later
//
// Requests of the lane in focus, grouped: running, waiting, arriving later, finished; with progress, bytes and latencies.
// Forks, samples and beams stand below the sequence they come from. Or in the order of a number, such as wasted slots.
#pragma once

#include "views/growing_data.h"
#include "views/list_view.h"
#include "views/request_timeline.h"
#include "views/sequence_facts.h"

#include <array>
#include <memory>

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
    // In the order of the cards; valid until the next refresh.
    std::size_t count() const { return m_items.size(); }
    const Entry& entry(std::size_t card) const;
    std::vector<ViewChoice> choices() const override;
    using View::choose;  // beside the choice of a card

private:
    enum class Order { state, waste, blocks, tokens };
    void setChoice(const QString& key, int index) override;
    // A card. Its entry is made when somebody looks: in a long recording ten thousands have ended or are still to come, and the names
    // of their requests alone would take seconds to read.
    struct Item {
        const Entry* made = nullptr;
        SequenceId sequence;  // none: what has not arrived, by its request
        RequestId request;
        int depth = 0;        // below its parent
    };
    using Items = std::vector<Item>;
    static constexpr std::size_t group_count = 4;
    // All requests at the step by group; within one those that arrived first.
    std::array<Items, group_count> findItems(int step);
    // Children follow their parents, one step further in.
    Items families(const Items& group) const;
    Items byNumber(const std::array<Items, group_count>& found) const;
    const Entry* keep(Entry entry) const;
    const Entry* goneEntry(SequenceId sequence) const;
    const Entry* laterEntry(RequestId request) const;
    void forgetKept();
    Entry entryOf(SequenceId sequence, const SequenceState& state, std::size_t step, const RequestTimes& times) const;
    void paintEntry(const Canvas& canvas, const QRectF& box, const Entry& entry) const;

    static void setGaps(Entry& entry, const RequestTimes& times);
    Entry whole(Entry entry) const;

    GrowingData<RequestTimeline> m_times;
    struct Gone {  // a sequence; entry and step once it has ended and holds nothing: nothing of it changes then
        RequestId request;
        std::uint32_t from = 0xFFFFFFFFu;  // it had ended by this step, as far as has been seen
        mutable std::unique_ptr<const Entry> entry;
    };
    std::vector<Gone> m_sequences;                               // index: SequenceId
    mutable std::vector<std::unique_ptr<const Entry>> m_later;   // index: RequestId; of those that had not arrived, where they were shown
    mutable std::vector<std::unique_ptr<const Entry>> m_kept;    // of this step alone
    bool m_anyParent = false;                                    // some sequence has one
    std::shared_ptr<const Recording> m_goneOf;  // held, so that no other one takes its place in memory
    LaneId m_goneLane;
    mutable Items m_items;
    Order m_order = Order::state;
};

}  // namespace kvloupe
