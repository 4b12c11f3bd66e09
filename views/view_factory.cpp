// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/view_factory.h"

#include "views/allocators_view.h"
#include "views/comparison_view.h"
#include "views/difference_view.h"
#include "views/free_runs_view.h"
#include "views/split_view.h"
#include "views/kv_bytes_view.h"
#include "views/ledger_view.h"
#include "views/logits_view.h"
#include "views/parameters_view.h"
#include "views/quality_view.h"
#include "views/query_view.h"
#include "views/attention_view.h"
#include "views/cache_values_view.h"
#include "views/events_view.h"
#include "views/history_view.h"
#include "views/genealogy_view.h"
#include "views/inspector_view.h"
#include "views/lanes_view.h"
#include "views/latent_view.h"
#include "views/layers_view.h"
#include "views/requests_view.h"
#include "views/roofline_view.h"
#include "views/timeline_view.h"
#include "views/next_token_view.h"
#include "views/pool_view.h"
#include "views/prefix_tree_view.h"
#include "views/stages_view.h"
#include "views/step_time_view.h"
#include "views/step_timeline_view.h"
#include "views/schedule_view.h"
#include "views/sweep_view.h"
#include "views/time_per_token_view.h"
#include "views/tokens_view.h"
#include "views/tracks_view.h"
#include "views/window_view.h"

#include <QCoreApplication>

namespace kvloupe {

namespace {

struct Entry {
    const char* id;
    const char* title;
    const char* tab;
    std::unique_ptr<View> (*create)(Cursor*, QWidget*);
};

template <class T>
std::unique_ptr<View> make(Cursor* cursor, QWidget* parent) {
    return std::make_unique<T>(cursor, parent);
}

constexpr Entry entries[] = {
    {"lanes", QT_TRANSLATE_NOOP("kvloupe::views", "Lanes"), "Step", make<LanesView>},
    {"requests", QT_TRANSLATE_NOOP("kvloupe::views", "Requests"), "Step", make<RequestsView>},
    {"inspector", QT_TRANSLATE_NOOP("kvloupe::views", "Inspector"), "Step", make<InspectorView>},
    {"tokens", QT_TRANSLATE_NOOP("kvloupe::views", "Tokens and block table"), "Step", make<TokensView>},
    {"pool", QT_TRANSLATE_NOOP("kvloupe::views", "Block pool"), "Step", make<PoolView>},
    {"attention", QT_TRANSLATE_NOOP("kvloupe::views", "Attention"), "Step", make<AttentionView>},
    {"next-token", QT_TRANSLATE_NOOP("kvloupe::views", "Next token"), "Step", make<NextTokenView>},
    {"timeline", QT_TRANSLATE_NOOP("kvloupe::views", "Timeline"), "Step", make<TimelineView>},
    {"events", QT_TRANSLATE_NOOP("kvloupe::views", "Events"), "Step", make<EventsView>},
    {"kv-bytes", QT_TRANSLATE_NOOP("kvloupe::views", "KV bytes"), "Compare", make<KvBytesView>},
    {"step-time", QT_TRANSLATE_NOOP("kvloupe::views", "Decode time per step"), "Compare", make<StepTimeView>},
    {"logits", QT_TRANSLATE_NOOP("kvloupe::views", "Logit difference"), "Compare", make<LogitsView>},
    {"quality", QT_TRANSLATE_NOOP("kvloupe::views", "Quality"), "Compare", make<QualityView>},
    {"comparison", QT_TRANSLATE_NOOP("kvloupe::views", "Comparison"), "Compare", make<ComparisonView>},
    {"parameters", QT_TRANSLATE_NOOP("kvloupe::views", "Parameters"), "Compare", make<ParametersView>},
    {"ledger", QT_TRANSLATE_NOOP("kvloupe::views", "Ledger"), "Compare", make<LedgerView>},
    {"difference", QT_TRANSLATE_NOOP("kvloupe::views", "Differences"), "Compare", make<DifferenceView>},
    {"history", QT_TRANSLATE_NOOP("kvloupe::views", "Block history"), "Memory", make<HistoryView>},
    {"split", QT_TRANSLATE_NOOP("kvloupe::views", "Memory split"), "Memory", make<SplitView>},
    {"schedule", QT_TRANSLATE_NOOP("kvloupe::views", "Scheduler"), "Memory", make<ScheduleView>},
    {"allocators", QT_TRANSLATE_NOOP("kvloupe::views", "Allocators"), "Memory", make<AllocatorsView>},
    {"free-runs", QT_TRANSLATE_NOOP("kvloupe::views", "Free runs"), "Memory", make<FreeRunsView>},
    {"prefix-tree", QT_TRANSLATE_NOOP("kvloupe::views", "Prefix tree"), "Memory", make<PrefixTreeView>},
    {"genealogy", QT_TRANSLATE_NOOP("kvloupe::views", "Genealogy"), "Memory", make<GenealogyView>},
    {"step-timeline", QT_TRANSLATE_NOOP("kvloupe::views", "Step timeline"), "Profile", make<StepTimelineView>},
    {"layers", QT_TRANSLATE_NOOP("kvloupe::views", "Layers"), "Profile", make<LayersView>},
    {"roofline", QT_TRANSLATE_NOOP("kvloupe::views", "Roofline"), "Profile", make<RooflineView>},
    {"time-per-token", QT_TRANSLATE_NOOP("kvloupe::views", "Time per token"), "Profile", make<TimePerTokenView>},
    {"stages", QT_TRANSLATE_NOOP("kvloupe::views", "Stages"), "Profile", make<StagesView>},
    {"sweep", QT_TRANSLATE_NOOP("kvloupe::views", "Length sweep"), "Profile", make<SweepView>},
    {"cache-values", QT_TRANSLATE_NOOP("kvloupe::views", "Cache values"), "More", make<CacheValuesView>},
    {"latent", QT_TRANSLATE_NOOP("kvloupe::views", "Latent"), "More", make<LatentView>},
    {"window", QT_TRANSLATE_NOOP("kvloupe::views", "Window"), "More", make<WindowView>},
    {"query", QT_TRANSLATE_NOOP("kvloupe::views", "Query"), "More", make<QueryView>},
    {"tracks", QT_TRANSLATE_NOOP("kvloupe::views", "Pinned tracks"), "More", make<TracksView>},
};

}  // namespace

std::vector<ViewDescription> viewDescriptions() {
    std::vector<ViewDescription> descriptions;
    for (const Entry& entry : entries)
        descriptions.push_back({QString::fromLatin1(entry.id), QCoreApplication::translate("kvloupe::views", entry.title),
                                QString::fromLatin1(entry.tab)});
    return descriptions;
}

std::unique_ptr<View> createView(const QString& id, Cursor* cursor, QWidget* parent) {
    for (const Entry& entry : entries)
        if (id == QLatin1String(entry.id)) return entry.create(cursor, parent);
    return nullptr;
}

}  // namespace kvloupe
