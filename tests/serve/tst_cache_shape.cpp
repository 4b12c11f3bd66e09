// SPDX-License-Identifier: GPL-3.0-or-later
//
// From a model and a lane's keys to layouts, cache groups and places; what a model's shape does not take is refused in a sentence.
#include "engine/serve/cache_shape.h"

#include "engine/cache/attention_span.h"
#include "engine/cache/cache_manager.h"
#include "tests/serve/lane_models.h"
#include "tests/support/texts.h"

#include <numeric>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

ModelConfig config_of(std::uint32_t layers, std::uint32_t kv_heads, std::uint32_t head_dim) {
    ModelConfig config;
    config.name = "a model";
    config.layers = layers;
    config.query_heads = config.kv_heads = kv_heads;
    config.head_dim = head_dim;
    config.context_length = 131'072;
    config.make_uniform();
    return config;
}

// 1-based, every `every`-th layer sees all (FORMATS 3.1).
ModelConfig windowed(std::uint32_t layers, std::uint32_t kv_heads, std::uint32_t head_dim, std::uint32_t window, std::uint32_t every) {
    ModelConfig config = config_of(layers, kv_heads, head_dim);
    for (std::uint32_t i = 0; i < layers; ++i)
        if ((i + 1) % every != 0) config.layer_shapes[i].window = window;
    return config;
}

LaneOptions lane_of(const std::string& cache) {
    return scenario(R"({"version": 1, "lanes": [{"cache": {)" + cache + R"(}}], "requests": []})").lanes.front();
}

struct BytesPerTokenCase {
    std::string cache;
    double bytes;  // of one layer of 8 KV heads of 128 values
};
Cases<BytesPerTokenCase> theLayoutGivesTheBytesOfAToken_cases() {
    Cases<BytesPerTokenCase> cases;
    const auto row = [&](const std::string& cache, double of_row) { cases.add(cache, {cache, 2 * 8 * of_row}); };
    row(R"("dtype": "f32")", 512);
    row(R"("dtype": "bf16")", 256);
    row(R"("dtype": "fp8_e4m3")", 128);  // CACHE_SEMANTICS 0: bytes of a row of 128 values
    row(R"("dtype": "fp8_e5m2", "scale": "head")", 128);
    row(R"("dtype": "fp8_e4m3", "scale": "token_head")", 132);
    row(R"("dtype": "int8")", 132);
    row(R"("dtype": "int8", "scale": "joint")", 130);
    row(R"("dtype": "int4")", 68);
    row(R"("dtype": "q8_0")", 136);
    row(R"("dtype": "q5_1")", 96);
    row(R"("dtype": "q5_0")", 88);
    row(R"("dtype": "q4_1")", 80);
    row(R"("dtype": "q4_0", "rotate": true)", 72);
    row(R"("dtype": "kivi2", "block_size": 32)", 48);  // FORMATS 3.8: 3.0 bits per element
    row(R"("dtype": "kivi4", "block_size": 32)", 80);
    row(R"("dtype": "kivi2", "block_size": 128, "group": 128)", 36);
    row(R"("dtype_k": "int8", "dtype_v": "int4")", 100);
    return cases;
}
void theLayoutGivesTheBytesOfAToken(Check& check, const BytesPerTokenCase& row) {
    const ModelConfig config = config_of(1, 8, 128);
    const auto shape = CacheShape::of(config, lane_of(row.cache));
    CHECK_RESULT(shape);
    const LayerInfo info = shape->layer_infos(config, true).front();
    CHECK_EQUAL(info.bytes_per_token(), row.bytes);
    CHECK_EQUAL(double(shape->layout(shape->block_size).block_bytes), row.bytes * shape->block_size);
}

void precisionsMayDifferByLayer(Check& check) {
    const ModelConfig config = config_of(3, 2, 64);
    const auto shape = CacheShape::of(config, lane_of(R"("dtype_k": ["f16", "int8", "q4_0"], "dtype_v": ["f16", "f16", "int4"])"));
    CHECK_RESULT(shape);
    CHECK_EQUAL(int(shape->layers[1].keys.dtype), int(DType::int8));
    CHECK_EQUAL(int(shape->layers[1].values.dtype), int(DType::f16));
    CHECK_EQUAL(int(shape->layers[2].values.scale), int(KvScale::token_head));
    CHECK_EQUAL(shape->layers[2].place, 2u);
    CHECK_EQUAL(shape->cache_groups.size(), std::size_t(1));
}

