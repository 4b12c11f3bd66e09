// SPDX-License-Identifier: GPL-3.0-or-later
//
// Parts of models by themselves: how experts are chosen, layers that differ in their heads, what stages cost.
#include "engine/model/generate_model.h"
#include "engine/serve/expert_choice.h"
#include "engine/serve/late_stages.h"
#include "tests/serve/decoder_runs.h"
#include "tests/serve/reference_model.h"
#include "tests/serve/wrapping_backend.h"
#include "tests/support/claims.h"

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::vector<std::uint32_t> chosen(const ExpertShape& shape, const std::vector<float>& logits, const std::vector<float>& bias = {}) {
    std::vector<std::uint32_t> experts;
    for (const ExpertChoice& choice : choose_experts(shape, logits, bias)) experts.push_back(choice.expert);
    return experts;
}

using Experts = std::vector<std::uint32_t>;

ExpertShape shape_of(std::uint32_t count, std::uint32_t used) {
    ExpertShape shape;
    shape.count = count;
    shape.used = used;
    return shape;
}

void theMostProbableExpertsAreChosen(Check& check) {
    ExpertShape shape = shape_of(4, 2);
    const std::vector<float> logits = {0, 2, 1, -1};
    CHECK_THAT(chosen(shape, logits) == (Experts{1, 2}));
    const double e1 = std::exp(1.0), e2 = std::exp(2.0), all = 1 + e2 + e1 + std::exp(-1.0);
    CHECK_BELOW(std::abs(static_cast<double>(choose_experts(shape, logits, {})[0].weight) - e2 / all), 1e-7);
    shape.normalised = true;
    CHECK_BELOW(std::abs(static_cast<double>(choose_experts(shape, logits, {})[1].weight) - e1 / (e1 + e2)), 1e-7);
    shape.weight_scale = 2.5f;
    CHECK_BELOW(std::abs(static_cast<double>(choose_experts(shape, logits, {})[1].weight) - 2.5 * e1 / (e1 + e2)), 1e-6);
    CHECK_THAT(chosen(shape_of(3, 2), {1, 1, 1}) == (Experts{0, 1}));  // ties go to the lower one
    CHECK_THAT(chosen(shape_of(2, 2), {-5, 5}) == (Experts{1, 0}));
}

void groupsAreJudgedByTheirBestOrTheirBestTwo(Check& check) {
    ExpertShape shape = shape_of(6, 2);
    shape.groups = 3;
    shape.used_groups = 1;
    const std::vector<float> logits = {5, -5, 4, 4, -9, -9};
    CHECK_THAT(chosen(shape, logits) == (Experts{0, 2}));  // no groups
    shape.group_score = ExpertShape::GroupScore::best;
    CHECK_THAT(chosen(shape, logits) == (Experts{0, 1}));
    shape.score = ExpertShape::Score::sigmoid;
    shape.group_score = ExpertShape::GroupScore::best_two;
    CHECK_THAT(chosen(shape, logits) == (Experts{2, 3}));
    shape.used_groups = 2;
    CHECK_THAT(chosen(shape, logits) == (Experts{0, 2}));
}

void aCorrectionTakesPartInChoosingAndNotInWeighting(Check& check) {
    ExpertShape shape = shape_of(4, 2);
    shape.score = ExpertShape::Score::sigmoid;
    const std::vector<float> logits = {1, 0, -1, -2}, bias = {0, 0, 0, 5};
    CHECK_THAT(chosen(shape, logits) == (Experts{0, 1}));
    const std::vector<ExpertChoice> corrected = choose_experts(shape, logits, bias);
    CHECK_EQUAL(corrected[0].expert, 3u);
    CHECK_BELOW(std::abs(static_cast<double>(corrected[0].weight) - 1 / (1 + std::exp(2.0))), 1e-7);
    // Below 0 an expert of a closed group is still not chosen.
    shape.groups = 2;
    shape.used_groups = 1;
    shape.group_score = ExpertShape::GroupScore::best_two;
    CHECK_THAT(chosen(shape, logits, {-3, -3, -9, -9}) == (Experts{0, 1}));
}

