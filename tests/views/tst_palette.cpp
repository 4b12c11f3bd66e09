// SPDX-License-Identifier: GPL-3.0-or-later
//
// Owners' colours keep apart, also with protan, deutan and tritan vision: smallest OKLab distances as the design states
// them. Oracle: OKLab (Ottosson 2020) and the dichromacy matrices of Machado, Oliveira and Fernandes (2009), severity 1.
#include <QRegularExpression>
#include <QTest>

#include "views/palette.h"

#include "engine/record/writer.h"

#include <algorithm>
#include <cmath>

using namespace kvloupe;

namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

constexpr Matrix normal = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
constexpr Matrix protan = {{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}};
constexpr Matrix deutan = {{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}};
constexpr Matrix tritan = {{{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}};
constexpr Matrix toLms = {{{0.4122214708, 0.5363325363, 0.0514459929}, {0.2119034982, 0.6806995451, 0.1073969566},
                           {0.0883024619, 0.2817188376, 0.6299787005}}};
constexpr Matrix toLab = {{{0.2104542553, 0.7936177850, -0.0040720468}, {1.9779984951, -2.4285922050, 0.4505937099},
                           {0.0259040371, 0.7827717662, -0.8086757660}}};

Vector times(const Matrix& m, const Vector& v) {
    Vector out{};
    for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t k = 0; k < 3; ++k) out[i] += m[i][k] * v[k];
    return out;
}

Vector lab(const QColor& colour, const Matrix& vision) {
    const auto linear = [](int value) {
        const double c = value / 255.0;
        return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    Vector seen = times(vision, {linear(colour.red()), linear(colour.green()), linear(colour.blue())});
    for (double& value : seen) value = std::clamp(value, 0.0, 1.0);
    Vector cones = times(toLms, seen);
    for (double& value : cones) value = std::cbrt(value);
    return times(toLab, cones);
}

double smallestDistance(const std::array<QColor, 8>& colours, const Matrix& vision) {
    double smallest = 1e9;
    for (std::size_t a = 0; a < colours.size(); ++a)
        for (std::size_t b = a + 1; b < colours.size(); ++b) {
            const Vector x = lab(colours[a], vision), y = lab(colours[b], vision);
            smallest = std::min(smallest, std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]));
        }
    return 100 * smallest;
}

}  // namespace

class TestPalette : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void init() { QTest::failOnWarning(QRegularExpression(QStringLiteral(".*"))); }
    void ownersKeepApart_data();
    void ownersKeepApart();
    void attentionRunsFromPanelToTheLastStop();
    void inkReadsOnEveryGround();
    void lanesOfOneModelHaveColoursOfTheirOwn();
    void huesRepeatAfterEight();
};

void TestPalette::ownersKeepApart_data() {
    QTest::addColumn<bool>("dark");
    QTest::addColumn<int>("vision");
    QTest::addColumn<double>("stated");
    const double light[] = {15.6, 9.6, 7.6, 8.5}, dark[] = {14.6, 7.5, 6.2, 8.1};
    const char* names[] = {"normal", "protan", "deutan", "tritan"};
    for (int i = 0; i < 4; ++i) {
        QTest::addRow("light %s", names[i]) << false << i << light[i];
        QTest::addRow("dark %s", names[i]) << true << i << dark[i];
    }
}

void TestPalette::ownersKeepApart() {
    QFETCH(bool, dark);
    QFETCH(int, vision);
    QFETCH(double, stated);
    const Matrix* visions[] = {&normal, &protan, &deutan, &tritan};
    const double found = smallestDistance((dark ? Palette::darkTheme() : Palette::light()).owners, *visions[vision]);
    QVERIFY2(std::abs(found - stated) < 0.06, qPrintable(QStringLiteral("%1, stated %2").arg(found).arg(stated)));
}

void TestPalette::attentionRunsFromPanelToTheLastStop() {
    for (const Palette* palette : {&Palette::light(), &Palette::darkTheme()}) {
        QCOMPARE(palette->attentionColour(0), palette->panel);
        QCOMPARE(palette->attentionColour(1), palette->attention.back());
        QCOMPARE(palette->attentionColour(-3), palette->panel);
        QCOMPARE(palette->attentionColour(0.2), palette->attention[1]);
    }
}

void TestPalette::inkReadsOnEveryGround() {
    // WCAG 2.1 contrast of texts: at least 4.5 : 1.
    const auto luminance = [](const QColor& c) {
        const auto linear = [](int value) {
            const double v = value / 255.0;
            return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
        };
        return 0.2126 * linear(c.red()) + 0.7152 * linear(c.green()) + 0.0722 * linear(c.blue());
    };
    for (const Palette* palette : {&Palette::light(), &Palette::darkTheme()})
        for (const QColor& ink : {palette->ink1, palette->ink2, palette->ink3})
            for (const QColor& ground : {palette->panel, palette->head, palette->selectedRow}) {
                const double a = luminance(ink) + 0.05, b = luminance(ground) + 0.05;
                QVERIFY2(std::max(a, b) / std::min(a, b) >= 4.5, qPrintable(ink.name() + QLatin1Char(' ') + ground.name()));
            }
}

void TestPalette::lanesOfOneModelHaveColoursOfTheirOwn() {
    RecordingWriter writer("lanes", 1 << 20);
    for (const char* variant : {"GQA", "GQA", "MHA", "GQA", "GQA", "GQA", "GQA", "GQA", "GQA"}) {
        LaneInfo info;
        info.attention_variant = variant;
        writer.add_lane(info, nullptr);
    }
    const Palette& palette = Palette::light();
    const Recording& recording = *writer.recording();
    QCOMPARE(palette.lane(recording, LaneId(0)), palette.lanes[1]);  // the usual one, as long as nobody has it
    QCOMPARE(palette.lane(recording, LaneId(2)), palette.lanes[0]);
    for (std::uint32_t a = 0; a < 9; ++a)
        for (std::uint32_t b = 0; b < a; ++b) QVERIFY(palette.lane(recording, LaneId(a)) != palette.lane(recording, LaneId(b)));
}

void TestPalette::huesRepeatAfterEight() {
    const Palette& palette = Palette::light();
    QCOMPARE(palette.owner(8), palette.owner(0));
    QVERIFY(Palette::repeats(8) && !Palette::repeats(7));
}

QTEST_GUILESS_MAIN(TestPalette)
#include "tst_palette.moc"
