// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/logit_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kvloupe::cuda {

static_assert(std::size(DeviceLogitSummary{}.top) == LogitSummary::top_count);

Result<void> LogitReader::grow(std::size_t rows) {
    if (rows <= m_rows) return {};
    const std::size_t wanted = std::max<std::size_t>(64, std::bit_ceil(rows));
    m_rows = 0;
    auto asked = CardMemory::make(m_card, wanted * sizeof(std::int32_t), Purpose::activations, "the summaries of logits");
    if (!asked) return asked.error();
    m_asked = std::move(*asked);
    auto summaries = CardMemory::make(m_card, wanted * sizeof(DeviceLogitSummary), Purpose::activations, "the summaries of logits");
    if (!summaries) return summaries.error();
    m_summaries = std::move(*summaries);
    auto host = PinnedMemory::make(m_card, wanted * (sizeof(std::int32_t) + sizeof(DeviceLogitSummary)), false, "the summaries of logits");
    if (!host) return host.error();
    m_host = std::move(*host);
    m_rows = wanted;
    return {};
}

Result<void> LogitReader::queue(const Rows& rows) {
    const std::size_t count = rows.asked.size();
    if (auto grown = grow(count); !grown) return grown;
    const std::uint64_t bytes = summary_scratch_bytes(static_cast<std::uint32_t>(count), rows.vocabulary);
    if (auto reserved = m_scratch.reserve(bytes); !reserved) return reserved;
    // The wait of the last summaries lies behind us, so nobody reads the pinned memory now.
    auto* asked = reinterpret_cast<std::int32_t*>(m_host.data() + m_rows * sizeof(DeviceLogitSummary));
    std::copy(rows.asked.begin(), rows.asked.end(), asked);
    DeviceFault& fault = m_card.fault();
    const char* what = "the summaries of logits";
    Summarise args;
    args.logits = rows.logits;
    args.rows = static_cast<std::uint32_t>(count);
    args.vocabulary = rows.vocabulary;
    args.asked = m_asked.as<const std::int32_t>();
    args.scratch = m_scratch.take(bytes);
    args.out = m_summaries.as<DeviceLogitSummary>();
    if (fault.note(cudaMemcpyAsync(m_asked.data(), asked, count * sizeof(std::int32_t), cudaMemcpyHostToDevice, m_card.stream), what) &&
        fault.note(cuda::summarise(args, m_card.stream), what))
        fault.note(cudaMemcpyAsync(m_host.data(), m_summaries.data(), count * sizeof(DeviceLogitSummary), cudaMemcpyDeviceToHost,
                                   m_card.stream), what);
    return fault.result();
}

void LogitReader::take(std::span<LogitSummary> out) const {
    for (std::size_t row = 0; row < out.size(); ++row) {
        DeviceLogitSummary from;
        std::memcpy(&from, m_host.data() + row * sizeof from, sizeof from);
        LogitSummary& to = out[row];
        to.finite = from.finite != 0;
        to.maximum = from.maximum;
        to.exponentials = from.exponentials;
        to.top_tokens = std::min(from.top_tokens, LogitSummary::top_count);
        std::copy(std::begin(from.top), std::end(from.top), to.top.begin());
        std::copy(std::begin(from.top_logits), std::end(from.top_logits), to.top_logits.begin());
        to.asked_logit = from.asked_logit;
        to.asked_rank = from.asked_rank;
    }
}

}  // namespace kvloupe::cuda