void logitsThatAreNoNumbersShowInTheWeights(Check& check) {
    ExpertShape shape = shape_of(4, 2);
    shape.groups = 2;
    shape.group_score = ExpertShape::GroupScore::best;
    const std::vector<ExpertChoice> choices = choose_experts(shape, std::vector<float>(4, std::nanf("")), {});
    CHECK_EQUAL(choices.size(), std::size_t(2));
    CHECK_THAT(std::isnan(choices[0].weight) && choices[0].expert != choices[1].expert);
}

void rowsAreSortedByTheirExperts(Check& check) {
    const ExpertRows rows = sort_by_expert(shape_of(3, 1), std::vector<float>{0, 0, 9, 9, 0, 0, 0, 0, 9}, {});
    CHECK_EQUAL(rows.groups.size(), std::size_t(2));
    CHECK_EQUAL(rows.groups[0].expert, 0u);
    CHECK_THAT(rows.groups[0].rows == Experts{1});
    CHECK_EQUAL(rows.groups[1].expert, 2u);
    CHECK_THAT(rows.groups[1].rows == (Experts{0, 2}));
    CHECK_EQUAL(rows.groups[1].weights.size(), std::size_t(2));
}

// Its layers are views into other models' bytes.
struct MixedModel : Model {
    std::vector<std::shared_ptr<const Model>> parts;
};

// A layer of each of three models: heads, feed-forward widths, windows and chunks of their own.
std::shared_ptr<const Model> uneven_model() {
    const LayerShape shapes[] = {{4, 2, 48, 0, 0, false, false}, {2, 1, 80, 6, 0, true, false}, {3, 3, 64, 0, 4, false, false}};
    auto mixed = std::make_shared<MixedModel>();
    for (const LayerShape& shape : shapes) {
        GenerateOptions options;
        options.shape.layers = 1;
        options.shape.hidden = 32;
        options.shape.query_heads = shape.query_heads;
        options.shape.kv_heads = shape.kv_heads;
        options.shape.head_dim = 16;
        options.shape.intermediate = shape.intermediate;
        options.shape.vocabulary = 50;
        options.shape.context_length = 64;
        options.matrices = DType::f32;
        options.seed = 5 + mixed->layers.size();
        auto made = generate_model(options);
        if (!made) throw std::runtime_error(made.error().message());
        mixed->parts.push_back(*made);
        if (mixed->layers.empty()) {
            mixed->config = (*made)->config;
            mixed->embedding = (*made)->embedding;
            mixed->output_norm = (*made)->output_norm;
            mixed->output = (*made)->output;
        }
        mixed->layers.push_back((*made)->layers[0]);
        mixed->config.layer_shapes.resize(mixed->layers.size());
        mixed->config.layer_shapes.back() = shape;
    }
    mixed->config.layers = 3;
    mixed->config.rope_local_theta = 100;
    return mixed;
}

const std::vector<TokenId> twenty = {3, 1, 4, 1, 5, 9, 2, 6, 5, 35, 8, 9, 7, 9, 32, 38, 46, 2, 6, 4};

void layersMayDifferInHeadsWindowsAndTurns(Check& check) {
    const auto model = uneven_model();
    const auto expected = ReferenceModel(*model).logits(twenty);
    const auto device = on_the_cpu(model);
    for (const std::uint32_t piece : {20u, 1u, 7u})
        for (const AttentionForm form : {AttentionForm::tiled, AttentionForm::materialised}) {
            DecoderOptions options;
            options.attention = form;
            DecoderRun run(device, options, {twenty});
            CHECK_BELOW(largest_gap(run.run(piece), expected), 1e-4);
        }
}

void aSpanGivenForAllLayersReplacesTheModelsOwn(Check& check) {
    const auto model = uneven_model();
    KeySpan window;
    window.window = 5;
    DecoderOptions options;
    options.spans.assign(3, window);
    DecoderRun run(on_the_cpu(model), options, {twenty});
    CHECK_BELOW(largest_gap(run.run(6), ReferenceModel(*model).logits(twenty, window)), 1e-4);
    DecoderRun own(on_the_cpu(model), {}, {twenty});
    CHECK_THAT(largest_gap(own.run(6), run.logits(0)) > 1e-3);
}

