// SPDX-License-Identifier: GPL-3.0-or-later
//
// QualityHolder: what a view is besides a View when it shows measured quality. Such a view asks for a measurement by
// View::emptyAction("measure-quality"); the window measures the lanes of its session and hands the report to every view that is
// one of these: if (auto* holder = dynamic_cast<QualityHolder*>(view)) holder->setQuality(…).
#pragma once

#include "engine/record/quality.h"

#include <memory>

namespace kvloupe {

class QualityHolder {
public:
    // Of the lanes at hand, by their names; a lane may be absent. Null: nothing has been measured. Called again while a measurement
    // runs (report->state is then running, and figures are of what was read so far) and when it ends.
    virtual void setQuality(std::shared_ptr<const QualityReport> report) = 0;

protected:
    ~QualityHolder() = default;
};

}  // namespace kvloupe
