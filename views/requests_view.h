// SPDX-License-Identifier: GPL-3.0-or-later
//
// Requests of the lane in focus, grouped: running, waiting, arriving later, finished; with progress, bytes and latencies.
#pragma once

#include "views/list_view.h"

namespace kvloupe {

class Canvas;
struct RequestTimes;

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

private:
    enum class Group { running, waiting, later, finished };
    struct Entry {
        Group group = Group::running;
        QString heading;                // a heading instead of a request
        RequestId request;
        SequenceId sequence;            // none while it has not arrived
        QString name, phase, outcome;
        std::uint32_t prompt = 0, tokens = 0, computed = 0, limit = 0;  // limit: prompt + most new tokens
        std::uint64_t blocks = 0, bytes = 0;
        std::optional<double> queue_ms, ttft_ms, itl_ms, itl95_ms;
        QString reason;
    };
    Entry entryOf(SequenceId sequence, std::size_t step, const RequestTimes& times) const;
    void paintEntry(const Canvas& canvas, const QRectF& box, const Entry& entry) const;

    std::vector<Entry> m_entries;
};

}  // namespace kvloupe
