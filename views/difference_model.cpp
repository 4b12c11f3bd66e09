// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/difference_model.h"

#include "views/format.h"
#include "views/palette.h"
#include "views/table_picture.h"

#include <QBrush>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

// A number as people read it: thousands apart, six digits of others; texts as they are.
QString readableValue(const QString& text) {
    if (text.isEmpty()) return QStringLiteral("–");
    bool number = false;
    const double value = text.toDouble(&number);
    if (!number) return text;
    if (value == std::floor(value) && std::abs(value) < 1e15) {
        const QString digits = formatCount(static_cast<quint64>(std::abs(value)));
        return value < 0 ? QChar(0x2212) + digits : digits;
    }
    return QString::number(value, 'g', 6).replace(QLatin1Char('-'), QChar(0x2212));
}

QString signedValue(double value) {
    const QString text = readableValue(QString::number(value, 'g', 12));
    return value > 0 ? QLatin1Char('+') + text : text;
}

// A recording's difference says what the second has more than the first; here it is what the lane in focus has more than the
// one that it is compared with, of which percents are.
void turnAround(std::vector<DiffValue>& values) {
    for (DiffValue& value : values) {
        if (!value.delta) continue;
        const double there = QString::fromStdString(value.b).toDouble();
        value.delta = -*value.delta;
        value.percent = there != 0 ? std::optional(*value.delta / std::abs(there) * 100) : std::nullopt;
    }
    const auto weight = [](const DiffValue& value) { return value.percent ? std::abs(*value.percent) : HUGE_VAL; };
    std::stable_sort(values.begin(), values.end(), [&](const DiffValue& a, const DiffValue& b) { return weight(a) > weight(b); });
}

// "step 41: sequence a, …" without the step, which has a column of its own.
QString withoutStep(const QString& sentence) {
    const qsizetype colon = sentence.indexOf(QLatin1String(": "));
    return sentence.startsWith(QLatin1String("step ")) && colon > 0 ? sentence.mid(colon + 2) : sentence;
}

}  // namespace

void DifferenceModel::show(RecordingDiff diff, const QString& hereName, const QString& thereName) {
    beginResetModel();
    m_diff = std::move(diff);
    turnAround(m_diff.numbers);
    m_hereName = hereName;
    m_thereName = thereName;
    endResetModel();
}

void DifferenceModel::setLook(const Palette& palette, const QFont& font) {
    m_palette = &palette;
    m_bold = font;
    m_bold.setWeight(QFont::DemiBold);
    if (rowCount() > 0) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1), {Qt::FontRole, Qt::ForegroundRole});
}

int DifferenceModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_diff.configuration.size() + m_diff.numbers.size() + m_diff.first.size());
}

int DifferenceModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : columnCount_; }

DifferenceModel::Place DifferenceModel::placeOf(int row) const {
    auto at = static_cast<std::size_t>(row);
    if (at < m_diff.configuration.size()) return {configuration, at};
    at -= m_diff.configuration.size();
    if (at < m_diff.numbers.size()) return {numbers, at};
    return {first, at - m_diff.numbers.size()};
}

const DiffValue& DifferenceModel::value(const Place& place) const {
    return place.section == configuration ? m_diff.configuration[place.index] : m_diff.numbers[place.index];
}

const Parting* DifferenceModel::partingAt(int row) const {
    if (row < 0 || row >= rowCount()) return nullptr;
    const Place place = placeOf(row);
    return place.section == first ? &m_diff.first[place.index] : nullptr;
}

QString DifferenceModel::sectionName(Section section) {
    switch (section) {
    case configuration: return tr("Configuration");
    case numbers: return tr("Numbers");
    case first: return tr("Where they part");
    }
    return {};
}

QString DifferenceModel::kindName(Parting::Kind kind) {
    switch (kind) {
    case Parting::token: return tr("first other token");
    case Parting::table: return tr("first other block table");
    case Parting::logit: return tr("first other logit");
    }
    return {};
}