void aScaleIsForThePlanesThatLeaveAChoice(Check& check) {
    const auto shape = CacheShape::of(config_of(1, 2, 64), lane_of(R"("dtype_k": "fp8_e4m3", "dtype_v": "f16", "scale": "head")"));
    CHECK_RESULT(shape);
    CHECK_EQUAL(int(shape->layers[0].keys.scale), int(KvScale::head));
    CHECK_EQUAL(int(shape->layers[0].values.scale), int(KvScale::none));
}

struct ResidualCase {
    std::string cache;
    std::uint32_t head_dim, group, residual;
    std::size_t notes;
};
Cases<ResidualCase> groupsAndResidualAreChosenWhereNothingIsGiven_cases() {
    Cases<ResidualCase> cases;
    cases.add("the usual", {R"("block_size": 32)", 64, 32, 128, 0});
    cases.add("blocks of 16", {R"("block_size": 16)", 64, 16, 128, 1});
    cases.add("heads of 24", {R"("block_size": 48)", 24, 24, 144, 2});
    cases.add("given", {R"("block_size": 16, "group": 8, "residual": 64)", 64, 8, 64, 0});
    cases.add("no residual", {R"("block_size": 32, "residual": 0)", 64, 32, 0, 0});
    return cases;
}
void groupsAndResidualAreChosenWhereNothingIsGiven(Check& check, const ResidualCase& row) {
    const auto shape = CacheShape::of(config_of(2, 2, row.head_dim), lane_of(R"("dtype": "kivi4", )" + row.cache));
    CHECK_RESULT(shape);
    CHECK_EQUAL(shape->layers[0].keys.group, row.group);
    CHECK_EQUAL(shape->layers[0].values.group, row.group);
    CHECK_EQUAL(shape->residual, row.residual);
    CHECK_EQUAL(shape->notes.size(), row.notes);
    CHECK_THAT(shape->keeps_residual && shape->pages_of(2) == 1 && shape->pages_of(1'000'000) == shape->most_pages);
}

