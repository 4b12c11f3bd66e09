// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/kvt_frames.h"

#include "engine/record/compressed.h"
#include "engine/record/kvt_schema.h"
#include "engine/record/lane_state_code.h"

#include <algorithm>

namespace kvloupe {

namespace {

constexpr std::size_t max_frame_bytes = std::size_t{1} << 30;

}  // namespace

Result<std::unique_ptr<KvtFrames>> KvtFrames::of(std::shared_ptr<KvtStore> store, std::uint32_t lane, std::uint32_t blocks,
                                                 std::uint32_t block_size) {
    auto data = KvtStatement::of(store, kvt::key_frame_data(store->version(), lane));
    if (!data) return data.error();
    const auto lock = store->lock();
    auto steps = store->database().prepare(kvt::key_frame_steps(store->version(), lane));
    if (!steps) return steps.error();
    std::unique_ptr<KvtFrames> frames(new KvtFrames(std::move(*data), blocks, block_size));
    for (;;) {
        const auto row = steps->step();
        if (!row) return row.error();
        if (!*row) return frames;
        frames->m_steps.push_back(steps->integer(0));
    }
}

std::shared_ptr<const LaneState> KvtFrames::read(std::int64_t step) {
    std::string frame;
    m_data.with([&](SqlStatement& statement) {
        statement.bind(1, step);
        const auto row = statement.step();
        if (row && *row) frame = std::string(statement.bytes(0));
        statement.reset();
    });
    const auto bytes = decompressed(frame, max_frame_bytes);
    if (bytes) {
        auto state = LaneStateCode::decode(*bytes, m_blocks, m_block_size);
        if (state) return std::make_shared<const LaneState>(std::move(*state));
    }
    m_data.store().set_damage(m_data.store().path() + ": the key frame at step " + std::to_string(step) +
                              " is damaged; the one before it is used. Open a backup of the file");
    return nullptr;
}

LaneRecord::KeyFrame KvtFrames::at_or_before(std::int64_t step) {
    for (;;) {
        std::int64_t at = 0;
        {
            const std::lock_guard lock(m_mutex);
            const auto next = std::upper_bound(m_steps.begin(), m_steps.end(), step);
            if (next == m_steps.begin()) return {};
            at = *std::prev(next);
            const auto recent = std::find_if(m_recent.begin(), m_recent.end(), [&](const LaneRecord::KeyFrame& frame) { return frame.step == at; });
            if (recent != m_recent.end()) {
                m_recent.splice(m_recent.begin(), m_recent, recent);
                return best(m_recent.front(), step);
            }
        }
        auto state = read(at);
        const std::lock_guard lock(m_mutex);
        if (state) {
            m_recent.push_front({at, std::move(state)});
            if (m_recent.size() > kept) m_recent.pop_back();
            return best(m_recent.front(), step);
        }
        std::erase(m_steps, at);
    }
}

LaneRecord::KeyFrame KvtFrames::best(const LaneRecord::KeyFrame& frame, std::int64_t step) {
    if (ReadingAs::here() == Reading::ahead) return frame;  // it reads straight through
    if (m_stretch != frame.step) {
        m_stretch = frame.step;
        m_last = {};
        m_between.clear();
    }
    const LaneRecord::KeyFrame* best = &frame;
    const auto consider = [&](const LaneRecord::KeyFrame& known) {
        if (known.state && known.step <= step && known.step > best->step) best = &known;
    };
    consider(m_last);
    for (const LaneRecord::KeyFrame& known : m_between) consider(known);
    return *best;
}

void KvtFrames::remember(std::int64_t step, std::int64_t asked, const LaneState& state) {
    if (ReadingAs::here() == Reading::ahead) return;
    const std::lock_guard lock(m_mutex);
    const auto next = std::upper_bound(m_steps.begin(), m_steps.end(), asked);
    if (next == m_steps.begin() || *std::prev(next) != m_stretch) return;  // somebody else has moved on
    LaneRecord::KeyFrame known{step, std::make_shared<const LaneState>(state)};
    if (step == asked) {
        m_last = std::move(known);
        return;
    }
    if (std::any_of(m_between.begin(), m_between.end(), [step](const LaneRecord::KeyFrame& one) { return one.step == step; })) return;
    if (m_between.size() == most_between) m_between.erase(m_between.begin());
    m_between.push_back(std::move(known));
}

std::int64_t KvtFrames::to_be_read(std::int64_t step) const {
    const std::lock_guard lock(m_mutex);
    const auto next = std::upper_bound(m_steps.begin(), m_steps.end(), step);
    if (next == m_steps.begin()) return none_to_be_read;
    const std::int64_t at = *std::prev(next);
    const bool decoded = std::any_of(m_recent.begin(), m_recent.end(), [at](const LaneRecord::KeyFrame& frame) { return frame.step == at; });
    return decoded ? none_to_be_read : at;
}

bool KvtFrames::walks(std::int64_t asked) const {
    const std::lock_guard lock(m_mutex);
    return m_last.state && asked >= m_last.step - near && asked <= m_last.step + near && ReadingAs::here() != Reading::ahead;
}

}  // namespace kvloupe
