// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a running lane says of a block: the values that attention reads, those before they were stored from the first question
// on, errors within what the precision allows, the heads that a latent stands for; and a sentence where there is nothing.
#include "engine/model/half.h"
#include "engine/record/block_scales.h"
#include "engine/record/ledger.h"
#include "tests/serve/lane_models.h"
#include "tests/support/texts.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::shared_ptr<const BlockValues> asked(Session& session, std::uint32_t lane, std::uint32_t layer, std::uint32_t block) {
    session.ask_block({LaneId(lane), layer, BlockId(block)});
    session.wait();
    return session.block_values();
}

void stepped(Session& session, std::uint32_t steps) {
    session.step(steps);
    session.wait();
}

std::string two_lanes(const std::string& cache, int prompt = 20, int output = 30) {
    return R"("lanes": [{"name": "f32", "cache": {"dtype": "f32"}}, {"name": "x", "cache": {)" + cache + R"(}}], "requests": [)" +
           small_request("a", prompt, output) + "]";
}

// Relative RMS error of K and V together.
double relative(const BlockValues& values) {
    ErrorSum sum = errors_of(values.keys, 0).total;
    sum.add(errors_of(values.values, 0).total);
    return sum.relative();
}

struct LossCase {
    std::string cache;
    double least, most;  // relative RMS error
};
Cases<LossCase> storingLosesWhatThePrecisionLoses_cases() {
    Cases<LossCase> cases;
    const auto row = [&](const std::string& cache, double least, double most) { cases.add(cache, {cache, least, most}); };
    row(R"("dtype": "f16")", 1e-6, 5e-4);
    row(R"("dtype": "bf16")", 1e-5, 4e-3);
    row(R"("dtype": "fp8_e4m3")", 1e-3, 0.05);
    row(R"("dtype": "int8")", 1e-4, 0.01);
    row(R"("dtype": "int8", "scale": "joint")", 1e-4, 0.02);
    row(R"("dtype": "int8", "rotate": true)", 1e-4, 0.01);
    row(R"("dtype": "int4")", 1e-3, 0.15);
    row(R"("dtype": "q8_0")", 1e-4, 0.01);
    row(R"("dtype": "q4_0")", 1e-3, 0.15);
    return cases;
}
void storingLosesWhatThePrecisionLoses(Check& check, const LossCase& row) {
    auto s = session_of(generated_model({0, 0}), two_lanes(row.cache));
    CHECK_THAT(asked(*s, 1, 0, 1) != nullptr);  // before the first step: values are kept from it on
    CHECK_THAT(!s->block_values()->problem.empty());
    stepped(*s, 4);
    const auto exact = asked(*s, 0, 1, 1), lossy = asked(*s, 1, 1, 1);
    CHECK_THAT(exact && lossy && lossy->problem.empty());
    CHECK_EQUAL(lossy->tokens, 16u);
    CHECK_EQUAL(lossy->step, std::uint64_t(3));
    CHECK_EQUAL(lossy->first_position.value_or(99), 0u);
    CHECK_THAT(lossy->before_since == std::uint64_t(0));
    CHECK_EQUAL(relative(*exact), 0.0);  // f32 loses nothing, and needs no copy for that
    CHECK_THAT(!exact->before_since);
    CHECK_BELOW(relative(*lossy), row.most);
    CHECK_THAT(relative(*lossy) > row.least);
    // The first layer has seen the same tokens in both lanes, so what is stored in one was stored by the other.
    const auto first_exact = asked(*s, 0, 0, 1), first_lossy = asked(*s, 1, 0, 1);
    CHECK_THAT(first_exact->keys.stored == first_lossy->keys.before);
    CHECK_THAT(first_exact->values.stored == first_lossy->values.before);
    CHECK_THAT(first_lossy->keys.stored != first_lossy->keys.before);
}

