// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/model/tensor_taker.h"

#include "engine/model/message.h"

#include <algorithm>

namespace kvloupe {

namespace {

std::string shape_text(const std::vector<std::uint64_t>& shape) {
    std::string text = "[";
    for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + "]";
}

// Alignment that reading elements of a type needs: the plain types are read as such, the packed ones byte by byte.
std::uint64_t alignment_of(DType type) { return is_packed(type) ? 2 : bytes_per_pack(type); }

}  // namespace

TensorTaker::TensorTaker(const std::vector<StoredTensor>& tensors, const std::string& path) : m_path(path) {
    for (const StoredTensor& tensor : tensors) m_by_name.emplace(tensor.name, &tensor);
}

bool TensorTaker::fail(const std::string& what, const std::string& hint) {
    error = {m_path + ": " + what, hint};
    return false;
}

bool TensorTaker::vector(const std::string& name, std::uint64_t width, Tensor& out) { return take(name, {width}, out); }

bool TensorTaker::matrix(const std::string& name, std::uint64_t rows, std::uint64_t cols, Tensor& out) {
    return take(name, {rows, cols}, out);
}

bool TensorTaker::stack(const std::string& name, std::uint64_t count, std::uint64_t rows, std::uint64_t cols, Tensor& out) {
    return take(name, {count, rows, cols}, out);
}

bool TensorTaker::take(const std::string& name, const std::vector<std::uint64_t>& shape, Tensor& out) {
    const auto found = m_by_name.find(name);
    if (found == m_by_name.end()) return fail("has no tensor " + in_quotes(name));
    const StoredTensor& tensor = *found->second;
    if (tensor.shape != shape)
        return fail("tensor " + in_quotes(name) + " has the shape " + shape_text(tensor.shape) +
                        ", but the configuration asks for " + shape_text(shape),
                    "The configuration and the weights belong to different models.");
    if (!tensor.dtype)
        return fail("tensor " + in_quotes(name) + " is stored as " + in_quotes(tensor.type_name) + ", which is not built yet",
                    "Use a file with F32, F16, BF16, Q8_0, Q5_0, Q5_1, Q4_0, Q4_1, Q4_K, Q5_K or Q6_K tensors.");
    if (tensor.offset % alignment_of(*tensor.dtype) != 0)
        return fail("tensor " + in_quotes(name) + " of type " + tensor.type_name + " begins at byte " + grouped(tensor.offset) +
                        ", which is no multiple of " + std::to_string(alignment_of(*tensor.dtype)),
                    "Save the model again: current writers align tensors.");
    out.name = name;
    out.data = tensor.data;
    out.dtype = *tensor.dtype;
    out.cols = shape.back();
    out.rows = 1;
    for (std::size_t i = 0; i + 1 < shape.size(); ++i) out.rows *= shape[i];
    m_used.insert(name);
    m_parameters += out.rows * out.cols;
    m_bytes += out.bytes();
    return true;
}

const StoredTensor* TensorTaker::left_over() const {
    const StoredTensor* first = nullptr;
    for (const auto& [name, tensor] : m_by_name) {
        if (m_used.count(name) || (first && first->name < name)) continue;
        const std::string& text = name;
        const bool ignored = std::any_of(m_ignored_prefixes.begin(), m_ignored_prefixes.end(),
                                         [&text](const std::string& prefix) { return text.rfind(prefix, 0) == 0; });
        if (!ignored) first = tensor;
    }
    return first;
}

}  // namespace kvloupe
