// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kvloupe {

namespace {

// Steele, Lea & Flood, "Fast splittable pseudorandom number generators" (2014): the finaliser of SplitMix64.
std::uint64_t mix(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// exp(x) for x <= 0 within 3e-7 of the value: 2^n * 2^f with a polynomial of degree 6 for 2^f, |f| <= 1/2. Without
// branches and calls, so that the compiler vectorises the loop over a vocabulary; std::exp costs ten times as much.
inline float fast_exponential(float x) {
    const float clamped = std::max(x, -87.0f) * 1.44269504f;
    const float whole = static_cast<float>(static_cast<std::int32_t>(clamped - 0.5f));
    const float f = clamped - whole;
    float p = 1.5403530e-4f;
    p = p * f + 1.3333558e-3f;
    p = p * f + 9.6181291e-3f;
    p = p * f + 5.5504109e-2f;
    p = p * f + 2.4022651e-1f;
    p = p * f + 6.9314718e-1f;
    p = p * f + 1.0f;
    return p * std::bit_cast<float>((static_cast<std::int32_t>(whole) + 127) << 23);
}

// Comes before: larger logit, or the same with a lower id.
struct Better {
    std::span<const float> logits;
    bool operator()(std::uint32_t a, std::uint32_t b) const {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    }
};

// Whether a value of the run is larger than the limit. No exit on the way, so that the loop vectorises.
bool any_above(const float* values, std::uint32_t count, float limit) {
    std::uint32_t above = 0;
    for (std::uint32_t i = 0; i < count; ++i) above |= values[i] > limit ? 1u : 0u;
    return above != 0;
}

// The most probable tokens, best first. Runs in which no value exceeds the last of them, which are most, are only
// compared with it; an equal value has a higher id and comes after it.
std::uint32_t collect_top(std::span<const float> logits, std::array<std::uint32_t, SampledToken::max_alternatives>& top) {
    constexpr std::uint32_t run = 64;
    const Better better{logits};
    const auto size = static_cast<std::uint32_t>(logits.size());
    std::uint32_t count = 0;
    for (std::uint32_t id = 0; id < size; ++id) {
        if (count == top.size()) {
            const float limit = logits[top[count - 1]];
            while (id % run == 0 && id + run <= size && !any_above(logits.data() + id, run, limit)) id += run;
            if (id == size) break;
            if (!(logits[id] > limit)) continue;
        }
        std::uint32_t place = count < top.size() ? count++ : count - 1;
        while (place > 0 && better(id, top[place - 1])) {
            top[place] = top[place - 1];
            --place;
        }
        top[place] = id;
    }
    return count;
}

}  // namespace

bool all_finite(std::span<const float> values) {
    // An exponent of all ones is infinity or NaN; the loop has no exit, so that it vectorises.
    std::uint32_t bad = 0;
    for (const float value : values) bad |= ((std::bit_cast<std::uint32_t>(value) & 0x7F800000u) == 0x7F800000u) ? 1u : 0u;
    return bad == 0;
}

double sum_of_exponentials(std::span<const float> values, float maximum) {
    constexpr std::size_t lanes = 16;
    double total = 0;
    std::size_t i = 0;
    while (i < values.size()) {
        // Sixteen sums of at most 256 terms each keep the rounding error far below that of a single float sum.
        std::array<float, lanes> sums{};
        const std::size_t end = std::min(values.size(), i + lanes * 256);
        for (; i + lanes <= end; i += lanes)
            for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += fast_exponential(values[i + lane] - maximum);
        for (; i < end; ++i) sums[0] += fast_exponential(values[i] - maximum);
        for (const float sum : sums) total += double{sum};
    }
    return total;
}

std::uint64_t Sampler::request_seed(std::uint64_t seed, std::string_view request) {
    std::uint64_t hash = mix(seed);
    for (const char c : request) hash = mix(hash ^ static_cast<unsigned char>(c));
    return hash;
}

double Sampler::uniform(std::uint64_t seed, std::uint64_t index) {
    return static_cast<double>(mix(seed ^ mix(index)) >> 11) * 0x1.0p-53;
}

TokenId Sampler::choose(std::span<const float> logits, const SamplingOptions& options, double uniform) {
    const auto vocabulary = static_cast<std::uint32_t>(logits.size());
    const float maximum = *std::max_element(logits.begin(), logits.end());
    m_weights.resize(vocabulary);
    for (std::uint32_t id = 0; id < vocabulary; ++id)
        m_weights[id] = std::exp((logits[id] - maximum) / options.temperature);

    m_candidates.resize(vocabulary);
    for (std::uint32_t id = 0; id < vocabulary; ++id) m_candidates[id] = id;
    const Better better{logits};
    if (options.top_k > 0 && options.top_k < vocabulary) {
        const auto end = m_candidates.begin() + options.top_k;
        std::nth_element(m_candidates.begin(), end, m_candidates.end(), better);
        m_candidates.resize(options.top_k);
    }
    const auto total_of = [&] {
        double total = 0;
        for (const std::uint32_t id : m_candidates) total += double{m_weights[id]};
        return total;
    };
    if (options.top_p < 1) {
        // A heap gives the most probable ones first without sorting the rest.
        const double enough = total_of() * double{options.top_p};
        const auto worse = [&](std::uint32_t a, std::uint32_t b) { return better(b, a); };
        std::make_heap(m_candidates.begin(), m_candidates.end(), worse);
        auto end = m_candidates.end();
        double reached = 0;
        while (end != m_candidates.begin() && (end == m_candidates.end() || reached < enough)) {
            std::pop_heap(m_candidates.begin(), end, worse);
            reached += double{m_weights[*--end]};
        }
        m_candidates.erase(m_candidates.begin(), end);
    }
    std::sort(m_candidates.begin(), m_candidates.end());
    double left = uniform * total_of();
    for (const std::uint32_t id : m_candidates) {
        left -= double{m_weights[id]};
        if (left < 0) return static_cast<TokenId>(id);
    }
    // Rounding: the last one that has a weight.
    const auto last = std::find_if(m_candidates.rbegin(), m_candidates.rend(), [&](std::uint32_t id) { return m_weights[id] > 0; });
    return static_cast<TokenId>(last == m_candidates.rend() ? m_candidates.front() : *last);
}

SampledToken Sampler::sample(std::span<const float> logits, const SamplingOptions& options, std::uint32_t output_index,
                             TokenId forced) {
    SampledToken result;
    std::array<std::uint32_t, SampledToken::max_alternatives> top{};
    result.alternative_count = collect_top(logits, top);
    const float maximum = logits[top[0]];
    const double total = sum_of_exponentials(logits, maximum);
    const auto probability = [&](std::uint32_t id) {
        return static_cast<float>(std::exp(double{logits[id]} - double{maximum}) / total);
    };
    for (std::uint32_t i = 0; i < result.alternative_count; ++i)
        result.alternatives[i] = {static_cast<TokenId>(top[i]), probability(top[i]), logits[top[i]]};

    if (forced >= 0) result.token = forced;
    else if (options.temperature <= 0) result.token = static_cast<TokenId>(top[0]);
    else result.token = choose(logits, options, uniform(options.seed, output_index));

    const auto chosen = static_cast<std::uint32_t>(result.token);
    result.probability = probability(chosen);
    if (chosen != top[0]) {
        const Better better{logits};
        for (std::uint32_t id = 0; id < logits.size(); ++id) result.rank += better(id, chosen) ? 1u : 0u;
    }
    return result;
}

SampledToken Sampler::sample(const LogitSummary& logits, TokenId forced) {
    SampledToken result;
    const auto probability = [&](float logit) {
        return static_cast<float>(std::exp(double{logit} - double{logits.maximum}) / logits.exponentials);
    };
    result.alternative_count = logits.top_tokens;
    for (std::uint32_t i = 0; i < logits.top_tokens; ++i)
        result.alternatives[i] = {logits.top[i], probability(logits.top_logits[i]), logits.top_logits[i]};
    result.token = forced >= 0 ? forced : logits.top[0];
    result.rank = forced >= 0 ? logits.asked_rank : 0;
    result.probability = probability(forced >= 0 ? logits.asked_logit : logits.top_logits[0]);
    return result;
}

}  // namespace kvloupe
