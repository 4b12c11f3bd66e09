// SPDX-License-Identifier: GPL-3.0-or-later
//
// Measures the window itself: time to the first paint and gaps between frames while the bundled family runs at full speed.
#pragma once

namespace kvloupe {

class MainWindow;

// Runs the event loop, prints one JSON document on stdout, returns the exit status.
int measureWindow(MainWindow& window);

}  // namespace kvloupe
