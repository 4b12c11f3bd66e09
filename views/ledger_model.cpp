// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/ledger_model.h"

#include "engine/record/attention_ledger.h"
#include "views/format.h"
#include "views/palette.h"
#include "views/table_picture.h"

#include <QBrush>

#include <cstdlib>

namespace kvloupe {

namespace {

QString ledgerText(const std::string& text) { return QString::fromStdString(text); }

QString signedBytesText(std::int64_t bytes) {
    const QString sign = bytes < 0 ? QStringLiteral("−") : bytes > 0 ? QStringLiteral("+") : QString();
    return sign + formatBytes(static_cast<quint64>(std::llabs(bytes)));
}

}  // namespace

LedgerModel::LedgerModel(QObject* parent) : QAbstractTableModel(parent) {}

bool LedgerModel::sameShape(const std::vector<Line>& a, const std::vector<Line>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (a[i].lane != b[i].lane || a[i].entry.what != b[i].entry.what) return false;
    return true;
}

void LedgerModel::show(const Cursor& cursor, bool allLanes, const Palette& palette, const QFont& font) {
    m_palette = &palette;
    m_font = font;
    m_focus = cursor.lane();
    std::vector<Line> lines;
    const auto recording = cursor.sharedRecording();
    const std::vector<DeviceMemory> devices = recording ? recording->device_memory() : std::vector<DeviceMemory>();
    for (std::uint32_t i = 0; recording && i < recording->lanes().size(); ++i) {
        if (!allLanes && LaneId(i) != cursor.lane()) continue;
        const int step = cursor.stepOf(LaneId(i));
        if (step < 0) continue;
        const LaneRecord& record = recording->lane(LaneId(i));
        for (LedgerEntry& entry : ledger(record, static_cast<std::size_t>(step), devices))
            lines.push_back({LaneId(i), step, std::move(entry)});
        for (LedgerEntry& entry : attention_ledger(record, static_cast<std::size_t>(step)))
            lines.push_back({LaneId(i), step, std::move(entry)});
    }
    if (recording != m_recording || !sameShape(lines, m_lines)) {
        beginResetModel();
        m_recording = recording;
        m_lines = std::move(lines);
        endResetModel();
        return;
    }
    m_lines = std::move(lines);
    if (!m_lines.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount_ - 1));
}

std::uint64_t LedgerModel::unexplainedBytes() const {
    std::uint64_t sum = 0;
    for (const Line& line : m_lines) sum += static_cast<std::uint64_t>(std::llabs(line.entry.unexplained));
    return sum;
}

QString LedgerModel::laneName(LaneId id) const { return QString::fromStdString(m_recording->lane(id).info().name); }

QString LedgerModel::sentence(int row) const {
    if (row < 0 || row >= rowCount()) return {};
    const Line& line = m_lines[static_cast<std::size_t>(row)];
    const LedgerEntry& entry = line.entry;
    QString text = tr("%1, %2, step %3.")
                       .arg(laneName(line.lane), ledgerText(entry.what), formatCount(static_cast<quint64>(line.step)));
    if (entry.predicted)
        text += tr(" Predicted ○ %1: %2.").arg(formatBytes(*entry.predicted), ledgerText(entry.predicted_how));
    if (entry.measured)
        text += (entry.origin == Origin::measured ? tr(" Measured ● %1: %2.") : tr(" Counted ◐ %1: %2."))
                    .arg(formatBytes(*entry.measured), ledgerText(entry.measured_how));
    if (!entry.measured) return text + tr(" Nothing of it was counted in this step.");
    if (entry.residual == 0) return text + tr(" Both are the same to the byte.");
    return text + tr(" Residual ◐ %1: %2.").arg(signedBytesText(entry.residual), ledgerText(entry.residual_why));
}

int LedgerModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_lines.size());
}

int LedgerModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : columnCount_; }

QString LedgerModel::text(const Line& line, int column) const {
    const LedgerEntry& entry = line.entry;
    switch (column) {
    case lane: return laneName(line.lane);
    case what: return ledgerText(entry.what);
    case predicted: return entry.predicted ? formatBytes(*entry.predicted) : QString();
    case measured: return entry.measured ? formatBytes(*entry.measured) : QString();
    case residual: return entry.measured && entry.predicted ? signedBytesText(entry.residual) : QString();
    case unexplained: return entry.measured && entry.predicted ? signedBytesText(entry.unexplained) : QString();
    case why: return ledgerText(entry.residual_why);
    case how: return ledgerText(entry.predicted_how);
    default: return {};
    }
}

QString LedgerModel::plain(const Line& line, int column) const {
    const LedgerEntry& entry = line.entry;
    switch (column) {
    case predicted: return entry.predicted ? QString::number(*entry.predicted) : QString();
    case measured: return entry.measured ? QString::number(*entry.measured) : QString();
    case residual: return entry.measured && entry.predicted ? QString::number(entry.residual) : QString();
    case unexplained: return entry.measured && entry.predicted ? QString::number(entry.unexplained) : QString();
    default: return text(line, column);
    }
}

QVariant LedgerModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount()) return {};
    const Line& line = m_lines[static_cast<std::size_t>(index.row())];
    const int column = index.column();
    const bool number = column >= predicted && column <= unexplained;
    const bool bothSides = line.entry.predicted && line.entry.measured;
    switch (role) {
    case Qt::DisplayRole: return text(line, column);
    case csvRole: return plain(line, column);
    case Qt::ToolTipRole: return sentence(index.row());
    case originRole:
        if (column == predicted && line.entry.predicted) return static_cast<int>(Origin::predicted);
        if (column == measured && line.entry.measured) return static_cast<int>(line.entry.origin);
        if ((column == residual || column == unexplained) && bothSides) return static_cast<int>(Origin::derived);
        return {};
    case Qt::TextAlignmentRole:
        return QVariant::fromValue(static_cast<int>((number ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter));
    case colourRole:
        if (column == lane && m_palette) return m_palette->lane(*m_recording, line.lane);
        return {};
    case Qt::FontRole: {
        if (column != lane && column != what) return {};
        QFont font = m_font;
        if (column == lane && line.lane == m_focus) font.setWeight(QFont::DemiBold);
        return font;
    }
    case Qt::ForegroundRole:
        if (!m_palette) return {};
        if (column == unexplained && line.entry.unexplained != 0) return QBrush(m_palette->breakpoint);
        if (column == unexplained || column == how) return QBrush(m_palette->ink3);
        return {};
    default: return {};
    }
}

QVariant LedgerModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal) return QAbstractTableModel::headerData(section, orientation, role);
    if (role == Qt::TextAlignmentRole)
        return static_cast<int>((section >= predicted && section <= unexplained ? Qt::AlignRight : Qt::AlignLeft) |
                                Qt::AlignVCenter);
    const bool csv = role == csvRole;
    if (role != Qt::DisplayRole && !csv) return {};
    switch (section) {
    case lane: return tr("Lane");
    case what: return tr("What");
    case predicted: return csv ? QStringLiteral("bytes (predicted)") : tr("Predicted");
    case measured: return csv ? QStringLiteral("bytes (measured; of attention counted)") : tr("Measured");
    case residual: return csv ? QStringLiteral("residual bytes (derived)") : tr("Residual");
    case unexplained: return csv ? QStringLiteral("unexplained bytes (derived)") : tr("Unexplained");
    case why: return tr("The residual is");
    case how: return tr("Predicted as");
    default: return {};
    }
}

}  // namespace kvloupe
