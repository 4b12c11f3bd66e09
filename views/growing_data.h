// SPDX-License-Identifier: GPL-3.0-or-later
//
// GrowingData: what a view has read from the steps of a lane, kept up to date. Few new events are read at once; many, as when a long
// recording was opened, in the background, and until they are there the view shows what it has.
// Data: copyable; steps(): read so far; update(recording, lane, cancelled): reads on to the published end or until cancelled.
// Data that may be done long before the published end has readSome(recording, lane, records) too, which is tried first.
#pragma once

#include "views/background_job.h"

#include "engine/record/recording.h"

#include <functional>
#include <memory>

namespace kvloupe {

template <class Data, std::uint64_t most_at_once = 200'000>
class GrowingData {
public:
    static constexpr std::uint64_t read_at_once = most_at_once;  // events: some milliseconds

    // True: all that is published is read. Else a job reads; `ready` is called when more is there, in the caller's thread.
    bool follow(const std::shared_ptr<const Recording>& recording, LaneId lane, std::function<void()> ready) {
        if (recording != m_recording || lane != m_lane) {
            m_job.cancel();
            m_recording = recording;
            m_lane = lane;
            m_data = std::make_shared<Data>();
        }
        m_ready = std::move(ready);
        if (!m_recording) return true;
        if (m_job.running()) return false;
        if (unread() <= read_at_once) {
            m_data->update(*m_recording, m_lane, never());
            return true;
        }
        if constexpr (requires(Data& data) { data.readSome(*recording, lane, read_at_once); }) {
            m_data->readSome(*m_recording, m_lane, read_at_once);
            if (unread() == 0) return true;
        }
        auto fresh = std::make_shared<Data>(*m_data);
        m_job.start([fresh, recording, lane](const BackgroundJob::Cancelled& cancelled) { fresh->update(*recording, lane, cancelled); },
                    [this, fresh] {
                        m_data = fresh;
                        if (const auto then = m_ready) then();  // which may follow on
                    });
        return false;
    }

    // Reads no more than the limit, in no job. After begin(), and not while a job runs.
    template <class Limit>
    void readSome(Limit limit) {
        if (!m_job.running()) m_data->readSome(*m_recording, m_lane, limit);
    }

    // Starts over with this one, which has read nothing of that recording.
    void begin(Data data, const std::shared_ptr<const Recording>& recording, LaneId lane) {
        m_job.cancel();
        m_recording = recording;
        m_lane = lane;
        m_data = std::make_shared<Data>(std::move(data));
    }

    // Waits until all is read that was published when the job began.
    void settle() {
        if (m_job.running()) m_job.finish();
    }
    bool reading() const { return m_job.running(); }
    const Data& operator*() const { return *m_data; }
    const Data* operator->() const { return m_data.get(); }

private:
    static const std::atomic<bool>& never() {
        static const std::atomic<bool> not_cancelled{false};
        return not_cancelled;
    }
    std::uint64_t unread() const {
        const LaneRecord& record = m_recording->lane(m_lane);
        const std::size_t steps = record.step_count(), known = m_data->steps();
        if (steps <= known) return 0;
        return record.step(steps - 1).events.end - (known > 0 ? record.step(known - 1).events.end : 0);
    }

    std::shared_ptr<const Recording> m_recording;
    LaneId m_lane;
    std::shared_ptr<Data> m_data = std::make_shared<Data>();
    std::function<void()> m_ready;
    BackgroundJob m_job;
};

}  // namespace kvloupe
