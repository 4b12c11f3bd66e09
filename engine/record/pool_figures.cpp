// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/pool_figures.h"

#include <algorithm>
#include <bit>

namespace kvloupe {

namespace {

// Runs of one kind while the blocks go by.
struct Runs {
    std::array<std::uint32_t, FreeRuns::bins>& bins;
    std::uint32_t& longest;
    std::uint32_t length = 0;

    void next(bool belongs) {
        if (belongs) {
            ++length;
            return;
        }
        if (length == 0) return;
        ++bins[static_cast<std::size_t>(std::bit_width(length)) - 1];
        longest = std::max(longest, length);
        length = 0;
    }
};

}  // namespace

std::optional<double> FreeRuns::scatter() const {
    if (free_blocks == 0) return std::nullopt;
    return 1.0 - static_cast<double>(longest_free) / static_cast<double>(free_blocks);
}

FreeRuns free_runs(const LaneState& state) {
    FreeRuns result;
    Runs free{result.free, result.longest_free};
    Runs unowned{result.unowned, result.longest_unowned};
    for (std::size_t block = 1; block < state.blocks().size(); ++block) {
        const BlockState& one = state.blocks()[block];
        const bool is_unowned = one.owners == 0;
        const bool is_cached = one.cached();
        result.free_blocks += is_unowned && !is_cached;
        result.cached_blocks += is_cached;
        free.next(is_unowned && !is_cached);
        unowned.next(is_unowned);
    }
    free.next(false);
    unowned.next(false);
    return result;
}

std::optional<SlotShares> mean_shares(std::span<const SlotCounts> slots, std::size_t begin, std::size_t end) {
    end = std::min(end, slots.size());
    SlotShares sum;
    std::uint64_t all = 0;
    for (std::size_t step = begin; step < end; ++step) {
        const SlotCounts& one = slots[step];
        sum.token += static_cast<double>(one.token);
        sum.cached += static_cast<double>(one.cached);
        sum.reserved += static_cast<double>(one.reserved);
        sum.internal += static_cast<double>(one.internal);
        sum.external += static_cast<double>(one.external);
        sum.free += static_cast<double>(one.free);
        all += one.token + one.cached + one.reserved + one.internal + one.external + one.free;
    }
    if (all == 0) return std::nullopt;
    for (double* share : {&sum.token, &sum.cached, &sum.reserved, &sum.internal, &sum.external, &sum.free})
        *share /= static_cast<double>(all);
    return sum;
}

SharingSavings sharing_savings(const LaneInfo& lane, const LaneState& state) {
    SharingSavings savings;
    savings.blocks = state.saved_blocks();
    savings.bytes = savings.blocks * lane.block_bytes;
    for (const BlockState& block : state.blocks()) {
        savings.shared_blocks += block.owners > 1;
        savings.most_owners = std::max(savings.most_owners, block.owners);
    }
    return savings;
}

std::vector<SequenceWaste> wasted_slots(const LaneState& state, std::span<const std::uint64_t> written) {
    std::vector<SequenceWaste> waste;
    const std::uint64_t size = state.block_size();
    const auto computed_of = [&](SequenceId id) { return std::uint64_t{state.sequences()[id.value].computed_tokens}; };
    const auto last_of = [&](SequenceId id) {
        return id.value < written.size() ? std::max(computed_of(id), written[id.value]) : computed_of(id);
    };
    // Who writes furthest in a block (of equals the first), and how far any of its owners will.
    struct Writer {
        SequenceId sequence;
        std::uint64_t last = 0;
    };
    const auto writer_of = [&](BlockId block) {
        Writer writer;
        for (const SequenceId owner : state.owners_of(block)) {
            if (!writer.sequence.valid() || computed_of(owner) > computed_of(writer.sequence)) writer.sequence = owner;
            writer.last = std::max(writer.last, last_of(owner));
        }
        return writer;
    };
    for (const std::uint32_t id : state.holders()) {
        SequenceWaste one{SequenceId(id)};
        const std::uint64_t computed = computed_of(one.sequence);
        for (std::uint32_t group = 0; group < state.groups(); ++group) {
            const TableState& table = state.table(one.sequence, static_cast<std::uint8_t>(group));
            for (std::uint64_t logical = computed / size; logical < table.size(); ++logical) {
                const BlockState& block = state.blocks()[table[logical].value];
                if (block.owners == 0) continue;  // the null block
                const Writer writer = block.owners > 1 ? writer_of(table[logical]) : Writer{one.sequence, last_of(one.sequence)};
                if (writer.sequence != one.sequence) continue;
                const std::uint64_t begin = std::max(computed, logical * size);
                const std::uint64_t end = (logical + 1) * size;
                const std::uint64_t last = std::clamp(writer.last, begin, end);
                one.later += last - begin;
                one.never += end - last;
            }
        }
        if (one.slots() > 0) waste.push_back(one);
    }
    std::sort(waste.begin(), waste.end(), [](const SequenceWaste& a, const SequenceWaste& b) {
        return a.slots() != b.slots() ? a.slots() > b.slots() : a.sequence < b.sequence;
    });
    return waste;
}

std::optional<double> hit_rate(const LaneRecord& lane, std::size_t begin, std::size_t end) {
    std::uint64_t hit = 0, queried = 0;
    for (std::size_t step = begin; step < std::min(end, lane.step_count()); ++step) {
        hit += lane.step(step).hit_tokens;
        queried += lane.step(step).queried_tokens;
    }
    if (queried == 0) return std::nullopt;
    return static_cast<double>(hit) / static_cast<double>(queried);
}

}  // namespace kvloupe
