// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/parameters_view.h"

#include "views/canvas.h"
#include "views/csv_line.h"

#include <algorithm>

namespace kvloupe {

ParametersView::ParametersView(Cursor* cursor, QWidget* parent)
    : ListView(QStringLiteral("parameters"), tr("Parameters"), cursor, parent) {}

std::array<std::uint64_t, ParametersView::partCount_> ParametersView::numbersOf(const ParameterParts& parts) {
    return {parts.embedding, parts.attention, parts.feed_forward, parts.norms, parts.output};
}

QString ParametersView::partName(int part) {
    switch (part) {
    case embedding: return tr("Embedding");
    case attention: return tr("Attention");
    case feedForward: return tr("Feed-forward");
    case norms: return tr("Norms");
    case output: return tr("Output");
    default: return tr("All");
    }
}

const LaneInfo& ParametersView::info(std::uint32_t lane) const { return cursor()->recording()->lane(LaneId(lane)).info(); }

std::uint64_t ParametersView::greatest() const {
    std::uint64_t most = 0;
    for (const auto& lane : cursor()->recording()->lanes()) most = std::max(most, lane->info().parameter_parts.total());
    return most;
}

std::optional<std::uint32_t> ParametersView::widestAttention() const {
    std::optional<std::uint32_t> widest;
    for (std::uint32_t i = 0; i < cursor()->recording()->lanes().size(); ++i) {
        const std::uint64_t own = info(i).parameter_parts.attention;
        if (own > 0 && (!widest || own > info(*widest).parameter_parts.attention)) widest = i;
    }
    return widest;
}

void ParametersView::refresh() {
    const Recording* recording = cursor()->recording();
    if (!recording || recording->lanes().empty() || greatest() == 0) {
        setCards({});
        setSubtitle({});
        setEmpty(!recording || recording->lanes().empty()
                     ? tr("Nothing is open. Open a model or a scenario to see where its parameters are.")
                     : tr("No lane has a model, so there are no parameters to count."));
        return;
    }
    if (isEmptyShown()) setEmpty({});
    const auto& lanes = recording->lanes();
    std::size_t models = 0;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
        const std::uint64_t id = lanes[i]->info().weights_id;
        models += id != 0 && std::none_of(lanes.begin(), lanes.begin() + static_cast<std::ptrdiff_t>(i),
                                          [id](const auto& other) { return other->info().weights_id == id; });
    }
    setSubtitle(tr("counted from the tensors · %1")
                    .arg(models == 1 ? tr("one model") : tr("%1 models in %2 lanes").arg(models).arg(lanes.size())));
    placeRows();
}

void ParametersView::layOut() {
    if (cursor()->recording() && !isEmptyShown()) placeRows();
}

void ParametersView::placeRows() {
    const Frame frame = frameFor(QRectF(rect()));
    std::vector<Card> rows;
    for (std::uint32_t i = 0; i < cursor()->recording()->lanes().size(); ++i)
        rows.push_back({frame.head + i * frame.row, frame.row, true});
    setCards(std::move(rows));
}

double ParametersView::nameWidth(double width) const {
    const QFontMetricsF metrics(textFont(12, QFont::DemiBold));
    double widest = 0;
    for (const auto& lane : cursor()->recording()->lanes())
        widest = std::max(widest, metrics.horizontalAdvance(QString::fromStdString(lane->info().name)));
    return std::clamp(widest + 42 * unit(), 70 * unit(), std::max(70 * unit(), width * 0.3));
}

double ParametersView::columnWidth() const {
    const QFontMetricsF metrics(textFont(11.5));
    double widest = metrics.horizontalAdvance(partName(feedForward));
    widest = std::max(widest, metrics.horizontalAdvance(formatCount(greatest())) + 14 * unit());
    for (std::uint32_t i = 0; i < cursor()->recording()->lanes().size(); ++i)
        widest = std::max(widest, QFontMetricsF(textFont(10.5)).horizontalAdvance(shareText(i)));
    return widest + 16 * unit();
}

std::vector<int> ParametersView::columnsShown(double width) const {
    // What tells variants apart first, as long as the bars keep their room.
    static constexpr int order[] = {attention, partCount_, feedForward, embedding, output, norms};
    const double names = nameWidth(width), bars = 200 * unit(), one = columnWidth();
    std::vector<int> columns;
    for (const int column : order) {
        if (names + bars + one * (static_cast<double>(columns.size()) + 1) > width) break;
        columns.push_back(column);
    }
    std::sort(columns.begin(), columns.end());  // as the parts lie in the bar, the sum last
    return columns;
}

