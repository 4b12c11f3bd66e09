// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/commands.h"

#include <iostream>

namespace kvloupe {

int fail(const std::string& message, int status) {
    std::cerr << "kvloupe: " << message << '\n';
    return status;
}

}  // namespace kvloupe
