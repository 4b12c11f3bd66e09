// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/interrupts.h"

#include <atomic>
#include <csignal>

namespace kvloupe {

namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // what a signal's handler may touch

}  // namespace

Interrupts::Interrupts() {
    interrupted = false;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = true; };
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;  // the second one does as usual
    sigemptyset(&action.sa_mask);
    for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

Interrupts::~Interrupts() {
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
}

bool Interrupts::asked() { return interrupted; }

}  // namespace kvloupe
