// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/requests_view.h"

#include "engine/record/describe.h"
#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"
#include "views/token_track.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace kvloupe {

namespace {

constexpr double head_height = 22, running_height = 62, short_height = 24;

// Value below which `share` of the values lie (nearest rank); values must not be empty.
double quantile(std::vector<double> values, double share) {
    const auto index = std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())));
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index), values.end());
    return values[index];
}

// It ended and gave all blocks back.
bool hasEnded(const SequenceState& sequence) {
    switch (sequence.status) {
    case SequenceStatus::arrived:
    case SequenceStatus::preempted:
    case SequenceStatus::swapped:
    case SequenceStatus::running: return false;
    default: break;
    }
    return sequence.table.empty() && std::all_of(sequence.group_tables.begin(), sequence.group_tables.end(),
            [](const auto& table) { return table.empty(); });
}

}  // namespace

RequestsView::RequestsView(Cursor* cursor, QWidget* parent)
    : ListView(QStringLiteral("requests"), tr("Requests"), cursor, parent) {}

void RequestsView::setGaps(Entry& entry, const RequestTimes& times) {
    if (times.inter_token_ms.empty()) return;
    entry.itl_ms = quantile(times.inter_token_ms, 0.5);
    entry.itl95_ms = quantile(times.inter_token_ms, 0.95);
}

// Gaps between tokens are counted when somebody looks: in rows of those that run, in tips and in tables.
RequestsView::Entry RequestsView::whole(Entry entry) const {
    const int step = cursor()->stepOf(cursor()->lane());
    if (entry.sequence.valid() && step >= 0 && !entry.itl_ms)
        setGaps(entry, m_times->at(entry.sequence, static_cast<std::size_t>(step), true));
    return entry;
}

RequestsView::Entry RequestsView::entryOf(SequenceId sequence, const SequenceState& state, std::size_t step, const RequestTimes& times) const {
    const Recording& recording = *cursor()->recording();
    const LaneRecord& lane = *cursor()->laneRecord();
    Entry entry;
    entry.sequence = sequence;
    entry.request = lane.sequences()[sequence.value].request;
    entry.name = sequenceName(recording, lane, sequence);
    const SequenceInfo& info = lane.sequences()[sequence.value];
    const RequestInfo* request = entry.request.valid() ? &recording.requests()[entry.request.value] : nullptr;
    entry.prompt = info.prompt_tokens ? info.prompt_tokens : state.prompt_tokens;
    if (entry.prompt == 0 && request) entry.prompt = static_cast<std::uint32_t>(request->prompt.size());
    entry.computed = state.computed_tokens;
    entry.tokens = std::max(entry.prompt + times.output_tokens, entry.computed);
    if (request) entry.limit = entry.prompt + request->max_new_tokens;
    entry.limit = std::max(entry.limit, entry.tokens);
    entry.parent = info.parent;
    entry.parentName = sequenceName(recording, lane, info.parent);
    entry.forkedAt = info.forked_at;
    for (std::size_t group = 0; group <= state.group_tables.size(); ++group)
        for (const BlockId block : tableOf(state, static_cast<std::uint8_t>(group)))
            if (block != null_block_id) {
                ++entry.blocks;
                entry.shared += cursor()->state()->blocks()[block.value].owners > 1;
            }
    entry.bytes = entry.blocks * lane.info().block_bytes;
    entry.queue_ms = times.queue_ms;
    entry.ttft_ms = times.time_to_first_token_ms;
    entry.reason = QString::fromStdString(times.reason);
    switch (state.status) {
    case SequenceStatus::arrived:
        entry.group = Group::waiting;
        entry.phase = tr("waits");
        break;
    case SequenceStatus::preempted:
        entry.group = Group::waiting;
        entry.phase = tr("preempted, recomputes");
        break;
    case SequenceStatus::swapped:
        entry.group = Group::waiting;
        entry.phase = tr("swapped out, %1 host blocks").arg(state.host_blocks);
        break;
    case SequenceStatus::running: {
        entry.group = Group::running;
        const StepWork work = workOf(lane, sequence, step);
        entry.phase = work.count == 0 ? tr("idle") : work.recomputed ? tr("recomputes") : entry.computed <= entry.prompt ? tr("prefill") : tr("decode");
        break;
    }
    default:
        entry.group = Group::finished;
        entry.outcome = times.finish_reason.empty() ? tr("finished") : QString::fromStdString(times.finish_reason);
        break;
    }
    return entry;
}

