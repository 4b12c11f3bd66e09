// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/prefix_tree_view.h"

#include "engine/record/describe.h"
#include "views/csv_line.h"
#include "views/event_search.h"
#include "views/format.h"
#include "views/picking.h"

#include <QElapsedTimer>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr double axis_height = 20;
constexpr int build_share = 8;   // while a run goes on, the tree may take this part of the time

}  // namespace

PrefixTreeView::PrefixTreeView(Cursor* cursor, QWidget* parent)
    : ListView(QStringLiteral("prefix-tree"), tr("Prefix tree"), cursor, parent) {}

void PrefixTreeView::fit() {
    m_range.fit();
    ListView::fit();
    explain();
    update();
}

void PrefixTreeView::setZoomState(const QVariant& state) {
    m_range.setState(state);
    explain();
    update();
}

double PrefixTreeView::stripHeight() const {
    return (height() > 260 * unit() ? 42 : height() > 120 * unit() ? 22 : 0) * unit();
}

void PrefixTreeView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    m_state.reset();
    if (const LaneState* state = cursor()->state()) m_state = *state;  // a copy shares its pages
    m_tree.clear();
    setSubtitle({});
    const auto empty = [this](const QString& sentence, bool step = false) {
        setCards({});
        setEmpty(sentence, step ? tr("Step") : QString(), step ? QStringLiteral("step") : QString());
    };
    if (!lane) return empty(tr("Open a model or a scenario to see which prefixes its blocks hold."));
    if (!lane->info().kv_cache)
        return empty(tr("Lane %1 keeps no KV cache: there are no blocks that hold a prefix.").arg(QString::fromStdString(lane->info().name)));
    if (!m_state) return empty(tr("No step has run yet: no block holds a prefix."), true);
    QElapsedTimer clock;
    clock.start();
    const auto again = [this] {
        refresh();
        update();
    };
    m_history.follow(cursor()->sharedRecording(), cursor()->lane(), again);
    m_tokens.follow(cursor()->sharedRecording(), cursor()->lane(), again);
    m_blockSize = std::max(1u, m_state->block_size());
    const auto step = static_cast<std::uint32_t>(cursor()->stepOf(cursor()->lane()));
    if (m_history->steps() <= step)  // who wrote a block that nobody owns is known from its steps only
        return empty(tr("Who wrote which block is being read from %1 steps.").arg(formatCount(lane->step_count())));
    m_tree.build({*cursor()->recording(), cursor()->lane(), *m_state, *m_history, step}, {});
    lookOver();
    m_interval = std::max(40, static_cast<int>(clock.elapsed()) * build_share);
    if (m_tree.rows().empty())
        return empty(tr("After step %1 no block is owned, cached or lately evicted.").arg(formatCount(step)));
    setEmpty({});
    setFixedStrip(stripHeight());
    layOut();
    explain();
}

void PrefixTreeView::settle() {
    m_history.settle();
    m_tokens.settle();
}

void PrefixTreeView::lookOver() {
    m_occurs = {};
    PrefixTree::Node& sample = m_occurs.ownedSample;
    sample.filled = m_blockSize;
    sample.owners = 1;
    for (const PrefixTree::Node& node : m_tree.nodes()) {
        m_occurs.hit |= node.hits > 0;
        m_occurs.next |= node.next == 1;
        m_occurs.gone |= node.orphan;
        if (node.evicted) {
            m_occurs.evicted = true;
            continue;
        }
        ++m_occurs.present;
        if (node.owners > 1 && !m_occurs.shared) m_occurs.sharedSample = node;
        // Plain hues first.
        if (node.owners == 1 && (!m_occurs.owned || (Palette::repeats(sample.owner.value) && !Palette::repeats(node.owner.value))))
            sample.owner = node.owner;
        m_occurs.owned |= node.owners == 1;
        m_occurs.shared |= node.owners > 1;
        m_occurs.cached |= node.owners == 0;
    }
    m_occurs.sharedSample.hits = 0;
}

