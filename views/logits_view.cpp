// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/logits_view.h"

#include "views/csv_line.h"
#include "views/format.h"
#include "views/predicted_bytes.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

// Differences of float logits are multiples of about 1e-7; what is equal bit for bit stands at the bottom of the axis.
constexpr double bottom = 1e-8;
// Up to so many comparisons each has lines of its own, where the view is high enough for them; more have one line each.
constexpr std::size_t most_with_words = 2;
constexpr double lines_of_words = 4, word_line_height = 15, below_and_above = 70;  // at 100 %

}  // namespace

LogitsView::LogitsView(Cursor* cursor, QWidget* parent)
    : PlotPane(QStringLiteral("logits"), tr("Logit difference"), cursor, parent) {}

QString LogitsView::emptySentence_() const {
    const QString sentence = PlotPane::emptySentence_();
    if (!sentence.isEmpty()) return sentence;
    for (std::uint32_t i = 0; i < laneCount(); ++i)
        if (referenceLane(*cursor()->recording(), LaneId(i))) return {};
    const auto& lanes = cursor()->recording()->lanes();
    if (std::all_of(lanes.begin(), lanes.end(), [](const auto& lane) { return lane->info().weights_id == 0; }))
        return tr("The lanes do no arithmetic, so there are no logits.");
    if (laneCount() == 1) return tr("There is one lane: no other logits to compare with.");
    return tr("The lanes have different weights, so their logits have no common measure. Add an uncached lane of one of them.");
}

void LogitsView::build() {
    m_comparisons.clear();
    m_curves.clear();
    m_equalSeen = false;
    m_greatest = 0;
    plot()->addPanel({{}, PlotNumbers::power, true, 1});
    plot()->setXAxis(tr("step"), PlotNumbers::count);
    for (std::uint32_t i = 0; i < laneCount(); ++i) {
        const auto reference = referenceLane(*cursor()->recording(), LaneId(i));
        if (!reference) continue;
        m_comparisons.emplace_back(cursor()->recording(), LaneId(i), *reference);
        PlotCurve curve;
        curve.colour = laneColour(LaneId(i));
        m_curves.push_back(plot()->addCurve(curve));
    }
    m_appended.assign(m_comparisons.size(), 0);
}

void LogitsView::appendSteps() {
    std::size_t longest = 0;
    for (const LaneProgress& lane : m_progress) longest = std::max(longest, lane.steps());
    for (std::size_t i = 0; i < m_comparisons.size(); ++i) {
        m_comparisons[i].advance();
        QVector<double> x, y;
        for (std::size_t& step = m_appended[i]; step < m_comparisons[i].steps(); ++step) {
            const double value = static_cast<double>(m_comparisons[i].at(step));
            x.append(static_cast<double>(step));
            y.append(std::isnan(value) ? value : std::max(value, bottom));
            if (value <= bottom) m_equalSeen = true;
            if (!std::isnan(value)) m_greatest = std::max(m_greatest, value);
        }
        plot()->append(m_curves[i], x, y);
    }
    plot()->setXRange(0, niceUpper(static_cast<double>(longest)));
    // Whole powers of ten, with the tolerance in sight.
    const double top = std::pow(10.0, std::ceil(std::log10(std::max(m_greatest, f32Tolerance)) + 0.2));
    plot()->setPanelLimits(0, m_equalSeen ? bottom / 1.5 : 1e-7, std::max(top, 1e-2));
}

QString LogitsView::tokenText(LaneId lane, TokenId token) const {
    const auto& shown = cursor()->recording()->lane(lane).vocabulary().shown;
    return token >= 0 && static_cast<std::size_t>(token) < shown.size()
               ? QString::fromStdString(shown[static_cast<std::size_t>(token)]).trimmed() : QString::number(token);
}

bool LogitsView::hasWords() const {
    const auto count = static_cast<double>(m_comparisons.size());
    return m_comparisons.size() <= most_with_words && height() >= (count * lines_of_words * word_line_height + below_and_above) * unit();
}

void LogitsView::resizeEvent(QResizeEvent* event) {
    PlotPane::resizeEvent(event);
    if (cursor()->recording()) refreshSelection();
}

QString LogitsView::precisionOf(LaneId lane) const {
    const LaneInfo& info = cursor()->recording()->lane(lane).info();
    QString text = info.kv_cache ? QString::fromStdString(info.cache_dtype) : QStringLiteral("f32");
    if (PredictedBytes::windowed(info)) text += tr(" in a window");
    return text;
}

