// SPDX-License-Identifier: GPL-3.0-or-later
//
// Ticks and their words on the axes of a Plot: round numbers, powers of two for bytes, one unit per axis for times.
#pragma once

#include "views/plot_types.h"

#include "views/with_qcustomplot.h"

#include <QStringList>

namespace kvloupe {

class PlotTicker : public QCPAxisTicker {
public:
    PlotTicker(PlotNumbers numbers, bool logarithmic);

    void setCategories(const QStringList& names) { m_categories = names; }
    // Words at a tick of the last generated vector.
    QString label(double tick) { return getTickLabel(tick, {}, {}, 0); }

protected:
    QVector<double> createTickVector(double tickStep, const QCPRange& range) override;
    QVector<double> createSubTickVector(int, const QVector<double>&) override { return {}; }
    double getTickStep(const QCPRange& range) override;
    QString getTickLabel(double tick, const QLocale&, QChar, int) override;

private:
    PlotNumbers m_numbers;
    bool m_logarithmic;
    QStringList m_categories;
    double m_largest = 0;   // of the ticks shown: decides the unit
    double m_step = 0;
};

// "10⁻³" for a power of ten, "3·10⁻³" else.
QString powerOfTen(double value);

}  // namespace kvloupe
