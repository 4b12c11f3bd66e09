// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/genealogy_view.h"

#include "engine/record/describe.h"
#include "views/csv_line.h"
#include "views/format.h"
#include "views/picking.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

constexpr std::size_t most_lines = 24;  // sequences drawn; of more, those that came first

}  // namespace

GenealogyView::GenealogyView(Cursor* cursor, QWidget* parent)
    : ListView(QStringLiteral("genealogy"), tr("Genealogy"), cursor, parent) {
    connect(cursor, &Cursor::stepRangeChanged, this, &GenealogyView::followSteps);
    followSteps();
}

// The views on the axis of steps show the same part of it.
void GenealogyView::shareSteps() {
    if (m_range.zoomed()) cursor()->setStepRange(range());
    else cursor()->setStepRange(std::nullopt);
}

void GenealogyView::followSteps() {
    const auto& shared = cursor()->stepRange();
    const QVariant wanted = shared ? QVariant(QPointF(shared->first, shared->second)) : QVariant();
    if (wanted == m_range.state()) return;
    m_range.setState(wanted);
    restoreZoom(zoomState());  // another view zoomed: that is no step of this one's own
}

void GenealogyView::fit() {
    m_range.fit();
    shareSteps();
    ListView::fit();
    explain();
    update();
}

void GenealogyView::setZoomState(const QVariant& state) {
    m_range.setState(state);
    shareSteps();
    explain();
    update();
}

double GenealogyView::stripHeight() const { return (height() > 240 * unit() ? 40 : height() > 120 * unit() ? 21 : 0) * unit(); }

// The locked block; else the destination of the last copy up to the cursor.
GenealogyView::Choice GenealogyView::choice() const {
    const int step = cursor()->stepOf(cursor()->lane());
    if (step < 0) return {};
    const LaneRecord& lane = *cursor()->laneRecord();
    const std::uint64_t end = lane.step(static_cast<std::size_t>(step)).events.end;
    const Pick& locked = cursor()->locked();
    if (locked.block && *locked.block != null_block_id && (!locked.lane || *locked.lane == cursor()->lane())) {
        // An event in focus speaks of what the block held then.
        if (locked.event && *locked.event < end) return {*locked.block, *locked.event + 1};
        return {*locked.block, end};
    }
    const auto& copies = m_events.copies();
    const auto after = std::lower_bound(copies.begin(), copies.end(), end);
    if (after == copies.begin()) return {};
    return {BlockId(lane.events()[*(after - 1)].other), *(after - 1) + 1};
}

void GenealogyView::refresh() {
    const LaneRecord* lane = cursor()->laneRecord();
    m_lineage = {};
    m_choice = {};
    setSubtitle({});
    const auto empty = [this](const QString& sentence, bool step = false) {
        setCards({});
        setEmpty(sentence, step ? tr("Step") : QString(), step ? QStringLiteral("step") : QString());
    };
    if (!lane) return empty(tr("Open a model or a scenario to see how its blocks are forked and copied."));
    if (!lane->info().kv_cache)
        return empty(tr("Lane %1 keeps no KV cache: there are no blocks to share or copy.").arg(QString::fromStdString(lane->info().name)));
    const LaneState* state = cursor()->state();
    if (!state) return empty(tr("No step has run yet: no block has an owner."), true);
    m_events.update(*cursor()->recording(), cursor()->lane());
    const auto step = static_cast<std::size_t>(cursor()->stepOf(cursor()->lane()));
    const QString number = formatCount(step);
    m_choice = choice();
    m_chosen = cursor()->locked().block && m_choice.block == *cursor()->locked().block;
    if (!m_choice.block.valid() || m_choice.block.value >= state->blocks().size())
        return empty(tr("No block was copied up to step %1. Click a block in any view to see who has shared it.").arg(number));
    m_lineage = BlockLineage::of(m_events, m_choice.block, m_choice.when, lane->step(step).events.end);
    if (m_lineage.empty()) return empty(tr("Block %1 was not used up to step %2. Click another, or press Esc.").arg(m_choice.block.value).arg(number));
    m_saved = sharingSaved(lane->info(), *state);
    setEmpty({});
    layOut();
    explain();
}

