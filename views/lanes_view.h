// SPDX-License-Identifier: GPL-3.0-or-later
//
// Lanes: the engine configurations that step side by side; the one in focus is what the other views show.
#pragma once

#include "views/list_view.h"

namespace kvloupe {

class LanesView : public ListView {
    Q_OBJECT

public:
    explicit LanesView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;

protected:
    void refresh() override;
    QString tipAt(const QPointF& position) const override;
    Pick pickOf(int card) const override;
    void choose(int card) override;

private:
    const StepRecord* stepOf(std::uint32_t lane) const;
};

}  // namespace kvloupe