void PrefixTreeView::layOut() {
    setFixedStrip(stripHeight());
    const double row = 24 * unit(), top = axis_height * unit();
    std::vector<Card> cards;
    cards.reserve(m_tree.rows().size());
    for (std::size_t i = 0; i < m_tree.rows().size(); ++i) cards.push_back({top + static_cast<double>(i) * row, row, true});
    setCards(std::move(cards));
    if (!isEmptyShown() && m_state) explain();
}

void PrefixTreeView::explain() {
    if (!m_state || m_tree.rows().empty()) return;
    const LaneRecord& lane = *cursor()->laneRecord();
    const std::size_t present = m_occurs.present;
    QStringList parts{tr("at step %1").arg(formatCount(static_cast<quint64>(cursor()->stepOf(cursor()->lane())))),
                      tr("one cell per block"), present == 1 ? tr("1 block") : tr("%1 blocks").arg(formatCount(present))};
    const CachePolicy& policy = lane.info().policy;
    if (policy.prefix_caching)
        parts << (policy.prefix_index == "radix" ? tr("radix tree, %1").arg(QString::fromStdString(policy.radix_eviction)) : tr("chained hashes"));
    else
        parts << tr("prefix caching is off: only what sequences own");
    const Layout layout = layoutFor(QRectF(rect()));
    if (layout.folded()) parts << tr("folded: %1 blocks per cell").arg(formatCount(static_cast<quint64>(std::ceil(3 / std::max(1e-9, layout.cell)))));
    if (m_tokens.reading()) parts << tr("reading texts");
    if (m_range.zoomed()) parts << tr("zoomed, F shows all");
    setSubtitle(parts.join(QStringLiteral(" · ")));
}

PrefixTreeView::Layout PrefixTreeView::layoutFor(const QRectF& area) const {
    Layout layout;
    const double scale = unit(), width = std::min(area.width(), contentWidth());
    layout.left = area.left();
    const double names = (width > 420 * scale ? 96 : 56) * scale;
    layout.row = 24 * scale;
    layout.plot = QRectF(area.left() + names, area.top() + axis_height * scale, std::max(20.0, width - names - 10 * scale),
                         std::max(0.0, area.height() - axis_height * scale - stripHeight()));
    // Where everything is in sight, room for the sentence behind the deepest row.
    const double texts = m_range.zoomed() || width < 420 * scale ? 0 : std::min(190 * scale, width * 0.36);
    const auto [begin, end] = m_range.of(static_cast<int>(m_tree.deepest() * m_blockSize));
    layout.begin = begin;
    layout.end = end;
    // A short tree does not get cells of arbitrary width.
    layout.perToken = std::max(10.0, layout.plot.width() - texts) / (end - begin);
    if (!m_range.zoomed()) layout.perToken = std::min(layout.perToken, 40 * scale / m_blockSize);
    layout.cell = layout.perToken * m_blockSize;
    return layout;
}

QRectF PrefixTreeView::cell(const Layout& layout, std::uint32_t place, std::uint32_t row) const {
    const PrefixTree::Node& node = m_tree.nodes()[m_tree.order()[place]];
    const double top = layout.plot.top() + row * layout.row - offset();
    const double left = x(layout, static_cast<double>(node.logical) * m_blockSize);
    return QRectF(left, top + layout.row * 0.2, layout.cell - (layout.cell > 6 ? 1 : 0), layout.row * 0.6);
}

QRectF PrefixTreeView::cellRect(std::uint32_t node) const {
    const Layout layout = layoutFor(QRectF(rect()));
    const std::uint32_t row = m_tree.rowOf(node);
    if (row >= m_tree.rows().size() || layout.folded()) return {};
    for (std::uint32_t place = m_tree.rows()[row].begin; place < m_tree.rows()[row].end; ++place)
        if (m_tree.order()[place] == node) {
            const QRectF box = cell(layout, place, row);
            return layout.plot.contains(box.center()) ? box : QRectF();
        }
    return {};
}