void everyLayersErrorStandsBesideTheOthers(Check& check) {
    auto s = session_of(generated_model({0, 0, 0}), two_lanes(R"("dtype": "int4")"));
    asked(*s, 1, 0, 1);
    stepped(*s, 2);
    const auto values = asked(*s, 1, 2, 1);
    CHECK_EQUAL(values->layers.size(), std::size_t(3));
    CHECK_EQUAL(values->layers[2].layer, 2u);
    const ErrorSum total = errors_of(values->keys, 0).total;
    CHECK_EQUAL(values->layers[2].keys.count, total.count);
    CHECK_EQUAL(values->layers[2].keys.largest, total.largest);
    CHECK_CLOSE(values->layers[2].keys.rms(), total.rms());
    CHECK_THAT(values->layers[0].keys.known() && values->layers[0].values.rms() > 0);
}

// Scales worked out from stored values give codes that are whole numbers.
void derivedScalesMakeWholeCodes(Check& check) {
    auto s = session_of(generated_model({0}), two_lanes(R"("dtype": "int8")"));
    stepped(*s, 2);
    const auto values = asked(*s, 1, 0, 1);
    for (std::uint32_t head = 0; head < values->keys.heads; ++head) {
        const StoredScales scales = scales_of(*values, KvPart::keys, head);
        CHECK_EQUAL(scales.steps.size(), std::size_t(values->tokens));
        for (std::uint32_t token = 0; token < values->tokens; ++token)
            for (std::uint32_t channel = 0; channel < values->keys.width; ++channel) {
                const double code = static_cast<double>(values->keys.stored[values->keys.at(head, token, channel)]) / scales.steps[token];
                CHECK_BELOW(std::fabs(code - std::round(code)), 1e-4);
                CHECK_BELOW(std::fabs(code), 127.001);
            }
    }
}

void whatWasStoredBeforeTheQuestionIsNotKnown(Check& check) {
    auto s = session_of(generated_model({0, 0}), two_lanes(R"("dtype": "int8")"));
    stepped(*s, 1);
    const auto first = asked(*s, 1, 0, 2);  // tokens 16 … 19, of the prompt
    CHECK_EQUAL(first->tokens, 4u);
    CHECK_THAT(!first->keys.before_known());
    CHECK_EQUAL(first->before_since.value_or(0), std::uint64_t(1));
    CHECK_THAT(first->layers.empty());
    stepped(*s, 3);
    const auto later = asked(*s, 1, 0, 2);
    CHECK_EQUAL(later->tokens, 7u);
    const BlockErrors errors = errors_of(later->keys, 0);
    for (std::uint32_t token = 0; token < 7; ++token) CHECK_EQUAL(errors.tokens[token].known(), token >= 4);
    // Started over, everything is known from the first step on.
    s->reset();
    stepped(*s, 2);
    const auto again = asked(*s, 1, 0, 2);
    CHECK_EQUAL(again->before_since.value_or(9), std::uint64_t(0));
    CHECK_EQUAL(again->tokens, 5u);
    CHECK_EQUAL(errors_of(again->keys, 0).total.count, std::uint64_t(5) * 2 * 32);
}

// A question changes neither what is computed nor what the ledger says; the copy is counted by itself.
void askingChangesNothingElse(Check& check) {
    Logits alone, watched;
    auto plain = session_of(generated_model({0, 0}), two_lanes(R"("dtype": "int4")"), options(&alone));
    CHECK_RESULT(plain->run_to_end());
    auto s = session_of(generated_model({0, 0}), two_lanes(R"("dtype": "int4")"), options(&watched));
    const auto told = asked(*s, 1, 1, 1);
    const LaneInfo& info = s->recording()->lane(LaneId(1)).info();
    CHECK_EQUAL(told->before_bytes, std::uint64_t(info.blocks) * 16 * 2 * 2 * 2 * 32 * 4);  // slots, layers, K and V, heads, f32
    CHECK_RESULT(s->run_to_end());
    CHECK_THAT(alone == watched);
    const LaneRecord& lane = s->recording()->lane(LaneId(1));
    for (const LedgerEntry& entry : ledger(lane, lane.step_count() - 1)) CHECK_EQUAL(entry.unexplained, std::int64_t(0));
}