// "f32 against f16", "" where both keep the same.
QString LogitsView::againstText(const LaneDifference& comparison) const {
    const QString own = precisionOf(comparison.lane()), reference = precisionOf(comparison.reference());
    return own == reference ? QString() : tr("%1 against %2").arg(own, reference);
}

void LogitsView::label(PlotOverlayData& marks, const LaneDifference& comparison, double y, std::optional<double> now) const {
    const LaneId id = comparison.lane();
    const auto step = static_cast<std::size_t>(std::min(cursor()->stepOf(id), static_cast<int>(comparison.steps()) - 1));
    const auto largest = static_cast<double>(comparison.largest(step));
    const QString precision = againstText(comparison);
    QString nowText = comparison.textsPartAt() ? tr("now: other texts") : tr("now not compared");
    if (now) nowText = isPast(id) ? tr("ended, ● %1%2").arg(formatSmall(*now), pastText(id)) : tr("now ● %1").arg(formatSmall(*now));
    const QString largestText = std::isnan(largest) ? QString() : tr("largest ● %1").arg(formatSmall(largest));
    if (!hasWords()) {
        const QString text = now ? QStringLiteral("● %1").arg(formatSmall(*now)) + pastText(id) : largestText;
        marks.labels.push_back({0, y, laneName(id), text, labelColour(id)});
        return;
    }
    marks.labels.push_back({0, y, tr("%1 against %2").arg(laneName(id), laneName(comparison.reference())), {}, labelColour(id)});
    if (!precision.isEmpty()) marks.labels.push_back({0, y, {}, precision, labelColour(id)});
    marks.labels.push_back({0, y, {}, nowText, labelColour(id)});
    if (!largestText.isEmpty()) marks.labels.push_back({0, y, {}, largestText, labelColour(id)});
}

// Steps in sight; where they crowd, every n-th, and the note says how many there are.
void LogitsView::markDifferences(PlotOverlayData& marks, const LaneDifference& comparison) const {
    const LaneId id = comparison.lane();
    std::vector<LaneDifference::Difference> differences;
    for (const LaneDifference::Difference& difference : comparison.differences())
        if (difference.sameText) differences.push_back(difference);
    if (differences.empty()) return;
    const auto [left, right] = plot()->xRange();
    const auto begin = std::find_if(differences.begin(), differences.end(), [from = left](const auto& d) { return d.step >= from; });
    const auto end = std::find_if(begin, differences.end(), [to = right](const auto& d) { return d.step > to; });
    constexpr std::ptrdiff_t most = 200;
    const std::ptrdiff_t stride = std::max<std::ptrdiff_t>(1, (end - begin + most - 1) / most);
    for (auto it = begin; it < end; it += std::min(stride, end - it)) {
        QString text;
        if (it == differences.begin())
            text = m_comparisons.size() == 1
                       ? tr("step %1, greedy choice differs: “%2” instead of “%3”")
                             .arg(QString::number(it->step), tokenText(id, it->own), tokenText(comparison.reference(), it->reference))
                       : tr("%4, step %1: “%2” instead of “%3”")
                             .arg(QString::number(it->step), tokenText(id, it->own), tokenText(comparison.reference(), it->reference),
                                  laneName(id));
        marks.markers.push_back({0, static_cast<double>(it->step), 0, PlotMarker::Glyph::triangle, text, palette_().focus});
    }
    if (const auto part = comparison.textsPartAt())
        marks.notes.push_back({0, tr("▼ %1: other texts after step %2").arg(laneName(id), formatCount(*part)), PlotNote::Sample::none, {}});
    else
        marks.notes.push_back({0, tr("▼ greedy choice differs: ● %1 steps of %2").arg(formatCount(differences.size()), laneName(id)),
                               PlotNote::Sample::none, {}});
}