ParametersView::Frame ParametersView::frameFor(const QRectF& area) const {
    Frame frame;
    const double width = area.width() - (this->width() - contentWidth());
    frame.head = 26 * unit();
    const double lanes = std::max<double>(1, static_cast<double>(cursor()->recording()->lanes().size()));
    frame.row = std::clamp((area.height() - frame.head - 4 * unit()) / lanes, 24 * unit(), 44 * unit());
    frame.nameWidth = nameWidth(width);
    frame.columns = columnsShown(width);
    frame.columnWidth = columnWidth();
    const double numbers = frame.columnWidth * static_cast<double>(frame.columns.size());
    frame.bars = QRectF(area.left() + frame.nameWidth, area.top(),
                        std::max(0.0, width - frame.nameWidth - numbers - 10 * unit()), area.height());
    return frame;
}

// "25.0 % of MHA": the lane's attention beside that of the lane with the widest one; "" for that lane.
QString ParametersView::shareText(std::uint32_t lane) const {
    const auto widest = widestAttention();
    const std::uint64_t own = info(lane).parameter_parts.attention;
    if (!widest || own == 0 || own == info(*widest).parameter_parts.attention) return {};
    return tr("%1 of %2")
        .arg(formatPercent(static_cast<double>(own) / static_cast<double>(info(*widest).parameter_parts.attention)),
             QString::fromStdString(info(*widest).name));
}

// Attention has the lane's colour; the other parts are inks of different strength, norms dark, the output hatched.
void ParametersView::paintPart(const Canvas& canvas, const QRectF& box, int part, const QColor& lane) const {
    const Palette& colours = canvas.colours();
    QPainter& painter = canvas.painter();
    switch (part) {
    case attention: painter.fillRect(box, lane); break;
    case embedding: painter.fillRect(box, canvas.mix(colours.ink2, colours.panel, 0.22)); break;
    case feedForward: painter.fillRect(box, canvas.mix(colours.ink2, colours.panel, 0.45)); break;
    case norms: painter.fillRect(box, colours.ink1); break;
    default:
        painter.fillRect(box, canvas.mix(colours.ink2, colours.panel, 0.12));
        canvas.hatch(box, colours.ink3);
        break;
    }
}

void ParametersView::paintBar(const Canvas& canvas, const QRectF& bar, std::uint32_t lane) const {
    const auto numbers = numbersOf(info(lane).parameter_parts);
    const double perParameter = bar.width() / static_cast<double>(greatest());
    const QColor own = canvas.colours().lane(*cursor()->recording(), LaneId(lane));
    double x = bar.left();
    for (int part = 0; part < partCount_; ++part) {
        const double width = static_cast<double>(numbers[static_cast<std::size_t>(part)]) * perParameter;
        if (width <= 0) continue;
        const QRectF box(x, bar.top(), width, bar.height());
        paintPart(canvas, box, part, own);
        if (width > canvas.u(2)) {  // a hairline between parts
            canvas.painter().setPen(QPen(canvas.colours().panel, 1));
            canvas.painter().drawLine(box.topRight(), box.bottomRight());
        }
        x += width;
    }
}

void ParametersView::paintHead(const Canvas& canvas, const Frame& frame, const QRectF& area) const {
    const Palette& colours = canvas.colours();
    const TextStyle small{11, QFont::Normal, colours.ink2, false};
    double x = frame.bars.left();
    for (int part = 0; part < partCount_; ++part) {
        const double sample = canvas.u(12), width = canvas.width(partName(part), small);
        if (x + sample + canvas.u(5) + width > frame.bars.right()) break;
        const QRectF box(x, area.top() + (frame.head - canvas.u(10)) / 2, sample, canvas.u(10));
        if (part == attention) {  // of each lane in its colour
            const auto& lanes = cursor()->recording()->lanes();
            const double piece = box.width() / static_cast<double>(std::min<std::size_t>(3, lanes.size()));
            for (std::uint32_t i = 0; i < std::min<std::size_t>(3, lanes.size()); ++i)
                canvas.painter().fillRect(QRectF(box.left() + i * piece, box.top(), piece, box.height()),
                                          colours.lane(*cursor()->recording(), LaneId(i)));
        } else {
            paintPart(canvas, box, part, colours.ink2);
        }
        canvas.text(QRectF(box.right() + canvas.u(5), area.top(), width + 1, frame.head), partName(part), small);
        x = box.right() + canvas.u(5) + width + canvas.u(12);
    }
    double left = frame.bars.right() + canvas.u(10);
    for (const int column : frame.columns) {
        canvas.text(QRectF(left, area.top(), frame.columnWidth - canvas.u(8), frame.head), partName(column), small,
                    Qt::AlignRight | Qt::AlignVCenter);
        left += frame.columnWidth;
    }
}

