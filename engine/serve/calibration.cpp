// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/calibration.h"

#include "engine/serve/decoder.h"
#include "engine/serve/quality_figures.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr std::uint32_t calibration_block = 64;                // slots of a block
constexpr std::uint64_t calibration_logit_bytes = 64ull << 20;  // of one pass

// A model over texts, one after another through the same cache.
class CalibrationRun {
public:
    static Result<std::unique_ptr<CalibrationRun>> make(std::shared_ptr<const Model> model, std::shared_ptr<Backend> backend,
                                                        std::size_t longest) {
        auto device = DeviceModel::create(std::move(model), backend);
        if (!device) return device.error();
        auto run = std::unique_ptr<CalibrationRun>(new CalibrationRun(*device));
        const ModelConfig& config = (*device)->model->config;
        KvCacheShape shape;
        shape.block_size = calibration_block;
        shape.blocks = 1 + static_cast<std::uint32_t>((longest + calibration_block - 1) / calibration_block);
        const KvFormat format = KvFormat::of(DType::f32);
        for (std::uint32_t layer = 0; layer < config.layers; ++layer)
            shape.layers.push_back(cache_layer(config, layer, format, format));
        auto cache = backend->kv_cache(shape, Purpose::kv_cache);
        if (!cache) return cache.error();
        run->m_cache = std::move(*cache);
        const std::uint64_t row = std::uint64_t{config.vocabulary} * sizeof(float);
        run->m_piece = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(calibration_logit_bytes / row, 64, 1024));
        return run;
    }

    // losses: where wanted, what its tokens behind the first cost, added up in nats.
    Result<void> read(const std::vector<TokenId>& tokens, double* losses) {
        const auto count = static_cast<std::uint32_t>(tokens.size());
        for (std::uint32_t first = 0; first < count; first += m_piece) {
            const std::uint32_t rows = std::min(m_piece, count - first);
            const Batch batch = piece(tokens, first, rows, losses != nullptr);
            if (auto room = m_decoder.reserve(rows, static_cast<std::uint32_t>(batch.logit_rows.size())); !room) return room;
            auto passed = m_decoder.forward(batch, *m_cache, {});
            if (!passed) return passed.error();
            const std::size_t width = m_device->model->config.vocabulary;
            for (std::uint32_t row = 0; losses && row < rows && first + row + 1 < count; ++row) {
                const auto logits = passed->logits.subspan(row * width, width);
                const LogitFacts facts = logit_facts(logits);
                if (!facts.finite)
                    return Error{"The logits of '" + m_device->model->config.name + "' are not finite on its text",
                                 "Convert by energy."};
                *losses -= facts.log_probability(logits, tokens[first + row + 1]);
            }
        }
        return {};
    }

    // Rows of what a layer caches of the text that was read last, (tokens, width).
    Result<std::vector<float>> cached(std::uint32_t layer, std::uint32_t tokens) {
        const std::uint32_t width = m_cache->shape().layers[layer].key_dim;
        std::vector<float> rows(std::size_t{tokens} * width);
        for (std::uint32_t first = 0, block = 1; first < tokens; first += calibration_block, ++block) {
            const std::uint32_t count = std::min(calibration_block, tokens - first);
            const auto out = std::span(rows).subspan(std::size_t{first} * width, std::size_t{count} * width);
            if (auto held = m_device->backend->read_block(*m_cache, layer, block, 0, count, out, {}); !held) return held.error();
        }
        return rows;
    }

