// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a recording file keeps of a lane and of a request beside the columns of its tables: all of LaneInfo and RequestInfo as JSON
// with the members' names. A member that an older file lacks keeps its default, one that a newer file has is left out.
#pragma once

#include "engine/record/recording.h"
#include "engine/record/result.h"

#include <string>
#include <string_view>

namespace kvloupe {

std::string json_of(const LaneInfo& info);
Result<LaneInfo> lane_info_of(std::string_view json);

std::string json_of(const RequestInfo& info);
Result<RequestInfo> request_info_of(std::string_view json);

std::string json_of(const std::vector<DeviceMemory>& memory);
Result<std::vector<DeviceMemory>> device_memory_of(std::string_view json);

}  // namespace kvloupe