// Counts experts' rows on their way back: one call for each expert that is used.
class ScatterCounter final : public WrappingBackend {
public:
    ScatterCounter(std::unique_ptr<Backend> real, std::shared_ptr<std::uint64_t> calls)
        : WrappingBackend(std::move(real)), m_calls(std::move(calls)) {}
    void scatter_add(const Buffer& in, std::span<const std::uint32_t> rows, std::span<const float> weights, std::uint32_t width,
                     Buffer& out) override {
        ++*m_calls;
        m_real->scatter_add(in, rows, weights, width, out);
    }

private:
    std::shared_ptr<std::uint64_t> m_calls;
};

struct MeasuredRun {
    std::shared_ptr<DeviceModel> device;
    std::unique_ptr<DecoderRun> run;
    ForwardResult result;
    std::uint64_t scatters = 0;
};

// Five tokens of a tiny DeepSeek-V3: hidden 32, four heads of 16 + 8 and 12, latents of 24 + 8, queries by 20; in layer 1 eight
// experts of 8, three per token, and a shared one.
MeasuredRun measured_run(const DecoderOptions& options) {
    MeasuredRun made;
    auto model = load_model(KVLOUPE_SOURCE_DIR "/tests/fixtures/tiny-family/deepseek-v3");
    if (!model) throw std::runtime_error(model.error().message());
    auto real = make_backend(BackendOptions{"cpu", 1});
    if (!real) throw std::runtime_error(real.error().message());
    const auto calls = std::make_shared<std::uint64_t>(0);
    auto device = DeviceModel::create(*model, std::make_shared<ScatterCounter>(std::move(*real), calls));
    if (!device) throw std::runtime_error(device.error().message());
    made.device = *device;
    made.run = std::make_unique<DecoderRun>(made.device, options, std::vector<std::vector<TokenId>>{twenty});
    ForwardOptions measure;
    measure.measure = true;
    made.result = made.run->step({5}, measure);
    made.scatters = *calls;
    return made;
}

void latentAttentionCostsWhatItsShapesSay(Check& check) {
    const MeasuredRun made = measured_run({});
    const StageCosts& costs = made.result.measured->costs;
    const std::uint64_t b = 4;  // bytes
    // Five cached tokens of 24 + 8; queries of 24 + 8 and results of 24 in four heads; 15 pairs.
    CHECK_EQUAL(costs.of(StageKind::attention, 0).bytes, b * (5 * 32 + 5 * 4 * (32 + 24)));
    CHECK_EQUAL(costs.of(StageKind::attention, 0).flops, std::uint64_t(2) * 15 * 4 * (32 + 24));
    CHECK_EQUAL(costs.of(StageKind::qkv, 0).bytes, b * (96 * 20 + 5 * 20 + 5 * 96));
    const std::uint64_t down = 32 * 32 + 5 * 32 + 5 * 32 + 2 * 5 * 32 + 24 + 2 * 5 * 24;
    const std::uint64_t query = 20 * 32 + 5 * 32 + 5 * 20 + 20 + 2 * 5 * 20;
    const std::uint64_t absorbed = 2 * 5 * 64 + (96 * 16 + 5 * 64 + 5 * 96) + 2 * 5 * 4 * 32 + (48 * 24 + 5 * 96 + 5 * 48);
    CHECK_EQUAL(costs.of(StageKind::latent, 0).bytes, b * (down + query + absorbed));
    CHECK_EQUAL(costs.of(StageKind::rotary_store, 0).bytes, b * 5 * (2 * 32 + 2 * 8 + 24 + 8 + 32));
}

void expandedLatentsCostTheirContextInEveryStep(Check& check) {
    DecoderOptions options;
    options.mla = MlaForm::expanded;
    MeasuredRun made = measured_run(options);
    const StageCosts& costs = made.result.measured->costs;
    const std::uint64_t b = 4, of_token = 4 * (16 + 8 + 12);
    CHECK_EQUAL(costs.of(StageKind::attention, 0).bytes, b * (5 * of_token + 5 * of_token));
    CHECK_EQUAL(costs.of(StageKind::attention, 0).flops, std::uint64_t(2) * 15 * of_token);
    ForwardOptions measure;
    measure.measure = true;
    const ForwardResult next = made.run->step({1}, measure);  // one token more, six to expand
    const std::uint64_t down = 32 * 32 + 32 + 32 + 2 * 32 + 24 + 2 * 24, query = 20 * 32 + 32 + 20 + 20 + 2 * 20;
    const std::uint64_t expanded = 6 * 32 + 6 * 32 + (112 * 24 + 6 * 24 + 6 * 112) + 2 * 6 * 112 + 6 * (8 + 32) + 2 * 6 * of_token;
    CHECK_EQUAL(next.measured->costs.of(StageKind::latent, 1).bytes, b * (down + query + expanded));
}

