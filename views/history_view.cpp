// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/history_view.h"

#include "views/format.h"
#include "views/picking.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr std::uint64_t tile_budget = std::uint64_t{64} << 20;
constexpr std::uint64_t cost_inline = 20000;  // events, or changes and blocks of tiles, that one frame may read: about 1 ms
constexpr double least_row = 3;               // pixels: blocks that are lower are folded
constexpr double least_step = 1.5;            // pixels: narrower steps are; nobody picks one out of a stretch
constexpr double least_cell = 1.5;            // pixels of a folded cell, both ways
constexpr std::size_t csv_rows = 200000;

std::uint8_t levelFor(double pixels, double least) {
    if (pixels >= least) return 0;
    return static_cast<std::uint8_t>(std::clamp(std::ceil(std::log2(least_cell / std::max(pixels, 1e-9))), 1.0, 30.0));
}

}  // namespace

HistoryView::HistoryView(Cursor* cursor, QWidget* parent)
    : View(QStringLiteral("history"), tr("Block history"), cursor, parent), m_tiles(tile_budget) {
    connect(cursor, &Cursor::stepRangeChanged, this, &HistoryView::followSteps);
    followSteps();
}

void HistoryView::fit() {
    m_steps.fit();
    m_blocksZoomed = false;
    shareSteps();
    explain();
    update();
}

QVariant HistoryView::zoomState() const {
    if (!m_steps.zoomed() && !m_blocksZoomed) return {};
    return QVariantList{m_steps.state(), m_blocksZoomed ? QVariant(QPointF(m_blockBegin, m_blockEnd)) : QVariant()};
}

void HistoryView::setZoomState(const QVariant& state) {
    const QVariantList parts = state.toList();
    m_steps.setState(parts.value(0));
    m_blocksZoomed = parts.value(1).isValid();
    if (m_blocksZoomed) {
        m_blockBegin = parts[1].toPointF().x();
        m_blockEnd = std::max(m_blockBegin + 1e-3, parts[1].toPointF().y());
    }
    shareSteps();
    explain();
    update();
}

void HistoryView::shareSteps() {
    if (m_steps.zoomed()) cursor()->setStepRange(m_steps.of(cursor()->stepCount()));
    else cursor()->setStepRange(std::nullopt);
}

void HistoryView::followSteps() {
    const auto& range = cursor()->stepRange();
    const QVariant wanted = range ? QVariant(QPointF(range->first, range->second)) : QVariant();
    if (wanted == m_steps.state()) return;
    m_steps.setState(wanted);
    restoreZoom(zoomState());  // another view zoomed: that is no step of this one's own
}

double HistoryView::blockCount() const {
    const LaneRecord* lane = cursor()->laneRecord();
    return lane ? std::max(1.0, static_cast<double>(lane->info().blocks)) : 1;
}

void HistoryView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    const bool same = m_index && m_seen == cursor()->sharedRecording() && m_lane == cursor()->lane();
    if (!same) {
        m_job.cancel();
        m_away = false;
        m_index = nullptr;
        m_stepsKnown = 0;
        m_tiles.clear();
        m_glyphs.clear();
        m_blocksZoomed = false;
        m_seen = cursor()->sharedRecording();
        m_lane = cursor()->lane();
    }
    if (!lane) {
        setEmpty(tr("Open a model or a scenario to see what became of its blocks."));
        setSubtitle({});
        return;
    }
    const QString name = QString::fromStdString(lane->info().name);
    if (!lane->info().kv_cache || lane->info().blocks < 2) {
        setSubtitle(tr("lane %1").arg(name));
        setEmpty(tr("Lane %1 keeps no KV cache: it has no blocks and no history of them.").arg(name));
        return;
    }
    if (lane->step_count() == 0) {
        setSubtitle(tr("%1 blocks of %2 slots").arg(formatCount(lane->info().blocks)).arg(lane->info().block_size));
        setEmpty(tr("No step has run yet: every block is free."), tr("Step"), QStringLiteral("step"));
        return;
    }
    setEmpty({});
    if (!m_index) m_index = std::make_shared<HistoryIndex>(m_seen, m_lane);
    catchUpIndex();
    explain();
}

