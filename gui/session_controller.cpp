// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/session_controller.h"

#include "gui/environment.h"
#include "gui/pictures.h"

#include "engine/record/lane_state.h"
#include "engine/record/open_recording.h"

#include <QFileInfo>
#include <QMetaObject>
#include <QPointer>

#include <condition_variable>
#include <mutex>

#include <spdlog/spdlog.h>

namespace kvloupe {

namespace {

// The old session is gone from the card that the new one is to take.
struct GivenUp {
    std::mutex mutex;
    std::condition_variable_any changed;
    bool done = false;
};

}  // namespace

struct SessionController::Loaded {
    std::unique_ptr<Session> session;
    std::optional<StoredRecording> file;
    QString path;      // of the file
    QString sentence;  // why there is neither
};

namespace {

constexpr const char* bundledPrompt =
    "One sunny day, Mia met Ben and Tom. Mia put the red key in the blue box. Ben went to the park. "
    "The sun was warm and the wind was soft. Where is the red key?";
constexpr const char* plainPrompt = "Once upon a time, there was a little girl who";

RequestOptions request(const QString& prompt, const char* fallback, std::uint32_t newTokens) {
    RequestOptions options;
    options.id = "a";
    options.prompt = prompt.isEmpty() ? std::string(fallback) : prompt.toStdString();
    options.max_new_tokens = newTokens;
    return options;
}

}  // namespace

SessionController::SessionController(QObject* parent) : QObject(parent) {
    setThreads(0);
    connect(&m_clock, &FrameClock::advanced, this, [this] {
        m_cursor.advanced();
        focusPause();  // a run of a few steps pauses again before the clock has seen it running
        followReplay();
    });
    connect(&m_clock, &FrameClock::phaseChanged, this, [this] {
        focusPause();
        followReplay();
        Q_EMIT phaseChanged();
    });
}

SessionController::~SessionController() {
    m_loader.request_stop();
    if (m_loader.joinable()) m_loader.join();
}

Phase SessionController::phase() const {
    const auto shown = recording();
    return shown ? shown->phase() : Phase::finished;
}

std::shared_ptr<const Recording> SessionController::recording() const {
    if (m_session) return m_session->recording();
    return m_file ? m_file->recording : nullptr;
}

Scenario SessionController::bundledScenario(const QString& prompt) {
    Scenario scenario;
    scenario.title = "bundled family";
    scenario.model = "bundled";
    for (const auto& [name, model] : {std::pair("MHA", "bundled:mha"), std::pair("GQA", "bundled:gqa"),
                                      std::pair("MQA", "bundled:mqa"), std::pair("GQA uncached", "bundled:gqa")}) {
        LaneOptions lane;
        lane.name = name;
        lane.model = model;
        lane.cache.blocks = 64;  // more than the first prompt needs: free blocks show, and requests can be added
        if (lane.name == "GQA uncached") {
            lane.kv_cache = false;
            lane.uncached_limit = uncachedLimit;
        }
        scenario.lanes.push_back(lane);
    }
    scenario.requests.push_back(request(prompt, bundledPrompt, 128));
    return scenario;
}

Scenario SessionController::modelScenario(const QString& path, const QString& prompt) {
    Scenario scenario;
    scenario.title = QFileInfo(path).completeBaseName().toStdString();
    scenario.model = path.toStdString();
    LaneOptions cached;
    cached.name = "cached";
    LaneOptions uncached;
    uncached.name = "uncached";
    uncached.kv_cache = false;
    uncached.uncached_limit = uncachedLimit;
    scenario.lanes = {cached, uncached};
    scenario.requests.push_back(request(prompt, plainPrompt, 128));
    return scenario;
}

void SessionController::openPath(const QString& path) {
    const QFileInfo info(path);
    if (!info.exists()) {
        Q_EMIT failed(tr("There is no file or folder '%1'. Check the name.").arg(path));
        return;
    }
    if (info.suffix() == QLatin1String("kvt") || (info.isFile() && names_snapshot(path.toStdString()))) {
        openRecording(info.absoluteFilePath());
        return;
    }
    const bool modelPart = info.isFile() && (info.fileName() == QLatin1String("config.json") ||
                                             info.fileName() == QLatin1String("model.safetensors") ||
                                             info.fileName() == QLatin1String("tokenizer.json"));
    if (modelPart) {
        openScenario(modelScenario(info.absolutePath()));
    } else if (info.isFile() && info.suffix() == QLatin1String("json")) {
        auto scenario = load_scenario(path.toStdString());
        if (!scenario) {
            Q_EMIT failed(QString::fromStdString(scenario.error().message()));
            return;
        }
        for (LaneOptions& lane : scenario->lanes)
            if (!lane.kv_cache && lane.uncached_limit == 0) lane.uncached_limit = uncachedLimit;
        openScenario(*scenario);
    } else {
        openScenario(modelScenario(info.absoluteFilePath()));
    }
}

void SessionController::openBundled() { openScenario(bundledScenario()); }

void SessionController::startLoading(std::function<void(std::stop_token, quint64, Loaded&)> load) {
    m_loader.request_stop();
    if (m_loader.joinable()) m_loader.join();
    const quint64 job = ++m_job;
    m_replay.reset();
    m_loading = true;
    Q_EMIT loadingChanged();
    m_loader = std::jthread([this, job, load = std::move(load)](std::stop_token stop) {
        auto loaded = std::make_shared<Loaded>();
        load(stop, job, *loaded);
        QMetaObject::invokeMethod(this, [this, job, loaded] { finishLoading(job, loaded); });
    });
}

void SessionController::openRecording(const QString& path) {
    startLoading([path](std::stop_token, quint64, Loaded& loaded) {
        loaded.path = path;
        auto stored = open_recording(path.toStdString());
        if (stored) loaded.file = std::move(*stored);
        else loaded.sentence = QString::fromStdString(stored.error().message());
    });
}

void SessionController::openScenario(const Scenario& scenario, bool firstStep) {
    m_firstStep = firstStep;
    startLoading([this, scenario, options = m_options](std::stop_token stop, quint64 job, Loaded& loaded) mutable {
        options.stop = stop;
        options.progress = [this, job](double fraction, const std::string& what) {
            const QString text = QString::fromStdString(what);
            QMetaObject::invokeMethod(this, [this, job, fraction, text] {
                if (job == m_job && m_loading) Q_EMIT loadingProgress(fraction, text);
            });
        };
        const auto given = std::make_shared<GivenUp>();
        options.release_memory = [this, job, stop, given] {
            QMetaObject::invokeMethod(this, [this, job, given] {
                if (job == m_job && m_loading) giveUpCards();
                const std::lock_guard lock(given->mutex);
                given->done = true;
                given->changed.notify_all();
            });
            std::unique_lock lock(given->mutex);
            given->changed.wait(lock, stop, [&given] { return given->done; });
        };
        auto session = Session::create(scenario, std::move(options));
        if (session) loaded.session = std::move(*session);
        else loaded.sentence = QString::fromStdString(session.error().message());
    });
}

void SessionController::finishLoading(quint64 job, std::shared_ptr<Loaded> loaded) {
    if (job != m_job || !m_loading) return;  // cancelled, or another job since
    m_loading = false;
    Q_EMIT loadingChanged();
    if (!loaded->session && !loaded->file) {
        spdlog::warn("{}", loaded->sentence.toStdString());
        Q_EMIT failed(loaded->sentence);
        return;
    }
    m_cursor.setRecording(nullptr);
    m_session = std::move(loaded->session);
    m_file = std::move(loaded->file);
    m_filePath = loaded->path;
    showRecording();
    Q_EMIT sessionChanged();
    if (m_session && m_replay) {
        m_session->replay(std::move(m_replay->before), m_replay->last);
        awaitReplay(m_replay->step, m_replay->lane);
    }
    if (m_file || !m_firstStep) return;
    if (m_session->scenario().breakpoints.empty()) step();
    else run();
}

// Two sessions that each fill their share of a card have no room on it together.
void SessionController::giveUpCards() {
    if (!m_session) return;
    bool holds = false;
    for (std::uint32_t lane = 0; lane < m_session->recording()->lanes().size(); ++lane)
        holds = holds || m_session->device(LaneId(lane)).own_memory;
    if (!holds) return;
    m_cursor.setRecording(nullptr);
    m_clock.watch(nullptr);
    m_session.reset();
    Q_EMIT sessionChanged();
}

// A breakpoint's event becomes what all views show: its lane in focus, its sequence and block locked.
void SessionController::focusPause() {
    if (!m_session || phase() == Phase::running) return;
    const auto recording = m_cursor.sharedRecording();
    const auto focus = recording ? recording->pause_focus() : std::nullopt;
    if (!focus || (m_shownFocus && m_shownFocus->lane == focus->lane && m_shownFocus->event == focus->event)) return;
    m_shownFocus = focus;
    m_cursor.advanced();
    Pick pick;
    pick.lane = focus->lane;
    if (focus->event) {
        const Event& event = recording->lane(focus->lane).events()[*focus->event];
        pick.event = focus->event;
        if (event.sequence.valid()) pick.sequence = event.sequence;
        if (event.block.valid()) pick.block = event.block;
    }
    m_cursor.lock(pick);
}

void SessionController::showRecording() {
    m_moreUncached = 0;
    m_replaying = false;
    m_shownFocus.reset();
    const auto shown = recording();
    m_cursor.setRecording(shown);
    m_clock.watch(shown);
    if (m_file) m_cursor.advanced();
    Q_EMIT phaseChanged();
}

void SessionController::setThreads(unsigned threads) {
    m_threads = threads;
    m_options = session_options(threads);
    m_options.default_attention = watch_everything();
    if (m_otherFactory) m_options.make_backend = m_otherFactory;
}

void SessionController::setBackendFactory(BackendFactory make) {
    m_otherFactory = std::move(make);
    setThreads(m_threads);
}

void SessionController::chooseDevice(const QString& device) {
    if (!m_session) return;
    Scenario scenario = m_session->scenario();
    scenario.device = device.toStdString();
    for (LaneOptions& lane : scenario.lanes) lane.device.clear();
    openScenario(scenario);
}

void SessionController::cancelLoading() {
    if (!m_loading) return;
    m_loader.request_stop();
    m_loading = false;
    ++m_job;
    Q_EMIT loadingChanged();
}

void SessionController::close() {
    cancelLoading();
    m_cursor.setRecording(nullptr);
    m_clock.watch(nullptr);
    m_session.reset();
    m_file.reset();
    Q_EMIT sessionChanged();
    Q_EMIT phaseChanged();
}

QString SessionController::laneAtLimit() const {
    if (!m_session || phase() == Phase::running) return {};
    const auto recording = m_session->recording();
    for (std::size_t i = 0; i < recording->lanes().size(); ++i) {
        const auto& lane = recording->lanes()[i];
        const std::size_t steps = lane->step_count();
        const std::uint32_t limit = m_session->scenario().lanes[i].uncached_limit;
        // The limit counts the token that was sampled last and not yet pushed through the model.
        if (lane->info().kv_cache || limit == 0 || steps == 0 ||
            lane->step(steps - 1).context_tokens + 1 < limit + m_moreUncached)
            continue;
        const LaneState state = lane->state_after(steps - 1);
        for (const SequenceState& sequence : state.sequences())
            if (sequence.status == SequenceStatus::running) return QString::fromStdString(lane->info().name);
    }
    return {};
}

void SessionController::step(unsigned count) {
    if (!m_session) return;
    m_cursor.setStep(m_cursor.stepCount() - 1);  // follow what comes
    m_session->step(count);
    m_clock.wake();
}

void SessionController::run() {
    if (!m_session) return;
    m_cursor.setStep(m_cursor.stepCount() - 1);
    m_session->run();
    m_clock.wake();
}

void SessionController::pause() {
    if (!m_session) return;
    m_session->pause();
    m_clock.wake();
}

void SessionController::reset() {
    if (!m_session) return;
    m_session->reset();
    m_session->wait();
    showRecording();
    Q_EMIT sessionChanged();
    step();
}

void SessionController::continueUncached() {
    if (!m_session) return;
    m_session->continue_uncached(uncachedLimit);
    m_moreUncached += uncachedLimit;
    m_clock.wake();
}

QString SessionController::act(const ScenarioAction& action) {
    if (!m_session) return {};
    const auto accepted = m_session->act(action);
    if (!accepted) return QString::fromStdString(accepted.error().message());
    step();
    return {};
}

ScenarioAction SessionController::fork(const ForkChoice& choice) {
    ScenarioAction action;
    action.kind = ActionKind::fork;
    action.request = choice.parent;
    action.as = choice.name;
    action.position = choice.position;
    action.prompt = choice.prompt;
    action.max_new_tokens = choice.max_new_tokens;
    return action;
}

ScenarioAction SessionController::preempt(const QString& sequence) {
    ScenarioAction action;
    action.kind = ActionKind::preempt;
    action.request = sequence.toStdString();
    return action;
}

ScenarioAction SessionController::evict(BlockId block) {
    ScenarioAction action;
    action.kind = ActionKind::evict;
    action.block = block.value;
    return action;
}

ScenarioAction SessionController::resetPrefixCache() {
    ScenarioAction action;
    action.kind = ActionKind::reset_prefix_cache;
    return action;
}

}  // namespace kvloupe