// A copied block takes along what its source was before; a block that is given out anew knows nothing of its last owner.
void copiesKeepWhatWasBeforeAndNewOwnersDoNot(Check& check) {
    auto s = session_of(generated_model({0}), R"("lanes": [{"name": "x", "cache": {"dtype": "int8", "blocks": 6, "prefix_caching": false}}],
        "requests": [)" + small_request("a", 20, 6) + "," + small_request("b", 40, 3, R"(, "arrival_step": 9)") + R"(],
        "actions": [{"at_step": 2, "do": "fork", "request": "a", "as": "c"}])");
    asked(*s, 0, 0, 1);
    stepped(*s, 4);
    const LaneRecord& lane = s->recording()->lane(lane0);
    BlockId copy, source;
    for (std::size_t i = 0; i < lane.events().size(); ++i)
        if (lane.events()[i].kind == EventKind::copy_on_write) {
            source = lane.events()[i].block;
            copy = BlockId(lane.events()[i].other);
        }
    CHECK_THAT(copy.valid());
    const auto from = asked(*s, 0, 0, source.value), to = asked(*s, 0, 0, copy.value);
    CHECK_THAT(from->problem.empty() && to->problem.empty());
    CHECK_THAT(errors_of(to->keys, 0).tokens[3].known());
    CHECK_EQUAL(to->keys.before[to->keys.at(1, 3, 5)], from->keys.before[from->keys.at(1, 3, 5)]);
    stepped(*s, 7);  // a and c are gone; b takes three blocks
    bool owned = false;
    for (std::uint32_t block = 1; block < 6; ++block) {
        const auto values = asked(*s, 0, 0, block);
        if (!values->problem.empty()) continue;
        owned = true;
        // Whoever owns it now has written all of it with the copy at hand: each token is known and differs little.
        CHECK_BELOW(errors_of(values->keys, 0).total.relative(), 0.01);
        CHECK_EQUAL(errors_of(values->keys, 0).total.count, std::uint64_t(values->tokens) * 2 * 32);
    }
    CHECK_THAT(owned);
}

// Host memory has no copy: what comes back from there is stored as it was, and what it was before is not known any more.
void whatWasSwappedOutIsNotKnownAnyMore(Check& check) {
    auto s = session_of(generated_model({0}), R"("lanes": [{"name": "x", "cache": {"dtype": "int8", "blocks": 12},
        "scheduler": {"preemption": "swap", "swap_blocks": 8}}], "requests": [)" + small_request("a", 20, 20) + R"(],
        "actions": [{"at_step": 3, "do": "preempt", "request": "a"}])");
    asked(*s, 0, 0, 1);
    stepped(*s, 3);
    const LaneRecord& lane = s->recording()->lane(lane0);
    const auto first = asked(*s, 0, 0, lane.state_after(2).sequences()[0].table[0].value);
    CHECK_EQUAL(errors_of(first->keys, 0).total.count, std::uint64_t(16) * 2 * 32);
    stepped(*s, 6);
    CHECK_THAT(!all(*s->recording(), EventKind::swap_in).empty());
    const TableState table = lane.state_after(lane.step_count() - 1).sequences()[0].table;
    CHECK_THAT(table.size() == 2);
    const auto again = asked(*s, 0, 0, table[0].value), newest = asked(*s, 0, 0, table[1].value);
    CHECK_THAT(again->keys.stored == first->keys.stored);
    CHECK_THAT(!again->keys.before_known());
    CHECK_THAT(newest->keys.before_known());  // tokens since then
}

// 20,000 blocks of two layers would take 320 MiB in f32: only the layer that is looked at is copied, and another one from then on.
void ofALargePoolOnlyTheLayerLookedAtIsCopied(Check& check) {
    auto s = session_of(generated_model({0, 0}), R"("lanes": [{"name": "x", "cache": {"dtype": "int8", "blocks": 20000}}], "requests": [)" +
                                                     small_request("a", 20, 20) + "]");
    CHECK_EQUAL(asked(*s, 0, 1, 1)->before_bytes, std::uint64_t(20000) * 16 * 2 * 2 * 32 * 4);
    stepped(*s, 2);
    const auto looked = asked(*s, 0, 1, 1);
    CHECK_EQUAL(looked->layers.size(), std::size_t(1));
    CHECK_EQUAL(looked->layers[0].layer, 1u);
    CHECK_BELOW(errors_of(looked->keys, 0).total.relative(), 0.01);
    const auto other = asked(*s, 0, 0, 1);
    CHECK_EQUAL(other->before_since.value_or(0), std::uint64_t(2));
    CHECK_THAT(!other->keys.before_known());
    stepped(*s, 1);
    CHECK_THAT(asked(*s, 0, 0, 2)->keys.before_known());
}

