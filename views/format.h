// SPDX-License-Identifier: GPL-3.0-or-later
//
// Numbers as text, the same everywhere: bytes exact with separators up to 7 digits, origin mark before the number.
#pragma once

#include "engine/record/step.h"

#include <QString>

namespace kvloupe {

QString originMark(Origin origin);                       // ● measured, ◐ derived, ○ predicted
QString originName(Origin origin);
QString formatCount(quint64 value);                      // 10,240
QString formatAmount(double value, int decimals);        // 3,249.7
QString formatBytes(quint64 bytes);                      // "491,520 B" up to 7 digits, then "1.50 GiB"
QString formatAxisBytes(double bytes);                   // KiB, MiB, GiB
QString formatDuration(double nanoseconds);              // "2.9 µs", "412 µs", "4.61 ms"
QString formatPercent(double share);                     // 0.583 -> "58.3 %"
QString formatRate(double bytesPerSecond);               // "12.3 GB/s"
QString formatSmall(double value);                         // 4.5e−6, 0.041: two significant digits
QString formatHash(quint64 firstBytes);                   // first 8 hex digits of a block hash: "c9d58ba6"
QString csvField(const QString& text);                   // RFC 4180 quoting

}  // namespace kvloupe