void GenealogyView::refreshSelection() {
    // Only a lock changes which block is shown.
    if (!cursor()->laneRecord()) return;
    const Choice now = choice();
    const bool chosen = cursor()->locked().block && now.block == *cursor()->locked().block;
    if (now != m_choice || chosen != m_chosen) refresh();
    update();
}

void GenealogyView::layOut() {
    setFixedStrip(stripHeight());
    if (m_lineage.empty()) return;
    const Layout layout = layoutFor(QRectF(rect()));
    const double height = (layout.wide ? 21 : 38) * unit();
    std::vector<Card> cards;
    cards.reserve(m_lineage.events().size());
    for (std::size_t i = 0; i < m_lineage.events().size(); ++i)
        cards.push_back({layout.sentences + static_cast<double>(i) * height, height, true});
    setCards(std::move(cards));
    explain();
}

void GenealogyView::explain() {
    if (m_lineage.empty()) return;
    const LaneRecord& lane = *cursor()->laneRecord();
    const BlockLineage::Content& content = m_lineage.contents()[m_lineage.focus()];
    const Event& birth = lane.events()[content.birth];
    const QString step = formatCount(m_events.stepOf(content.birth));
    QStringList parts{m_chosen ? tr("block %1, locked, Esc clears").arg(content.block.value) : tr("block %1, copied last").arg(content.block.value)};
    if (birth.kind == EventKind::copy_on_write) parts << tr("copied from block %1 at step %2").arg(QString::number(birth.block.value), step);
    else if (birth.kind == EventKind::swap_in) parts << tr("swapped in at step %1").arg(step);
    else parts << tr("allocated at step %1").arg(step);
    std::size_t owners = 0;
    std::uint32_t last = 0;
    for (const BlockLineage::Hold& hold : m_lineage.holds()) {
        if (hold.content != m_lineage.focus() || hold.cached) continue;
        owners += hold.end == BlockLineage::open_end;
        if (hold.end != BlockLineage::open_end) last = std::max(last, hold.end - 1);
    }
    parts << (owners == 1 ? tr("1 owner") : owners > 1 ? tr("%1 owners").arg(owners) : tr("left by its last owner at step %1").arg(formatCount(last)));
    const Layout layout = layoutFor(QRectF(rect()));
    const std::size_t folded = m_lineage.lines().size() - layout.shown + m_lineage.left();
    if (folded > 0) parts << tr("folded: %1").arg(formatCount(folded));
    if (m_range.zoomed()) parts << tr("zoomed, F shows all");
    setSubtitle(parts.join(QStringLiteral(" · ")));
}

GenealogyView::Layout GenealogyView::layoutFor(const QRectF& area) const {
    Layout layout;
    const double scale = unit(), width = std::min(area.width(), contentWidth());
    layout.labels = (width > 520 * scale ? 92 : 44) * scale;
    layout.line = 24 * scale;
    layout.shown = std::min(m_lineage.lines().size(), most_lines);
    layout.wide = width > 560 * scale;
    const double left = area.left() + layout.labels, top = area.top() + 4 * scale;
    const double height = static_cast<double>(layout.shown) * layout.line;
    const QRectF plot(left, top, std::max(20.0, width - layout.labels - 14 * scale), height);
    layout.axis = StepAxis::over(plot, QRectF(left, plot.bottom() + 2 * scale, plot.width(), StepAxis::height * scale), range());
    layout.sentences = layout.axis.ticks.bottom() + 8 * scale - area.top();
    return layout;
}