std::uint32_t PrefixTreeView::nodeAt(const Layout& layout, const QPointF& point) const {
    if (isEmptyShown() || !layout.plot.contains(point)) return PrefixTree::none;
    const auto row = static_cast<std::size_t>((point.y() - layout.plot.top() + offset()) / layout.row);
    if (row >= m_tree.rows().size()) return PrefixTree::none;
    const PrefixTree::Row& chain = m_tree.rows()[row];
    const auto& order = m_tree.order();
    const auto logical = static_cast<std::uint32_t>(std::max(0.0, layout.begin + (point.x() - layout.plot.left()) / layout.perToken) / m_blockSize);
    const auto found = std::partition_point(order.begin() + chain.begin, order.begin() + chain.end,
                                            [&](std::uint32_t n) { return m_tree.nodes()[n].logical < logical; });
    if (found == order.begin() + chain.end || m_tree.nodes()[*found].logical != logical) return PrefixTree::none;
    return *found;
}

Pick PrefixTreeView::pickNode(std::uint32_t n) const {
    if (n >= m_tree.nodes().size()) return {};
    const PrefixTree::Node& node = m_tree.nodes()[n];
    Pick pick;
    pick.lane = cursor()->lane();
    if (node.evicted) {
        pick.event = node.event;  // its physical block may hold something else now
        return pick;
    }
    pick = pickBlock(*cursor(), node.block);
    return pick;
}

Pick PrefixTreeView::pickOf(int card) const {
    const PrefixTree::Row& row = m_tree.rows()[static_cast<std::size_t>(card)];
    return pickNode(m_tree.order()[std::min(row.begin + m_column, row.end - 1)]);
}

void PrefixTreeView::choose(int card) { cursor()->lock(pickOf(card)); }

void PrefixTreeView::mouseMoveEvent(QMouseEvent* event) {
    ListView::mouseMoveEvent(event);
    cursor()->setHover(pickNode(nodeAt(layoutFor(QRectF(rect())), event->position())));
}

void PrefixTreeView::mousePressEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || isEmptyShown()) return;
    const Pick pick = pickNode(nodeAt(layoutFor(QRectF(rect())), event->position()));
    if (!pick.empty()) cursor()->lock(pick);
}

std::optional<std::uint32_t> PrefixTreeView::stepOf(std::uint32_t node) const {
    if (node == PrefixTree::none || m_tree.nodes()[node].event == UINT64_MAX) return {};
    return EventSearch(*cursor()->recording(), *cursor()->laneRecord()).stepOf(m_tree.nodes()[node].event);
}

void PrefixTreeView::goTo(std::uint32_t node) {
    if (const auto step = stepOf(node)) cursor()->setStep(static_cast<int>(*step));
}

void PrefixTreeView::mouseDoubleClickEvent(QMouseEvent* event) {
    if (event->button() == Qt::LeftButton && !isEmptyShown()) goTo(nodeAt(layoutFor(QRectF(rect())), event->position()));
}

void PrefixTreeView::wheelEvent(QWheelEvent* event) {
    if (!(event->modifiers() & Qt::ControlModifier) || isEmptyShown()) {
        ListView::wheelEvent(event);
        return;
    }
    const Layout layout = layoutFor(QRectF(rect()));
    const double pivot = layout.begin + (event->position().x() - layout.plot.left()) / layout.perToken;
    m_range.zoom(std::pow(0.8, event->angleDelta().y() / 120.0), std::max(0.0, pivot), 0, static_cast<int>(m_tree.deepest() * m_blockSize));
    event->accept();
    zoomChanged();
    explain();
    update();
}