void aSizeInBytesAndAPoolOfThatSizeAreInverse(Check& check) {
    for (const char* cache : {R"("dtype": "f16")", R"("dtype": "fp8_e4m3")", R"("dtype": "kivi2", "block_size": 32)"}) {
        const auto shape = CacheShape::of(config_of(4, 2, 64), lane_of(cache));
        CHECK_RESULT(shape);
        for (const std::uint32_t blocks : {2u, 3u, 100u, 1'600u, 1'601u, 1'602u, 1'603u, 100'000u}) {
            CHECK_EQUAL(shape->blocks_in(shape->pool_bytes(blocks)), std::uint64_t(blocks));
            CHECK_EQUAL(shape->blocks_in(shape->pool_bytes(blocks) - 1), std::uint64_t(blocks - 1));
        }
    }
}

struct RefusalCase {
    std::string cache, says;
};
Cases<RefusalCase> whatAShapeDoesNotTakeIsRefused_cases() {
    Cases<RefusalCase> cases;
    cases.add("another number of layers", {R"("dtype": ["f16", "int8"])", "cache.dtype: is a list of 2 precisions, but the model has 3 layers"});
    cases.add("of V", {R"("dtype_v": ["f16"], "dtype_k": ["f16", "f16"])", "cache.dtype_k: is a list of 2 precisions"});
    cases.add("no such scale", {R"("dtype": "int8", "scale": "tensor")", "cache.dtype: The cache precision 'int8' has no scale 'tensor'"});
    cases.add("floats have none", {R"("dtype": "f16", "scale": "head")", "cache.dtype: The cache precision 'f16' has no scale 'head'"});
    cases.add("packs", {R"("dtype_v": "q8_0")", "cache.dtype_v: The cache precision 'q8_0' stores packs of 32"});
    cases.add("rotation", {R"("rotate": true)", "cache.dtype: Heads of 24 values cannot be rotated"});
    cases.add("groups of tokens", {R"("dtype": "kivi2", "block_size": 16, "group": 32)", "cache.dtype: Groups of 32 tokens do not divide blocks of 16"});
    cases.add("groups of channels", {R"("dtype": "kivi2", "block_size": 32, "group": 16)", "cache.dtype: Groups of 16 channels do not divide heads of 24"});
    cases.add("residual", {R"("dtype": "kivi4", "residual": 100)", "cache.dtype: A residual of 100 tokens is no multiple of the block size 16"});
    cases.add("joint", {R"("dtype_k": "int8", "dtype_v": "int4", "scale": "joint")", "cache.scale: one scale for K and V together"});
    cases.add("in a layer", {R"("dtype_k": ["f16", "f16", "q4_0"])", "cache.dtype_k, layer 2: The cache precision 'q4_0'"});
    return cases;
}
void whatAShapeDoesNotTakeIsRefused(Check& check, const RefusalCase& row) {
    const auto shape = CacheShape::of(config_of(3, 3, 24), lane_of(row.cache));
    CHECK_THAT(!shape);
    CHECK_OR_SAY(shape.error().sentence.starts_with(row.says), shape.error().sentence);
}

void latentsAreOneHeadAndItsRotaryKey(Check& check) {
    ModelConfig config = config_of(60, 128, 128);
    config.latent = {1536, 512, 128, 64, 128};
    const auto shape = CacheShape::of(config, lane_of(""));
    CHECK_RESULT(shape);
    CHECK_EQUAL(shape->layers[0].kv_heads, 1u);
    CHECK_THAT(shape->layers[0].latent && shape->layers[0].key_dim == 512 && shape->layers[0].value_dim == 64);
    CHECK_EQUAL(shape->layout(16).slot_bytes(), std::uint64_t(69'120));  // FORMATS 3.1, DeepSeek-V2
    LaneOptions expanded = lane_of("");
    expanded.latent_expanded = true;
    CHECK_RESULT(CacheShape::of(config, expanded));
    const auto none = CacheShape::of(config_of(2, 2, 64), expanded);
    CHECK_THAT(!none);
    CHECK_OR_SAY(none.error().sentence.starts_with("mla: 'expanded'"), none.error().sentence);
}

void headsMayDifferByLayer(Check& check) {
    ModelConfig config = config_of(3, 4, 64);
    config.layer_shapes[1].kv_heads = 1;
    config.layer_shapes[2].kv_heads = 2;
    const auto shape = CacheShape::of(config, lane_of(""));
    CHECK_RESULT(shape);
    CHECK_EQUAL(shape->layout(16).slot_bytes(), std::uint64_t(2 * (4 + 1 + 2) * 64 * 2));
}

void aLanesOwnWindowIsForAllLayersAndFlagged(Check& check) {
    const ModelConfig config = windowed(6, 2, 32, 64, 3);
    const auto own = CacheShape::of(config, lane_of(""));
    const auto given = CacheShape::of(config, lane_of(R"("window": 32, "sinks": 4)"));
    CHECK_RESULT(own);
    CHECK_RESULT(given);
    CHECK_THAT(!own->window_is_foreign && given->window_is_foreign);
    CHECK_EQUAL(own->cache_groups.size(), std::size_t(3));
    CHECK_EQUAL(given->cache_groups.size(), std::size_t(1));
    for (const KeySpan& span : given->spans) CHECK_THAT(span == (KeySpan{32, 4, 0, false}));
    // Who gives up no blocks keeps one group and hides by the mask alone.
    const auto radix = CacheShape::of(config, lane_of(R"("prefix_index": "radix")"));
    CHECK_RESULT(radix);
    CHECK_EQUAL(radix->cache_groups.size(), std::size_t(1));
    CHECK_EQUAL(radix->spans[0].window, 64u);
    CHECK_EQUAL(radix->notes.size(), std::size_t(1));
}

struct HybridCase {
    std::uint32_t layers, kv_heads, head_dim, window, global;
    std::uint64_t tokens, bytes;  // FORMATS 3.1, bf16
};
Cases<HybridCase> layersOfDifferentWindowsFormGroups_cases() {
    Cases<HybridCase> cases;
    const auto row = [&](const std::string& name, HybridCase given, std::vector<std::uint64_t> bytes) {
        const std::uint64_t lengths[] = {8'192, 32'768, 131'072};
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            given.tokens = lengths[i];
            given.bytes = bytes[i];
            cases.add("Gemma 3 " + name + " at " + std::to_string(lengths[i]), given);
        }
    };
    row("1B", {26, 1, 256, 512, 4, 0, 0}, {45'088'768, 145'752'064, 548'405'248});
    row("4B", {34, 4, 256, 1024, 5, 0, 0}, {289'406'976, 792'723'456, 2'805'989'376});
    row("12B", {48, 8, 256, 1024, 8, 0, 0}, {872'415'232, 2'483'027'968, 8'925'478'912});
    row("27B", {62, 16, 128, 1024, 10, 0, 0}, {1'107'296'256, 3'120'562'176, 11'173'625'856});
    return cases;
}
// The formula's figure exactly, and what a manager really takes of the pool up to the blocks that a window cuts.
void layersOfDifferentWindowsFormGroups(Check& check, const HybridCase& row) {
    const ModelConfig config = windowed(row.layers, row.kv_heads, row.head_dim, row.window, 6);
    const LaneOptions lane = lane_of("");
    const auto shape = CacheShape::of(config, lane);
    CHECK_RESULT(shape);
    double formula = 0;
    for (const LayerInfo& layer : shape->layer_infos(config, true)) formula += double(layer.kept_tokens(row.tokens)) * layer.bytes_per_token();
    CHECK_EQUAL(formula, double(row.bytes));

    const std::uint64_t local = row.layers - row.global, parts = (local + row.global - 1) / row.global;
    CHECK_EQUAL(shape->cache_groups.size(), std::size_t(parts + 1));
    std::uint64_t layers = 0;
    for (const CacheGroup& group : shape->cache_groups) {
        CHECK_THAT(group.layers.size() <= row.global && group.layers.size() + 1 >= local / parts);
        layers += group.layers.size();
    }
    CHECK_EQUAL(layers, std::uint64_t(row.layers));
    const KvLayout layout = shape->layout(16);
    CHECK_EQUAL(layout.places, row.global);

    CacheManagerOptions options;
    options.blocks = 20'000;
    options.groups = shape->cache_groups;
    auto manager = CacheManager::create(options);
    CHECK_RESULT(manager);
    std::vector<TokenId> tokens(row.tokens + 1);
    std::iota(tokens.begin(), tokens.end(), 0);
    CacheSequence sequence;
    sequence.id = SequenceId(0);
    sequence.tokens = tokens;
    for (std::uint64_t computed = 0; computed < row.tokens + 1;) {
        GrowRequest grow;
        grow.sequence = &sequence;
        grow.computed = static_cast<std::uint32_t>(computed);
        grow.new_tokens = static_cast<std::uint32_t>(computed < row.tokens ? std::min<std::uint64_t>(2'048, row.tokens - computed) : 1);
        const CachePlan plan = (*manager)->plan_grow(grow);
        CHECK_RESULT((*manager)->apply(plan));
        computed += grow.new_tokens;
    }
    // One token more was computed, so that what the window has left behind is given up: global layers hold it in a block more,
    // local ones touch at most one block more than the window fills.
    const std::uint64_t window_blocks = row.window / 16;
    const std::uint64_t least = row.tokens / 16 + 1 + parts * window_blocks, most = least + parts;
    CHECK_THAT((*manager)->used_blocks() >= least && (*manager)->used_blocks() <= most);
    const std::uint64_t padding = parts * row.global - local;  // places without a layer
    const std::uint64_t layer_block = layout.block_bytes / row.global;
    const std::uint64_t taken = (*manager)->used_blocks() * layout.block_bytes;
    CHECK_THAT(taken >= row.bytes + padding * window_blocks * layer_block);
    CHECK_THAT(taken <= row.bytes + (row.global + parts * row.global) * layer_block + padding * (window_blocks + 1) * layer_block);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(theLayoutGivesTheBytesOfAToken), theLayoutGivesTheBytesOfAToken_cases());
    claims.add(CLAIM(precisionsMayDifferByLayer));
    claims.add(CLAIM(aScaleIsForThePlanesThatLeaveAChoice));
    claims.add(CLAIM(groupsAndResidualAreChosenWhereNothingIsGiven), groupsAndResidualAreChosenWhereNothingIsGiven_cases());
    claims.add(CLAIM(aSizeInBytesAndAPoolOfThatSizeAreInverse));
    claims.add(CLAIM(whatAShapeDoesNotTakeIsRefused), whatAShapeDoesNotTakeIsRefused_cases());
    claims.add(CLAIM(latentsAreOneHeadAndItsRotaryKey));
    claims.add(CLAIM(headsMayDifferByLayer));
    claims.add(CLAIM(aLanesOwnWindowIsForAllLayersAndFlagged));
    claims.add(CLAIM(layersOfDifferentWindowsFormGroups), layersOfDifferentWindowsFormGroups_cases());
    return claims.rows();
}
