// SPDX-License-Identifier: GPL-3.0-or-later
//
// Included before any Highway header: the instruction sets that are compiled. SSSE3 gains nothing over SSE2 and SSE4
// here; vectors of unknown length cannot stand in arrays, which the kernels use.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