void RequestsView::forgetKept() {
    m_items.clear();
    m_kept.clear();
    m_sequences.clear();
    m_later.clear();
    m_anyParent = false;
}

const RequestsView::Entry* RequestsView::keep(Entry entry) const {
    return m_kept.emplace_back(std::make_unique<const Entry>(std::move(entry))).get();
}

const RequestsView::Entry* RequestsView::goneEntry(SequenceId sequence) const {
    const Gone& gone = m_sequences[sequence.value];
    if (gone.entry) return gone.entry.get();
    const LaneState* const state = cursor()->state();
    const auto step = static_cast<std::size_t>(std::max(0, cursor()->stepOf(cursor()->lane())));
    if (!state || sequence.value >= state->sequences().size() || !hasEnded(state->sequences()[sequence.value])) {
        SequenceState ended;  // the cursor has moved on and the cards have not followed yet
        ended.status = SequenceStatus::finished;
        return keep(entryOf(sequence, ended, step, m_times->at(sequence, step, false)));
    }
    gone.entry = std::make_unique<const Entry>(entryOf(sequence, state->sequences()[sequence.value], step, m_times->at(sequence, step, false)));
    return gone.entry.get();
}

const RequestsView::Entry* RequestsView::laterEntry(RequestId request) const {
    std::unique_ptr<const Entry>& later = m_later[request.value];
    if (!later) {
        const RequestInfo& info = cursor()->recording()->requests()[request.value];
        Entry entry;
        entry.group = Group::later;
        entry.request = request;
        entry.name = QString::fromStdString(info.id);
        entry.prompt = entry.tokens = static_cast<std::uint32_t>(info.prompt.size());
        entry.phase = tr("step %1").arg(info.arrival_step);
        later = std::make_unique<const Entry>(std::move(entry));
    }
    return later.get();
}

const RequestsView::Entry& RequestsView::entry(std::size_t card) const {
    Item& item = m_items[card];
    if (!item.made) item.made = item.sequence.valid() ? goneEntry(item.sequence) : laterEntry(item.request);
    if (item.made->depth != item.depth) {
        Entry child = *item.made;
        child.depth = item.depth;
        item.made = keep(std::move(child));
    }
    return *item.made;
}

std::array<RequestsView::Items, RequestsView::group_count> RequestsView::findItems(int step) {
    const Recording& recording = *cursor()->recording();
    const LaneRecord& lane = *cursor()->laneRecord();
    const LaneState* state = cursor()->state();
    if (m_goneOf.get() != &recording || m_goneLane != cursor()->lane()) forgetKept();
    m_goneOf = cursor()->sharedRecording();
    m_goneLane = cursor()->lane();
    std::array<Items, group_count> found;
    const auto group = [&found](Group of) -> Items& { return found[static_cast<std::size_t>(of)]; };
    std::vector<bool> arrived(recording.requests().size(), false);
    if (state && step >= 0) {
        m_times.follow(cursor()->sharedRecording(), cursor()->lane(), [this] {
            forgetKept();  // their times were not known
            if (isEmptyShown()) return;
            refresh();
            update();
        });
        const std::vector<SequenceWaste> waste = wasteOf(recording, lane, *state);
        const auto count = static_cast<std::uint32_t>(std::min(state->sequences().size(), lane.sequences().size()));
        const auto at = static_cast<std::uint32_t>(step);
        for (auto s = static_cast<std::uint32_t>(m_sequences.size()); s < count; ++s) {
            const SequenceInfo& info = lane.sequences()[s];
            m_sequences.emplace_back().request = info.request;
            m_anyParent = m_anyParent || info.parent.valid();
        }
        group(Group::finished).reserve(count);
        for (std::uint32_t s = 0; s < count; ++s) {
            Gone& own = m_sequences[s];
            if (own.request.value < arrived.size()) arrived[own.request.value] = true;
            Item item{nullptr, SequenceId(s), own.request, 0};
            if (own.from <= at || hasEnded(state->sequences()[s])) {
                own.from = std::min(own.from, at);
                group(Group::finished).push_back(item);
                continue;
            }
            Entry entry = entryOf(SequenceId(s), state->sequences()[s], at, m_times->at(SequenceId(s), at, false));
            entry.waste = waste[s];
            const Group of = entry.group;
            item.made = keep(std::move(entry));
            group(of).push_back(item);
        }
    }
    m_later.resize(arrived.size());
    for (std::size_t r = 0; r < arrived.size(); ++r)
        if (!arrived[r]) group(Group::later).push_back({nullptr, SequenceId::none(), RequestId(static_cast<std::uint32_t>(r)), 0});
    return found;
}

