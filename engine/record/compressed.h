// SPDX-License-Identifier: GPL-3.0-or-later
//
// Bytes compressed by zstd (level 1, with a checksum of the content in the frame), as recording files hold them.
#pragma once

#include "engine/record/result.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace kvloupe {

std::string compressed(std::string_view bytes);

// Errors: no zstd frame, more than `limit` bytes, a checksum that is not that of the content.
Result<std::string> decompressed(std::string_view frame, std::size_t limit);

}  // namespace kvloupe
