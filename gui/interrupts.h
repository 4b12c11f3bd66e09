// SPDX-License-Identifier: GPL-3.0-or-later
//
// Interrupts: Ctrl+C and a request to end (SIGINT, SIGTERM) end a command's run as a pause would: what ran is written, files are closed.
// The second one ends the program at once.
#pragma once

namespace kvloupe {

class Interrupts {
public:
    Interrupts();   // from here on the signals are caught; one object at a time
    ~Interrupts();  // and from here on they end the program again
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;

    static bool asked();  // any thread
};

}  // namespace kvloupe
