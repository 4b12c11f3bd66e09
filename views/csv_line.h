// SPDX-License-Identifier: GPL-3.0-or-later
//
// One line of RFC 4180 text.
#pragma once

#include "views/format.h"

#include <QStringList>

namespace kvloupe {

inline QString csvLine(const QStringList& fields) {
    QStringList quoted;
    for (const QString& field : fields) quoted.append(csvField(field));
    return quoted.join(QLatin1Char(',')) + QStringLiteral("\r\n");
}

}  // namespace kvloupe