GenealogyView::Told GenealogyView::tell(std::uint64_t index) const {
    const LaneRecord& lane = *cursor()->laneRecord();
    const Event& event = lane.events()[index];
    const std::uint32_t size = std::max(1u, lane.info().block_size), first = m_lineage.logical() * size;
    Told told;
    told.step = m_events.stepOf(index);
    told.sentence = QString::fromStdString(describe_event(*cursor()->recording(), lane, index));
    switch (event.kind) {
    case EventKind::fork: told.position = event.tokens; break;
    case EventKind::copy_on_write:
        told.position = first + event.tokens;  // where its writer goes on: it moves the slots before that
        told.moved = true;
        break;
    case EventKind::swap_in:
    case EventKind::swap_out: told.moved = true; [[fallthrough]];
    default: told.position = first; break;
    }
    if (told.moved) {
        told.slots = event.tokens;
        told.bytes = event.tokens * lane.info().bytes_per_token;
    }
    return told;
}

Pick GenealogyView::pickEvent(std::uint64_t index) const {
    const Event& event = cursor()->laneRecord()->events()[index];
    Pick pick;
    pick.lane = cursor()->lane();
    if (event.sequence.valid()) pick.sequence = event.sequence;
    pick.event = index;
    if (event.kind == EventKind::copy_on_write) pick.block = BlockId(event.other);
    else if (event.block.valid()) pick.block = event.block;
    return pick;
}

Pick GenealogyView::pickHold(const BlockLineage::Hold& hold) const {
    Pick pick;
    pick.lane = cursor()->lane();
    pick.sequence = hold.sequence;
    pick.block = m_lineage.contents()[hold.content].block;
    return pick;
}

std::optional<std::uint32_t> GenealogyView::holdAt(const Layout& layout, const QPointF& point) const {
    const double y = point.y() + offset() - layout.axis.plot.top();
    if (y < 0 || isEmptyShown() || point.y() >= viewportHeight()) return {};
    const auto line = static_cast<std::size_t>(y / layout.line);
    if (line >= layout.shown) return {};
    const auto step = static_cast<std::int64_t>(std::floor(layout.axis.stepAt(point.x())));
    std::optional<std::uint32_t> best;
    for (const std::uint32_t h : m_lineage.lines()[line].holds) {
        const BlockLineage::Hold& hold = m_lineage.holds()[h];
        const std::int64_t end = hold.end == BlockLineage::open_end ? cursor()->stepOf(cursor()->lane()) + 1 : hold.end;
        if (point.x() < layout.axis.plot.left() || (step >= hold.begin && step < end)) best = h;  // the name: the last
    }
    return best;
}

Pick GenealogyView::pickOf(int card) const { return pickEvent(m_lineage.events()[static_cast<std::size_t>(card)]); }

void GenealogyView::choose(int card) {
    // The event comes into focus, and with it the block that it speaks of, which is of the same lineage.
    cursor()->lock(pickOf(card));
}

void GenealogyView::mouseMoveEvent(QMouseEvent* event) {
    ListView::mouseMoveEvent(event);
    const Layout layout = layoutFor(QRectF(rect()));
    if (const auto hold = holdAt(layout, event->position())) cursor()->setHover(pickHold(m_lineage.holds()[*hold]));
}

void GenealogyView::mousePressEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton || isEmptyShown()) return;
    const Layout layout = layoutFor(QRectF(rect()));
    const double y = event->position().y() + offset();
    if (const auto hold = holdAt(layout, event->position())) cursor()->lock(pickHold(m_lineage.holds()[*hold]));
    else if (y >= layout.axis.ticks.top() && y < layout.axis.ticks.bottom() && event->position().x() >= layout.axis.plot.left())
        cursor()->setStep(static_cast<int>(std::floor(layout.axis.stepAt(event->position().x()))));
    else ListView::mousePressEvent(event);
}

void GenealogyView::wheelEvent(QWheelEvent* event) {
    const Layout layout = layoutFor(QRectF(rect()));
    const bool overLines = event->position().y() + offset() < layout.axis.ticks.bottom();
    if (isEmptyShown() || (!overLines && !(event->modifiers() & Qt::ControlModifier))) {
        ListView::wheelEvent(event);
        return;
    }
    const double sideways = event->angleDelta().x() / 120.0;
    m_range.zoom(std::pow(0.8, event->angleDelta().y() / 120.0), layout.axis.stepAt(event->position().x()),
                 -sideways * (layout.axis.end - layout.axis.begin) * 0.1, cursor()->stepCount());
    event->accept();
    zoomChanged();
    shareSteps();
    explain();
    update();
}

