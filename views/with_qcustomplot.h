// SPDX-License-Identifier: GPL-3.0-or-later
//
// QCustomPlot writes "signals" and "foreach", which this project turns off as keywords (the engine says "slots").
// Only plot*.cpp include this: it costs seconds per file.
#pragma once

#include <QObject>

#define signals Q_SIGNALS
#define foreach Q_FOREACH
#include <qcustomplot.h>
#undef foreach
#undef signals
