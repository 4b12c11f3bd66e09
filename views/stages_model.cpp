// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/stages_model.h"

#include "views/format.h"
#include "views/palette.h"
#include "views/stage_look.h"
#include "views/step_profile.h"
#include "views/table_picture.h"

#include <QBrush>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

QString signedText(const QString& magnitude, bool negative) {
    if (std::none_of(magnitude.begin(), magnitude.end(), [](QChar c) { return c.isDigit() && c != QLatin1Char('0'); })) return magnitude;
    return (negative ? QString(QChar(0x2212)) : QStringLiteral("+")) + magnitude;
}

bool isText(int column) {
    return column == StagesModel::stage || column == StagesModel::perLayer || column == StagesModel::boundBy;
}

}  // namespace

void StageSums::add(const StageRecord& record) {
    calls += record.calls;
    durationNs += record.duration_ns;
    bytes += record.bytes;
    flops += record.flops;
    if (record.layer == StageRecord::no_layer) return;
    if (record.layer >= layerNs.size()) layerNs.resize(record.layer + std::size_t{1});
    layerNs[record.layer] += record.duration_ns;
}

void StageSums::subtract(const StageRecord& record) {
    calls -= record.calls;
    durationNs -= record.duration_ns;
    bytes -= record.bytes;
    flops -= record.flops;
    if (record.layer < layerNs.size()) layerNs[record.layer] -= record.duration_ns;
}

StagesModel::StagesModel(QObject* parent) : QAbstractTableModel(parent) {}

void StagesModel::addStep(std::size_t step, bool add) {
    const LaneRecord& lane = m_progress->record();
    const LogRange range = lane.stages_of(step);
    if (range.size() == 0 || (m_summed && !m_progress->at(step).decodes())) return;
    m_stepsSummed = add ? m_stepsSummed + 1 : m_stepsSummed - 1;
    for (std::uint64_t i = range.begin; i < range.end; ++i) {
        const StageRecord& record = lane.stages()[i];
        StageSums& sums = m_sums[static_cast<std::size_t>(record.kind)];
        if (add)
            sums.add(record);
        else
            sums.subtract(record);
    }
}

void StagesModel::show(std::shared_ptr<const Recording> recording, LaneId lane, int step, bool summed) {
    const bool fresh = recording != m_recording || lane != m_lane || summed != m_summed || !summed || m_step < 0 || step < 0;
    if (fresh) {
        if (recording != m_recording || lane != m_lane || !m_progress) {
            if (recording != m_recording) m_pinned.reset();
            m_recording = std::move(recording);
            m_lane = lane;
            m_progress.reset();
            if (m_recording && lane.value < m_recording->lanes().size()) m_progress.emplace(m_recording.get(), lane);
        }
        m_summed = summed;
        m_sums = {};
        m_stepsSummed = 0;
        m_step = -1;
    }
    m_computes = !m_progress || computes(m_progress->record().info());
    if (m_progress) {
        m_progress->advance();
        step = std::min(step, static_cast<int>(m_progress->steps()) - 1);
        if (summed) {
            for (; m_step < step; ++m_step) addStep(static_cast<std::size_t>(m_step + 1), true);
            for (; m_step > step; --m_step) addStep(static_cast<std::size_t>(m_step), false);
        } else if (step >= 0) {
            addStep(static_cast<std::size_t>(step), true);
            m_step = step;
        }
    }
    std::vector<StageKind> rows;
    m_total = {};
    for (int k = 0; k < stage_kind_count; ++k) {
        const StageSums& sums = m_sums[static_cast<std::size_t>(k)];
        if (sums.calls == 0) continue;
        rows.push_back(static_cast<StageKind>(k));
        m_total.calls += sums.calls;
        m_total.durationNs += sums.durationNs;
        m_total.bytes += sums.bytes;
        m_total.flops += sums.flops;
    }
    if (rows != m_rows) {
        beginResetModel();
        m_rows = std::move(rows);
        endResetModel();
    } else if (!m_rows.empty()) {
        Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount_ - 1));
    }
}

void StagesModel::pin() {
    if (m_rows.empty() || m_summed) return;
    m_pinned = Pinned{m_lane, m_step, m_sums, m_total};
    Q_EMIT dataChanged(index(0, timeChange), index(rowCount() - 1, changeShare));
}

void StagesModel::unpin() { m_pinned.reset(); }

const StageSums& StagesModel::pinnedOf(int row) const {
    return row < static_cast<int>(m_rows.size()) ? m_pinned->sums[static_cast<std::size_t>(m_rows[static_cast<std::size_t>(row)])]
                                                 : m_pinned->total;
}

QString StagesModel::boundText(int row) const {
    if (!m_computes) return tr("does not apply: no arithmetic");
    if (!m_ceilings.measured()) return tr("not measured yet");
    return limitName(bound_of(sumsOf(row).work(), m_ceilings).limit);
}

