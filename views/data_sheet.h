// SPDX-License-Identifier: GPL-3.0-or-later
//
// The data sheet of a lane's device, where the table of GPUs has it.
#pragma once

#include "engine/record/ceilings.h"
#include "engine/record/gpu_table.h"

#include <QString>

#include <string_view>

namespace kvloupe {

// device: as drivers name it ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"), other words around it. Null for a device
// that is not in the table: other cards, and the PCIe, NVL and 40 GB builds of those in it, whose figures differ.
const GpuEntry* data_sheet_of(std::string_view device);

// "read ● 62.1 GB/s, matrix f32 ● 175 GFLOP/s"; "" while nothing is measured.
QString ceilingsText(const Ceilings& ceilings);
// "data sheet H200 SXM: 4.80 TB/s, 989 TFLOP/s bf16"; "" for null.
QString dataSheetText(const GpuEntry* entry);
QString formatFlopRate(double flopsPerSecond);  // "175 GFLOP/s"
QString formatBandwidth(double bytesPerSecond); // formatRate(), and TB/s from 1000 GB/s

}  // namespace kvloupe
