// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/comparison_model.h"

#include "engine/record/figures.h"
#include "views/cached_heads.h"
#include "views/format.h"
#include "views/palette.h"
#include "views/table_picture.h"

#include <QBrush>

#include <cmath>

namespace kvloupe {

namespace {

int origin(Origin value) { return static_cast<int>(value); }

QString number(std::uint64_t value) { return QString::number(value); }

}  // namespace

ComparisonModel::ComparisonModel(Cursor* cursor, QObject* parent) : QAbstractTableModel(parent), m_cursor(cursor) {}

void ComparisonModel::update(const Palette& palette, const QFont& font) {
    m_palette = &palette;
    m_font = font;
    const bool fresh = m_recording != m_cursor->sharedRecording();
    if (fresh) {
        beginResetModel();
        m_recording = m_cursor->sharedRecording();
        m_progress.clear();
        m_requests.clear();
        m_predicted.clear();
        m_logits.clear();
        const std::size_t lanes = m_recording ? m_recording->lanes().size() : 0;
        for (std::uint32_t i = 0; i < lanes; ++i) {
            m_progress.emplace_back(m_recording.get(), LaneId(i));
            m_requests.emplace_back(m_recording.get(), LaneId(i));
            m_predicted.emplace_back(m_recording.get(), LaneId(i));
            m_logits.emplace_back();
            if (const auto reference = referenceLane(*m_recording, LaneId(i)))
                m_logits.back().emplace(m_recording.get(), LaneId(i), *reference);
        }
        m_cells.assign(lanes, std::vector<Cell>(columnCount_));
    }
    for (std::uint32_t i = 0; i < m_cells.size(); ++i) {
        m_progress[i].advance();
        m_requests[i].advance();
        m_predicted[i].advance();
        if (m_logits[i]) m_logits[i]->advance();
        for (int column = 0; column < columnCount_; ++column)
            m_cells[i][static_cast<std::size_t>(column)] = cell(i, column);
    }
    if (fresh)
        endResetModel();
    else if (!m_cells.empty())
        Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount_ - 1));
    if (!fresh) Q_EMIT headerDataChanged(Qt::Horizontal, prefill, prefill);
}

int ComparisonModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_cells.size());
}

int ComparisonModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : columnCount_; }

ComparisonModel::Cell ComparisonModel::logitCell(std::uint32_t row, std::size_t step) const {
    if (!m_logits[row]) {
        for (std::uint32_t i = row + 1; i < m_logits.size(); ++i)
            if (m_logits[i] && m_logits[i]->reference() == LaneId(row))
                return {tr("first lane"), {}, {}, tr("The others with these weights are compared to this lane.")};
        return {tr("other weights"), {}, {}, tr("No other lane has these weights, so there is nothing to compare.")};
    }
    const std::size_t last = std::min(step, m_logits[row]->steps() == 0 ? 0 : m_logits[row]->steps() - 1);
    const float largest = m_logits[row]->steps() == 0 ? NAN : m_logits[row]->largest(last);
    if (std::isnan(largest)) return {tr("not compared yet"), {}, {}, {}};
    return {formatSmall(static_cast<double>(largest)),
            QString::number(static_cast<double>(largest), 'g', 9), origin(Origin::measured),
            tr("Largest absolute difference of a logit so far, to the first lane with the same weights, while both answer the same text")};
}

ComparisonModel::Cell ComparisonModel::requestCell(const RequestSums& sums, int column) const {
    const auto time = [](const std::optional<double>& ms, const QString& tip) {
        return ms ? Cell{formatDuration(*ms * 1e6), QString::number(*ms, 'g', 9), origin(Origin::measured), tip} : Cell{};
    };
    switch (column) {
    case ttft:
        return time(sums.ttftMs, tr("Median time to the first token, from arrival, of %1 requests that have one")
                                     .arg(formatCount(sums.requests)));
    case itl:
        return time(sums.itlMs, tr("Median of %1 times between successive output tokens").arg(formatCount(sums.gaps)));
    case computed:
        return {formatCount(sums.computed), number(sums.computed), origin(Origin::measured),
                tr("Tokens pushed through the model so far, those computed again included")};
    case hitRate: {
        if (sums.queried == 0) return {};
        const double share = static_cast<double>(sums.hit) / static_cast<double>(sums.queried);
        return {formatPercent(share), QString::number(share, 'g', 9), origin(Origin::derived),
                tr("%1 of %2 prompt tokens queried were found; resumed sequences are not counted")
                    .arg(formatCount(sums.hit), formatCount(sums.queried))};
    }
    case preemptions:
        return {formatCount(sums.preemptions), number(sums.preemptions), origin(Origin::measured),
                tr("Sequences taken out of the running ones so far")};
    default: return {};
    }
}

