// SPDX-License-Identifier: GPL-3.0-or-later
//
// TokenStrip: a stored token as a strip of rectangles to scale: K and the latent in the lane's colour, V and the rotary key pale,
// scales in ink.
#pragma once

#include "views/canvas.h"
#include "views/stored_token.h"

namespace kvloupe {

class TokenStrip {
public:
    // pixelsPerByte: the same for all strips that are compared.
    TokenStrip(const Canvas& canvas, const StoredToken& token, const QColor& colour, double pixelsPerByte)
        : m_canvas(canvas), m_token(token), m_colour(colour), m_pixelsPerByte(pixelsPerByte) {}

    double width() const { return m_token.bytes * m_pixelsPerByte; }
    // From `topLeft` to the right; names of the pieces where they have room.
    void paint(const QPointF& topLeft, double height) const;

private:
    QColor fillOf(StoredPiece::Kind kind) const;
    QString nameOf(const StoredPiece& piece) const;

    const Canvas& m_canvas;
    const StoredToken& m_token;
    QColor m_colour;
    double m_pixelsPerByte;
};

}  // namespace kvloupe
