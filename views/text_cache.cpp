// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/text_cache.h"

#include <QCoreApplication>
#include <QFontDatabase>
#include <QPainter>
#include <QThread>

#include <algorithm>

namespace kvloupe {

namespace {

std::unique_ptr<TextCache>& instance() {
    static std::unique_ptr<TextCache> cache;
    return cache;
}

}  // namespace

TextCache* TextCache::here() {
    const QCoreApplication* const application = QCoreApplication::instance();
    if (!application || QThread::currentThread() != application->thread()) return nullptr;
    std::unique_ptr<TextCache>& cache = instance();
    if (!cache) {
        cache = std::make_unique<TextCache>();
        qAddPostRoutine([] { instance().reset(); });  // fonts end before the application does
    }
    return cache.get();
}

TextCache::Face TextCache::makeFace(const QFont& base, int pixels, int weight, bool mono) {
    Face face{base, pixels, weight, mono, mono ? QFontDatabase::systemFont(QFontDatabase::FixedFont) : base, nullptr};
    face.font.setPixelSize(pixels);
    face.font.setWeight(static_cast<QFont::Weight>(weight));
    face.metrics = std::make_unique<QFontMetricsF>(face.font);
    return face;
}

const TextCache::Face* TextCache::face(const QFont& base, int pixels, int weight, bool mono) {
    const auto known = std::find_if(m_faces.begin(), m_faces.end(), [&](const Face& face) {
        return face.pixels == pixels && face.weight == weight && face.mono == mono && face.base == base;
    });
    if (known != m_faces.end()) return &*known;
    return &m_faces.emplace_back(makeFace(base, pixels, weight, mono));
}

TextCache::Text& TextCache::find(const Face* face, const QString& text) {
    std::shared_ptr<Text>& found = m_texts[{face, text}];
    if (!found) {
        found = std::make_shared<Text>();
        found->advance = face->metrics->horizontalAdvance(text);
    }
    return *found;
}

double TextCache::advance(const Face* face, const QString& text) {
    if (m_texts.size() > most) m_texts.clear();
    return find(face, text).advance;
}

QString TextCache::elided(const Face* face, const QString& text, Qt::TextElideMode mode, double width) {
    if (m_elided.size() > most) m_elided.clear();
    QString& shown = m_elided[{face, text, static_cast<int>(mode) + 1, static_cast<int>(width * 8)}];
    if (shown.isNull()) shown = face->metrics->elidedText(text, mode, width);
    return shown;
}

void TextCache::draw(QPainter& painter, const Face* face, const QPointF& place, const QString& text) {
    Text& found = find(face, text);
    if (!found.laidOut) {
        found.laidOut = std::make_unique<QStaticText>(text);
        found.laidOut->setTextFormat(Qt::PlainText);
        found.laidOut->setPerformanceHint(QStaticText::AggressiveCaching);
        found.laidOut->prepare(painter.transform(), face->font);
    }
    painter.drawStaticText(place, *found.laidOut);
}

}  // namespace kvloupe
