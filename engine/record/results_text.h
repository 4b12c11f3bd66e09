// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the writers of result files share.
#pragma once

#include "engine/record/describe.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvloupe {

// A field by RFC 4180: quoted where it holds a comma, a quote or a line break.
inline std::string csv_field(std::string_view text) {
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"') quoted += '"';
        quoted += c;
    }
    return quoted += '"';
}

// Nanoseconds as microseconds with three decimals: exact.
inline std::string microseconds(std::uint64_t nanoseconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%llu.%03llu", static_cast<unsigned long long>(nanoseconds / 1000),
                  static_cast<unsigned long long>(nanoseconds % 1000));
    return text;
}

// Name of every sequence and the id of its request, made once per document. The rules are those of sequence_name().
struct SequenceNames {
    std::vector<std::string> names;
    std::vector<std::string> requests;
    std::vector<bool> is_child;  // a fork, sample or beam: listed among its request's sequences

    SequenceNames(const Recording& recording, const LaneRecord& lane) {
        std::unordered_map<std::uint32_t, std::uint32_t> count;  // sequences by request
        const std::size_t sequences = lane.sequences().size();
        for (std::size_t i = 0; i < sequences; ++i) {
            const SequenceInfo& info = lane.sequences()[i];
            const bool known = info.request.valid() && info.request.value < recording.requests().size();
            const std::uint32_t earlier = count[info.request.value]++;
            const std::string id = known ? recording.requests()[info.request.value].id : std::string();
            requests.push_back(id);
            if (!known) names.push_back("sequence " + std::to_string(i));
            else if (!info.name.empty()) names.push_back(info.name);
            else names.push_back(info.parent.valid() && earlier > 0 ? id + "." + std::to_string(earlier) : id);
            is_child.push_back(known && names.back() != id);
        }
    }

    const std::string& name(SequenceId id) const { return id.value < names.size() ? names[id.value] : m_none; }
    const std::string& request(SequenceId id) const { return id.value < requests.size() ? requests[id.value] : m_none; }

private:
    std::string m_none;
};

}  // namespace kvloupe
