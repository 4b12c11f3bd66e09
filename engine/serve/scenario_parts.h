// SPDX-License-Identifier: GPL-3.0-or-later
//
// The parts of a scenario, each read from its JSON object (contract, section 2). `where` is its place, for messages;
// the first error goes into `failure`.
#pragma once

#include "engine/serve/key_reader.h"
#include "engine/serve/scenario.h"

#include <string>

namespace kvloupe {

// before: the lanes that stand before it; a branch takes the settings of one of them where it gives none of its own.
LaneOptions read_lane(const nlohmann::json& value, const std::string& where, const std::vector<LaneOptions>& before, ReadFailure& failure);
// The key "branch" of a lane, and what `of` has.
LaneOptions read_branch(const nlohmann::json& value, const std::string& where, const std::vector<LaneOptions>& before, ReadFailure& failure);
// Names that branches speak of, once everything is read. names: of all sequences.
void check_branch_names(const Scenario& scenario, const std::vector<std::string>& names, ReadFailure& failure);
RequestOptions read_request(const nlohmann::json& value, const std::string& where, ReadFailure& failure);
ScenarioAction read_action(const nlohmann::json& value, const std::string& where, ReadFailure& failure);
Breakpoint read_breakpoint(const nlohmann::json& value, const std::string& where, ReadFailure& failure);
RecordOptions read_record(const nlohmann::json& value, const std::string& where, ReadFailure& failure);

// A cache's dtype, dtype_k, dtype_v, scale, group, residual and rotate; what of it does not go with a layer's shape is refused
// when the model is known (cache_shape.h).
void read_precision(KeyReader& reader, CacheOptions& cache);
// None where the object is empty.
std::optional<ConvertOptions> read_convert(const nlohmann::json& value, const std::string& where, ReadFailure& failure);
// A lane's attention and mla.
void read_attention(KeyReader& reader, LaneOptions& lane);

// The key "device": auto, cpu or cuda:N.
void read_device(KeyReader& reader, std::string& target);

}  // namespace kvloupe