private:
    explicit CalibrationRun(std::shared_ptr<DeviceModel> device) : m_device(device), m_decoder(std::move(device)) {}

    // Slots lie in the order of positions, behind the null block.
    Batch piece(const std::vector<TokenId>& tokens, std::uint32_t first, std::uint32_t rows, bool all_logits) const {
        Batch batch;
        Batch::Sequence sequence;
        sequence.rows = rows;
        sequence.first_position = first;
        sequence.table_size = m_cache->shape().blocks - 1;
        for (std::uint32_t block = 1; block < m_cache->shape().blocks; ++block) batch.block_tables.push_back(block);
        batch.sequences.push_back(sequence);
        for (std::uint32_t row = 0; row < rows; ++row) {
            if (all_logits || row + 1 == rows) batch.logit_rows.push_back(row);
            batch.tokens.push_back(tokens[first + row]);
            batch.positions.push_back(first + row);
            batch.slots.push_back(calibration_block + std::uint64_t{first} + row);
        }
        return batch;
    }

    std::shared_ptr<DeviceModel> m_device;
    Decoder m_decoder;
    std::unique_ptr<KvCache> m_cache;
    std::uint32_t m_piece = 0;  // rows of a pass at most
};

// Adds x x^T of every row (rows, width) to the upper triangle of sum (width, width).
void add_products(const std::vector<float>& rows, std::size_t width, std::vector<double>& sum) {
    std::vector<double> x(width);
    for (std::size_t first = 0; first < rows.size(); first += width) {
        std::copy_n(rows.data() + first, width, x.data());
        for (std::size_t i = 0; i < width; ++i) {
            double* const out = sum.data() + i * width;
            const double factor = x[i];
            for (std::size_t j = i; j < width; ++j) out[j] += factor * x[j];
        }
    }
}

// The mean, both triangles alike.
void finish_covariance(std::vector<double>& sum, std::size_t width, std::uint64_t count) {
    for (std::size_t i = 0; i < width; ++i)
        for (std::size_t j = i; j < width; ++j)
            sum[j * width + i] = sum[i * width + j] /= static_cast<double>(count);
}

Error calibration_cancelled() { return {"Measuring the model was cancelled", ""}; }

}  // namespace

Result<ConvertCalibration> calibrate(std::shared_ptr<const Model> model, std::shared_ptr<Backend> backend,
                                     std::vector<std::vector<TokenId>> texts, const LoadOptions& run) {
    if (model->config.latent.present())
        return Error{"'" + model->config.name + "' keeps latents already, there is nothing to measure for others",
                     "Choose a model with MHA or GQA."};
    std::size_t longest = 0;
    std::uint64_t tokens = 0, predicted = 0;
    for (const std::vector<TokenId>& text : texts) {
        longest = std::max(longest, text.size());
        tokens += text.size();
        predicted += text.empty() ? 0 : text.size() - 1;
    }
    if (predicted == 0) return Error{"There is no text to measure '" + model->config.name + "' on", "Convert by energy."};

    ConvertCalibration result;
    {
        auto inputs = expose_inputs(model);
        if (!inputs) return inputs.error();
        auto reader = CalibrationRun::make(*inputs, backend, longest);
        if (!reader) return reader.error();
        const std::size_t width = model->config.hidden;
        result.covariances.assign(model->config.layers, std::vector<double>(width * width, 0.0));
        for (std::size_t i = 0; i < texts.size(); ++i) {
            if (run.progress) run.progress(double(i) / double(texts.size()), "Measuring what the layers are given");
            if (auto read = (*reader)->read(texts[i], nullptr); !read) return read.error();
            for (std::uint32_t layer = 0; layer < model->config.layers; ++layer) {
                if (run.stop.stop_requested()) return calibration_cancelled();
                auto rows = (*reader)->cached(layer, static_cast<std::uint32_t>(texts[i].size()));
                if (!rows) return rows.error();
                add_products(*rows, width, result.covariances[layer]);
            }
        }
        for (std::vector<double>& covariance : result.covariances) finish_covariance(covariance, width, tokens);
    }
    result.loss = [backend, texts = std::move(texts), longest, predicted,
                   stop = run.stop](std::shared_ptr<const Model> other) -> Result<double> {
        auto reader = CalibrationRun::make(std::move(other), backend, longest);
        if (!reader) return reader.error();
        double losses = 0;
        for (const std::vector<TokenId>& text : texts) {
            if (stop.stop_requested()) return calibration_cancelled();
            if (auto read = (*reader)->read(text, &losses); !read) return read.error();
        }
        return losses / static_cast<double>(predicted);
    };
    return result;
}

}  // namespace kvloupe