void HistoryView::refreshSelection() {
    explain();
    update();
}

// New steps are read here where they are few, else by a job that takes the index away until it is done.
void HistoryView::catchUpIndex() {
    const LaneRecord* lane = cursor()->laneRecord();
    const auto target = static_cast<std::uint32_t>(lane->step_count());
    if (m_away || m_index->steps() >= target) return;
    const std::uint64_t events = lane->step(target - std::size_t{1}).events.end - m_index->eventsRead();
    if (events + lane->info().blocks > cost_inline) {
        readInBackground(target);
        return;
    }
    if (m_job.running()) return;  // it counts a tile and reads the index; its end comes back here
    m_index->advance(target, std::atomic<bool>(false));
    m_stepsKnown = m_index->steps();
}

void HistoryView::readInBackground(std::uint32_t target) {
    if (m_job.running()) return;
    m_away = true;
    m_job.start([index = m_index, target](const BackgroundJob::Cancelled& cancelled) {
        index->advance(target, cancelled);
    }, [this] {
        m_away = false;
        m_stepsKnown = m_index->steps();
        if (!isEmptyShown()) catchUpIndex();
        explain();
        update();
    });
}

// The picture does not reach what the cursor stands on.
bool HistoryView::stale() const {
    return m_away && static_cast<int>(m_stepsKnown) <= cursor()->stepOf(cursor()->lane());
}

std::uint64_t HistoryView::memoryBytes() const {
    return m_tiles.memoryBytes() + (index() ? index()->memoryBytes() : 0);
}

void HistoryView::explain() {
    const LaneRecord* lane = cursor()->laneRecord();
    if (isEmptyShown() || !lane) return;
    setStale(stale());
    QString text = tr("lane %1 · physical block by step").arg(QString::fromStdString(lane->info().name));
    const HistoryFrame now = frame();
    if (now.blockLevel > 0 && now.stepLevel > 0)
        text += tr(" · folded: %1 blocks × %2 steps per cell").arg(formatCount(now.blocksPerCell()), formatCount(now.stepsPerCell()));
    else if (now.folded())
        text += now.blockLevel > 0 ? tr(" · folded: %1 blocks per cell").arg(formatCount(now.blocksPerCell()))
                                   : tr(" · folded: %1 steps per cell").arg(formatCount(now.stepsPerCell()));
    if (index())
        if (const std::size_t left = marksLeftOut(now); left > 0)
            text += tr(" · %1 forks, copies and preemptions in sight are not marked: zoom in").arg(formatCount(left));
    if (cursor()->locked().block)
        text += tr(" · block %1 locked, Esc clears").arg(cursor()->locked().block->value);
    if (zoomState().isValid()) text += tr(" · zoomed, F shows all");
    if (index()) text += tr(" · index %1 %2").arg(originMark(Origin::measured), formatBytes(memoryBytes()));
    setSubtitle(text);
}