bool StagesModel::aboveCeiling() const {
    return std::any_of(m_rows.begin(), m_rows.end(), [this](StageKind kind) {
        const StageBound bound = bound_of(sums(kind).work(), m_ceilings);
        return bound.of_memory > 1 || bound.of_compute > 1;
    });
}

void StagesModel::setLook(const Palette& palette, const QFont& font) {
    m_palette = &palette;
    m_font = font;
}

void StagesModel::setCeilings(const Ceilings& ceilings) {
    m_ceilings = ceilings;
    if (rowCount() > 0) Q_EMIT dataChanged(index(0, ofMemory), index(rowCount() - 1, boundBy));
}

int StagesModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() || m_rows.empty() ? 0 : static_cast<int>(m_rows.size()) + 1;
}

int StagesModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : columnCount_; }

const StageSums& StagesModel::sumsOf(int row) const {
    return row < static_cast<int>(m_rows.size()) ? sums(m_rows[static_cast<std::size_t>(row)]) : m_total;
}

StagesModel::Number StagesModel::number(int row, int column) const {
    const StageSums& own = sumsOf(row);
    const StageBound bound = bound_of(own.work(), m_ceilings);
    const bool timed = own.durationNs > 0;
    const auto counted = [](std::uint64_t value, Origin from) {
        return Number{static_cast<double>(value), true, formatCount(value), QString::number(value), from};
    };
    const auto ratio = [](double value, bool exists, const QString& text) {
        return Number{value, exists, exists ? text : QString(), exists ? QString::number(value, 'g', 9) : QString(),
                      Origin::derived};
    };
    switch (column) {
    case calls: return counted(own.calls, Origin::measured);
    case time: {
        Number result = counted(own.durationNs, Origin::measured);
        result.text = formatDuration(static_cast<double>(own.durationNs));
        return result;
    }
    case share: {
        const double part = m_total.durationNs > 0 ? static_cast<double>(own.durationNs) / static_cast<double>(m_total.durationNs) : 0;
        return ratio(part, m_total.durationNs > 0, formatPercent(part));
    }
    case bytes: return counted(own.bytes, Origin::derived);
    case flops: return counted(own.flops, Origin::derived);
    case intensity: return ratio(bound.flops_per_byte, own.bytes > 0, QString::number(bound.flops_per_byte, 'f', 2));
    case bandwidth:
    case rate: {
        const double value = column == bandwidth ? bound.bytes_per_second : bound.flops_per_second;
        return ratio(value, value > 0, QString::number(value / 1e9, 'f', value < 1e10 ? 2 : 1));
    }
    case ofMemory:
        if (!m_computes) return {0, false, tr("does not apply"), {}, Origin::derived};
        if (m_ceilings.read_bandwidth <= 0) return {0, false, tr("not measured yet"), {}, Origin::derived};
        return ratio(bound.of_memory, timed && own.bytes > 0, formatPercent(bound.of_memory));
    case ofCompute:
        if (!m_computes) return {0, false, tr("does not apply"), {}, Origin::derived};
        if (m_ceilings.matrix_rate <= 0) return {0, false, tr("not measured yet"), {}, Origin::derived};
        return ratio(bound.of_compute, timed && own.flops > 0, formatPercent(bound.of_compute));
    case timeChange: {
        if (!m_pinned) return {};
        const double change = static_cast<double>(own.durationNs) - static_cast<double>(pinnedOf(row).durationNs);
        return {change, true, signedText(formatDuration(std::abs(change)), change < 0), QString::number(change, 'f', 0), Origin::derived};
    }
    case changeShare: {
        const auto before = m_pinned ? static_cast<double>(pinnedOf(row).durationNs) : 0;
        const double change = before > 0 ? static_cast<double>(own.durationNs) / before - 1 : 0;
        return ratio(change, before > 0, signedText(formatPercent(std::abs(change)), change < 0));
    }
    default: return {};
    }
}

