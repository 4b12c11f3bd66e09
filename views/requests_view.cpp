// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/requests_view.h"

#include "engine/record/describe.h"
#include "views/canvas.h"
#include "views/format.h"
#include "views/picking.h"
#include "views/token_track.h"

#include <algorithm>
#include <map>
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

RequestsView::Entry RequestsView::entryOf(SequenceId sequence, std::size_t step, const RequestTimes& times) const {
    const Recording& recording = *cursor()->recording();
    const LaneRecord& lane = *cursor()->laneRecord();
    const SequenceState& state = cursor()->state()->sequences()[sequence.value];
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

std::vector<RequestsView::Shown> RequestsView::findEntries(int step) {
    const Recording& recording = *cursor()->recording();
    const LaneRecord& lane = *cursor()->laneRecord();
    const LaneState* state = cursor()->state();
    if (m_goneOf != &recording || m_goneLane != cursor()->lane()) {
        m_gone.clear();
        m_later.clear();
    }
    m_goneOf = &recording;
    m_goneLane = cursor()->lane();
    std::vector<Shown> found;
    std::vector<bool> arrived(recording.requests().size(), false);
    if (state && step >= 0) {
        m_times.follow(cursor()->sharedRecording(), cursor()->lane(), [this] {
            m_gone.clear();  // their times were not known
            if (isEmptyShown()) return;
            refresh();
            update();
        });
        const std::vector<SequenceWaste> waste = wasteOf(recording, lane, *state);
        const auto count = static_cast<std::uint32_t>(std::min(state->sequences().size(), lane.sequences().size()));
        found.reserve(count + arrived.size());
        m_gone.resize(std::max<std::size_t>(m_gone.size(), count));
        for (std::uint32_t s = 0; s < count; ++s) {
            const SequenceState& sequence = state->sequences()[s];
            const bool gone = hasEnded(sequence);  // nothing of it changes any more
            if (gone && m_gone[s]) {
                found.push_back(m_gone[s]);
            } else {
                const auto at = static_cast<std::size_t>(step);
                Entry entry = entryOf(SequenceId(s), at, m_times->at(SequenceId(s), at, false));
                entry.waste = waste[s];
                found.push_back(std::make_shared<const Entry>(std::move(entry)));
                if (gone) m_gone[s] = found.back();
            }
            if (found.back()->request.value < arrived.size()) arrived[found.back()->request.value] = true;
        }
    }
    m_later.resize(arrived.size());
    for (std::size_t r = 0; r < arrived.size(); ++r) {
        if (arrived[r]) continue;
        if (!m_later[r]) {
            const RequestInfo& info = recording.requests()[r];
            Entry entry;
            entry.group = Group::later;
            entry.request = RequestId(static_cast<std::uint32_t>(r));
            entry.name = QString::fromStdString(info.id);
            entry.prompt = entry.tokens = static_cast<std::uint32_t>(info.prompt.size());
            entry.phase = tr("step %1").arg(info.arrival_step);
            m_later[r] = std::make_shared<const Entry>(std::move(entry));
        }
        found.push_back(m_later[r]);
    }
    return found;
}

void RequestsView::refresh() {
    m_entries.clear();
    setSubtitle({});
    const LaneRecord* lane = cursor()->laneRecord();
    if (!lane) {
        setCards({});
        setEmpty(tr("Open a model or a scenario to see its requests."));
        return;
    }
    const std::vector<Shown> found = findEntries(cursor()->stepOf(cursor()->lane()));
    if (found.empty()) {
        setCards({});
        setEmpty(tr("There is no request yet."));
        return;
    }
    setEmpty({});
    std::vector<Card> cards;
    double y = 4 * unit();
    const auto addHeading = [&](Group group, const QString& text) {
        Entry heading;
        heading.group = group;
        heading.heading = text;
        m_entries.push_back(std::make_shared<const Entry>(std::move(heading)));
        cards.push_back({y, head_height * unit(), false});
        y += head_height * unit();
    };
    const auto addEntries = [&](const std::vector<std::size_t>& order) {
        for (const std::size_t i : order) {
            const Shown& entry = found[i];
            const double height = (entry->group == Group::running ? running_height : short_height) * unit();
            // A child stands below its parent where that is in sight right above it.
            int depth = 0;
            if (m_order == Order::state && entry->parent.valid())
                for (auto above = m_entries.rbegin(); above != m_entries.rend() && (*above)->heading.isEmpty(); ++above)
                    if ((*above)->sequence == entry->parent) depth = (*above)->depth + 1;
            if (depth == 0) {
                m_entries.push_back(entry);
            } else {
                Entry child = *entry;
                child.depth = depth;
                m_entries.push_back(std::make_shared<const Entry>(std::move(child)));
            }
            cards.push_back({y, height, entry->sequence.valid()});
            y += height;
        }
    };
    if (m_order == Order::state) {
        for (const Group group : {Group::running, Group::waiting, Group::later, Group::finished}) {
            const std::vector<std::size_t> order = ordered(found, group);
            if (order.empty()) continue;
            const QString names[] = {tr("Running"), tr("Waiting"), tr("Arrives later"), tr("Finished")};
            addHeading(group, QStringLiteral("%1 %2").arg(names[static_cast<int>(group)]).arg(order.size()));
            addEntries(order);
        }
    } else {
        addHeading(Group::running, tr("By %1, largest first").arg(choices().front().names[static_cast<int>(m_order)]));
        addEntries(ordered(found, {}));
    }
    setCards(std::move(cards));
    setSubtitle(tr("lane %1").arg(QString::fromStdString(lane->info().name)));
}

std::vector<ViewChoice> RequestsView::choices() const {
    return {{QStringLiteral("order"), tr("Order by"), {tr("state"), tr("wasted slots"), tr("blocks held"), tr("tokens")},
             static_cast<int>(m_order)}};
}

void RequestsView::setChoice(const QString&, int index) { m_order = static_cast<Order>(index); }

// Indices of the entries of a group, or of all by the number that is chosen; by state children follow their parents.
std::vector<std::size_t> RequestsView::ordered(const std::vector<Shown>& found, std::optional<Group> group) const {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < found.size(); ++i)
        if (!group || found[i]->group == *group) order.push_back(i);
    if (group) {
        std::vector<std::size_t> families;
        std::map<std::uint32_t, std::vector<std::size_t>> children;  // of those in the group, by parent
        std::unordered_set<std::uint32_t> members;
        for (const std::size_t i : order)
            if (found[i]->sequence.valid()) members.insert(found[i]->sequence.value);
        for (const std::size_t i : order)
            if (found[i]->parent.valid()) children[found[i]->parent.value].push_back(i);
        const auto visit = [&](const auto& self, std::size_t i) -> void {
            families.push_back(i);
            if (!found[i]->sequence.valid() || children.empty()) return;
            if (const auto own = children.find(found[i]->sequence.value); own != children.end())
                for (const std::size_t child : own->second) self(self, child);
        };
        for (const std::size_t i : order)
            if (!found[i]->parent.valid() || !members.count(found[i]->parent.value)) visit(visit, i);
        return families;
    }
    const auto number = [this](const Entry& entry) -> std::uint64_t {
        return m_order == Order::waste ? entry.waste.total() : m_order == Order::blocks ? entry.blocks : entry.tokens;
    };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return number(*found[a]) > number(*found[b]); });
    return order;
}

QString RequestsView::tipAt(const QPointF& position) const {
    const int card = cardAt(position);
    if (card < 0 || card >= static_cast<int>(m_entries.size())) return {};
    const Entry entry = whole(*m_entries[static_cast<std::size_t>(card)]);
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
    const Entry& entry = *m_entries[static_cast<std::size_t>(card)];
    return entry.sequence.valid() ? pickSequence(*cursor(), entry.sequence) : Pick{};
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
    for (const Shown& shown : m_entries) {
        if (!shown->heading.isEmpty()) continue;
        const Entry entry = whole(*shown);
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
