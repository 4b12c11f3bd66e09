// SPDX-License-Identifier: GPL-3.0-or-later
//
// CeilingsView: what a view is besides a View when it holds stages against what their device reaches. Such a view asks for
// a measurement by View::emptyAction("measure-ceilings"); the window measures the device of the lane in focus and hands
// the result to every view that is one of these: if (auto* held = dynamic_cast<CeilingsView*>(view)) held->setCeilings(…).
#pragma once

#include "engine/record/ceilings.h"

namespace kvloupe {

class CeilingsView {
public:
    // Of the device of the lane in focus; not measured(): unknown, as after a change to a lane of another device.
    virtual void setCeilings(const Ceilings& ceilings) = 0;

protected:
    ~CeilingsView() = default;
};

}  // namespace kvloupe
