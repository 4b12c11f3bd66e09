// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/table_picture.h"

#include "views/canvas.h"
#include "views/format.h"

#include <QCoreApplication>
#include <QHeaderView>
#include <QPalette>
#include <QStyledItemDelegate>
#include <QTableView>

#include <algorithm>
#include <cmath>
#include <vector>

namespace kvloupe {

namespace {

constexpr int rows_measured = 200;  // rows looked at for the column widths

QVariant cell(const QAbstractItemModel& model, int row, int column, int role) {
    return model.data(model.index(row, column), role);
}

constexpr double bar_text_width = 44;  // room for "100.0 %" behind a bar

void paintSparks(const Canvas& canvas, const QRectF& area, const QVariantList& values, const QColor& colour) {
    std::vector<double> numbers;
    for (const QVariant& value : values) numbers.push_back(value.toDouble());
    if (numbers.empty()) return;
    std::vector<double> sorted = numbers;
    std::sort(sorted.begin(), sorted.end());
    const double greatest = sorted.back(), median = sorted[sorted.size() / 2];
    if (!(greatest > 0)) return;
    const QRectF box = area.adjusted(0, canvas.u(3), 0, -canvas.u(3));
    const double pitch = std::min(canvas.u(7), box.width() / static_cast<double>(numbers.size()));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const double height = std::max(1.0, box.height() * numbers[i] / greatest);
        canvas.painter().fillRect(QRectF(box.left() + static_cast<double>(i) * pitch, box.bottom() - height,
                                         std::max(1.0, pitch - canvas.u(1)), height),
                                  numbers[i] > 1.5 * median ? canvas.colours().focus : colour);
    }
}

constexpr double faded_opacity = 0.4;

// Marks and text of one cell; shared by screen and export.
void paintCell(const Canvas& canvas, QRectF area, const QModelIndex& index) {
    const Palette& colours = canvas.colours();
    const QVariant owner = index.data(ownerRole), glyph = index.data(glyphRole), origin = index.data(originRole);
    const QVariant foreground = index.data(Qt::ForegroundRole);
    const QVariant fontValue = index.data(Qt::FontRole);
    TextStyle style{11.5, QFont::Normal, colours.ink1, false};
    canvas.painter().setOpacity(index.data(fadedRole).toBool() ? faded_opacity : 1.0);
    if (foreground.canConvert<QBrush>()) style.colour = foreground.value<QBrush>().color();
    if (fontValue.canConvert<QFont>()) {
        const QFont font = fontValue.value<QFont>();
        style.weight = font.weight();
        style.mono = font.fixedPitch();
    }
    if (owner.isValid()) {
        const double side = canvas.u(9);
        canvas.swatch(QRectF(area.left(), area.center().y() - side / 2, side, side), owner.toUInt());
        area.setLeft(area.left() + side + canvas.u(6));
    }
    if (glyph.isValid()) {
        canvas.glyph(static_cast<EventKind>(glyph.toInt()), QPointF(area.left() + canvas.u(5), area.center().y()), 9,
                     index.data(focusRole).toBool() ? colours.focus : style.colour);
        area.setLeft(area.left() + canvas.u(16));
    }
    const QString text = index.data(Qt::DisplayRole).toString();
    const QVariant colour = index.data(colourRole), bar = index.data(barRole), sparks = index.data(sparkRole);
    if (sparks.isValid()) {
        paintSparks(canvas, area, sparks.toList(), colour.value<QColor>());
        return;
    }
    if (bar.isValid()) {
        const QRectF track = area.adjusted(0, area.height() * 0.28, -canvas.u(bar_text_width), -area.height() * 0.28);
        canvas.painter().fillRect(track, colours.free);
        canvas.painter().fillRect(QRectF(track.left(), track.top(),
                                         std::max(1.0, track.width() * std::clamp(bar.toDouble(), 0.0, 1.0)), track.height()),
                                  colour.value<QColor>());
        canvas.text(QRectF(track.right(), area.top(), canvas.u(bar_text_width), area.height()), text, style,
                    Qt::AlignRight | Qt::AlignVCenter);
        return;
    }
    if (colour.isValid()) {
        const double side = canvas.u(9);
        canvas.painter().fillRect(QRectF(area.left(), area.center().y() - side / 2, side, side), colour.value<QColor>());
        area.setLeft(area.left() + side + canvas.u(6));
    }
    const auto alignment = static_cast<Qt::Alignment>(index.data(Qt::TextAlignmentRole).toInt());
    if (origin.isValid() && !text.isEmpty()) {
        canvas.number(area, static_cast<Origin>(origin.toInt()), text, style);
        return;
    }
    canvas.text(area, text, style,
                (alignment & Qt::AlignRight) ? Qt::AlignRight | Qt::AlignVCenter : Qt::AlignLeft | Qt::AlignVCenter);
}

class CellDelegate : public QStyledItemDelegate {
public:
    CellDelegate(QObject* parent, double scale) : QStyledItemDelegate(parent), m_scale(scale) {}

    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        painter->save();
        const Palette& colours = Palette::of(option.widget);
        const Canvas canvas(*painter, colours, option.font, m_scale);
        const QVariant background = index.data(Qt::BackgroundRole);
        if (background.canConvert<QBrush>()) painter->fillRect(option.rect, background.value<QBrush>());
        if (option.state & QStyle::State_Selected) painter->fillRect(option.rect, colours.selectedRow);
        painter->setClipRect(option.rect);
        paintCell(canvas, QRectF(option.rect).adjusted(canvas.u(6), 0, -canvas.u(6), 0), index);
        painter->restore();
    }

    QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
        QFont font = option.font;
        font.setPixelSize(std::max(6, qRound(11.5 * m_scale)));
        const QVariant own = index.data(Qt::FontRole);
        if (own.canConvert<QFont>()) font.setWeight(own.value<QFont>().weight());
        double width = QFontMetricsF(font).horizontalAdvance(index.data(Qt::DisplayRole).toString()) + 14 * m_scale;
        if (index.data(ownerRole).isValid()) width += 15 * m_scale;
        if (index.data(glyphRole).isValid()) width += 16 * m_scale;
        if (index.data(originRole).isValid()) width += 14 * m_scale;
        if (index.data(colourRole).isValid()) width += 15 * m_scale;
        if (index.data(barRole).isValid()) width += 64 * m_scale;
        if (index.data(sparkRole).isValid()) width += 60 * m_scale;
        return QSize(qRound(width), qRound(19 * m_scale));
    }

private:
    double m_scale;
};

}  // namespace

void styleTable(QTableView* table, const Palette& palette, double rowHeight, double scale) {
    QFont font = table->font();
    font.setPixelSize(std::max(7, qRound(11.5 * scale)));
    table->setFont(font);
    delete table->itemDelegate();
    table->setItemDelegate(new CellDelegate(table, scale));
    table->verticalHeader()->hide();
    table->verticalHeader()->setMinimumSectionSize(4);
    table->verticalHeader()->setSectionResizeMode(QHeaderView::Fixed);
    table->verticalHeader()->setDefaultSectionSize(qRound(rowHeight * scale));
    QHeaderView* header = table->horizontalHeader();
    header->setFont(font);
    header->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    header->setHighlightSections(false);
    header->setStretchLastSection(true);
    header->setFixedHeight(qRound(22 * scale));
    header->setStyleSheet(QStringLiteral("QHeaderView{background:%1;border:0}"
                                         "QHeaderView::section{background:%1;color:%2;border:0;"
                                         "border-bottom:1px solid %3;padding:0 6px;}")
                              .arg(palette.panel.name(), palette.ink2.name(), palette.line.name()));
    table->setShowGrid(false);
    table->setFrameShape(QFrame::NoFrame);
    table->setWordWrap(false);
    table->setSelectionBehavior(QAbstractItemView::SelectRows);
    table->setSelectionMode(QAbstractItemView::SingleSelection);
    table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table->setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
    table->setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);
    table->setTabKeyNavigation(false);
    table->setCornerButtonEnabled(false);
    QPalette colours = table->palette();
    colours.setColor(QPalette::Base, palette.panel);
    colours.setColor(QPalette::Text, palette.ink1);
    colours.setColor(QPalette::Highlight, palette.selectedRow);
    colours.setColor(QPalette::HighlightedText, palette.ink1);
    table->setPalette(colours);
}

