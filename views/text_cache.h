// SPDX-License-Identifier: GPL-3.0-or-later
//
// TextCache: fonts, widths and laid out texts of the last pictures. Shaping a text costs more than drawing it, and from picture to
// picture most texts stay. One for all canvases of the thread that has the windows; it ends with the application.
#pragma once

#include <QFont>
#include <QFontMetricsF>
#include <QHash>
#include <QStaticText>
#include <QString>

#include <deque>
#include <memory>

class QPainter;

namespace kvloupe {

class TextCache {
public:
    struct Face {  // a font that texts are drawn in; lives as long as the cache
        QFont base;
        int pixels = 0, weight = 0;
        bool mono = false;
        QFont font;
        std::unique_ptr<QFontMetricsF> metrics;
    };

    // The cache, or null in other threads than the windows' and without an application.
    static TextCache* here();

    const Face* face(const QFont& base, int pixels, int weight, bool mono);
    static Face makeFace(const QFont& base, int pixels, int weight, bool mono);

    double advance(const Face* face, const QString& text);
    QString elided(const Face* face, const QString& text, Qt::TextElideMode mode, double width);
    // One line whose upper left corner lies at `place`, by the painter's pen. face: the painter's font.
    void draw(QPainter& painter, const Face* face, const QPointF& place, const QString& text);

private:
    struct Key {
        const Face* face;
        QString text;
        int elide = 0;     // 0: whole
        int width = 0;     // of elided ones, in eighths of a pixel
        bool operator==(const Key& other) const {
            return face == other.face && elide == other.elide && width == other.width && text == other.text;
        }
        friend size_t qHash(const Key& key, size_t seed) {
            return qHashMulti(seed, reinterpret_cast<quintptr>(key.face), key.text, key.elide, key.width);
        }
    };
    struct Text {
        double advance = -1;
        std::unique_ptr<QStaticText> laidOut;
    };
    Text& find(const Face* face, const QString& text);

    static constexpr qsizetype most = 6000;  // texts; then all are forgotten

    std::deque<Face> m_faces;
    QHash<Key, std::shared_ptr<Text>> m_texts;  // shared: QHash copies its values
    QHash<Key, QString> m_elided;
};

}  // namespace kvloupe
