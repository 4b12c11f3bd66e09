// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/results.h"

#include "engine/record/file_output.h"

#include <exception>
#include <new>

namespace kvloupe {

Result<void> write_results(const Recording& recording, const std::string& folder, const ResultOptions& options) {
    try {
        FileOutput output(folder);
        if (auto made = output.create_folder(); !made) return made;
        // One document at a time: the longest are large.
        if (auto done = output.write("summary.json", summary_json(recording)); !done) return done;
        if (auto done = output.write("steps.csv", steps_csv(recording)); !done) return done;
        if (auto done = output.write("events.csv", events_csv(recording)); !done) return done;
        if (auto done = output.write("trace.json", trace_json(recording, options.trace_limit_bytes)); !done) return done;
        if (options.blocks)
            if (auto done = output.write("blocks.json", blocks_json(recording)); !done) return done;
        return output.put_in_place();
    } catch (const std::bad_alloc&) {
        return Error{folder + ": the results do not fit into memory", "Record fewer steps or export without blocks."};
    } catch (const std::exception& exception) {
        return Error{folder + ": the results cannot be written: " + exception.what(), ""};
    }
}

}  // namespace kvloupe
