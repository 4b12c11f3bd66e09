// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/token_strip.h"

#include <QCoreApplication>

#include <algorithm>
#include <cmath>

namespace kvloupe {

QColor TokenStrip::fillOf(StoredPiece::Kind kind) const {
    switch (kind) {
    case StoredPiece::Kind::scales: return m_canvas.colours().ink1;
    case StoredPiece::Kind::values:
    case StoredPiece::Kind::rotary: return m_canvas.mix(m_colour, m_canvas.colours().panel, 0.4);
    case StoredPiece::Kind::keys:
    case StoredPiece::Kind::latent: break;
    }
    return m_colour;
}

QString TokenStrip::nameOf(const StoredPiece& piece) const {
    const QString heads = piece.heads == 1 ? QString::number(piece.head)
                                           : QStringLiteral("%1–%2").arg(piece.head).arg(piece.head + piece.heads - 1);
    switch (piece.kind) {
    case StoredPiece::Kind::keys: return QLatin1Char('K') + heads;
    case StoredPiece::Kind::values: return QLatin1Char('V') + heads;
    case StoredPiece::Kind::latent: return QCoreApplication::translate("kvloupe::TokenStrip", "latent");
    case StoredPiece::Kind::rotary: return QCoreApplication::translate("kvloupe::TokenStrip", "rotary");
    case StoredPiece::Kind::scales: break;
    }
    return {};
}

void TokenStrip::paint(const QPointF& topLeft, double height) const {
    QPainter& painter = m_canvas.painter();
    const Palette& colours = m_canvas.colours();
    double x = topLeft.x();
    // Names of all rows or of none: a K without its V would look like a difference.
    const TextStyle plain{10.5, QFont::Medium, {}, false};
    const auto fits = [&](const StoredPiece& piece) {
        return piece.kind == StoredPiece::Kind::rotary ||
               m_canvas.width(nameOf(piece), plain) + m_canvas.u(3) <= piece.bytes * m_pixelsPerByte;
    };
    const bool named = height >= m_canvas.u(13) && std::all_of(m_token.pieces.begin(), m_token.pieces.end(), fits);
    painter.save();
    for (const StoredPiece& piece : m_token.pieces) {
        const QRectF area(x, topLeft.y(), piece.bytes * m_pixelsPerByte, height);
        x = area.right();
        const QColor fill = fillOf(piece.kind);
        painter.fillRect(area, fill);
        if (area.width() >= m_canvas.u(4)) {  // a hairline between rows, where it leaves something between
            painter.setPen(QPen(colours.panel, 1));
            painter.drawLine(QLineF(area.left(), area.top(), area.left(), area.bottom()));
        }
        if (!named || m_canvas.width(nameOf(piece), plain) > area.width()) continue;
        TextStyle style = plain;
        const int ground = fill.lightness();
        const bool onInk = std::abs(ground - colours.ink1.lightness()) > std::abs(ground - colours.panel.lightness());
        style.colour = onInk ? colours.ink1 : colours.panel;  // whichever is further from the fill
        m_canvas.text(area, nameOf(piece), style, Qt::AlignCenter, Qt::ElideNone);
    }
    painter.restore();
}

}  // namespace kvloupe