void PrefixTreeView::keyPressEvent(QKeyEvent* event) {
    const int card = currentCard();
    const bool sideways = event->key() == Qt::Key_Left || event->key() == Qt::Key_Right;
    if (sideways && card >= 0 && !isEmptyShown()) {
        const PrefixTree::Row& row = m_tree.rows()[static_cast<std::size_t>(card)];
        const std::uint32_t last = row.end - row.begin - 1;
        m_column = std::min(m_column, last);
        if (event->key() == Qt::Key_Right) m_column = std::min(m_column + 1, last);
        else if (m_column > 0) --m_column;
        cursor()->setHover(pickOf(card));
        update();
        return;
    }
    if ((event->key() == Qt::Key_Plus || event->key() == Qt::Key_Equal || event->key() == Qt::Key_Minus) && !isEmptyShown()) {
        const auto [begin, end] = m_range.of(static_cast<int>(m_tree.deepest() * m_blockSize));
        m_range.zoom(event->key() == Qt::Key_Minus ? 1.25 : 0.8, m_range.zoomed() ? (begin + end) / 2 : 0, 0,
                     static_cast<int>(m_tree.deepest() * m_blockSize));
        zoomChanged();
        explain();
        update();
        return;
    }
    if ((event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter) && event->modifiers() & Qt::ControlModifier && card >= 0) {
        const PrefixTree::Row& row = m_tree.rows()[static_cast<std::size_t>(card)];
        return goTo(m_tree.order()[std::min(row.begin + m_column, row.end - 1)]);
    }
    if (event->key() == Qt::Key_Up || event->key() == Qt::Key_Down) m_column = 0;
    ListView::keyPressEvent(event);
}

QString PrefixTreeView::owners(const PrefixTree::Node& node, std::size_t limit) const {
    constexpr std::size_t enough = 64;  // a system prompt may have thousands
    std::vector<SequenceId> all = m_state->owners_of(node.block, std::max(limit, enough));
    std::sort(all.begin(), all.end());
    QStringList names;
    for (std::size_t i = 0; i < std::min(limit, all.size()); ++i)
        names << sequenceName(*cursor()->recording(), *cursor()->laneRecord(), all[i]);
    const QString text = names.join(QStringLiteral(", "));
    return node.owners > limit ? tr("%1 +%2").arg(text, formatCount(node.owners - limit)) : text;
}

QString PrefixTreeView::stateName(const PrefixTree::Node& node) const {
    if (node.evicted) return tr("evicted");
    if (node.owners > 1) return tr("shared");
    if (node.owners == 1) return tr("in use");
    return node.held ? tr("held by the radix tree") : tr("free but cached");
}

QString PrefixTreeView::blockText(const PrefixTree::Node& node, int longest) const {
    return m_tokens->text(node.writer, node.logical * m_blockSize, std::max(1u, node.filled), longest);
}

QString PrefixTreeView::rowName(const PrefixTree::Row& row) const {
    const PrefixTree::Node& first = m_tree.nodes()[m_tree.order()[row.begin]];
    if (first.owners > 0) return owners(first, first.owners > 3 ? 2 : 3);
    return m_tokens->text(first.writer, first.logical * m_blockSize, m_blockSize, 40);
}

QStringList PrefixTreeView::rowFacts(const PrefixTree::Row& row) const {
    std::uint64_t tokens = 0, evicted = 0;
    std::uint32_t hits = 0, next = 0;
    for (std::uint32_t place = row.begin; place < row.end; ++place) {
        const PrefixTree::Node& node = m_tree.nodes()[m_tree.order()[place]];
        (node.evicted ? evicted : tokens) += node.filled;
        hits = std::max(hits, node.hits);
        if (node.next && (!next || node.next < next)) next = node.next;
    }
    QStringList parts;
    if (tokens || !evicted) parts << tr("%1 tokens").arg(formatCount(tokens));
    if (evicted) parts << tr("%1 evicted").arg(formatCount(evicted));
    if (m_state->groups() > 1) parts << tr("group %1").arg(m_tree.nodes()[m_tree.order()[row.begin]].group);
    if (hits) parts << (hits == 1 ? tr("1 hit") : tr("%1 hits").arg(formatCount(hits)));
    parts.first().prepend(originMark(Origin::measured) + QLatin1Char(' '));
    if (!next) return parts;
    const QString goes = next == 1 ? tr("goes next") : tr("goes as no. %1").arg(formatCount(next));
    parts << (m_tree.predicted() ? originMark(Origin::predicted) + QLatin1Char(' ') + goes : goes);
    return parts;
}