void kivisNewestTokensAreInPagesAndItsOldOnesAreNot(Check& check) {
    auto s = session_of(generated_model({0}), two_lanes(R"("dtype": "kivi4", "residual": 16, "group": 16)", 40, 10));
    asked(*s, 1, 0, 1);
    stepped(*s, 4);
    const auto old = asked(*s, 1, 0, 1), recent = asked(*s, 1, 0, 3);
    CHECK_THAT(!old->in_page);
    CHECK_THAT(recent->in_page);
    CHECK_BELOW(relative(*recent), 5e-4);  // f16 as yet
    CHECK_THAT(relative(*old) > 1e-3);
    CHECK_THAT(scales_of(*old, KvPart::keys, 0).axis == StoredScales::Axis::channel);
}

// Gemma-like: layer 1 sees a window of 16 and has block tables of its own.
void aBlockBelongsToTheLayersOfItsGroup(Check& check) {
    auto s = session_of(generated_model({0, 16}), two_lanes(R"("dtype": "f16")"));
    asked(*s, 1, 0, 1);
    stepped(*s, 2);
    const LaneRecord& lane = s->recording()->lane(LaneId(1));
    const std::uint32_t group = lane.info().layer_infos[1].group;
    CHECK_THAT(group != lane.info().layer_infos[0].group);
    const BlockId block = lane.state_after(1).table(SequenceId(0), static_cast<std::uint8_t>(group))[1];
    const auto right = asked(*s, 1, 1, block.value);
    CHECK_THAT(right->problem.empty());
    // The other group's layer keeps the same tokens in a block of its own, and is compared there.
    CHECK_EQUAL(right->layers.size(), std::size_t(2));
    CHECK_EQUAL(right->layers[0].keys.count, right->layers[1].keys.count);
    CHECK_THAT(right->layers[0].keys.squares != right->layers[1].keys.squares);
    const auto wrong = asked(*s, 1, 0, block.value);
    CHECK_OR_SAY(contains(wrong->problem, "belongs to the layers of cache group"), wrong->problem);
}

void aSentenceSaysWhyThereIsNothing(Check& check) {
    auto s = session_of(generated_model({0}), R"("lanes": [{"name": "x", "cache": {"blocks": 8}}, {"name": "bare", "kv_cache": false}, {"name": "none", "model": "none"}],
        "requests": [)" + small_request("a", 20, 5) + "]");
    stepped(*s, 1);
    const auto says = [&](std::uint32_t lane, std::uint32_t layer, std::uint32_t block, const char* what) {
        const auto values = asked(*s, lane, layer, block);
        return values && contains(values->problem, what) && values->question == BlockQuestion{LaneId(lane), layer, BlockId(block)};
    };
    CHECK_THAT(says(0, 0, 0, "null block"));
    CHECK_THAT(says(0, 0, 7, "is free"));
    CHECK_THAT(says(0, 0, 8, "has 8 blocks"));
    CHECK_THAT(says(0, 1, 1, "has 1 layers"));
    CHECK_THAT(says(1, 0, 1, "keeps no cache"));
    CHECK_THAT(says(2, 0, 1, "does no arithmetic"));
    const auto before = s->block_values();
    s->ask_block({LaneId(9), 0, BlockId(1)});
    s->wait();
    CHECK_THAT(s->block_values() == before);
    s->reset();
    s->wait();
    CHECK_THAT(s->block_values() == nullptr);
}