QVariant StagesModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount()) return {};
    const int row = index.row(), column = index.column();
    const bool isTotal = row == static_cast<int>(m_rows.size());
    const StageKind kind = isTotal ? StageKind::schedule : m_rows[static_cast<std::size_t>(row)];
    switch (role) {
    case totalRole: return isTotal;
    case sortRole:
        if (column == stage) return static_cast<int>(kind);
        if (column == boundBy) return static_cast<double>(bound_of(sumsOf(row).work(), m_ceilings).limit);
        return number(row, column).value;
    case Qt::DisplayRole:
    case csvRole:
        if (column == stage) {
            if (isTotal) return role == csvRole ? QStringLiteral("sum") : tr("Sum of the stages");
            const std::string_view name = name_of(kind);
            return QString::fromUtf8(name.data(), static_cast<qsizetype>(name.size()));
        }
        if (column == perLayer) {
            if (role == Qt::DisplayRole) return {};
            QStringList list;
            for (const std::uint64_t ns : isTotal ? std::vector<std::uint64_t>() : sums(kind).layerNs) list.append(QString::number(ns));
            return list.join(QLatin1Char(' '));
        }
        if (column == boundBy) return role == csvRole && !m_ceilings.measured() ? QString() : boundText(row);
        return role == csvRole ? number(row, column).plain : number(row, column).text;
    case originRole: {
        if (column == stage || column == share || column == perLayer || column == boundBy || column == calls) return {};
        const Number own = number(row, column);
        return own.exists ? QVariant(static_cast<int>(own.origin)) : QVariant();
    }
    case colourRole:
        if (!m_palette || isTotal || (column != stage && column != share && column != perLayer)) return {};
        if (column == perLayer && sums(kind).layerNs.empty()) return {};
        return colourOf(kind, *m_palette);
    case barRole: return column == share && !isTotal ? QVariant(number(row, share).value) : QVariant();
    case sparkRole: {
        if (column != perLayer || isTotal || sums(kind).layerNs.empty()) return {};
        QVariantList list;
        for (const std::uint64_t ns : sums(kind).layerNs) list.append(static_cast<double>(ns));
        return list;
    }
    case Qt::TextAlignmentRole: return static_cast<int>((isText(column) ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    case Qt::FontRole: {
        if (column != stage && !isTotal) return {};
        QFont font = m_font;
        font.setWeight(QFont::DemiBold);
        return font;
    }
    case Qt::ForegroundRole:
        if (!m_palette) return {};
        if (column == ofMemory || column == ofCompute) return number(row, column).exists ? QVariant() : QBrush(m_palette->ink3);
        return column == boundBy && !m_ceilings.measured() ? QBrush(m_palette->ink3) : QVariant();
    case Qt::ToolTipRole: {
        if (column == stage || column == perLayer) return {};
        if (column == boundBy || column == ofMemory || column == ofCompute)
            return m_computes ? stageTip(sumsOf(row).work(), m_ceilings) : boundText(row);
        const Number own = number(row, column);
        return own.exists ? tr("%1 (%2)").arg(own.text, originName(own.origin)) : QString();
    }
    default: return {};
    }
}

QVariant StagesModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal) return QAbstractTableModel::headerData(section, orientation, role);
    if (role == Qt::TextAlignmentRole)
        return static_cast<int>((isText(section) || section == share ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    const bool csv = role == csvRole;
    if (role == Qt::ToolTipRole && section == boundBy)
        return tr("The roofline: memory where FLOP per byte lies left of the ridge of both measured ceilings, compute right of it,\n"
                  "latency where less than 30 % of both is reached");
    if (role != Qt::DisplayRole && !csv) return {};
    switch (section) {
    case stage: return csv ? QStringLiteral("stage") : tr("Stage");
    case calls: return csv ? QStringLiteral("calls (measured)") : tr("Calls");
    case time: return csv ? QStringLiteral("time ns (measured)") : tr("Time");
    case share: return csv ? QStringLiteral("share of the sum (derived)") : tr("Share ◐");
    case bytes: return csv ? QStringLiteral("bytes moved (derived)") : tr("Bytes moved");
    case flops: return csv ? QStringLiteral("FLOPs (derived)") : tr("FLOPs");
    case intensity: return csv ? QStringLiteral("FLOP per byte (derived)") : tr("FLOP per byte");
    case bandwidth: return csv ? QStringLiteral("bytes per second (derived)") : tr("GB/s");
    case rate: return csv ? QStringLiteral("FLOP per second (derived)") : tr("GFLOP/s");
    case timeChange: return csv ? QStringLiteral("time less pinned ns (derived)") : tr("Δ time");
    case changeShare: return csv ? QStringLiteral("change of time (derived)") : tr("Δ %");
    case ofMemory: return csv ? QStringLiteral("share of the read bandwidth (derived)") : tr("Of read bandwidth");
    case ofCompute: return csv ? QStringLiteral("share of the matrix rate (derived)") : tr("Of matrix rate");
    case boundBy: return csv ? QStringLiteral("bound by (derived)") : tr("Bound by ◐");
    case perLayer: return csv ? QStringLiteral("ns per layer (measured)") : tr("Time per layer ●");
    default: return {};
    }
}

bool StagesProxy::lessThan(const QModelIndex& left, const QModelIndex& right) const {
    const bool leftTotal = left.data(StagesModel::totalRole).toBool(), rightTotal = right.data(StagesModel::totalRole).toBool();
    if (leftTotal || rightTotal) return sortOrder() == Qt::AscendingOrder ? rightTotal && !leftTotal : leftTotal && !rightTotal;
    return left.data(StagesModel::sortRole).toDouble() < right.data(StagesModel::sortRole).toDouble();
}

bool StagesProxy::filterAcceptsColumn(int column, const QModelIndex&) const {
    if (column != StagesModel::timeChange && column != StagesModel::changeShare) return true;
    const auto* model = qobject_cast<const StagesModel*>(sourceModel());
    return !model || model->compares();
}

}  // namespace kvloupe
