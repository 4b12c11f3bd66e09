// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/generate_model.h"
#include "engine/model/quants.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <cmath>
#include <cstring>
#include <set>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

GenerateOptions small(DType type) {
    GenerateOptions options;
    options.shape.layers = 3;
    options.shape.hidden = 64;
    options.shape.query_heads = 8;
    options.shape.kv_heads = 2;
    options.shape.head_dim = 8;
    options.shape.intermediate = 96;
    options.shape.vocabulary = 50;
    options.shape.context_length = 128;
    options.matrices = type;
    options.seed = 7;
    return options;
}

constexpr std::uint64_t layer_matrices = 64 * 64 * 2 + 16 * 64 * 2 + 96 * 64 * 3;
constexpr std::uint64_t norms = 64 * (2 * 3 + 1);

Cases<int> shapesAndCountsFollowTheOptions_cases() {
    Cases<int> cases;
    for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1})
        cases.add(std::string(name_of(type)), static_cast<int>(type));
    return cases;
}
void shapesAndCountsFollowTheOptions(Check& check, int type) {
    const DType dtype = static_cast<DType>(type);
    const auto model = generate_model(small(dtype));
    CHECK_RESULT(model);
    const Model& m = **model;
    CHECK_EQUAL(m.layers.size(), std::size_t{3});
    CHECK_THAT(m.layers[2].key.rows == 16 && m.layers[2].key.cols == 64 && m.layers[2].key.dtype == dtype);
    CHECK_THAT(m.layers[0].down.rows == 64 && m.layers[0].down.cols == 96);
    CHECK_THAT(m.layers[1].ffn_norm.rows == 1 && m.layers[1].ffn_norm.cols == 64);
    CHECK_THAT(m.layers[1].ffn_norm.dtype == DType::f32);
    const std::uint64_t matrices = 3 * layer_matrices + 2 * 50 * 64;
    CHECK_EQUAL(m.config.parameters, matrices + norms);
    CHECK_EQUAL(m.config.weight_bytes, row_bytes(dtype, matrices) + 4 * norms);
    std::uint64_t owned = 0;
    for (const auto& bytes : m.owned) owned += bytes.size();
    CHECK_EQUAL(owned, m.config.weight_bytes);
    CHECK_EQUAL(m.config.rotary_dim, 8u);
    CHECK_THAT(m.output.data != m.embedding.data);
}

void weightsHaveTheVarianceOfOneOverColumns(Check& check) {
    const auto model = generate_model(small(DType::f32));
    CHECK_THAT(model);
    const Tensor& gate = (*model)->layers[1].gate;
    std::vector<float> row(64);
    double sum = 0, squares = 0;
    std::set<float> different;
    for (std::uint64_t r = 0; r < gate.rows; ++r) {
        dequantise_row(gate.dtype, gate.data + r * row_bytes(gate.dtype, gate.cols), row);
        for (const float value : row) {
            sum += value;
            squares += static_cast<double>(value) * value;
            different.insert(value);
        }
    }
    const double count = 96.0 * 64.0;
    CHECK_THAT(std::fabs(sum / count) < 0.01);
    CHECK_THAT(std::fabs(squares / count * 64 - 1) < 0.05);
    CHECK_THAT(different.size() > 6000);
}

void theSeedDecidesTheBytes(Check& check) {
    GenerateOptions options = small(DType::q4_1);
    const auto first = generate_model(options);
    const auto again = generate_model(options);
    options.seed = 8;
    const auto other = generate_model(options);
    CHECK_THAT(first && again && other);
    CHECK_THAT((*first)->owned == (*again)->owned);
    CHECK_THAT((*first)->owned != (*other)->owned);
    CHECK_EQUAL((*first)->weights_id, (*again)->weights_id);
    CHECK_THAT((*first)->weights_id != (*other)->weights_id);
}

void tiedModelsShareTheEmbedding(Check& check) {
    GenerateOptions options = small(DType::f16);
    options.shape.tied_embeddings = true;
    const auto model = generate_model(options);
    CHECK_THAT(model && (*model)->output.data == (*model)->embedding.data);
    CHECK_EQUAL((*model)->config.parameters, 3 * layer_matrices + 50 * 64 + norms);
}

struct ImpossibleShapesAreRefusedByValueCase {
    int which;
    std::string words;
};
Cases<ImpossibleShapesAreRefusedByValueCase> impossibleShapesAreRefusedByValue_cases() {
    Cases<ImpossibleShapesAreRefusedByValueCase> cases;
    cases.add("no layers", {0, "layers"});
    cases.add("KV heads", {1, "KV heads, 3"});
    cases.add("odd head", {2, "head size 7"});
    cases.add("rows of 40 in q8_0", {3, "intermediate"});
    return cases;
}
void impossibleShapesAreRefusedByValue(Check& check, const ImpossibleShapesAreRefusedByValueCase& row) {
    GenerateOptions options = small(row.which == 3 ? DType::q8_0 : DType::f16);
    if (row.which == 0) options.shape.layers = 0;
    if (row.which == 1) options.shape.kv_heads = 3;
    if (row.which == 2) options.shape.head_dim = 7;
    if (row.which == 3) options.shape.intermediate = 40;
    const auto model = generate_model(options);
    CHECK_THAT(!model);
    CHECK_OR_SAY(contains(model.error().message(), row.words), model.error().message());
}