HistoryFrame HistoryView::frameFor(const QRectF& area) const {
    HistoryFrame frame;
    const double scale = unit();
    const bool wide = area.width() > 520 * scale;
    const double left = (wide ? 92 : 68) * scale;
    double top = area.top() + 6 * scale;
    if (area.height() > 150 * scale) {
        frame.legend = QRectF(area.left() + 10 * scale, area.top() + 3 * scale, area.width() - 24 * scale, 16 * scale);
        top = frame.legend.bottom() + 15 * scale;  // preemptions stand in between
    }
    const double ticks = StepAxis::height * scale;
    frame.plot = QRectF(area.left() + left, top, std::max(1.0, area.width() - left - 14 * scale),
                        std::max(1.0, area.bottom() - top - ticks - 2 * scale));
    frame.labels = QRectF(area.left() + 4 * scale, top, left - 10 * scale, frame.plot.height());
    frame.axis = StepAxis::over(frame.plot, QRectF(frame.plot.left(), frame.plot.bottom(), frame.plot.width(), ticks),
                                m_steps.of(cursor()->stepCount()));
    const double blocks = m_blocksZoomed ? m_blockEnd - m_blockBegin : blockCount();
    frame.firstBlock = m_blocksZoomed ? m_blockBegin : 0;
    frame.perBlock = frame.plot.height() / std::max(1e-6, blocks);
    frame.blockLevel = levelFor(frame.perBlock, least_row);
    frame.stepLevel = levelFor(frame.axis.perStep, least_step);
    return frame;
}

std::vector<HistoryTileKey> HistoryView::missingTiles(const HistoryFrame& frame) {
    std::vector<HistoryTileKey> missing;
    if (!index()) return missing;
    const double edge = HistoryTile::edge;
    const auto tileOf = [edge](double at, std::uint8_t level) {
        return static_cast<std::uint32_t>(std::max(0.0, std::floor(at / (edge * std::exp2(level)))));
    };
    const double lastBlock = std::min(frame.blockAt(frame.plot.bottom()), static_cast<double>(m_index->blocks())) - 1e-9;
    const double lastStep = std::min(frame.axis.end, static_cast<double>(m_index->steps())) - 1e-9;
    const std::uint32_t firstRow = tileOf(frame.firstBlock, frame.blockLevel), lastRow = tileOf(lastBlock, frame.blockLevel);
    const std::uint32_t firstColumn = tileOf(frame.axis.begin, frame.stepLevel), lastColumn = tileOf(lastStep, frame.stepLevel);
    for (std::uint32_t row = firstRow; row <= lastRow; ++row)
        for (std::uint32_t column = firstColumn; column <= lastColumn; ++column) {
            const HistoryTileKey key{frame.blockLevel, frame.stepLevel, row, column};
            const auto found = m_tiles.find(key, m_index->steps());
            if (!found.tile || found.stale) missing.push_back(key);
        }
    // From the middle outwards, because that is where one looks.
    const double middleRow = (firstRow + lastRow) / 2.0, middleColumn = (firstColumn + lastColumn) / 2.0;
    std::stable_sort(missing.begin(), missing.end(), [&](const HistoryTileKey& a, const HistoryTileKey& b) {
        const auto far = [&](const HistoryTileKey& key) { return std::abs(key.row - middleRow) + std::abs(key.column - middleColumn); };
        return far(a) < far(b);
    });
    return missing;
}

// Counts what is missing in sight: at once where it is little or must be complete, else one tile by a job, whose end
// draws again and so asks for the next one.
void HistoryView::countTiles(const HistoryFrame& frame, bool wait) {
    const std::vector<HistoryTileKey> missing = missingTiles(frame);
    if (missing.empty() || (m_job.running() && !wait)) return;
    const std::atomic<bool> never(false);
    std::uint64_t cost = 0;
    for (const HistoryTileKey& key : missing) {
        cost += tileCost(*m_index, key);
        if (cost > cost_inline && !wait) break;
        m_tiles.insert(key, countTile(*m_index, key, never));
    }
    if (cost <= cost_inline || wait) return;
    const auto next = std::find_if(missing.begin(), missing.end(), [this](const HistoryTileKey& key) {
        const auto found = m_tiles.find(key, m_index->steps());
        return !found.tile || found.stale;
    });
    if (next == missing.end()) return;
    auto tile = std::make_shared<std::shared_ptr<const HistoryTile>>();
    m_job.start([index = m_index, key = *next, tile](const BackgroundJob::Cancelled& cancelled) {
        *tile = countTile(*index, key, cancelled);
    }, [this, key = *next, tile] {
        if (*tile) m_tiles.insert(key, *tile);
        if (!isEmptyShown()) catchUpIndex();
        update();
    });
}