void scoresKeptWholeAreCountedFourTimes(Check& check) {
    DecoderOptions whole;
    whole.attention = AttentionForm::materialised;
    const MeasuredRun tiled = measured_run({}), kept = measured_run(whole);
    const std::uint64_t scores = 4 * 5 * 5;  // heads, rows, keys
    CHECK_EQUAL(kept.result.measured->costs.of(StageKind::attention, 1).bytes - tiled.result.measured->costs.of(StageKind::attention, 1).bytes,
                4 * 4 * scores);
    CHECK_EQUAL(kept.result.measured->costs.of(StageKind::attention, 1).flops, tiled.result.measured->costs.of(StageKind::attention, 1).flops);
}

void expertsCostTheWeightsOfThoseThatWereChosen(Check& check) {
    MeasuredRun made = measured_run({});
    const StageCosts& costs = made.result.measured->costs;
    const std::uint64_t b = 4, used = made.scatters;
    CHECK_THAT(used >= 3 && used <= 8);
    const std::uint64_t shared = 8 * 32 + 5 * 32 + 5 * 8, chosen_rows = 15;
    CHECK_EQUAL(costs.of(StageKind::gate_up, 1).bytes,
                b * (2 * shared + 2 * chosen_rows * 32 + 2 * (used * 8 * 32 + chosen_rows * (32 + 8))));
    CHECK_EQUAL(costs.of(StageKind::gate_up, 1).flops, std::uint64_t(2) * 2 * (5 + chosen_rows) * 8 * 32);
    CHECK_EQUAL(costs.of(StageKind::activation, 1).bytes, b * 3 * (5 + chosen_rows) * 8);
    CHECK_EQUAL(costs.of(StageKind::down, 1).bytes,
                b * ((32 * 8 + 5 * 8 + 2 * 5 * 32) + (used * 32 * 8 + chosen_rows * (8 + 32)) + 3 * chosen_rows * 32));
    CHECK_EQUAL(costs.of(StageKind::route, 1).bytes, b * (8 * 32 + 5 * 32 + 5 * 8));
    CHECK_EQUAL(costs.of(StageKind::route, 0).bytes, std::uint64_t(0));  // a dense layer
    // The stage is marked once for the shared expert and once for each chosen one, and costs once.
    std::vector<StageRecord> stages;
    add_stages(stages, made.device->backend->timings(made.result.measured->set), costs);
    const auto find = [&](StageKind kind, std::uint16_t layer) {
        return *std::find_if(stages.begin(), stages.end(), [&](const StageRecord& s) { return s.kind == kind && s.layer == layer; });
    };
    CHECK_EQUAL(std::uint64_t(find(StageKind::gate_up, 1).calls), 1 + used);
    CHECK_EQUAL(find(StageKind::gate_up, 1).bytes, costs.of(StageKind::gate_up, 1).bytes);
    CHECK_EQUAL(find(StageKind::latent, 0).calls, 3u);
    CHECK_EQUAL(find(StageKind::latent, 0).bytes, costs.of(StageKind::latent, 0).bytes);
    CHECK_EQUAL(find(StageKind::route, 1).calls, 1u);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(theMostProbableExpertsAreChosen));
    claims.add(CLAIM(groupsAreJudgedByTheirBestOrTheirBestTwo));
    claims.add(CLAIM(aCorrectionTakesPartInChoosingAndNotInWeighting));
    claims.add(CLAIM(logitsThatAreNoNumbersShowInTheWeights));
    claims.add(CLAIM(rowsAreSortedByTheirExperts));
    claims.add(CLAIM(layersMayDifferInHeadsWindowsAndTurns));
    claims.add(CLAIM(aSpanGivenForAllLayersReplacesTheModelsOwn));
    claims.add(CLAIM(latentAttentionCostsWhatItsShapesSay));
    claims.add(CLAIM(expandedLatentsCostTheirContextInEveryStep));
    claims.add(CLAIM(scoresKeptWholeAreCountedFourTimes));
    claims.add(CLAIM(expertsCostTheWeightsOfThoseThatWereChosen));
    return claims.rows();
}