void GenealogyView::keyPressEvent(QKeyEvent* event) {
    if (isEmptyShown()) {
        ListView::keyPressEvent(event);
        return;
    }
    switch (event->key()) {
    case Qt::Key_Left: cursor()->setStep(cursor()->step() - 1); break;
    case Qt::Key_Right: cursor()->setStep(cursor()->step() + 1); break;
    case Qt::Key_Plus:
    case Qt::Key_Equal:
    case Qt::Key_Minus:
        m_range.zoom(event->key() == Qt::Key_Minus ? 1.25 : 0.8, cursor()->step() + 0.5, 0, cursor()->stepCount());
        zoomChanged();
        shareSteps();
        explain();
        update();
        break;
    default: ListView::keyPressEvent(event); break;
    }
}

QString GenealogyView::tipAt(const QPointF& position) const {
    if (m_lineage.empty()) return {};
    const Recording& recording = *cursor()->recording();
    const LaneRecord& lane = *cursor()->laneRecord();
    const Layout layout = layoutFor(QRectF(rect()));
    if (const auto index = holdAt(layout, position)) {
        const BlockLineage::Hold& hold = m_lineage.holds()[*index];
        const QString who = sequenceLabel(recording, lane, hold.sequence), block = QString::number(m_lineage.contents()[hold.content].block.value);
        const QString until = hold.end == BlockLineage::open_end ? tr("now") : formatCount(hold.end - 1);
        if (hold.cached) return tr("Block %1 in the cache, free, steps %2–%3; %4 was its last owner").arg(block, formatCount(hold.begin), until, who);
        return tr("%1 owns block %2, steps %3–%4").arg(who, block, formatCount(hold.begin), until) + QLatin1Char('\n') + tell(hold.event).sentence;
    }
    const int card = cardAt(position);
    return card < 0 ? QString() : tell(m_lineage.events()[static_cast<std::size_t>(card)]).sentence;
}

// An event a row, then what sharing saves.
QString GenealogyView::csv() const {
    QString csv = csvLine({QStringLiteral("step"), QStringLiteral("kind"), QStringLiteral("sequence"), QStringLiteral("name"), QStringLiteral("block"),
                           QStringLiteral("other_block"), QStringLiteral("position"), QStringLiteral("slots_measured"), QStringLiteral("bytes_derived"),
                           QStringLiteral("cause")});
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane || m_lineage.empty()) return csv;
    for (const std::uint64_t index : m_lineage.events()) {
        const Event& event = lane->events()[index];
        const Told told = tell(index);
        const std::string_view kind = name_of(event.kind);
        csv += csvLine({QString::number(told.step), QString::fromLatin1(kind.data(), static_cast<qsizetype>(kind.size())),
                        event.sequence.valid() ? QString::number(event.sequence.value) : QString(),
                        sequenceName(*cursor()->recording(), *lane, event.sequence), event.block.valid() ? QString::number(event.block.value) : QString(),
                        event.kind == EventKind::copy_on_write ? QString::number(event.other) : QString(),
                        told.position ? QString::number(*told.position) : QString(), told.moved ? QString::number(told.slots) : QString(),
                        told.moved ? QString::number(told.bytes) : QString(), told.sentence});
    }
    const QString step = QString::number(cursor()->stepOf(cursor()->lane()));
    csv += csvLine({step, QStringLiteral("sharing_saves_blocks"), {}, {}, {}, {}, {}, QString(), QString::number(m_saved.bytes),
                    tr("%1 shared blocks, whole blocks counted").arg(m_saved.blocks)});
    csv += csvLine({step, QStringLiteral("sharing_saves_slots"), {}, {}, {}, {}, {}, QString(), QString::number(m_saved.slotBytes),
                    tr("%1 shared blocks, slots counted").arg(m_saved.blocks)});
    return csv;
}

}  // namespace kvloupe