bool HistoryView::settled() {
    if (isEmptyShown() || !cursor()->laneRecord()) return true;
    return index() && !m_job.running() && m_index->steps() >= cursor()->laneRecord()->step_count() && missingTiles(frame()).empty();
}

void HistoryView::settle() {
    catchUp();
    if (isEmptyShown()) return;
    while (m_job.running()) m_job.finish();
    if (m_index && m_index->steps() < cursor()->laneRecord()->step_count()) {
        catchUpIndex();
        while (m_job.running()) m_job.finish();
    }
    countTiles(frame(), true);
    explain();
}

QString HistoryView::csv() const {
    QString csv = QStringLiteral("first_block,last_block,first_step,last_step,state,owners\r\n");
    if (isEmptyShown()) return csv;
    const_cast<HistoryView*>(this)->settle();
    if (!index()) return csv;
    const HistoryFrame now = frame();
    const auto firstBlock = static_cast<std::uint32_t>(std::max(1.0, std::floor(now.firstBlock)));
    const auto endBlock = static_cast<std::uint32_t>(std::min<double>(m_index->blocks(), std::ceil(now.blockAt(now.plot.bottom()) - 1e-6)));
    const auto firstStep = static_cast<std::uint32_t>(std::max(0.0, std::floor(now.axis.begin)));
    const auto endStep = static_cast<std::uint32_t>(std::min<double>(m_index->steps(), std::ceil(now.axis.end - 1e-6)));
    const auto row = [&csv](std::uint32_t blockA, std::uint32_t blockB, std::uint32_t stepA, std::uint32_t stepB, const QString& state,
                            const QString& owners) {
        csv += QStringLiteral("%1,%2,%3,%4,%5,%6\r\n").arg(blockA).arg(blockB).arg(stepA).arg(stepB).arg(state, csvField(owners));
    };
    const char* const names[] = {"free", "cached", "used", "shared"};
    std::uint64_t changes = endBlock > firstBlock ? endBlock - firstBlock : 0;
    for (const auto& slab : m_index->slabs())
        if (slab->end > firstStep && slab->begin < endStep && endBlock > firstBlock)
            changes += slab->offsets[endBlock] - slab->offsets[firstBlock];
    if (changes <= csv_rows) {
        for (std::uint32_t block = firstBlock; block < endBlock; ++block)
            for (const HistoryIndex::Interval& each : m_index->intervals(block, firstStep, endStep)) {
                QStringList owners;
                if (HistoryIndex::kindOf(each.code) != BlockKind::cached)
                    for (const SequenceId owner : m_index->owners(each.code))
                        owners << sequenceLabel(*m_seen, m_index->lane(), owner);
                row(block, block, each.begin, each.end - 1, QLatin1String(names[static_cast<int>(HistoryIndex::kindOf(each.code))]),
                    owners.join(QStringLiteral("; ")));
            }
        return csv;
    }
    // Too many to list: the cells as they are drawn, each with its most frequent state.
    const std::uint32_t high = now.blocksPerCell(), wide = now.stepsPerCell();
    for (std::uint32_t block = firstBlock / high * high; block < endBlock; block += high)
        for (std::uint32_t step = firstStep / wide * wide; step < endStep; step += wide) {
            const std::uint8_t cell = chosen(countCell(*m_index, block, block + high, step, step + wide));
            if (cell == history_cell::outside) continue;
            row(std::max(block, 1u), std::min(block + high, m_index->blocks()) - 1, step, std::min(step + wide, m_index->steps()) - 1,
                QLatin1String(cell >= history_cell::owned ? names[2] : cell == history_cell::shared ? names[3] : names[cell]), {});
        }
    return csv;
}

}  // namespace kvloupe
