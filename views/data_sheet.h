// SPDX-License-Identifier: GPL-3.0-or-later
//
// Ceilings and data sheets (find_card(), gpu_table.h) in words.
#pragma once

#include "engine/record/ceilings.h"
#include "engine/record/gpu_table.h"

#include <QString>

namespace kvloupe {

// "read ● 62.1 GB/s, matrix f32 ● 175 GFLOP/s"; "" while nothing is measured.
QString ceilingsText(const Ceilings& ceilings);
// "data sheet H200 SXM: 4.80 TB/s, 989 TFLOP/s bf16"; "" for null.
QString dataSheetText(const GpuEntry* entry);
QString formatFlopRate(double flopsPerSecond);  // "175 GFLOP/s"
QString formatBandwidth(double bytesPerSecond); // formatRate(), and TB/s from 1000 GB/s

}  // namespace kvloupe