void RequestsView::refresh() {
    m_items.clear();
    m_kept.clear();
    setSubtitle({});
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane) {
        setCards({});
        setEmpty(tr("Open a model or a scenario to see its requests."));
        return;
    }
    const std::array<Items, group_count> found = findItems(cursor()->stepOf(cursor()->lane()));
    if (std::all_of(found.begin(), found.end(), [](const Items& group) { return group.empty(); })) {
        setCards({});
        setEmpty(tr("There is no request yet."));
        return;
    }
    setEmpty({});
    std::vector<Card> cards;
    double y = 4 * unit();
    const auto add = [&](Group group, const QString& text, const Items& items) {
        Entry heading;
        heading.group = group;
        heading.heading = text;
        m_items.push_back({keep(std::move(heading)), SequenceId::none(), RequestId(), 0});
        cards.push_back({y, head_height * unit(), false});
        y += head_height * unit();
        m_items.insert(m_items.end(), items.begin(), items.end());
        for (const Item& item : items) {
            const double height = (item.made && item.made->group == Group::running ? running_height : short_height) * unit();
            cards.push_back({y, height, item.sequence.valid()});
            y += height;
        }
    };
    if (m_order == Order::state) {
        for (const Group group : {Group::running, Group::waiting, Group::later, Group::finished}) {
            const Items& own = found[static_cast<std::size_t>(group)];
            if (own.empty()) continue;
            const QString names[] = {tr("Running"), tr("Waiting"), tr("Arrives later"), tr("Finished")};
            add(group, QStringLiteral("%1 %2").arg(names[static_cast<int>(group)]).arg(own.size()), m_anyParent ? families(own) : own);
        }
    } else {
        add(Group::running, tr("By %1, largest first").arg(choices().front().names[static_cast<int>(m_order)]), byNumber(found));
    }
    setCards(std::move(cards));
    setSubtitle(tr("lane %1").arg(QString::fromStdString(lane->info().name)));
}

std::vector<ViewChoice> RequestsView::choices() const {
    return {{QStringLiteral("order"), tr("Order by"), {tr("state"), tr("wasted slots"), tr("blocks held"), tr("tokens")},
             static_cast<int>(m_order)}};
}

void RequestsView::setChoice(const QString&, int index) { m_order = static_cast<Order>(index); }

RequestsView::Items RequestsView::families(const Items& group) const {
    const LaneRecord& lane = *cursor()->laneRecord();
    const auto parentOf = [&lane](const Item& item) { return item.sequence.valid() ? lane.sequences()[item.sequence.value].parent : SequenceId::none(); };
    std::unordered_set<std::uint32_t> members;
    for (const Item& item : group)
        if (item.sequence.valid()) members.insert(item.sequence.value);
    std::unordered_map<std::uint32_t, Items> children;  // of those in the group, by parent
    Items first;
    for (const Item& item : group) {
        const SequenceId parent = parentOf(item);
        const bool child = parent.valid() && members.count(parent.value) > 0;
        (child ? children[parent.value] : first).push_back(item);
    }
    Items families;
    families.reserve(group.size());
    const auto visit = [&](const auto& self, Item item, int depth) -> void {
        item.depth = depth;
        families.push_back(item);
        const auto own = item.sequence.valid() ? children.find(item.sequence.value) : children.end();
        if (own == children.end()) return;
        for (const Item& child : own->second) self(self, child, depth + 1);
    };
    for (const Item& item : first) visit(visit, item, 0);
    return families;
}

