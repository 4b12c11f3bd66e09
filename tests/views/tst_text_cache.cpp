// SPDX-License-Identifier: GPL-3.0-or-later
//
// Texts that were laid out for an earlier picture look as if they were laid out anew.
#include <QObject>  // first: moc 6.4 stumbles over libstdc++ when <compare> comes first

#include "views/canvas.h"

#include <QImage>
#include <QPainter>
#include <QTest>

#include <cstdlib>

using namespace kvloupe;

namespace {

// What is not white, in device pixels.
QRect inked(const QImage& image) {
    QRect all;
    for (int y = 0; y < image.height(); ++y)
        for (int x = 0; x < image.width(); ++x)
            if (image.pixel(x, y) != qRgb(255, 255, 255)) all |= QRect(x, y, 1, 1);
    return all;
}

QImage blank(double ratio) {
    QImage image(QSize(420, 60) * ratio, QImage::Format_ARGB32_Premultiplied);
    image.setDevicePixelRatio(ratio);
    image.fill(Qt::white);
    return image;
}

}  // namespace

class TestTextCache : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void aTextLooksTheSameEachTime_data() {
        QTest::addColumn<QString>("text");
        QTest::addColumn<double>("ratio");
        const QPair<const char*, QString> texts[] = {{"plain", QStringLiteral("Block 4711 of request a.1")},
                                                     {"no Latin", QStringLiteral("块表 и ключи ▁the")},
                                                     {"number", QStringLiteral("1,234,567.89 µs")},
                                                     {"spaces", QStringLiteral("  two in front, two behind  ")},
                                                     {"like markup", QStringLiteral("<s> & <b>not bold</b>")}};
        for (const auto& [name, text] : texts)
            for (const double ratio : {1.0, 1.25, 2.0}) QTest::addRow("%s, %g", name, ratio) << text << ratio;
    }
    void aTextLooksTheSameEachTime() {
        QFETCH(QString, text);
        QFETCH(double, ratio);
        const Palette& palette = Palette::light();
        QFont base;
        base.setPixelSize(12);
        const TextStyle style{13, QFont::DemiBold, Qt::black, false};
        QImage images[3] = {blank(ratio), blank(ratio), blank(ratio)};
        for (int i = 0; i < 2; ++i) {
            QPainter painter(&images[i]);
            const Canvas canvas(painter, palette, base, 1);
            canvas.text(QRectF(10, 8, 400, 30), text, style);
        }
        QVERIFY(images[0] == images[1]);
        QVERIFY(images[0] != blank(ratio));
        // And as Qt draws it without any cache.
        QPainter painter(&images[2]);
        painter.setRenderHint(QPainter::Antialiasing);
        const Canvas canvas(painter, palette, base, 1);
        const QFontMetricsF metrics(canvas.font(style));
        painter.setFont(canvas.font(style));
        painter.setPen(Qt::black);
        painter.drawText(QPointF(10, 8 + (30 - metrics.height()) / 2 + metrics.ascent()), text);
        painter.end();
        if (text != QStringLiteral("块表 и ключи ▁the")) QVERIFY(images[2] == images[0]);
        // Where fonts change in a text Qt rounds their places once more at fractions of a pixel.
        const QRect own = inked(images[0]), plain = inked(images[2]);
        for (const int off : {own.left() - plain.left(), own.top() - plain.top(), own.right() - plain.right(), own.bottom() - plain.bottom()})
            QVERIFY2(std::abs(off) <= 1, qPrintable(QString::number(off)));
    }

    void widthsAndCutsAreThoseOfTheFont() {
        QImage image = blank(1);
        QPainter painter(&image);
        const Canvas canvas(painter, Palette::light(), QFont(), 1);
        const TextStyle style{12, QFont::Normal, {}, false};
        const QFontMetricsF metrics(canvas.font(style));
        for (int round = 0; round < 2; ++round)
            for (int i = 0; i < 7000; ++i) {  // more than the cache keeps
                const QString text = QStringLiteral("t%1").arg(i);
                if (canvas.width(text, style) != metrics.horizontalAdvance(text)) QFAIL(qPrintable(text));
            }
    }
};

QTEST_MAIN(TestTextCache)
#include "tst_text_cache.moc"
