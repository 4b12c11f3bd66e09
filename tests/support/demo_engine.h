// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the lanes of the sharing demo have in common: requests arrive, wait, run, sample and end (contract, section 3).
// Where blocks come from is for those who derive from it.
#pragma once

#include "engine/record/lane_state.h"
#include "tests/support/demo_sharing.h"

#include <deque>

namespace kvloupe {

// A hash of four numbers (Vigna's SplitMix64 finaliser).
std::uint64_t demo_mix(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0, std::uint64_t d = 0);

class DemoEngine {
public:
    DemoEngine(RecordingWriter& writer, LaneWriter& lane, const DemoSharingOptions& options);
    virtual ~DemoEngine() = default;

    // One step; the clock goes from start_ns to the returned time.
    std::uint64_t step(std::uint64_t start_ns);

protected:
    struct Sequence {
        SequenceId id;
        RequestId request;
        std::uint32_t prompt = 0;
        std::uint32_t max_new = 0;
        std::uint32_t computed = 0;
        std::uint32_t output = 0;
        std::uint32_t first = 0;        // positions computed in this step: [first, computed)
        std::uint32_t samples = 1;      // n of its request; 1 once it has forked
        std::uint32_t order = 0;        // of arrival
        bool started = false;           // was admitted before: resumes
        bool swapped = false;
        std::vector<std::uint32_t> host;  // blocks of host memory that hold it then, in the order of its table
        bool cancelled = false;
        Cause refused = Cause::none;    // told last
        std::vector<TokenId> tokens;    // prompt and output
        std::vector<std::uint64_t> hashes;  // of its full blocks, as far as they were needed
        std::vector<std::uint32_t> stored;  // (groups): blocks from the beginning that were looked at for storing

        std::uint64_t final_slots() const { return std::uint64_t{prompt} + max_new - 1; }
        std::uint32_t to_do() const { return static_cast<std::uint32_t>(tokens.size()) - computed; }
    };

    // Policy of the lane.
    virtual std::uint64_t most_slots() const = 0;
    // Blocks for `count` more tokens of a running sequence; false: it does not run in this step (it may be gone).
    virtual bool grow(std::size_t index, std::uint32_t count) = 0;
    // Blocks for a waiting sequence, hits included; `count` is what may be computed of it in this step. Refusals are
    // told by refuse().
    virtual bool admit(Sequence& sequence, std::uint32_t budget, std::uint32_t& count) = 0;
    virtual void computed(Sequence&) {}  // after the forward pass
    virtual void release(Sequence& sequence, Cause cause) = 0;
    virtual bool can_fork() const = 0;
    virtual void count(SlotCounts& slots, StepRecord& counters) const = 0;

    void emit(Event event);
    void pass(std::uint64_t nanoseconds);
    void refuse(Sequence& sequence, Cause cause, std::uint64_t needed, std::uint64_t available);
    const LaneState& state() const { return m_lane.state(); }
    std::uint32_t blocks_for(std::uint64_t tokens) const;
    static Event event(EventKind kind, Cause cause, SequenceId sequence);
    void take_from_running(std::size_t index);  // to the head of the waiting queue

    RecordingWriter& m_writer;
    LaneWriter& m_lane;
    const DemoSharingOptions m_options;
    const LaneInfo& m_info;
    std::vector<Sequence> m_running;
    std::deque<Sequence> m_waiting;
    std::vector<Sequence> m_ended;  // static batching: they hold their blocks until the batch has ended
    bool m_preempted = false;  // in this step
    std::uint64_t m_hit = 0, m_queried = 0, m_preempted_hit = 0, m_preempted_queried = 0;

private:
    void act(std::uint32_t step);
    void arrive(std::uint32_t step);
    Sequence make(RequestId request, SequenceInfo info);
    void note_prompt(const Sequence& sequence);
    void schedule(StepRecord& counters);
    void told(Sequence& sequence, std::uint32_t count, StepRecord& counters);
    void sample();
    void give_token(Sequence& sequence);
    void fork_samples(std::size_t index);
    void fork(std::size_t parent, std::uint32_t position, SequenceInfo info, Cause cause);
    void finish(StepRecord& counters);

    std::uint32_t m_next_request = 0;
    std::uint32_t m_order = 0;
    std::uint64_t m_now = 0;
};

}  // namespace kvloupe