void LogitsView::showCursor() {
    PlotOverlayData marks = overlayAtCursor();
    std::vector<int> emphasis;
    bool f32 = false;
    for (std::size_t i = 0; i < m_comparisons.size(); ++i) {
        const LaneDifference& comparison = m_comparisons[i];
        const LaneId id = comparison.lane();
        f32 = f32 || (precisionOf(id) == QStringLiteral("f32") && precisionOf(comparison.reference()) == QStringLiteral("f32"));
        const int step = std::min(cursor()->stepOf(id), static_cast<int>(comparison.steps()) - 1);
        if (step < 0) continue;
        const auto now = static_cast<double>(comparison.at(static_cast<std::size_t>(step)));
        const auto largest = static_cast<double>(comparison.largest(static_cast<std::size_t>(step)));
        const double y = std::max(std::isnan(now) ? (std::isnan(largest) ? bottom : largest) : now, bottom);
        label(marks, comparison, y, std::isnan(now) ? std::nullopt : std::optional(now));
        if (!std::isnan(now))
            marks.markers.push_back({0, static_cast<double>(step), y, PlotMarker::Glyph::dot, {}, laneColour(id)});
        markDifferences(marks, comparison);
        if (cursor()->shown().lane == id) emphasis.push_back(m_curves[i]);
    }
    if (f32) marks.levels.push_back({0, f32Tolerance, tr("tolerance of the tests for f32 caches: 10⁻⁴"), palette_().ink2});
    QStringList alone;
    for (std::uint32_t i = 0; i < laneCount(); ++i) {
        bool compared = false;
        for (const LaneDifference& comparison : m_comparisons)
            compared = compared || comparison.lane() == LaneId(i) || comparison.reference() == LaneId(i);
        if (!compared) alone.append(laneName(LaneId(i)));
    }
    if (alone.size() == 1)
        marks.footer = tr("%1 has other weights: no difference is shown.").arg(alone.first());
    else if (!alone.isEmpty())
        marks.footer = tr("%1 have other weights: no difference is shown.").arg(alone.join(QStringLiteral(", ")));
    if (m_equalSeen)
        marks.notes.push_back({0, tr("at the bottom: equal bit for bit"), PlotNote::Sample::none, {}});
    plot()->setEmphasis(emphasis);
    plot()->setOverlay(std::move(marks));
    const LaneDifference& first = m_comparisons.front();
    const bool oneReference = std::all_of(m_comparisons.begin(), m_comparisons.end(),
                                          [&](const LaneDifference& each) { return each.reference() == first.reference(); });
    setSubtitle(tr("largest absolute difference over %1 logits, to %2")
                    .arg(formatCount(cursor()->recording()->lane(first.reference()).info().vocabulary),
                         oneReference ? tr("%1 (%2)").arg(laneName(first.reference()), precisionOf(first.reference()))
                                      : tr("the first lane with the same weights")));
}

QString LogitsView::tipAtStep(int step) const {
    if (step < 0) return {};
    QStringList lines{tr("step %1").arg(formatCount(static_cast<quint64>(step)))};
    for (const LaneDifference& comparison : m_comparisons) {
        if (static_cast<std::size_t>(step) >= comparison.steps()) continue;
        const auto now = static_cast<double>(comparison.at(static_cast<std::size_t>(step)));
        const QString precision = againstText(comparison);
        const QString name = precision.isEmpty() ? laneName(comparison.lane()) : tr("%1, %2").arg(laneName(comparison.lane()), precision);
        lines.append(std::isnan(now) ? tr("%1: not compared in this step").arg(name) : tr("%1: ● %2").arg(name, formatSmall(now)));
        if (const auto part = comparison.textsPartAt(); part && static_cast<std::uint32_t>(step) > *part)
            lines.append(tr("the texts have differed since step %1").arg(formatCount(*part)));
        for (const LaneDifference::Difference& difference : comparison.differences())
            if (difference.step == static_cast<std::uint32_t>(step))
                lines.append(tr("greedy choice “%1” instead of “%2”")
                                 .arg(tokenText(comparison.lane(), difference.own),
                                      tokenText(comparison.reference(), difference.reference)));
    }
    return lines.join(QLatin1Char('\n'));
}

LaneId LogitsView::laneOfCurve(int curve) const {
    for (std::size_t i = 0; i < m_curves.size(); ++i)
        if (m_curves[i] == curve) return m_comparisons[i].lane();
    return {};
}

QString LogitsView::csv() const {
    QString text = csvLine({"step", "lane", "reference lane", "largest absolute logit difference (measured)",
                            "largest so far (measured)", "greedy choice differs"});
    if (!cursor()->recording()) return text;
    for (std::uint32_t i = 0; i < laneCount(); ++i) {
        const auto reference = referenceLane(*cursor()->recording(), LaneId(i));
        if (!reference) continue;
        LaneDifference comparison(cursor()->recording(), LaneId(i), *reference);
        comparison.advance();
        const auto number = [](float value) { return std::isnan(value) ? QString() : QString::number(static_cast<double>(value), 'g', 9); };
        std::size_t next = 0;
        for (std::size_t step = 0; step < comparison.steps(); ++step) {
            bool differs = false;
            for (; next < comparison.differences().size() && comparison.differences()[next].step == step; ++next) differs = true;
            text += csvLine({QString::number(step), laneName(LaneId(i)), laneName(*reference), number(comparison.at(step)),
                             number(comparison.largest(step)), differs ? QStringLiteral("1") : QStringLiteral("0")});
        }
    }
    return text;
}

}  // namespace kvloupe
