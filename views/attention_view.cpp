// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/attention_view.h"

#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"
#include "views/reference.h"

#include <QKeyEvent>
#include <QMouseEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr std::size_t ramp_steps = 1024;

}  // namespace

AttentionView::AttentionView(Cursor* cursor, QWidget* parent)
    : View(QStringLiteral("attention"), tr("Attention"), cursor, parent) {}

std::uint32_t AttentionView::groupSize() const { return m_blockSize ? m_blockSize : 16; }

QString AttentionView::tokenAt(std::uint32_t position) const {
    if (position >= m_track.tokens().size()) return {};
    return tokenLabel(cursor()->laneRecord()->vocabulary(), m_track.tokens()[position].token);
}

void AttentionView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    const LaneState* state = cursor()->state();
    const SequenceId sequence = cursor()->sequence();
    m_rows.clear();
    m_wall.clear();
    m_head = QImage();
    m_extent = 0;
    m_compares = false;
    setSubtitle({});
    if (!lane) {
        m_index.clear();
        m_track.clear();
        setEmpty(tr("Open a model or a scenario to see its attention."));
        return;
    }
    if (!state || !sequence.valid() || sequence.value >= state->sequences().size()) {
        setEmpty(tr("No sequence has arrived yet. The first step computes attention."), tr("Step"), QStringLiteral("step"));
        return;
    }
    const LaneInfo& info = lane->info();
    m_step = static_cast<std::size_t>(cursor()->stepOf(cursor()->lane()));
    m_layers = info.layers;
    m_heads = info.query_heads;
    m_latent = info.latent_rank > 0;
    m_kvHeads = m_latent ? 1 : std::max(1u, info.kv_heads);
    m_blockSize = info.kv_cache ? state->block_size() : 0;
    m_table = state->sequences()[sequence.value].table;
    const auto again = [this] {
        refresh();
        update();
    };
    m_index.update(cursor()->sharedRecording(), cursor()->lane(), sequence, again);
    m_track.update(cursor()->sharedRecording(), cursor()->lane(), sequence, m_step, again);
    const QString who = sequenceLabel(*cursor()->recording(), *lane, sequence);
    if (m_layers == 0) {
        setEmpty(tr("Lane %1 does no arithmetic, so there is no attention.").arg(QString::fromStdString(info.name)));
        return;
    }
    if (!m_index.anything(m_step)) {
        if (m_index.reading(m_step)) {
            setEmpty(tr("The attention of sequence %1 is being read.").arg(who));
            return;
        }
        // What waits has no attention yet; what has ended gets none by watching.
        const SequenceStatus status = state->sequences()[sequence.value].status;
        if (status == SequenceStatus::arrived) {
            setEmpty(tr("Sequence %1 waits to be admitted: none of its tokens has run.").arg(who));
            return;
        }
        if (status == SequenceStatus::rejected) {
            setEmpty(tr("Sequence %1 was rejected: none of its tokens has run.").arg(who));
            return;
        }
        const std::uint32_t layer = std::min(cursor()->layer(), m_layers - 1);
        const std::uint64_t dropped = lane->dropped_attention_rows();
        setEmpty(dropped ? tr("No attention of sequence %1 was kept: %2 rows went beyond the recording's memory budget.")
                               .arg(who, formatCount(dropped))
                         : tr("No attention of sequence %1 is recorded up to this step.").arg(who),
                 tr("Watch layer %1").arg(layer), QStringLiteral("watch:%1").arg(layer));
        return;
    }
    const Reference* reference = cursor()->reference();
    if (reference && m_showDifference && !reference->isSameLane()) {
        m_compares = updateThere();
        if (!m_compares && m_thereIndex.reading(m_thereStep)) {
            setEmpty(tr("The attention of sequence %1 in %2 is being read.").arg(who, reference->label()));
            return;
        }
        if (!m_compares) {
            setEmpty(tr("No attention of sequence %1 is recorded in %2 up to its step %3. C shows this lane's own.")
                         .arg(who, reference->label(), formatCount(static_cast<quint64>(std::max(reference->step(), 0)))));
            return;
        }
    }
    setEmpty({});
    m_rows = m_index.rows(cursor()->layer(), cursor()->head(), m_step);
    m_extent = static_cast<std::uint32_t>(m_rows.size());
    m_places = placesFor(QRectF(rect()));
    const double pixels = devicePixelRatioF();
    m_wall.resize(std::size_t{m_layers} * m_heads);
    const int width = static_cast<int>(m_places.plot.width() * pixels), height = static_cast<int>(m_places.plot.height() * pixels);
    m_there.clear();
    if (m_compares) {
        buildDifferenceImages(width, height);
    } else {
        m_head = imageOf(m_rows, width, height);
        for (std::uint32_t layer = 0; layer < m_layers; ++layer)
            for (std::uint32_t head = 0; head < m_heads; ++head)
                if (m_index.recorded(layer, head, m_step))
                    m_wall[std::size_t{layer} * m_heads + head] =
                        imageOf(m_index.rows(layer, head, m_step), static_cast<int>(m_places.cellWidth * pixels),
                                static_cast<int>(m_places.cellHeight * pixels));
    }
    QString text = m_compares ? tr("sequence %1 · here minus %2 · rows: query, columns: key").arg(who, reference->label())
                              : tr("sequence %1 · rows: query, columns: key").arg(who);
    if (const std::uint64_t dropped = lane->dropped_attention_rows())
        text += tr(" · %1 rows beyond the budget not kept").arg(formatCount(dropped));
    if (m_blockSize > 0 && m_table.empty()) text += tr(" · blocks given back");
    if (m_index.reading(m_step)) text += tr(" · reading rows");
    setSubtitle(text);
}

