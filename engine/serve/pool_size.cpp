// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/pool_size.h"

#include "engine/cache/attention_span.h"
#include "engine/serve/cache_shape.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <string>

namespace kvloupe {

namespace {

std::string mebibytes(std::uint64_t bytes) { return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB"; }

// Blocks that one request can take of a lane's pool. A contiguous region is a power of two of blocks, and one that grows by
// copy is there twice for a moment.
std::uint64_t blocks_needed(const Request& request, const LaneOptions& lane, const CacheShape& shape, std::uint32_t context) {
    const CacheOptions& cache = lane.cache;
    if (cache.kind == CacheKind::paged) {
        std::uint64_t blocks = 0;
        for (const CacheGroup& group : shape.cache_groups)
            blocks += most_blocks(group.span, request.slots_needed(), lane.scheduler.max_num_batched_tokens, cache.block_size);
        return blocks;
    }
    std::uint64_t slots = request.slots_needed();
    if (cache.reserve == Reserve::max) slots = cache.max_model_len > 0 ? std::min(cache.max_model_len, context) : context;
    if (cache.reserve == Reserve::pow2) slots = request.prompt_tokens + std::bit_ceil(std::uint64_t{request.new_tokens()});
    const std::uint32_t chunk = std::bit_ceil(blocks_for(slots, cache.block_size));
    return cache.reserve == Reserve::grow ? chunk * 2 : chunk;
}

std::uint32_t blocks_for_requests(const LaneOptions& lane, const CacheShape& shape, std::uint32_t context,
                                  std::span<const Request> requests, std::uint64_t free_bytes) {
    std::vector<std::uint64_t> needs;
    for (const Request& request : requests)
        for (std::uint32_t i = 0; i < request.width && request.slots_needed() <= context; ++i)
            needs.push_back(blocks_needed(request, lane, shape, context));
    if (needs.empty()) needs.push_back(shape.cache_groups.size() * std::uint64_t{blocks_for(context, lane.cache.block_size)});
    std::sort(needs.begin(), needs.end(), std::greater<>());
    if (needs.size() > lane.scheduler.max_num_seqs) needs.resize(lane.scheduler.max_num_seqs);
    std::uint64_t blocks = 1;  // the null block
    for (const std::uint64_t need : needs) blocks += need;
    if (free_bytes > 0) blocks = std::min(blocks, shape.blocks_in(free_bytes / 4));
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks, 2, max_automatic_blocks));
}

// What the lanes on one device with memory of its own share.
struct Card {
    DeviceInfo info;
    std::uint64_t reserved = 0;   // bytes of activations, and of pools whose size the scenario gives
    std::uint32_t automatic = 0;  // lanes that divide the rest
    std::uint64_t left = 0;       // free bytes that no pool has taken yet

    std::uint64_t used() const { return info.memory_bytes - std::min(info.free_bytes, info.memory_bytes); }
};

// The lane's part of its share of the card.
Result<std::uint32_t> blocks_of_share(const LaneSetup& lane, const CacheShape& shape, const Card& card) {
    const double share = lane.options.cache.memory_share;
    const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(card.info.memory_bytes));
    const std::uint64_t taken = card.used() + card.reserved;
    const std::uint64_t bytes = wanted > taken ? (wanted - taken) / card.automatic : 0;
    const std::uint64_t blocks = shape.blocks_in(bytes);
    if (blocks >= 2) return static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, max_automatic_blocks));
    return Error{"Lane '" + lane.options.name + "': " + mebibytes(wanted) + " of the " + mebibytes(card.info.memory_bytes) +
                     " of " + card.info.id + " (memory_share) leave no room for its pool: " + mebibytes(card.used()) +
                     " are in use, and " + mebibytes(card.reserved) + " are for activations and the other pools",
                 "Give it a larger memory_share or a smaller model, or end other programs that use the device."};
}

Result<void> check_room(const LaneSetup& lane, const CacheShape& shape, const DeviceInfo& info, std::uint64_t free_bytes) {
    const std::uint64_t bytes = shape.pool_bytes(lane.blocks);
    if (info.free_bytes == 0 || bytes <= free_bytes) return {};
    const std::uint64_t fits = shape.blocks_in(free_bytes);
    return Error{"Lane '" + lane.options.name + "' asks for " + std::to_string(lane.blocks) + " blocks, " + mebibytes(bytes) +
                     ", but " + mebibytes(free_bytes) + " are free on " + info.id,
                 fits >= 2 ? "Give it at most " + std::to_string(fits) + " blocks, or \"blocks\": \"auto\"."
                           : "Not even two blocks fit; free memory on the device first."};
}

}  // namespace

