// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/analysis/size_cases.h"

#include <array>

namespace kvloupe {

namespace {

constexpr std::array<SizeCase, 7> cases = {{
    {"8 B at 4 K", "Llama-3.1-8B", 4096, 1, DType::f16, 0},
    {"8 B, 8 K × 4", "Llama-3.1-8B", 8192, 4, DType::f16, 0},
    {"70 B at 8 K", "Llama-3.1-70B", 8192, 1, DType::f16, 0},
    {"8 B at 128 K", "Llama-3.1-8B", 131072, 1, DType::f16, 0},
    {"8 B at 128 K in FP8", "Llama-3.1-8B", 131072, 1, DType::fp8_e4m3, 0},
    {"8 B at 128 K with MHA", "Llama-3.1-8B", 131072, 1, DType::f16, 32},
    {"8 B, 16 × 4 K", "Llama-3.1-8B", 4096, 16, DType::f16, 0},
}};

}  // namespace

SizeRequest SizeCase::request() const {
    SizeRequest request;
    request.context = context;
    request.batch = batch;
    request.precision = {KvFormat::of(dtype), KvFormat::of(dtype)};
    if (kv_heads > 0) request.kv_heads = kv_heads;
    return request;
}

std::span<const SizeCase> size_cases() { return cases; }

std::string_view size_cases_remark() {
    return "Popular articles print 16, 256 or 64 GB for some of these; the product of the factors is what stands here.";
}

}  // namespace kvloupe