QString PrefixTreeView::describe(const PrefixTree::Node& node) const {
    const Recording& recording = *cursor()->recording();
    const LaneRecord& lane = *cursor()->laneRecord();
    const QString measured = originMark(Origin::measured);
    const std::uint32_t first = node.logical * m_blockSize;
    QStringList lines{tr("Block %1, %2, positions %3–%4").arg(QString::number(node.block.value), stateName(node), formatCount(first),
                                                           formatCount(first + std::max(1u, node.filled) - 1))};
    if (const QString text = blockText(node, 120); !text.isEmpty()) lines << QStringLiteral("“%1”").arg(text);
    if (node.owners > 0) lines << tr("%1 %2: %3").arg(measured, node.owners == 1 ? tr("1 owner") : tr("%1 owners").arg(node.owners), owners(node, 8));
    if (node.hashed || node.evicted) lines << tr("%1 hash %2").arg(measured, QString::number(node.hash, 16).rightJustified(16, QLatin1Char('0')));
    lines << tr("%1 hit %2 times since its content began").arg(measured, formatCount(node.hits));
    if (node.next)
        lines << (m_tree.predicted() ? tr("%1 no. %2 of the leaves to go, by %3")
                                           .arg(originMark(Origin::predicted), formatCount(node.next), QString::fromStdString(lane.info().policy.radix_eviction))
                                     : tr("%1 no. %2 in the free queue").arg(measured, formatCount(node.next)));
    if (node.orphan) lines << tr("The block before it is gone: no request can hit it until that is computed again.");
    if (node.evicted) lines << tr("Step %1: %2").arg(formatCount(node.evictedAt), QString::fromStdString(describe_event(recording, lane, node.event)));
    if (const auto step = stepOf(m_tree.nodeOf(node.block)); step && !node.evicted)
        lines << tr("Its content began in step %1: a double click goes there (Ctrl+Return).").arg(formatCount(*step));
    if (node.evicted) lines << tr("A double click goes there (Ctrl+Return).");
    return lines.join(QLatin1Char('\n'));
}

QString PrefixTreeView::tipAt(const QPointF& position) const {
    const std::uint32_t node = nodeAt(layoutFor(QRectF(rect())), position);
    return node == PrefixTree::none ? QString() : describe(m_tree.nodes()[node]);
}

QString PrefixTreeView::csv() const {
    const QString next = m_tree.predicted() ? QStringLiteral("goes_as_number_predicted") : QStringLiteral("place_in_free_queue_measured");
    QString csv = csvLine({QStringLiteral("row"), QStringLiteral("parent_row"), QStringLiteral("first_position"), QStringLiteral("block"),
                           QStringLiteral("group"), QStringLiteral("state"), QStringLiteral("slots_filled_measured"), QStringLiteral("owners_measured"),
                           QStringLiteral("owner_names"), QStringLiteral("hash"), QStringLiteral("parent_hash"), QStringLiteral("hits_measured"), next,
                           QStringLiteral("text")});
    if (!m_state) return csv;
    const auto hex = [](std::uint64_t hash) { return hash ? QString::number(hash, 16).rightJustified(16, QLatin1Char('0')) : QString(); };
    for (std::size_t r = 0; r < m_tree.rows().size(); ++r) {
        const PrefixTree::Row& row = m_tree.rows()[r];
        for (std::uint32_t place = row.begin; place < row.end; ++place) {
            const PrefixTree::Node& node = m_tree.nodes()[m_tree.order()[place]];
            csv += csvLine({QString::number(r), row.parentRow == PrefixTree::none ? QString() : QString::number(row.parentRow),
                            QString::number(node.logical * m_blockSize), QString::number(node.block.value), QString::number(node.group),
                            stateName(node), QString::number(node.filled), QString::number(node.owners),
                            node.owners ? owners(node, 64) : QString(), hex(node.hash), hex(node.parentHash), QString::number(node.hits),
                            node.next ? QString::number(node.next) : QString(), blockText(node, 200)});
        }
    }
    return csv;
}

}  // namespace kvloupe
