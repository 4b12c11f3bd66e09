// SPDX-License-Identifier: GPL-3.0-or-later
//
// What attention moved in a step stands beside FlashAttention's formula, and the difference is explained to the byte: cached and
// not, many queries and one, shared heads, windows, latents, and a count that is wrong.
#include "engine/record/attention_ledger.h"
#include "engine/record/writer.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

// 2 query heads of 4 values in one layer.
LaneInfo smallLane(const char* form, bool cached, std::uint32_t kv_heads) {
    LaneInfo info;
    info.name = "small";
    info.attention_form = form;
    info.head_dim = 4;
    info.layers = 1;
    info.query_heads = 2;
    info.kv_heads = kv_heads;
    info.kv_cache = cached;
    LayerInfo layer;
    layer.query_heads = 2;
    layer.kv_heads = kv_heads;
    layer.key_dim = layer.value_dim = 4;
    if (cached) layer.key_bytes_per_token = layer.value_bytes_per_token = kv_heads * 4 * 2;  // f16
    info.layer_infos = {layer};
    return info;
}

// One step in which a sequence computes positions first … first + queries - 1.
std::vector<LedgerEntry> entriesOf(const LaneInfo& info, std::uint32_t first, std::uint32_t queries, std::uint64_t counted) {
    RecordingWriter writer("attention", 1 << 16);
    LaneWriter& lane = writer.add_lane(info, std::make_shared<VocabularyText>());
    writer.lanes_complete();
    writer.add_request({});
    lane.add_sequence({RequestId(0), {}, 0});
    lane.begin_step();
    Event event;
    event.kind = EventKind::prefill;
    event.sequence = SequenceId(0);
    event.tokens = queries;
    event.other = first;
    lane.event(event);
    if (counted > 0) {
        StageRecord stage;
        stage.kind = StageKind::attention;
        stage.layer = 0;
        stage.bytes = counted;
        lane.stages(0, std::span(&stage, 1));
    }
    lane.end_step({});
    return attention_ledger(lane.record(), 0);
}

// 8 queries over 8 keys: scores 4 * 64, Q, K, V, O 4 * 8 * 4 elements; two heads, four bytes.
constexpr std::uint64_t standard8 = (4 * 64 + 4 * 8 * 4) * 2 * 4;

void keptScoresMoveWhatThePaperCounts(Check& check) {
    const auto entries = entriesOf(smallLane("materialised", false, 2), 0, 8, standard8);
    CHECK_EQUAL(entries.size(), std::size_t(2));
    CHECK_EQUAL(*entries[0].predicted, standard8);
    CHECK_EQUAL(*entries[0].measured, standard8);
    CHECK_EQUAL(entries[0].residual, std::int64_t(0));
    CHECK_THAT(entries[0].origin == Origin::derived);
    // Tiled in one pass: K, V once, Q read, O read and written, l and m too.
    CHECK_EQUAL(*entries[1].predicted, std::uint64_t((2 * 8 * 4 + 3 * 8 * 4 + 4 * 8) * 2 * 4));
    CHECK_THAT(!entries[1].measured);
}

void sharedHeadsAndShortNumbersAreReadOnce(Check& check) {
    // K and V of one KV head in f16: 8 * 16 bytes instead of 8 * 8 * 4 for each of two heads.
    const std::uint64_t less = 2 * 8 * 8 * 4 - 8 * 16;
    const auto entries = entriesOf(smallLane("materialised", true, 1), 0, 8, standard8 - less);
    CHECK_EQUAL(entries[0].residual, -std::int64_t(less));
    CHECK_EQUAL(entries[0].unexplained, std::int64_t(0));
    CHECK_THAT(contains(entries[0].residual_why, "-384 bytes: K and V as they are stored"));
}

void oneQueryReadsAllKeysAndKeepsItsSums(Check& check) {
    // Position 99: K and V 100 * 16 bytes, Q and O of two heads.
    const std::uint64_t counted = 100 * 16 + 2 * 8 * 4;
    const auto entries = entriesOf(smallLane("tiled", true, 1), 99, 1, counted);
    CHECK_EQUAL(*entries[0].predicted, std::uint64_t((4 * 100 + 101 * 8) * 2 * 4));
    CHECK_THAT(!entries[0].measured);
    CHECK_EQUAL(*entries[1].predicted, std::uint64_t((100 * 8 + 4 + 2 * 4 + 4) * 2 * 4));
    CHECK_EQUAL(*entries[1].measured, counted);
    CHECK_EQUAL(entries[1].unexplained, std::int64_t(0));
}