// The latent of the bundled MLA model, and the heads it stands for, against the same sums by hand.
void aLatentIsToldWithTheHeadsItStandsFor(Check& check) {
    auto loaded = load_model(KVLOUPE_SOURCE_DIR "/resources/models/mla");
    CHECK_RESULT(loaded);
    const std::shared_ptr<const Model> model = *loaded;
    auto s = session_of(model, two_lanes(R"("dtype": "f16")"));
    asked(*s, 1, 1, 1);
    stepped(*s, 3);
    const auto values = asked(*s, 1, 1, 2);
    CHECK_OR_SAY(values->problem.empty() && values->expansion_problem.empty(), values->problem + values->expansion_problem);
    const LatentShape& latent = model->config.latent;
    CHECK_THAT(values->latent);
    CHECK_EQUAL(values->keys.heads, 1u);
    CHECK_EQUAL(values->keys.width, latent.kv_rank);
    CHECK_EQUAL(values->values.width, latent.rotary_dim);
    CHECK_EQUAL(values->expanded_keys.heads, 8u);
    CHECK_EQUAL(values->expanded_keys.width, latent.nope_dim + latent.rotary_dim);
    CHECK_EQUAL(values->expanded_values.width, latent.value_dim);
    CHECK_BELOW(relative(*values), 5e-4);
    CHECK_THAT(relative(*values) > 0);
    // Every head's rotary part is the one rotary key.
    for (std::uint32_t head = 0; head < 8; ++head)
        for (std::uint32_t i = 0; i < latent.rotary_dim; ++i)
            CHECK_EQUAL(values->expanded_keys.stored[values->expanded_keys.at(head, 2, latent.nope_dim + i)],
                        values->values.stored[values->values.at(0, 2, i)]);
    // The rest is the latent through the up-projection: (heads * (nope + value), kv_rank), keys before values.
    const Tensor& up = model->layers[1].latent.key_value_up;
    CHECK_THAT(up.dtype == DType::f16 || up.dtype == DType::f32);
    const auto weight = [&up](std::uint64_t row, std::uint64_t col) {
        const std::uint64_t at = row * up.cols + col;
        if (up.dtype == DType::f32) return reinterpret_cast<const float*>(up.data)[at];
        return f16_to_f32(reinterpret_cast<const std::uint16_t*>(up.data)[at]);
    };
    const std::uint32_t of_head = latent.nope_dim + latent.value_dim;
    for (std::uint32_t head = 0; head < 8; ++head)
        for (std::uint32_t i = 0; i < of_head; ++i) {
            double sum = 0;
            for (std::uint32_t c = 0; c < latent.kv_rank; ++c)
                sum += static_cast<double>(weight(head * of_head + i, c)) * static_cast<double>(values->keys.stored[values->keys.at(0, 1, c)]);
            const double told = static_cast<double>(i < latent.nope_dim ? values->expanded_keys.stored[values->expanded_keys.at(head, 1, i)]
                                                                        : values->expanded_values.stored[values->expanded_values.at(head, 1, i - latent.nope_dim)]);
            CHECK_BELOW(std::fabs(told - sum), 1e-4);
        }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(storingLosesWhatThePrecisionLoses), storingLosesWhatThePrecisionLoses_cases());
    claims.add(CLAIM(everyLayersErrorStandsBesideTheOthers));
    claims.add(CLAIM(derivedScalesMakeWholeCodes));
    claims.add(CLAIM(whatWasStoredBeforeTheQuestionIsNotKnown));
    claims.add(CLAIM(askingChangesNothingElse));
    claims.add(CLAIM(copiesKeepWhatWasBeforeAndNewOwnersDoNot));
    claims.add(CLAIM(whatWasSwappedOutIsNotKnownAnyMore));
    claims.add(CLAIM(ofALargePoolOnlyTheLayerLookedAtIsCopied));
    claims.add(CLAIM(kivisNewestTokensAreInPagesAndItsOldOnesAreNot));
    claims.add(CLAIM(aBlockBelongsToTheLayersOfItsGroup));
    claims.add(CLAIM(aSentenceSaysWhyThereIsNothing));
    claims.add(CLAIM(aLatentIsToldWithTheHeadsItStandsFor));
    return claims.rows();
}