std::uint64_t activation_bytes(const LaneSetup& lane, std::span<const Request> requests) {
    const ModelConfig& config = lane.device->model->config;
    const SchedulerOptions& scheduler = lane.options.scheduler;
    const auto shape = lane.cache_shape();
    const Decoder decoder(lane.device, shape ? lane.decoder_options(*shape) : DecoderOptions{});
    std::uint64_t longest = 1, sequences = 0;
    for (const Request& request : requests) {
        longest = std::max(longest, request.slots_needed());
        sequences += request.width;
    }
    longest = std::bit_ceil(std::min<std::uint64_t>(longest, config.context_length));  // grown by doubling
    const auto tokens = static_cast<std::uint32_t>(longest);
    const auto together = static_cast<std::uint32_t>(std::min<std::uint64_t>(sequences, scheduler.max_num_seqs));
    if (lane.options.kv_cache) {
        const std::uint64_t most = std::uint64_t{scheduler.max_num_seqs} * config.context_length;
        const auto rows = static_cast<std::uint32_t>(std::min<std::uint64_t>(scheduler.max_num_batched_tokens, most));
        return decoder.bytes_for(rows, std::min(scheduler.max_num_seqs, rows), together, tokens);
    }
    const std::uint64_t rows = std::min<std::uint64_t>(longest, scheduler.max_num_batched_tokens);
    const std::uint64_t buffers = decoder.bytes_for(static_cast<std::uint32_t>(rows), 1, 1, tokens);
    return shape ? buffers + shape->scratch_bytes(tokens) : buffers;
}

Result<void> size_pools(std::vector<LaneSetup>& lanes, std::span<const std::vector<Request>> requests) {
    std::vector<CacheShape> shapes;
    for (const LaneSetup& lane : lanes) {
        auto shape = lane.cache_shape();
        if (!shape) return Error{"Lane '" + lane.options.name + "': " + shape.error().sentence, shape.error().hint};
        shapes.push_back(std::move(*shape));
    }
    std::map<std::string, Card> cards;  // by device id: several backends may stand for one card
    const auto card_of = [&](const LaneSetup& lane) -> Card* {
        if (!lane.device) return nullptr;
        const auto found = cards.find(lane.device->backend->info().id);
        return found == cards.end() ? nullptr : &found->second;
    };
    for (std::size_t i = 0; i < lanes.size(); ++i) {
        const LaneSetup& lane = lanes[i];
        if (!lane.device) continue;
        const DeviceInfo info = lane.device->backend->info();
        if (!info.own_memory) continue;
        Card& card = cards[info.id];
        card.info = info;
        card.left = info.free_bytes;
        card.reserved += activation_bytes(lane, requests[i]);
        if (!lane.options.kv_cache) continue;
        if (lane.options.cache.blocks) card.reserved += shapes[i].pool_bytes(*lane.options.cache.blocks);
        else ++card.automatic;
    }
    for (std::size_t i = 0; i < lanes.size(); ++i) {
        LaneSetup& lane = lanes[i];
        if (!lane.options.kv_cache) continue;
        Card* card = card_of(lane);
        if (lane.options.cache.blocks) {
            lane.blocks = *lane.options.cache.blocks;
        } else if (!lane.device) {
            lane.blocks = accounting_blocks;
        } else if (card) {
            auto blocks = blocks_of_share(lane, shapes[i], *card);
            if (!blocks) return blocks.error();
            lane.blocks = *blocks;
        } else {
            lane.blocks = blocks_for_requests(lane.options, shapes[i], lane.device->model->config.context_length, requests[i],
                                              lane.device->backend->info().free_bytes);
        }
        if (!lane.device) continue;
        const DeviceInfo info = card ? card->info : lane.device->backend->info();
        if (auto room = check_room(lane, shapes[i], info, card ? card->left : info.free_bytes); !room) return room;
        if (card) card->left -= shapes[i].pool_bytes(lane.blocks);
    }
    return {};
}

}  // namespace kvloupe