void AttentionView::settle() {
    m_index.settle();
    m_thereIndex.settle();
    m_track.settle();
}

void AttentionView::refreshSelection() { update(); }

const std::vector<QRgb>& AttentionView::colourRamp() const {
    const Palette& colours = palette_();
    if (m_rampOf != &colours) {
        m_rampOf = &colours;
        m_ramp.resize(ramp_steps + 1);
        for (std::size_t i = 0; i <= ramp_steps; ++i)
            m_ramp[i] = colours.attentionColour(static_cast<double>(i) / ramp_steps).rgb();
    }
    return m_ramp;
}

QImage AttentionView::imageOf(const std::vector<const AttentionRow*>& rows, int width, int height) const {
    const int extent = static_cast<int>(rows.size());
    if (extent == 0 || width < 1 || height < 1) return {};
    const Palette& colours = palette_();
    const int columns = std::min(extent, width), lines = std::min(extent, height);
    QImage image(columns, lines, QImage::Format_RGB32);
    image.fill(colours.attention[0]);
    const auto& weights = cursor()->laneRecord()->attention_weights();
    const std::vector<QRgb>& ramp = colourRamp();
    std::vector<float> copied;
    for (int y = 0; y < lines; ++y) {
        // The newest row of those that share a line of pixels.
        const int last = static_cast<int>((static_cast<qint64>(y) + 1) * extent / lines) - 1;
        const AttentionRow* row = rows[static_cast<std::size_t>(last)];
        auto* line = reinterpret_cast<QRgb*>(image.scanLine(y));
        if (!row) continue;
        const int keys = static_cast<int>(row->key_count);
        // A row lies in one piece of the log nearly always; one that crosses a border of its chunks is copied.
        const float* values = keys > 0 ? &weights[row->weights_begin] : nullptr;
        if (keys > 0 && &weights[row->weights_begin + row->key_count - 1] != values + keys - 1) {
            copied.resize(row->key_count);
            for (std::uint32_t key = 0; key < row->key_count; ++key) copied[key] = weights[row->weights_begin + key];
            values = copied.data();
        }
        for (int x = 0; x < columns; ++x) {
            const int begin = static_cast<int>(static_cast<qint64>(x) * extent / columns);
            const int end = std::min(keys, static_cast<int>((static_cast<qint64>(x) + 1) * extent / columns));
            float largest = 0;
            for (int key = begin; key < end; ++key)
                largest = std::max(largest, values[key]);
            // Square root: long rows spread one unit of mass over many keys.
            if (begin < end)
                line[x] = ramp[static_cast<std::size_t>(std::sqrt(std::clamp(largest, 0.0f, 1.0f)) * ramp_steps)];
        }
    }
    return image;
}

