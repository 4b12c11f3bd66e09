// SPDX-License-Identifier: GPL-3.0-or-later
//
// Tiny random models of every architecture (tests/fixtures/make_tiny_family.py) give the logits that transformers computes
// from them, however the tokens are cut, and in every form of attention.
#include "engine/model/mapped_file.h"
#include "engine/model/safetensors.h"
#include "tests/serve/decoder_runs.h"
#include "tests/serve/reference_model.h"
#include "tests/support/claims.h"

#include <cstring>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

const std::string family = KVLOUPE_SOURCE_DIR "/tests/fixtures/tiny-family/";

const std::vector<std::string> architectures = {"mistral", "mistral-full", "mixtral", "qwen2", "qwen2-window", "qwen3", "llama3-rope", "llama-yarn", "gemma2",
                                                "gemma3", "deepseek-v2", "deepseek-v2-groups", "deepseek-v2-dense", "deepseek-v3"};
const std::vector<std::string> with_latents = {"deepseek-v2", "deepseek-v2-groups", "deepseek-v2-dense", "deepseek-v3"};

struct Expected {
    std::shared_ptr<const Model> model;
    std::vector<TokenId> tokens;
    DecodedRows logits;
};

// Throws where the fixture cannot be read.
Expected expected_of(const std::string& name) {
    Expected result;
    auto model = load_model(family + name);
    if (!model) throw std::runtime_error(model.error().message());
    result.model = *model;
    auto file = MappedFile::open(family + name + "/expected.safetensors");
    if (!file) throw std::runtime_error(file.error().message());
    auto parsed = parse_safetensors((*file)->bytes(), name);
    if (!parsed) throw std::runtime_error(parsed.error().message());
    const SafetensorsTensor *tokens = parsed->tensor("tokens"), *logits = parsed->tensor("logits");
    if (tokens == nullptr || logits == nullptr) throw std::runtime_error("no tokens or logits in " + name);
    for (std::uint64_t i = 0; i < tokens->shape[0]; ++i) {
        std::int32_t token;
        std::memcpy(&token, parsed->bytes.data() + tokens->offset + 4 * i, 4);
        result.tokens.push_back(token);
    }
    for (std::uint64_t row = 0; row < logits->shape[0]; ++row) {
        std::vector<float> values(logits->shape[1]);
        std::memcpy(values.data(), parsed->bytes.data() + logits->offset + 4 * row * values.size(), 4 * values.size());
        result.logits.push_back(std::move(values));
    }
    return result;
}

Cases<std::string> of_names(const std::vector<std::string>& names) {
    Cases<std::string> cases;
    for (const std::string& name : names) cases.add(name, name);
    return cases;
}

void logitsAreThoseOfTransformersHoweverTheTokensAreCut(Check& check, const std::string& name) {
    const Expected expected = expected_of(name);
    const auto device = on_the_cpu(expected.model);
    // At once, token by token, in pieces that end on both sides of the window's border of 8.
    for (const std::uint32_t piece : {26u, 1u, 5u, 8u, 9u}) {
        DecoderRun run(device, {}, {expected.tokens});
        CHECK_BELOW(largest_gap(run.run(piece), expected.logits), 1e-4);
    }
}

void theReferenceIsTransformersToo(Check& check, const std::string& name) {
    const Expected expected = expected_of(name);
    CHECK_BELOW(largest_gap(ReferenceModel(*expected.model).logits(expected.tokens), expected.logits), 1e-4);
}

void expandedLatentsComeToWhatAbsorbedOnesDo(Check& check, const std::string& name) {
    const Expected expected = expected_of(name);
    const auto device = on_the_cpu(expected.model);
    DecoderOptions expanded;
    expanded.mla = MlaForm::expanded;
    for (const std::uint32_t piece : {26u, 1u, 7u}) {
        DecoderRun absorbed(device, {}, {expected.tokens}), made(device, expanded, {expected.tokens});
        CHECK_BELOW(largest_gap(made.run(piece), absorbed.run(piece)), 1e-5);
        CHECK_BELOW(largest_gap(made.logits(0), expected.logits), 1e-4);
    }
}

// Both read what is stored, so what the precision loses is lost in both; but for the second layer's latents that lay so near
// the border of two steps that the first layer's last bits decided.
void latentsOfAPrecisionExpandToWhatTheyAbsorbTo(Check& check, const DType& precision) {
    const Expected expected = expected_of("deepseek-v3");
    const auto device = on_the_cpu(expected.model);
    DecoderOptions expanded;
    expanded.mla = MlaForm::expanded;
    DecoderRun absorbed(device, {}, {expected.tokens}, 4, precision), made(device, expanded, {expected.tokens}, 4, precision);
    CHECK_BELOW(largest_gap(made.run(7), absorbed.run(7)), 2e-3);
    // And it is lost: the logits are near those of f32, and not the same.
    const double gap = largest_gap(absorbed.logits(0), expected.logits);
    CHECK_THAT(gap > 1e-4 && gap < 5);
}

Cases<DType> precisions() {
    Cases<DType> cases;
    for (const DType type : {DType::f16, DType::bf16, DType::fp8_e4m3, DType::fp8_e5m2, DType::int8, DType::int4}) cases.add(std::string(name_of(type)), type);
    return cases;
}

void scoresKeptWholeComeToWhatTilesDo(Check& check, const std::string& name) {
    const Expected expected = expected_of(name);
    const auto device = on_the_cpu(expected.model);
    DecoderOptions whole;
    whole.attention = AttentionForm::materialised;
    for (const std::uint32_t piece : {26u, 6u}) {
        DecoderRun tiled(device, {}, {expected.tokens}), kept(device, whole, {expected.tokens});
        CHECK_BELOW(largest_gap(kept.run(piece), tiled.run(piece)), 1e-5);
    }
}