RequestsView::Items RequestsView::byNumber(const std::array<Items, group_count>& found) const {
    std::vector<std::pair<std::uint64_t, Item>> all;
    for (const Items& group : found)
        for (Item item : group) {
            // What has ended or has not arrived holds nothing; how many tokens it has only its entry says.
            if (!item.made && m_order == Order::tokens) item.made = item.sequence.valid() ? goneEntry(item.sequence) : laterEntry(item.request);
            const Entry* const entry = item.made;
            all.emplace_back(!entry ? 0 : m_order == Order::waste ? entry->waste.total() : m_order == Order::blocks ? entry->blocks : entry->tokens, item);
        }
    // Equal ones as they arrived, and those that have not behind them.
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first > b.first : a.second.sequence.value < b.second.sequence.value;
    });
    Items ordered;
    for (const auto& [number, item] : all) ordered.push_back(item);
    return ordered;
}

QString RequestsView::tipAt(const QPointF& position) const {
    const int card = cardAt(position);
    if (card < 0 || card >= static_cast<int>(m_items.size())) return {};
    const Entry entry = whole(this->entry(static_cast<std::size_t>(card)));
    QStringList lines{tr("Request %1: %2 prompt tokens, %3 in all").arg(entry.name, formatCount(entry.prompt), formatCount(entry.tokens))};
    const QString mark = originMark(Origin::measured);
    if (entry.parent.valid()) lines << tr("Forked from %1 at position %2").arg(entry.parentName, formatCount(entry.forkedAt));
    if (entry.waste.total() > 0)
        lines << tr("%1 slots wasted: %2 reserved for its tokens, %3 never to be written")
                     .arg(originMark(Origin::predicted) + QLatin1Char(' ') + formatCount(entry.waste.total()),
                          formatCount(entry.waste.reserved), formatCount(entry.waste.never));
    if (entry.queue_ms) lines << tr("%1 queue time %2").arg(mark, formatDuration(*entry.queue_ms * 1e6));
    if (entry.ttft_ms) lines << tr("%1 time to first token %2").arg(mark, formatDuration(*entry.ttft_ms * 1e6));
    if (entry.itl_ms)
        lines << tr("%1 inter-token latency: median %2, 95th percentile %3")
                     .arg(mark, formatDuration(*entry.itl_ms * 1e6), formatDuration(*entry.itl95_ms * 1e6));
    if (!entry.reason.isEmpty()) lines << entry.reason;
    return lines.join(QLatin1Char('\n'));
}

Pick RequestsView::pickOf(int card) const {
    const SequenceId sequence = m_items[static_cast<std::size_t>(card)].sequence;
    return sequence.valid() ? pickSequence(*cursor(), sequence) : Pick{};
}

void RequestsView::choose(int card) {
    const Pick pick = pickOf(card);
    if (!pick.empty()) cursor()->lock(pick);
}

QString RequestsView::csv() const {
    QString csv = QStringLiteral("request,sequence,state,prompt_tokens,tokens,computed_tokens,blocks,kv_bytes_derived,"
                                 "shared_blocks_measured,wasted_slots_predicted,reserved_slots_predicted,never_written_slots_predicted,"
                                 "parent,forked_at,queue_ms_measured,ttft_ms_measured,itl_p50_ms_measured,itl_p95_ms_measured,reason\r\n");
    const auto optional = [](const std::optional<double>& value) { return value ? QString::number(*value, 'g', 8) : QString(); };
    const_cast<RequestsView*>(this)->m_times.settle();
    for (std::size_t card = 0; card < m_items.size(); ++card) {
        if (!this->entry(card).heading.isEmpty()) continue;
        const Entry entry = whole(this->entry(card));
        const QStringList fields{csvField(entry.name), entry.sequence.valid() ? QString::number(entry.sequence.value) : QString(),
                                 csvField(entry.group == Group::finished ? entry.outcome : entry.phase),
                                 QString::number(entry.prompt), QString::number(entry.tokens), QString::number(entry.computed),
                                 QString::number(entry.blocks), QString::number(entry.bytes), QString::number(entry.shared), QString::number(entry.waste.total()),
                                 QString::number(entry.waste.reserved), QString::number(entry.waste.never), csvField(entry.parentName),
                                 entry.parent.valid() ? QString::number(entry.forkedAt) : QString(), optional(entry.queue_ms),
                                 optional(entry.ttft_ms), optional(entry.itl_ms), optional(entry.itl95_ms), csvField(entry.reason)};
        csv += fields.join(QLatin1Char(',')) + QStringLiteral("\r\n");
    }
    return csv;
}

}  // namespace kvloupe
