// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/kvt_writer.h"

#include "engine/record/kvt_file_writer.h"

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

namespace kvloupe {

namespace {

constexpr std::uint64_t least_behind = 8192;  // events: a transaction

std::uint64_t published_events(const Recording& recording) {
    std::uint64_t events = 0;
    for (const auto& lane : recording.lanes())
        if (const std::size_t steps = lane->step_count(); steps > 0) events += lane->step(steps - 1).events.end;
    return events;
}

void remove_files(const std::string& path) {
    std::error_code error;
    for (const char* end : {"", "-wal", "-shm", "-journal"}) std::filesystem::remove(path + end, error);
}

}  // namespace

Result<void> check_free(const std::string& path) {
    std::error_code error;
    if (std::filesystem::exists(std::filesystem::symlink_status(path, error)))
        return Error{path + ": there is a file of this name already", "Choose another name, or remove it first"};
    return {};
}

struct KvtWriter::Impl {
    Impl(std::shared_ptr<const Recording> followed, KvtOptions chosen, KvtFileWriter opened)
        : recording(std::move(followed)), options(std::move(chosen)), file(std::move(opened)) {
        thread = std::jthread([this](std::stop_token stop) { follow(stop); });
    }

    // Until all is written after a stop was asked for, or an error.
    void follow(std::stop_token stop) {
        for (;;) {
            const bool last = stop.stop_requested();
            file.leave_out_attention(options.may_leave_out_attention && behind() > options.max_behind_events);
            const auto begun = std::chrono::steady_clock::now();
            const std::uint64_t before = written();
            const auto more = file.append();
            if (!more) return end(more.error());
            measure(written() - before, std::chrono::steady_clock::now() - begun);
            note(*more ? std::nullopt : std::optional(begun));
            if (*more) continue;
            if (last) {
                const auto closed = file.close();
                return end(closed ? std::optional<Error>() : std::optional<Error>(closed.error()));
            }
            std::unique_lock lock(mutex);
            wake.wait_for(lock, stop, options.commit_interval, [this] { return waiting > 0; });
        }
    }

    std::uint64_t written() const {
        std::uint64_t events = 0;
        for (const KvtLaneWriter& lane : file.lanes()) events += lane.events();
        return events;
    }
    std::uint64_t behind() const { return published_events(*recording) - written(); }

    // How fast the disk takes events: an engine that is faster may be ahead only by what is written in max_behind.
    void measure(std::uint64_t events, std::chrono::steady_clock::duration took) {
        const double seconds = std::chrono::duration<double>(took).count();
        if (events < 256 || seconds <= 0) return;
        const std::lock_guard lock(mutex);
        events_per_second = 0.7 * events_per_second + 0.3 * static_cast<double>(events) / seconds;
    }
    // Under the lock.
    std::uint64_t allowed_events() const {
        const double soon = events_per_second * std::chrono::duration<double>(options.max_behind).count();
        return std::min(options.max_behind_events, std::max<std::uint64_t>(least_behind, static_cast<std::uint64_t>(soon)));
    }

    // all_of: all that was published before is in the file.
    void note(std::optional<std::chrono::steady_clock::time_point> all_of) {
        const std::lock_guard lock(mutex);
        if (all_of) caught_up = *all_of;
        state.steps = state.events = state.left_out_rows = 0;
        for (const KvtLaneWriter& lane : file.lanes()) {
            state.steps += lane.steps();
            state.events += lane.events();
            state.left_out_rows += lane.dropped_rows();
        }
        room.notify_all();
    }

    void end(std::optional<Error> error) {
        const std::lock_guard lock(mutex);
        state.error = std::move(error);
        ended = true;
        room.notify_all();
    }

    std::shared_ptr<const Recording> recording;
    KvtOptions options;
    KvtFileWriter file;  // the thread's alone
    mutable std::mutex mutex;
    std::condition_variable_any wake;
    mutable std::condition_variable room;
    KvtProgress state;
    std::chrono::steady_clock::time_point caught_up = std::chrono::steady_clock::now();
    double events_per_second = 100'000;  // a guess until some were written
    int waiting = 0;  // callers of wait_for_room()
    bool ended = false;
    std::jthread thread;  // last: it uses the others
};

KvtWriter::KvtWriter(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {}

KvtWriter::~KvtWriter() = default;

Result<std::unique_ptr<KvtWriter>> KvtWriter::create(std::shared_ptr<const Recording> recording, KvtOptions options) {
    if (auto free = check_free(options.path); !free) return free.error();
    auto file = KvtFileWriter::create(*recording, options);
    if (!file) {
        remove_files(options.path);
        return file.error();
    }
    return std::unique_ptr<KvtWriter>(
        new KvtWriter(std::make_unique<Impl>(std::move(recording), std::move(options), std::move(*file))));
}

KvtProgress KvtWriter::progress() const {
    const std::uint64_t published = published_events(*m_impl->recording);
    const std::lock_guard lock(m_impl->mutex);
    KvtProgress progress = m_impl->state;
    progress.behind_events = published > progress.events ? published - progress.events : 0;
    return progress;
}

void KvtWriter::wait_for_room() const {
    std::unique_lock lock(m_impl->mutex);
    const auto there_is = [&] {
        return m_impl->ended || (published_events(*m_impl->recording) <= m_impl->state.events + m_impl->allowed_events() &&
                                 std::chrono::steady_clock::now() - m_impl->caught_up <= m_impl->options.max_behind);
    };
    if (there_is()) return;
    ++m_impl->waiting;
    m_impl->wake.notify_one();
    m_impl->room.wait(lock, there_is);
    --m_impl->waiting;
}

Result<void> KvtWriter::finish() {
    m_impl->thread.request_stop();
    std::unique_lock lock(m_impl->mutex);
    m_impl->room.wait(lock, [&] { return m_impl->ended; });
    if (m_impl->state.error) return *m_impl->state.error;
    return {};
}

Result<void> write_kvt(const std::shared_ptr<const Recording>& recording, const KvtOptions& options, std::size_t first_step,
                       std::size_t end_step) {
    if (auto free = check_free(options.path); !free) return free;
    const auto write = [&]() -> Result<void> {
        auto file = KvtFileWriter::create(*recording, options, {first_step, end_step});
        if (!file) return file.error();
        for (;;) {
            const auto more = file->append();
            if (!more) return more.error();
            if (!*more) return file->close();
        }
    };
    const Result<void> written = write();
    if (!written) remove_files(options.path);
    return written;
}

}  // namespace kvloupe