// Counted by hand: 3 layers of hidden 64, 4 heads of 16 + 8 for keys and 12 for values, rank 32.
GenerateOptions latent_shape() {
    GenerateOptions options = small(DType::f32);
    options.shape.query_heads = 4;
    options.shape.kv_heads = options.shape.head_dim = 0;
    options.shape.latent = {0, 32, 16, 8, 12};
    return options;
}
void latentModelsHaveTheirTensors(Check& check) {
    GenerateOptions options = latent_shape();
    for (const std::uint32_t rank : {0u, 20u}) {
        options.shape.latent.query_rank = rank;
        const auto model = generate_model(options);
        CHECK_RESULT(model);
        const ModelConfig& config = (*model)->config;
        CHECK_THAT(config.head_dim == 24 && config.kv_heads == 4 && config.rotary_dim == 8);
        CHECK_EQUAL(config.attention_variant(), "MLA");
        const std::uint64_t query = rank == 0 ? 96 * 64 : rank * 64 + rank + 96 * rank;
        const std::uint64_t layer = 2 * 64 + query + 40 * 64 + 32 + 4 * 28 * 32 + 64 * 48 + 3 * 96 * 64;
        CHECK_EQUAL(config.parameters, 3 * layer + 64 + 2 * 50 * 64);
        const LatentWeights& weights = (*model)->layers[1].latent;
        CHECK_THAT(weights.key_up_transposed.rows == 4 * 32 && weights.key_up_transposed.cols == 16);
        CHECK_THAT(weights.value_up.rows == 48 && weights.value_up.cols == 32);
    }
}

void expertsAreMadeWhereLayersHaveThem(Check& check) {
    GenerateOptions options = small(DType::q4_0);
    options.shape.experts.count = 4;
    options.shape.experts.used = 2;
    options.shape.experts.shared = 1;
    options.shape.experts.intermediate = 32;
    options.shape.experts.corrected = true;
    options.shape.make_uniform();
    options.shape.layer_shapes[1].experts = options.shape.layer_shapes[2].experts = true;
    const auto model = generate_model(options);
    CHECK_RESULT(model);
    const Model& m = **model;
    CHECK_THAT(m.layers[0].experts.empty() && !m.layers[0].router.present() && m.layers[0].gate.rows == 96);
    CHECK_THAT(m.layers[1].experts.size() == 4 && m.layers[1].gate.rows == 32 && m.layers[1].router_bias.present());
    CHECK_THAT(m.layers[2].experts[3].down.rows == 64 && m.layers[2].experts[3].down.cols == 32);
    const std::uint64_t attention = 64 * 64 * 2 + 16 * 64 * 2, expert = 3 * 32 * 64;
    CHECK_EQUAL(m.config.parameters, 3 * attention + norms + 3 * 96 * 64 + 2 * (5 * expert + 4 * 64 + 4) + 2 * 50 * 64);
}

void theOtherPartsAreMadeWhereTheShapeHasThem(Check& check) {
    GenerateOptions options = small(DType::f16);
    options.shape.attention_bias = options.shape.query_key_norm = options.shape.post_norms = true;
    const auto model = generate_model(options);
    CHECK_RESULT(model);
    const LayerWeights& layer = (*model)->layers[2];
    CHECK_THAT(layer.query_bias.cols == 64 && layer.key_bias.cols == 16 && layer.value_bias.cols == 16);
    CHECK_THAT(layer.query_norm.cols == 8 && layer.key_norm.cols == 8);
    CHECK_THAT(layer.post_attention_norm.cols == 64 && layer.post_ffn_norm.cols == 64);
    CHECK_THAT((*model)->weights_id != (*generate_model(small(DType::f16)))->weights_id);
}

void widthsOfTheOtherPartsMustFitThePacks(Check& check) {
    GenerateOptions options = latent_shape();
    options.matrices = DType::q8_0;  // 4 heads of 12 are 48
    const auto model = generate_model(options);
    CHECK_THAT(!model);
    CHECK_OR_SAY(contains(model.error().message(), "query_heads * value_dim as a multiple of 32, not 48"), model.error().message());
    options = small(DType::q6_k);
    CHECK_THAT(contains(generate_model(options).error().message(), "cannot be in q6_k"));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(shapesAndCountsFollowTheOptions), shapesAndCountsFollowTheOptions_cases());
    claims.add(CLAIM(weightsHaveTheVarianceOfOneOverColumns));
    claims.add(CLAIM(theSeedDecidesTheBytes));
    claims.add(CLAIM(tiedModelsShareTheEmbedding));
    claims.add(CLAIM(impossibleShapesAreRefusedByValue), impossibleShapesAreRefusedByValue_cases());
    claims.add(CLAIM(latentModelsHaveTheirTensors));
    claims.add(CLAIM(expertsAreMadeWhereLayersHaveThem));
    claims.add(CLAIM(theOtherPartsAreMadeWhereTheShapeHasThem));
    claims.add(CLAIM(widthsOfTheOtherPartsMustFitThePacks));
    return claims.rows();
}