const AttentionRow* AttentionView::queryRow() const {
    const Pick& lock = cursor()->locked();
    if (lock.position && *lock.position < m_rows.size() && m_rows[*lock.position] &&
        (!lock.sequence || *lock.sequence == cursor()->sequence()))
        return m_rows[*lock.position];
    for (auto row = m_rows.rbegin(); row != m_rows.rend(); ++row)
        if (*row) return *row;
    return nullptr;
}

AttentionView::Places AttentionView::placesFor(const QRectF& area) const {
    Places places;
    const double scale = unit(), margin = 10 * scale;
    const QRectF room = area.adjusted(margin, 6 * scale, -margin, -8 * scale);
    const bool wide = room.width() > room.height() * 1.45;
    const double labels = 26 * scale, headsLine = 18 * scale;
    QRectF wall = room, rest = room;
    if (wide) {
        wall.setWidth(room.width() * 0.36);
        rest.setLeft(wall.right() + 16 * scale);
    } else {
        wall.setHeight(room.height() * 0.42);
    }
    places.groupGap = m_kvHeads > 1 && m_kvHeads < m_heads ? std::min(10.0 * scale, wall.width() / (6.0 * m_kvHeads)) : 0;
    const double columns = std::max(1u, m_heads), lines = std::max(1u, m_layers);
    places.cellWidth = std::max(1.0, std::min((wall.width() - labels - places.groupGap * (m_kvHeads - 1)) / columns, 64 * scale));
    places.cellHeight = std::max(1.0, std::min((wall.height() - headsLine) / lines, places.cellWidth));
    if (places.cellHeight > 12 * scale) places.cellWidth = std::min(places.cellWidth, places.cellHeight * 1.6);
    places.wall = QRectF(wall.left() + labels, wall.top() + headsLine,
                         places.cellWidth * columns + places.groupGap * (m_kvHeads - 1), places.cellHeight * lines);
    if (!wide) rest.setTop(places.wall.bottom() + 10 * scale);
    places.head = QRectF(rest.left(), rest.top(), rest.width(), 18 * scale);
    const double left = 28 * scale, top = 36 * scale, legend = 16 * scale;
    const double side = std::max(20.0, std::min(rest.width() * (rest.width() > 300 * scale ? 0.6 : 1.0) - left,
                                                rest.height() - top - legend));
    places.plot = QRectF(rest.left() + left, rest.top() + top, side, side);
    places.side = QRectF(places.plot.right() + 16 * scale, rest.top(), rest.right() - places.plot.right() - 16 * scale,
                         rest.height());
    places.link = QRectF(rest.left(), rest.top() + 22 * scale, std::min(rest.width(), 220 * scale), 22 * scale);
    return places;
}

QRectF AttentionView::wallCell(const Places& places, std::uint32_t layer, std::uint32_t head) const {
    const std::uint32_t perGroup = std::max(1u, m_heads / m_kvHeads);
    return QRectF(places.wall.left() + head * places.cellWidth + head / perGroup * places.groupGap,
                  places.wall.top() + layer * places.cellHeight, places.cellWidth, places.cellHeight);
}

std::optional<std::pair<std::uint32_t, std::uint32_t>> AttentionView::wallAt(const QPointF& point) const {
    if (isEmptyShown() || !m_places.wall.contains(point)) return {};
    const auto layer = static_cast<std::uint32_t>((point.y() - m_places.wall.top()) / m_places.cellHeight);
    if (layer >= m_layers) return {};
    for (std::uint32_t head = 0; head < m_heads; ++head)
        if (wallCell(m_places, layer, head).contains(point)) return std::pair(layer, head);
    return {};
}

std::optional<std::pair<std::uint32_t, std::uint32_t>> AttentionView::cellAt(const QPointF& point) const {
    if (isEmptyShown() || m_extent == 0 || !m_places.plot.contains(point)) return {};
    const double pitch = m_places.plot.width() / m_extent;
    const auto query = static_cast<std::uint32_t>((point.y() - m_places.plot.top()) / pitch);
    const auto key = static_cast<std::uint32_t>((point.x() - m_places.plot.left()) / pitch);
    if (query >= m_extent || key > query) return {};
    return std::pair(query, key);
}