void whatAWindowHidesIsNotRead(Check& check) {
    LaneInfo info = smallLane("tiled", true, 1);
    info.layer_infos[0].window = 16;
    info.layer_infos[0].sinks = 2;
    // Position 99 sees 84 … 99 and two sinks; positions 96 … 99 see 81 … 99 between them.
    CHECK_EQUAL(entriesOf(info, 99, 1, 18 * 16 + 2 * 8 * 4)[1].unexplained, std::int64_t(0));
    CHECK_EQUAL(entriesOf(info, 96, 4, 21 * 16 + 4 * 2 * 8 * 4)[1].unexplained, std::int64_t(0));
    CHECK_EQUAL(entriesOf(info, 3, 1, 4 * 16 + 2 * 8 * 4)[1].unexplained, std::int64_t(0));
    info.layer_infos[0].window = info.layer_infos[0].sinks = 0;
    info.layer_infos[0].chunk = 32;  // position 99 sees 96 … 99
    CHECK_EQUAL(entriesOf(info, 99, 1, 4 * 16 + 2 * 8 * 4)[1].unexplained, std::int64_t(0));
}

void aLatentIsReadOnceForKeysAndValues(Check& check) {
    LaneInfo info = smallLane("tiled", true, 1);
    info.latent_form = "absorbed";
    info.latent_rank = 12;
    info.latent_rotary_dim = 4;
    info.latent_key_dim = 8;
    info.latent_value_dim = 6;
    info.layer_infos[0].latent = true;
    info.layer_infos[0].key_dim = 12;
    info.layer_infos[0].value_dim = 4;
    info.layer_infos[0].key_bytes_per_token = 24;
    info.layer_infos[0].value_bytes_per_token = 8;
    // Keys of 16 and values of 12 for each head in the formula, 32 bytes a token in the cache.
    const auto absorbed = entriesOf(info, 9, 1, 10 * 32 + 2 * 28 * 4);
    CHECK_EQUAL(*absorbed[0].predicted, std::uint64_t((4 * 10 + 11 * 28) * 2 * 4));
    CHECK_EQUAL(absorbed[1].unexplained, std::int64_t(0));
    info.latent_form = "expanded";
    const auto expanded = entriesOf(info, 9, 1, 10 * 2 * 14 * 4 + 2 * 14 * 4);
    CHECK_EQUAL(*expanded[0].predicted, std::uint64_t((4 * 10 + 11 * 14) * 2 * 4));
    CHECK_EQUAL(expanded[1].unexplained, std::int64_t(0));
}

void aWrongCountStandsApart(Check& check) {
    const auto entries = entriesOf(smallLane("materialised", false, 2), 0, 8, standard8 + 5);
    CHECK_EQUAL(entries[0].unexplained, std::int64_t(5));
    CHECK_THAT(contains(entries[0].residual_why, "5 bytes that nothing explains"));
}

void withoutStagesNothingIsCounted(Check& check) {
    const auto entries = entriesOf(smallLane("tiled", true, 1), 0, 8, 0);
    CHECK_EQUAL(entries.size(), std::size_t(2));
    CHECK_THAT(entries[1].predicted && !entries[1].measured);
    LaneInfo accounting;
    CHECK_THAT(entriesOf(accounting, 0, 8, 0).empty());
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(keptScoresMoveWhatThePaperCounts));
    claims.add(CLAIM(sharedHeadsAndShortNumbersAreReadOnce));
    claims.add(CLAIM(oneQueryReadsAllKeysAndKeepsItsSums));
    claims.add(CLAIM(whatAWindowHidesIsNotRead));
    claims.add(CLAIM(aLatentIsReadOnceForKeysAndValues));
    claims.add(CLAIM(aWrongCountStandsApart));
    claims.add(CLAIM(withoutStagesNothingIsCounted));
    return claims.rows();
}