void neitherThreadsNorBlocksChangeABit(Check& check, const std::string& name) {
    const Expected expected = expected_of(name);
    for (const AttentionForm attention : {AttentionForm::tiled, AttentionForm::materialised})
        for (const MlaForm mla : {MlaForm::absorbed, MlaForm::expanded}) {
            DecoderOptions options;
            options.attention = attention;
            options.mla = mla;
            DecoderRun first(on_the_cpu(expected.model, 1), options, {expected.tokens}, 4);
            const DecodedRows of_one_thread = first.run(9);
            for (const std::uint32_t block_size : {1u, 7u, 32u}) {
                DecoderRun other(on_the_cpu(expected.model, 3), options, {expected.tokens}, block_size);
                CHECK_THAT(other.run(9) == of_one_thread);
            }
        }
}

// Sequences of different lengths in one batch: each comes to what it comes to alone.
void sequencesOfABatchDoNotTouchEachOther(Check& check, const std::string& name) {
    const Expected expected = expected_of(name);
    const auto device = on_the_cpu(expected.model);
    const std::vector<TokenId> shorter(expected.tokens.begin() + 3, expected.tokens.begin() + 14);
    DecoderRun alone(device, {}, {shorter});
    const DecodedRows of_shorter = alone.run(11);
    for (const MlaForm form : {MlaForm::absorbed, MlaForm::expanded}) {
        DecoderOptions options;
        options.mla = form;
        DecoderRun both(device, options, {expected.tokens, shorter});
        both.step({10, 4});
        both.step({1, 1});
        both.step({0, 2});
        CHECK_BELOW(largest_gap(both.run(4), expected.logits), 1e-4);
        CHECK_BELOW(largest_gap(both.logits(1), of_shorter), 1e-5);
    }
}

// K2 of CACHE_SEMANTICS: what is cached of a token does not depend on the number of heads.
void aTokenOfALatentCacheIsItsLatentAndItsRotaryKey(Check& check, const std::string& name) {
    const Expected expected = expected_of(name);
    const ModelConfig& config = expected.model->config;
    const auto device = on_the_cpu(expected.model);
    DecoderRun run(device, {}, {expected.tokens}, 16);
    const KvCacheShape& shape = run.cache().shape();
    CHECK_EQUAL(config.latent.kv_rank + config.latent.rotary_dim, 32u);
    CHECK_EQUAL(run.cache().bytes(), std::uint64_t{shape.blocks} * shape.block_size * config.layers * 32 * 4);
}

void watchedRowsOfExpandedAndAbsorbedLatentsAreTheSame(Check& check) {
    const Expected expected = expected_of("deepseek-v3");
    const auto device = on_the_cpu(expected.model);
    const std::vector<AttentionWatch> watch = {{1, {0, 3}}};
    ForwardOptions options;
    options.watch = watch;
    DecoderOptions expanded;
    expanded.mla = MlaForm::expanded;
    DecoderRun a(device, {}, {expected.tokens}), b(device, expanded, {expected.tokens});
    const ForwardResult absorbed = a.step({20}, options), made = b.step({20}, options);
    CHECK_EQUAL(absorbed.probes.size(), std::size_t(1));
    for (std::size_t head = 0; head < 2; ++head) {
        CHECK_BELOW(largest_gap(absorbed.probes[0].probe.weights[head], made.probes[0].probe.weights[head]), 1e-6);
        double sum = 0;
        for (const float weight : absorbed.probes[0].probe.weights[head][19]) sum += static_cast<double>(weight);
        CHECK_BELOW(std::abs(sum - 1), 1e-5);
    }
}

// The decoder's own counters: what the device allocated is what bytes_for() says.
void buffersTakeWhatIsPredicted(Check& check, const std::string& name) {
    const Expected expected = expected_of(name);
    for (const MlaForm form : {MlaForm::absorbed, MlaForm::expanded}) {
        const auto device = on_the_cpu(expected.model, 1);
        DecoderOptions options;
        options.mla = form;
        const std::uint64_t before = device->backend->memory().activations;
        Decoder decoder(device, options);
        CHECK_THAT(bool(decoder.reserve(64, 16)));
        CHECK_EQUAL(device->backend->memory().activations - before, decoder.bytes_for(64, 16) - decoder.bytes_for(0, 0));
    }
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(logitsAreThoseOfTransformersHoweverTheTokensAreCut), of_names(architectures));
    claims.add(CLAIM(theReferenceIsTransformersToo), of_names(architectures));
    claims.add(CLAIM(expandedLatentsComeToWhatAbsorbedOnesDo), of_names(with_latents));
    claims.add(CLAIM(latentsOfAPrecisionExpandToWhatTheyAbsorbTo), precisions());
    claims.add(CLAIM(scoresKeptWholeComeToWhatTilesDo), of_names(architectures));
    claims.add(CLAIM(neitherThreadsNorBlocksChangeABit), of_names({"gemma2", "deepseek-v2-groups", "deepseek-v3"}));
    claims.add(CLAIM(sequencesOfABatchDoNotTouchEachOther), of_names({"gemma3", "mixtral", "deepseek-v2-groups", "deepseek-v3"}));
    claims.add(CLAIM(aTokenOfALatentCacheIsItsLatentAndItsRotaryKey), of_names(with_latents));
    claims.add(CLAIM(watchedRowsOfExpandedAndAbsorbedLatentsAreTheSame));
    claims.add(CLAIM(buffersTakeWhatIsPredicted), of_names({"gemma2", "mixtral", "deepseek-v2", "deepseek-v3"}));
    return claims.rows();
}
