// SPDX-License-Identifier: GPL-3.0-or-later
//
// Kernels that look at every value of a row by itself, or once more after its sum: gates, caps, scales, softmax.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/pointwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd-inl.h"

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace kvloupe::cpu::HWY_NAMESPACE {

// Calls f(d, i) for whole vectors, then for single values: one code for both, so that a value's result does not depend on
// its place in the row.
template <class F>
HWY_INLINE void for_vectors(std::uint64_t count, F&& f) {
    const hn::ScalableTag<float> d;
    const std::uint64_t lanes = hn::Lanes(d);
    std::uint64_t i = 0;
    for (; i + lanes <= count; i += lanes) f(d, i);
    const hn::CappedTag<float, 1> one;
    for (; i < count; ++i) f(one, i);
}

// 1 + tanh(u) = 2 / (1 + e^-2u), which does not cancel where tanh is near -1.
void gelu_multiply_row_simd(float* gate, const float* up, std::uint64_t count) {
    for_vectors(count, [&](auto d, std::uint64_t i) HWY_ATTR {
        const auto x = hn::LoadU(d, gate + i);
        const auto cubic = hn::Mul(hn::Mul(x, x), hn::Mul(x, hn::Set(d, 0.044715f)));
        const auto minus = hn::Mul(hn::Add(x, cubic), hn::Set(d, -1.5957691216057308f));  // -2 sqrt(2 / pi)
        const auto limit = hn::Set(d, 87.0f);  // exp(87) is finite; beyond it the gate is 0 to f32's precision. NaN passes
        const auto e = exp_f32(d, hn::IfThenElse(hn::Gt(minus, limit), limit, minus));
        hn::StoreU(hn::Mul(hn::Div(x, hn::Add(hn::Set(d, 1.0f), e)), hn::LoadU(d, up + i)), d, gate + i);
    });
}

void soft_cap_row_simd(float* x, float cap, std::uint64_t count) {
    for_vectors(count, [&](auto d, std::uint64_t i) HWY_ATTR {
        const auto caps = hn::Set(d, cap);
        hn::StoreU(hn::Mul(caps, tanh_f32(d, hn::Div(hn::LoadU(d, x + i), caps))), d, x + i);
    });
}

void scale_row_simd(float* x, float factor, std::uint64_t count) {
    for_vectors(count, [&](auto d, std::uint64_t i) HWY_ATTR {
        hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)), d, x + i);
    });
}

void add_scaled_row_simd(const float* from, float factor, std::uint64_t count, float* to) {
    for_vectors(count, [&](auto d, std::uint64_t i) HWY_ATTR {
        hn::StoreU(hn::MulAdd(hn::LoadU(d, from + i), hn::Set(d, factor), hn::LoadU(d, to + i)), d, to + i);
    });
}

void softmax_row_simd(float* x, std::uint64_t count) {
    const hn::ScalableTag<float> d;
    const hn::CappedTag<float, 1> one;
    const std::uint64_t lanes = hn::Lanes(d), whole = count / lanes * lanes;
    auto highest = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (std::uint64_t i = 0; i < whole; i += lanes) highest = hn::Max(highest, hn::LoadU(d, x + i));
    float maximum = hn::GetLane(hn::MaxOfLanes(d, highest));
    for (std::uint64_t i = whole; i < count; ++i) maximum = maximum < x[i] ? x[i] : maximum;
    auto total = hn::Zero(d);
    for (std::uint64_t i = 0; i < whole; i += lanes) {
        const auto e = exp_f32(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, maximum)));
        hn::StoreU(e, d, x + i);
        total = hn::Add(total, e);
    }
    float sum = hn::GetLane(hn::SumOfLanes(d, total));
    for (std::uint64_t i = whole; i < count; ++i) {
        x[i] = hn::GetLane(exp_f32(one, hn::Set(one, x[i] - maximum)));
        sum += x[i];
    }
    scale_row_simd(x, 1 / sum, count);
}

}  // namespace kvloupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvloupe::cpu {

HWY_EXPORT(gelu_multiply_row_simd);
HWY_EXPORT(soft_cap_row_simd);
HWY_EXPORT(scale_row_simd);
HWY_EXPORT(add_scaled_row_simd);
HWY_EXPORT(softmax_row_simd);

void gelu_multiply_row(float* gate, const float* up, std::uint64_t count) {
    HWY_DYNAMIC_DISPATCH(gelu_multiply_row_simd)(gate, up, count);
}
void soft_cap_row(float* x, float cap, std::uint64_t count) { HWY_DYNAMIC_DISPATCH(soft_cap_row_simd)(x, cap, count); }
void scale_row(float* x, float factor, std::uint64_t count) { HWY_DYNAMIC_DISPATCH(scale_row_simd)(x, factor, count); }
void add_scaled_row(const float* from, float factor, std::uint64_t count, float* to) {
    HWY_DYNAMIC_DISPATCH(add_scaled_row_simd)(from, factor, count, to);
}
void softmax_row(float* x, std::uint64_t count) { HWY_DYNAMIC_DISPATCH(softmax_row_simd)(x, count); }

}  // namespace kvloupe::cpu
#endif