void paintTable(const Canvas& canvas, const QRectF& area, const QAbstractItemModel& model, int firstRow,
                double rowHeightAtFull, const std::vector<int>& byWeight, double leastRowHeight) {
    const int columns = model.columnCount(), rows = model.rowCount();
    if (columns == 0) return;
    double rowHeight = canvas.u(rowHeightAtFull);
    const double padding = canvas.u(12), room = area.height() - canvas.u(24);
    if (leastRowHeight > 0 && leastRowHeight < rowHeightAtFull && rows > firstRow)
        rowHeight = std::clamp(std::floor(room / (rows - firstRow)), canvas.u(leastRowHeight), rowHeight);
    const TextStyle headStyle{11.5, QFont::Normal, canvas.colours().ink2, false};
    const int fitting = std::max(0, static_cast<int>(room / rowHeight));
    const bool cut = rows - firstRow > fitting;
    const int shown = std::min(rows - firstRow, cut ? fitting - 1 : fitting);

    std::vector<double> widths(static_cast<std::size_t>(columns));
    double total = 0;
    for (int c = 0; c < columns; ++c) {
        double width = canvas.width(model.headerData(c, Qt::Horizontal).toString(), headStyle);
        for (int r = firstRow; r < std::min(firstRow + shown, firstRow + rows_measured); ++r) {
            const QVariant font = cell(model, r, c, Qt::FontRole);
            double need = canvas.width(cell(model, r, c, Qt::DisplayRole).toString(),
                                       {11.5, font.canConvert<QFont>() ? font.value<QFont>().weight() : QFont::Normal});
            if (cell(model, r, c, ownerRole).isValid()) need += canvas.u(15);
            if (cell(model, r, c, glyphRole).isValid()) need += canvas.u(16);
            if (cell(model, r, c, originRole).isValid()) need += canvas.u(14);
            if (cell(model, r, c, colourRole).isValid()) need += canvas.u(15);
            if (cell(model, r, c, barRole).isValid() || cell(model, r, c, sparkRole).isValid()) need += canvas.u(90);
            width = std::max(width, need);
        }
        widths[static_cast<std::size_t>(c)] = width + padding;
        total += width + padding;
    }
    // Too wide: the least telling columns are left out, or else the widest give way.
    int leftOut = 0;
    for (std::size_t i = byWeight.size(); i > 1 && total > area.width() + 1; --i, ++leftOut) {
        double& width = widths[static_cast<std::size_t>(byWeight[i - 1])];
        total -= width;
        width = 0;
    }
    while (total > area.width() + 1) {
        const auto widest = std::max_element(widths.begin(), widths.end());
        const double take = std::min(total - area.width(), std::max(*widest * 0.1, 1.0));
        if (*widest < canvas.u(20)) break;
        *widest -= take;
        total -= take;
    }
    // What is left over is shared out where every column is short; a long last column takes it.
    const bool sharesRoom = rowHeightAtFull > 19;
    if (total < area.width() && sharesRoom)
        for (double& width : widths)
            if (width > 0) width += (area.width() - total) / (columns - leftOut);
    double x = area.left();
    for (int c = 0; c < columns; ++c) {
        const double width = widths[static_cast<std::size_t>(c)];
        if (width <= 0) continue;
        const QRectF column(x + padding / 2, area.top(), width - padding, canvas.u(22));
        const bool right = shown > 0 && (cell(model, firstRow, c, originRole).isValid() ||
                                         (cell(model, firstRow, c, Qt::TextAlignmentRole).toInt() & Qt::AlignRight));
        canvas.text(column, model.headerData(c, Qt::Horizontal).toString(), headStyle,
                    (right ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
        for (int r = 0; r < shown; ++r) {
            const QModelIndex index = model.index(firstRow + r, c);
            const QRectF row(x, area.top() + canvas.u(23) + r * rowHeight, width, rowHeight);
            const QVariant background = index.data(Qt::BackgroundRole);
            if (background.canConvert<QBrush>()) canvas.painter().fillRect(row, background.value<QBrush>());
            paintCell(canvas, row.adjusted(padding / 2, 0, -padding / 2, 0), index);
        }
        canvas.painter().setOpacity(1.0);
        x += width;
    }
    canvas.painter().setPen(QPen(canvas.colours().line, 1));
    canvas.painter().drawLine(QPointF(area.left(), area.top() + canvas.u(22)),
                              QPointF(area.right(), area.top() + canvas.u(22)));
    QStringList notes;
    const auto count = [](int number) { return formatCount(static_cast<quint64>(number)); };
    if (cut) notes << QCoreApplication::translate("kvloupe::table", "%1 more rows").arg(count(rows - firstRow - shown));
    if (leftOut > 0)
        notes << (leftOut == 1 ? QCoreApplication::translate("kvloupe::table", "1 column has no room")
                               : QCoreApplication::translate("kvloupe::table", "%1 columns have no room").arg(count(leftOut)));
    if (!notes.isEmpty())
        canvas.text(QRectF(area.left() + padding / 2, area.top() + canvas.u(23) + shown * rowHeight, area.width() - padding,
                           rowHeight),
                    QCoreApplication::translate("kvloupe::table", "%1: export as CSV for all")
                        .arg(notes.join(QStringLiteral(", "))),
                    {11, QFont::Normal, canvas.colours().ink3, false});
}

QString tableCsv(const QAbstractItemModel& model) {
    QString csv;
    const auto add = [&csv](const QVariant& plain, const QVariant& shown, bool last) {
        csv += csvField(plain.isValid() ? plain.toString() : shown.toString());
        csv += last ? QStringLiteral("\r\n") : QStringLiteral(",");
    };
    const int columns = model.columnCount();
    for (int c = 0; c < columns; ++c)
        add(model.headerData(c, Qt::Horizontal, csvRole), model.headerData(c, Qt::Horizontal), c + 1 == columns);
    for (int r = 0; r < model.rowCount(); ++r)
        for (int c = 0; c < columns; ++c)
            add(cell(model, r, c, csvRole), cell(model, r, c, Qt::DisplayRole), c + 1 == columns);
    return csv;
}

}  // namespace kvloupe
