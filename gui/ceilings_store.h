// SPDX-License-Identifier: GPL-3.0-or-later
//
// CeilingsStore: the best of what was measured on the devices of this machine, kept in one small JSON file of the user's. A file that
// is absent or cannot be read is a store without entries.
#pragma once

#include "engine/backend.h"
#include "engine/record/ceilings.h"
#include "engine/record/result.h"

#include <cstdint>
#include <optional>
#include <string>

namespace kvloupe {

// The best of what was measured on a device, number by number: whatever else runs on a machine only lowers them.
struct KeptCeilings {
    Ceilings best;                   // measured_on: the day on which one of the numbers was last improved
    std::uint32_t measurements = 0;  // that these are the best of

    void add(const Ceilings& measured);
};

class CeilingsStore {
public:
    // path: of the file; "" keeps nothing.
    explicit CeilingsStore(std::string path = default_path());

    // $XDG_DATA_HOME/kvloupe/ceilings.json, by default under ~/.local/share; "" without a home.
    static std::string default_path();
    // What entries are kept by: a card's name, or a processor's with its threads and vectors, which decide what it reaches.
    static std::string key_of(const std::string& id, const std::string& name, const std::string& detail);
    static std::string key_of(const DeviceInfo& info) { return key_of(info.id, info.name, info.detail); }

    std::optional<KeptCeilings> find(const std::string& key) const;
    // Counts one measurement more and raises what it improved; the other entries stay. Errors: the file's.
    Result<void> keep(const std::string& key, const Ceilings& ceilings) const;

private:
    std::string m_path;
};

}  // namespace kvloupe