QString DifferenceModel::plain(const Place& place, int column) const {
    if (column == section) return sectionName(place.section);
    if (place.section == first) {
        const Parting& parting = m_diff.first[place.index];
        if (column == what) return kindName(parting.kind) + QStringLiteral(": ") + withoutStep(QString::fromStdString(parting.sentence));
        if (column == here) return QString::number(parting.step_a);
        return column == there ? QString::number(parting.step_b) : QString();
    }
    const DiffValue& found = value(place);
    switch (column) {
    case what: return QString::fromStdString(found.name);
    case here: return QString::fromStdString(found.a);
    case there: return QString::fromStdString(found.b);
    case delta: return found.delta && place.section == numbers ? QString::number(*found.delta, 'g', 12) : QString();
    case percent: return found.percent && place.section == numbers ? QString::number(*found.percent, 'g', 6) : QString();
    default: return {};
    }
}

QString DifferenceModel::text(const Place& place, int column) const {
    if (column == section) return place.index == 0 ? sectionName(place.section) : QString();
    if (place.section == first)
        return column == here || column == there ? tr("step %1").arg(formatCount(plain(place, column).toULongLong())) : plain(place, column);
    const DiffValue& found = value(place);
    switch (column) {
    case here:
    case there: return readableValue(plain(place, column));
    case delta: return found.delta && place.section == numbers ? signedValue(*found.delta) : QString();  // a setting is no amount
    case percent: {
        if (!found.percent || place.section != numbers) return {};
        const double size = std::abs(*found.percent);
        const QString number = QString::number(size, 'f', size < 10 ? 2 : size < 1000 ? 1 : 0);
        return QStringLiteral("%1%2 %").arg(*found.percent < 0 ? QStringLiteral("−") : QStringLiteral("+"), number);
    }
    default: return plain(place, column);
    }
}

QString DifferenceModel::sentence(int row) const {
    if (row < 0 || row >= rowCount()) return {};
    const Place place = placeOf(row);
    if (place.section == first) {
        const Parting& parting = m_diff.first[place.index];
        return tr("%1, step %2 here, step %3 there: %4. Enter goes there.")
            .arg(kindName(parting.kind), formatCount(parting.step_a), formatCount(parting.step_b),
                 withoutStep(QString::fromStdString(parting.sentence)));
    }
    const QString difference = text(place, delta), change = text(place, percent);
    QString told = tr("%1: %2 here, %3 in %4").arg(text(place, what), text(place, here), text(place, there), m_thereName);
    if (!difference.isEmpty()) told += QStringLiteral(" · ") + difference;
    if (!change.isEmpty()) told += QStringLiteral(" (%1)").arg(change);
    return told;
}

QVariant DifferenceModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount() || index.column() >= columnCount_) return {};
    const Place place = placeOf(index.row());
    const int column = index.column();
    const bool number = place.section == numbers && value(place).delta.has_value();
    switch (role) {
    case Qt::DisplayRole: return text(place, column);
    case csvRole: return plain(place, column);
    case Qt::ToolTipRole: return column == section ? QVariant() : QVariant(sentence(index.row()));
    case Qt::TextAlignmentRole:
        return QVariant((column >= here ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    case originRole:
        if (!number || text(place, column).isEmpty()) return {};
        if (column == here || column == there) return static_cast<int>(value(place).origin.value_or(Origin::measured));
        return column == delta || column == percent ? QVariant(static_cast<int>(Origin::derived)) : QVariant();
    case Qt::FontRole: return m_palette && (column == section || place.section == first) && column <= what ? QVariant(m_bold) : QVariant();
    case Qt::ForegroundRole:
        if (!m_palette) return {};
        if (column == section) return QBrush(m_palette->ink2);
        return place.section == first && column == what ? QVariant(QBrush(m_palette->accent)) : QVariant();
    default: return {};
    }
}

QVariant DifferenceModel::headerData(int column, Qt::Orientation orientation, int role) const {
    if (orientation == Qt::Horizontal && role == Qt::TextAlignmentRole)
        return QVariant((column >= here ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    if (orientation != Qt::Horizontal || (role != Qt::DisplayRole && role != csvRole)) return {};
    const bool csv = role == csvRole;
    switch (column) {
    case section: return csv ? QStringLiteral("section") : QString();
    case what: return csv ? QStringLiteral("what") : tr("What differs");
    case here: return csv ? QStringLiteral("here") : m_hereName.isEmpty() ? tr("Here") : m_hereName;
    case there: return csv ? QStringLiteral("reference") : m_thereName.isEmpty() ? tr("Reference") : m_thereName;
    case delta: return csv ? QStringLiteral("here minus reference (derived)") : tr("Delta");
    case percent: return csv ? QStringLiteral("percent of the reference (derived)") : tr("Percent");
    default: return {};
    }
}

}  // namespace kvloupe