void ParametersView::paintContent(QPainter& painter, const QRectF& area) {
    if (!cursor()->recording() || isEmptyShown()) return;
    const Canvas canvas(painter, palette_(), font(), unit());
    const Palette& colours = canvas.colours();
    const Frame frame = frameFor(area);
    paintHead(canvas, frame, area);
    painter.save();
    painter.setClipRect(area.adjusted(0, frame.head, 0, 0), Qt::IntersectClip);
    for (std::uint32_t i = 0; i < cursor()->recording()->lanes().size(); ++i) {
        const QRectF row(area.left(), area.top() + frame.head + i * frame.row - offset(), area.width(), frame.row);
        const bool focus = cursor()->lane() == LaneId(i);
        if (focus) painter.fillRect(row, colours.selectedRow);
        if (cursor()->locked().lane == LaneId(i))
            canvas.outline(row.adjusted(1, 1, -1, -1), colours.ink1, 2);
        else if (cursor()->hover().lane == LaneId(i))
            canvas.outline(row.adjusted(1, 1, -1, -1), colours.ink1, 1);
        const double side = canvas.u(10);
        painter.fillRect(QRectF(row.left() + canvas.u(10), row.center().y() - side / 2, side, side),
                         colours.lane(*cursor()->recording(), LaneId(i)));
        canvas.text(QRectF(row.left() + canvas.u(26), row.top(), frame.nameWidth - canvas.u(32), row.height()),
                    QString::fromStdString(info(i).name), {12, focus ? QFont::DemiBold : QFont::Normal});
        if (info(i).parameter_parts.total() == 0) {
            canvas.text(QRectF(frame.bars.left(), row.top(), frame.bars.width(), row.height()), tr("no model"),
                        {11, QFont::Normal, colours.ink3, false});
            continue;
        }
        const double height = std::min(frame.row - canvas.u(8), canvas.u(24));
        paintBar(canvas, QRectF(frame.bars.left(), row.center().y() - height / 2, frame.bars.width(), height), i);
        const auto numbers = numbersOf(info(i).parameter_parts);
        double left = frame.bars.right() + canvas.u(10);
        for (const int column : frame.columns) {
            const std::uint64_t number =
                column == partCount_ ? info(i).parameter_parts.total() : numbers[static_cast<std::size_t>(column)];
            const QRectF cell(left, row.top(), frame.columnWidth - canvas.u(8), row.height());
            const QString share = column == attention && frame.row >= canvas.u(30) ? shareText(i) : QString();
            const double line = canvas.lineHeight({11.5});
            const QRectF upper = share.isEmpty() ? cell : QRectF(cell.left(), cell.center().y() - line, cell.width(), line);
            canvas.number(upper, Origin::measured, formatCount(number), {11.5});
            if (!share.isEmpty())
                canvas.text(QRectF(cell.left(), cell.center().y(), cell.width(), line), share,
                            {10.5, QFont::Normal, colours.ink2, false}, Qt::AlignRight | Qt::AlignVCenter);
            left += frame.columnWidth;
        }
    }
    painter.restore();
}

QString ParametersView::tipAt(const QPointF& position) const {
    const int card = cursor()->recording() ? cardAt(position) : -1;
    if (card < 0) return {};
    const auto lane = static_cast<std::uint32_t>(card);
    const ParameterParts& parts = info(lane).parameter_parts;
    QStringList lines{
        tr("%1: %2").arg(QString::fromStdString(info(lane).name), QString::fromStdString(info(lane).model_name))};
    if (!info(lane).conversion.empty()) lines << QString::fromStdString(info(lane).conversion);
    const auto numbers = numbersOf(parts);
    for (int part = 0; part < partCount_ && parts.total() > 0; ++part)
        lines << tr("%1 ● %2, %3")
                     .arg(partName(part), formatCount(numbers[static_cast<std::size_t>(part)]),
                          formatPercent(static_cast<double>(numbers[static_cast<std::size_t>(part)]) /
                                        static_cast<double>(parts.total())));
    lines << tr("All ● %1 in ● %2").arg(formatCount(parts.total()), formatBytes(info(lane).weight_bytes));
    if (const QString share = shareText(lane); !share.isEmpty()) lines << tr("attention ◐ %1").arg(share);
    for (const StoredParameters& stored : info(lane).stored_parameters)
        lines << tr("● %1 stored in %2")
                     .arg(formatCount(stored.count), QString::fromStdString(std::string(name_of(stored.dtype))));
    return lines.join(QLatin1Char('\n'));
}

Pick ParametersView::pickOf(int card) const {
    Pick pick;
    pick.lane = LaneId(static_cast<std::uint32_t>(card));
    return pick;
}

void ParametersView::choose(int card) { cursor()->lock(pickOf(card)); }

QString ParametersView::csv() const {
    QString text = QStringLiteral(
        "lane,model,embedding (measured),attention (measured),feed-forward (measured),norms (measured),"
        "output (measured),parameters (measured),weight bytes (measured)\r\n");
    if (!cursor()->recording()) return text;
    for (const auto& lane : cursor()->recording()->lanes()) {
        const LaneInfo& own = lane->info();
        QStringList fields{QString::fromStdString(own.name), QString::fromStdString(own.model_name)};
        for (const std::uint64_t number : numbersOf(own.parameter_parts)) fields << QString::number(number);
        fields << QString::number(own.parameter_parts.total()) << QString::number(own.weight_bytes);
        text += csvLine(fields);
    }
    return text;
}

}  // namespace kvloupe