QString AttentionView::tipAt(const QPointF& position) const {
    if (const auto head = wallAt(position)) {
        const std::uint32_t perGroup = std::max(1u, m_heads / m_kvHeads);
        return tr("layer %1, query head %2, reads %3%4")
            .arg(QString::number(head->first), QString::number(head->second),
                 m_latent ? tr("the latent that all heads share") : tr("KV head %1").arg(head->second / perGroup),
                 m_index.recorded(head->first, head->second, m_step) ? QString() : tr("\nnot recorded"));
    }
    const auto cell = cellAt(position);
    if (!cell || !m_rows[cell->first]) return {};
    if (m_compares) {
        const AttentionRow* there = thereRow(cell->first);
        const double here = static_cast<double>(m_index.weight(*m_rows[cell->first], cell->second));
        const QString where = tr("query %1 “%2”, key %3 “%4”").arg(QString::number(cell->first), tokenAt(cell->first),
                                                                   QString::number(cell->second), tokenAt(cell->second));
        if (!there) return tr("%1: ● %2 here, not recorded in %3").arg(where, QString::number(here, 'f', 4), cursor()->reference()->label());
        const double other = static_cast<double>(m_thereIndex.weight(*there, cell->second));
        return tr("%1: ● %2 here, ● %3 in %4, ◐ %5")
            .arg(where, QString::number(here, 'f', 4), QString::number(other, 'f', 4), cursor()->reference()->label(),
                 signedWeight(here - other, 5));
    }
    return tr("query %1 “%2” reads key %3 “%4”: %5 %6")
        .arg(QString::number(cell->first), tokenAt(cell->first), QString::number(cell->second), tokenAt(cell->second),
             originMark(Origin::measured),
             QString::number(static_cast<double>(m_index.weight(*m_rows[cell->first], cell->second)), 'f', 4));
}

void AttentionView::mouseMoveEvent(QMouseEvent* event) {
    const auto cell = cellAt(event->position());
    cursor()->setHover(cell ? pickToken(*cursor(), cursor()->sequence(), cell->second) : Pick{});
    const bool link = !isEmptyShown() && m_extent == 0 && m_places.link.contains(event->position());
    setCursor(link ? Qt::PointingHandCursor : Qt::ArrowCursor);
}

void AttentionView::mousePressEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton) return;
    if (const auto head = wallAt(event->position())) {
        cursor()->setHead(head->first, head->second);
    } else if (!isEmptyShown() && m_extent == 0 && m_places.link.contains(event->position())) {
        Q_EMIT emptyAction(QStringLiteral("watch:%1").arg(cursor()->layer()));
    } else if (const auto cell = cellAt(event->position())) {
        cursor()->lock(pickToken(*cursor(), cursor()->sequence(), cell->first));
    }
}

void AttentionView::keyPressEvent(QKeyEvent* event) {
    std::uint32_t layer = cursor()->layer(), head = cursor()->head();
    switch (event->key()) {
    case Qt::Key_Left: head = head > 0 ? head - 1 : 0; break;
    case Qt::Key_Right: head = std::min(head + 1, std::max(m_heads, 1u) - 1); break;
    case Qt::Key_Up: layer = layer > 0 ? layer - 1 : 0; break;
    case Qt::Key_Down: layer = std::min(layer + 1, std::max(m_layers, 1u) - 1); break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
        if (!isEmptyShown() && m_extent == 0) Q_EMIT emptyAction(QStringLiteral("watch:%1").arg(layer));
        return;
    default: View::keyPressEvent(event); return;
    }
    cursor()->setHead(layer, head);
}

QString AttentionView::csv() const {
    QString csv = QStringLiteral("layer,head,query_position,key_position,key_token,weight_measured");
    csv += m_compares ? QStringLiteral(",reference_weight_measured,difference_derived\r\n") : QStringLiteral("\r\n");
    if (isEmptyShown()) return csv;
    const LaneRecord* lane = cursor()->laneRecord();
    for (const AttentionRow* row : m_rows) {
        if (!row) continue;
        for (std::uint32_t key = 0; key < row->key_count; ++key)
            csv += QStringLiteral("%1,%2,%3,%4,%5,%6%7\r\n")
                       .arg(QString::number(row->layer), QString::number(row->head), QString::number(row->position),
                            QString::number(key),
                            key < m_track.tokens().size()
                                ? csvField(tokenText(lane->vocabulary(), m_track.tokens()[key].token)) : QString(),
                            QString::number(static_cast<double>(m_index.weight(*row, key)), 'g', 7), differenceCsv(*row, key));
    }
    return csv;
}

}  // namespace kvloupe
