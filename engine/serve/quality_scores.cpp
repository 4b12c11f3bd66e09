// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/quality_scores.h"

#include "engine/serve/quality_figures.h"

#include <algorithm>
#include <array>
#include <map>

namespace kvloupe {

namespace {

struct Sums {  // (units)
    std::vector<UnitSum> loss, ratio, divergence, agreement;

    void open() {
        for (std::vector<UnitSum>* sums : {&loss, &ratio, &divergence, &agreement}) sums->emplace_back();
    }
};

void add(UnitSum& to, double value) {
    to.sum += value;
    ++to.count;
}

// Sums of the texts by unit: a whole text, or of a text that is cut every stretch of QualityBlock::tokens positions.
class UnitSums {
public:
    explicit UnitSums(bool stretches) : m_stretches(stretches) {}

    void add_item(const QualityItem& item, const ItemScores& own, const ItemScores* reference) {
        m_all.open();
        for (std::size_t i = 0; i < own.size(); ++i) {
            const std::uint32_t position = item.scored + static_cast<std::uint32_t>(i);
            const std::uint32_t block = position / QualityBlock::tokens;
            if (m_stretches && i > 0 && position % QualityBlock::tokens == 0) m_all.open();
            QualityStep& step = m_steps[position];
            ++step.texts;
            step.loss += double(own.loss[i]);
            Block& of_block = m_blocks[block];
            of_block.loss.resize(m_all.loss.size());
            of_block.divergence.resize(m_all.loss.size());
            add(m_all.loss.back(), double(own.loss[i]));
            add(of_block.loss.back(), double(own.loss[i]));
            if (!reference) continue;
            add(m_all.ratio.back(), double(own.loss[i]) - double(reference->loss[i]));
            add(m_all.divergence.back(), double(own.divergence[i]));
            add(of_block.divergence.back(), double(own.divergence[i]));
            const bool agrees = own.top[i] == reference->top[i];
            add(m_all.agreement.back(), agrees ? 1 : 0);
            step.divergence += double(own.divergence[i]);
            step.agreement += agrees ? 0 : -1;  // from 1 on: what disagrees is taken off
        }
    }

    void write(LaneQuality& quality) {
        quality.perplexity = bootstrap(m_all.loss, MeanScale::exponential);
        quality.perplexity_ratio = bootstrap(m_all.ratio, MeanScale::exponential);
        quality.divergence = bootstrap(m_all.divergence, MeanScale::plain);
        quality.agreement = bootstrap(m_all.agreement, MeanScale::plain);
        for (const auto& [position, sums] : m_steps) {
            const double texts = sums.texts;
            quality.steps.push_back({position, sums.texts, sums.loss / texts, sums.divergence / texts, 1 + (sums.agreement - 1) / texts});
        }
        for (auto& [number, block] : m_blocks) {
            // All units are drawn from, so that a block's samples are those of the whole.
            block.loss.resize(m_all.loss.size());
            block.divergence.resize(m_all.loss.size());
            quality.blocks.push_back({number * QualityBlock::tokens, (number + 1) * QualityBlock::tokens - 1,
                                      bootstrap(block.loss, MeanScale::exponential), bootstrap(block.divergence, MeanScale::plain)});
        }
    }

private:
    struct Block {
        std::vector<UnitSum> loss, divergence;  // (units so far)
    };
    bool m_stretches;
    Sums m_all;
    std::map<std::uint32_t, Block> m_blocks;
    std::map<std::uint32_t, QualityStep> m_steps;  // sums, by position
};

struct Answers {
    std::uint64_t right = 0, of = 0;
};

bool answered(const QualityItem& item, const ItemScores& scores) {
    return std::equal(scores.top.begin(), scores.top.end(), item.tokens.begin() + item.scored, item.tokens.end());
}

void note_difference(const QualityItem& item, const ItemScores& own, const ItemScores& reference, LaneQuality& quality) {
    const auto first = std::mismatch(own.top.begin(), own.top.end(), reference.top.begin()).first;
    std::optional<std::uint32_t> position;
    if (first != own.top.end()) position = item.scored + static_cast<std::uint32_t>(first - own.top.begin());
    quality.first_difference.push_back(position);
}

}  // namespace

LaneQuality quality_of(std::span<const QualityItem> items, const QualitySource& source, const LaneScores& scores,
                       const LaneScores* reference) {
    LaneQuality quality;
    quality.seconds = scores.seconds;
    UnitSums sums(source.cut);
    std::vector<float> divergences;
    std::map<std::pair<std::uint32_t, std::uint32_t>, Answers> answers;  // by facts and distance
    Answers all;
    for (std::size_t i = 0; i < scores.items.size(); ++i) {
        const QualityItem& item = items[i];
        const ItemScores& own = scores.items[i];
        if (item.question) {
            const QualityQuestion& question = source.questions[*item.question];
            Answers& of = answers[{question.facts, question.distance}];
            const bool right = answered(item, own);
            ++of.of;
            ++all.of;
            of.right += right;
            all.right += right;
            continue;
        }
        const ItemScores* other = reference ? &reference->items[i] : nullptr;
        sums.add_item(item, own, other);
        if (!other) continue;
        divergences.insert(divergences.end(), own.divergence.begin(), own.divergence.end());
        note_difference(item, own, *other, quality);
    }
    sums.write(quality);
    quality.divergence_p99 = percentile(divergences, 0.99);
    quality.divergence_max = percentile(divergences, 1);
    for (const auto& [which, of] : answers) quality.recall.push_back({which.first, which.second, wilson(of.right, of.of)});
    quality.recall_total = {0, 0, wilson(all.right, all.of)};
    return quality;
}

std::string unit_text(const QualitySource& source) {
    return source.cut ? "stretches of " + std::to_string(QualityBlock::tokens) + " tokens" : "texts";
}

}  // namespace kvloupe