ComparisonModel::Cell ComparisonModel::byteCell(std::uint32_t row, std::size_t step, int column) const {
    const PredictedBytes& own = m_predicted[row];
    if (step >= own.steps()) return {};
    const bool windowed = PredictedBytes::windowed(own.record().info());
    if (column == kvBytes) {
        const std::uint64_t bytes = own.record().step(step).kv_bytes;
        return {formatBytes(bytes), number(bytes), origin(Origin::measured), tr("Bytes of the blocks in use")};
    }
    if (column == predicted)
        return {formatBytes(own.at(step).bytes), number(own.at(step).bytes), origin(Origin::predicted),
                (windowed ? tr("Per layer, bytes per token × those of %1 tokens that its window holds")
                          : tr("Bytes per token × %1 tokens in the cache"))
                    .arg(formatCount(own.at(step).tokens))};
    const std::int64_t difference = own.residual(step);
    const QString sign = difference < 0 ? QStringLiteral("−") : difference > 0 ? QStringLiteral("+") : QString();
    return {sign + formatBytes(static_cast<quint64>(std::abs(difference))), QString::number(difference), origin(Origin::derived),
            PredictedBytes::onlySlotsAreUnpredicted(own.record().info())
                ? tr("Measured − predicted: slots in blocks that hold no token yet")
                : tr("Measured − predicted: what the formula does not count")};
}

ComparisonModel::Cell ComparisonModel::qualityCell(const LaneInfo& info, int column) const {
    const QString none = QStringLiteral("–");
    if (info.weights_id == 0) return {none, {}, {}, tr("The lane has no model, so it has no quality.")};
    const LaneQuality* measured = m_quality ? m_quality->find(info.name) : nullptr;
    QualityFigure figure;
    if (measured) figure = column == perplexity ? measured->perplexity : measured->recall_total.right;
    if (!figure.measured())
        return {none, {}, {},
                measured && !measured->failure.empty() ? QString::fromStdString(measured->failure)
                                                       : tr("Not measured. Analyse > Measure quality… measures it on held-out text.")};
    const QString source = QString::fromStdString(m_quality->text + ", " + m_quality->device + ", " + m_quality->measured_on);
    const QString state = m_quality->state == QualityReport::State::running ? tr(", so far") : QString();
    if (column == perplexity)
        return {QString::number(figure.value, 'f', 2), QString::number(figure.value, 'g', 9), origin(Origin::measured),
                tr("95 % interval %1 to %2, over %3 predictions%4: %5")
                    .arg(QString::number(figure.low, 'f', 2), QString::number(figure.high, 'f', 2), formatCount(figure.samples), state,
                         source)};
    return {formatPercent(figure.value), QString::number(figure.value, 'g', 9), origin(Origin::measured),
            tr("95 % interval %1 to %2, of %3 questions about an earlier fact%4: %5")
                .arg(formatPercent(figure.low), formatPercent(figure.high), formatCount(figure.samples), state, source)};
}

ComparisonModel::Cell ComparisonModel::cell(std::uint32_t row, int column) const {
    const LaneInfo& info = m_recording->lane(LaneId(row)).info();
    const int cursorStep = m_cursor->stepOf(LaneId(row));
    const bool has = cursorStep >= 0 && static_cast<std::size_t>(cursorStep) < m_progress[row].steps();
    const auto step = static_cast<std::size_t>(std::max(0, cursorStep));
    const auto bytes = [](std::uint64_t value, Origin from, const QString& tip) {
        return Cell{formatBytes(value), number(value), origin(from), tip};
    };
    switch (column) {
    case lane: return {QString::fromStdString(info.name), QString::fromStdString(info.name), {}, {}};
    case kvHeads:
        return {cachedHeads(info), info.latent_rank == 0 ? number(info.kv_heads) : cachedHeads(info), {}, cachedHeadsSentence(info)};
    case storedAs: {
        const QString text = info.kv_cache ? QString::fromStdString(info.cache_dtype) : tr("none");
        return {text, text, {}, QString::fromStdString(quality_cache_text(info))};
    }
    case bytesPerToken:
        return bytes(info.kv_cache ? info.bytes_per_token : 0, Origin::derived, QString::fromStdString(kv_formula(info)));
    case perplexity:
    case recall: return qualityCell(info, column);
    case weights: return bytes(info.weight_bytes, Origin::measured, tr("Bytes of the tensors as they are stored"));
    default: break;
    }
    if (!has) return {};
    const StepRecord& record = m_progress[row].record().step(step);
    switch (column) {
    case blocks: return {formatCount(record.used_blocks), number(record.used_blocks), origin(Origin::measured),
                         tr("Blocks in use, from the allocator's counter")};
    case kvBytes:
    case predicted:
    case residual: return byteCell(row, step, column);
    case decode: {
        const auto median = m_progress[row].medianDecodeNsPerToken(step);
        if (!median) return {};
        return {formatDuration(*median), QString::number(*median, 'f', 1), origin(Origin::derived),
                tr("Median of %1 decode steps, each divided by its sequences")
                    .arg(formatCount(m_progress[row].decodeSteps(step)))};
    }
    case prefill: {
        const StepSums& sums = m_progress[row].at(step);
        if (sums.prefillTokens == 0) return {};
        return {formatDuration(static_cast<double>(sums.prefillNs)), number(sums.prefillNs), origin(Origin::measured),
                tr("%1 prompt tokens, in steps that decoded nothing").arg(formatCount(sums.prefillTokens))};
    }
    case logits: return logitCell(row, step);
    default: return step < m_requests[row].steps() ? requestCell(m_requests[row].at(step), column) : Cell{};
    }
}

