// SPDX-License-Identifier: GPL-3.0-or-later
//
// TensorTaker: takes tensors by name out of what a file holds, each with exactly the shape that is asked for, counts what was
// taken, and knows what is left over.
#pragma once

#include "engine/model/model.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace kvloupe {

// A tensor as it lies in a file.
struct StoredTensor {
    std::string name;
    std::vector<std::uint64_t> shape;  // outermost first
    std::optional<DType> dtype;        // nothing: a type this program does not compute with
    std::string type_name;             // as the file calls it
    const std::byte* data = nullptr;
    std::uint64_t offset = 0;          // in the file, for messages
};

class TensorTaker {
public:
    TensorTaker(const std::vector<StoredTensor>& tensors, const std::string& path);

    Error error;  // of the first call that returned false
    bool fail(const std::string& what, const std::string& hint = "Use a complete file of the model.");

    bool has(const std::string& name) const { return m_by_name.count(name) > 0; }
    std::size_t count() const { return m_by_name.size(); }
    bool vector(const std::string& name, std::uint64_t width, Tensor& out);
    bool matrix(const std::string& name, std::uint64_t rows, std::uint64_t cols, Tensor& out);
    // A stack of `count` matrices, as one tensor of count * rows rows.
    bool stack(const std::string& name, std::uint64_t count, std::uint64_t rows, std::uint64_t cols, Tensor& out);
    // May be there and is not needed.
    void ignore(const std::string& name) { m_used.insert(name); }
    void ignore_prefix(const std::string& prefix) { m_ignored_prefixes.push_back(prefix); }
    // The first tensor, in order of names, that was neither taken nor ignored; nullptr: none.
    const StoredTensor* left_over() const;

    std::uint64_t parameters() const { return m_parameters; }
    std::uint64_t bytes() const { return m_bytes; }

private:
    bool take(const std::string& name, const std::vector<std::uint64_t>& shape, Tensor& out);

    const std::string& m_path;
    std::unordered_map<std::string, const StoredTensor*> m_by_name;
    std::unordered_set<std::string> m_used;
    std::vector<std::string> m_ignored_prefixes;
    std::uint64_t m_parameters = 0, m_bytes = 0;
};

}  // namespace kvloupe
