// SPDX-License-Identifier: GPL-3.0-or-later
//
// Which kernels ran in this program.
#pragma once

namespace kvloupe::emulation {

// Called on fibers: takes no lock, which would order the accesses of the threads that call it.
void register_kernel(const char* name);
// Empties the file that KVLOUPE_LAUNCHED_KERNELS names now, and fills it when the program ends.
void write_kernels_at_exit();

}  // namespace kvloupe::emulation