// To the byte, by the ledger; asked for only when it is shown.
QString ComparisonModel::residualTip(std::uint32_t row) const {
    const QString tip = m_cells[row][residual].tip + QStringLiteral(" (%1)").arg(originName(Origin::derived));
    const int step = m_cursor->stepOf(LaneId(row));
    const std::string why = step < 0 ? std::string() : m_predicted[row].whyResidual(static_cast<std::size_t>(step));
    return why.empty() ? tip : tip + QLatin1Char('\n') + QString::fromStdString(why);
}

QVariant ComparisonModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount()) return {};
    const auto row = static_cast<std::uint32_t>(index.row());
    const Cell& own = m_cells[row][static_cast<std::size_t>(index.column())];
    switch (role) {
    case Qt::DisplayRole: return own.text;
    case csvRole: return own.plain;
    case originRole: return own.origin;
    case Qt::ToolTipRole:
        if (own.tip.isEmpty()) return {};
        if (index.column() == residual) return residualTip(row);
        return own.origin.isValid() ? tr("%1 (%2)").arg(own.tip, originName(static_cast<Origin>(own.origin.toInt())))
                                    : own.tip;
    case Qt::TextAlignmentRole:
        return QVariant::fromValue(static_cast<int>((index.column() <= storedAs ? Qt::AlignLeft : Qt::AlignRight) |
                                                    Qt::AlignVCenter));
    case colourRole:
        if (index.column() == lane && m_palette) return m_palette->lane(*m_recording, LaneId(static_cast<std::uint32_t>(row)));
        return {};
    case Qt::FontRole:
        if (index.column() == lane) {
            QFont font = m_font;
            font.setWeight(QFont::DemiBold);
            return font;
        }
        return {};
    case Qt::BackgroundRole:
        if (m_palette && m_cursor->lane() == LaneId(row)) return QBrush(m_palette->selectedRow);
        return {};
    case Qt::ForegroundRole:
        if (m_palette && !own.origin.isValid() && (index.column() == logits || index.column() == perplexity || index.column() == recall))
            return QBrush(m_palette->ink3);
        return {};
    default: return {};
    }
}

QVariant ComparisonModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal) return QAbstractTableModel::headerData(section, orientation, role);
    if (role == Qt::TextAlignmentRole)
        return static_cast<int>((section <= storedAs ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    const bool csv = role == csvRole;
    if (role != Qt::DisplayRole && !csv) return {};
    switch (section) {
    case lane: return tr("Lane");
    case kvHeads: return tr("KV heads");
    case storedAs: return tr("Stored as");
    case bytesPerToken: return csv ? QStringLiteral("bytes per token (derived)") : tr("Bytes per token");
    case blocks: return csv ? QStringLiteral("blocks (measured)") : tr("Blocks");
    case kvBytes: return csv ? QStringLiteral("KV bytes (measured)") : tr("KV bytes now");
    case predicted: return csv ? QStringLiteral("KV bytes (predicted)") : tr("Predicted");
    case residual: return csv ? QStringLiteral("residual bytes (derived)") : tr("Residual");
    case decode: return csv ? QStringLiteral("decode ns per token, median (derived)") : tr("Decode per token");
    case prefill: {
        if (csv) return QStringLiteral("prefill ns (measured)");
        // The count is in the head where it is the same for all lanes.
        std::optional<std::uint64_t> tokens;
        for (std::uint32_t i = 0; i < m_progress.size(); ++i) {
            const int step = m_cursor->stepOf(LaneId(i));
            if (step < 0 || static_cast<std::size_t>(step) >= m_progress[i].steps()) continue;
            const std::uint64_t own = m_progress[i].at(static_cast<std::size_t>(step)).prefillTokens;
            if (tokens && *tokens != own) return tr("Prefill");
            tokens = own;
        }
        return tokens.value_or(0) > 0 ? (*tokens == 1 ? tr("Prefill %1 token") : tr("Prefill %1 tokens")).arg(formatCount(*tokens)) : tr("Prefill");
    }
    case perplexity: return csv ? QStringLiteral("perplexity (measured)") : tr("Perplexity");
    case recall: return csv ? QStringLiteral("recall, share (measured)") : tr("Recall");
    case ttft: return csv ? QStringLiteral("TTFT ms, median (measured)") : tr("TTFT");
    case itl: return csv ? QStringLiteral("ITL ms, median (measured)") : tr("ITL");
    case computed: return csv ? QStringLiteral("computed tokens (measured)") : tr("Computed tokens");
    case hitRate: return csv ? QStringLiteral("hit rate (derived)") : tr("Hit rate");
    case preemptions: return csv ? QStringLiteral("preemptions (measured)") : tr("Preemptions");
    case logits: return csv ? QStringLiteral("largest logit difference (measured)") : tr("Largest logit difference");
    case weights: return csv ? QStringLiteral("weight bytes (measured)") : tr("Weights");
    default: return {};
    }
}

}  // namespace kvloupe
