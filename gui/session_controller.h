// SPDX-License-Identifier: GPL-3.0-or-later
//
// SessionController: opens models, scenarios and recordings on a thread of its own, with progress and cancel, and holds the
// session or the recording file, the cursor and the frame clock that the window shows. What fails to open leaves the session that was open as it was; only
// on a card, whose memory holds one of them, the old one goes as soon as models, devices and prompts of the new one are good.
#pragma once

#include <QObject>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/record/kvt_reader.h"
#include "engine/serve/branch.h"
#include "engine/serve/session.h"
#include "gui/fork_dialog.h"
#include "views/cursor.h"
#include "views/frame_clock.h"

#include <QString>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

namespace kvloupe {

class SessionController : public QObject {
    Q_OBJECT

public:
    // An uncached lane pauses at this many tokens and can be continued.
    static constexpr std::uint32_t uncachedLimit = 128;

    explicit SessionController(QObject* parent = nullptr);
    ~SessionController() override;

    Cursor* cursor() { return &m_cursor; }
    const Cursor* cursor() const { return &m_cursor; }
    FrameClock* clock() { return &m_clock; }
    Session* session() const { return m_session.get(); }
    bool hasSession() const { return m_session != nullptr; }
    // A recording file is open: everything can be looked at, nothing steps.
    bool hasFile() const { return m_file.has_value(); }
    const std::optional<StoredRecording>& file() const { return m_file; }
    QString filePath() const { return m_file ? m_filePath : QString(); }
    // Of the session or the file; null where neither is open.
    std::shared_ptr<const Recording> recording() const;
    bool isLoading() const { return m_loading; }
    Phase phase() const;

    // A model file or folder, a scenario (.json), a recording (.kvt) or a memory snapshot of PyTorch's (.pickle).
    void openPath(const QString& path);
    // The lanes MHA, GQA, MQA and GQA uncached over one prompt.
    void openBundled();
    // `firstStep`: step once when it is there, so that the views have something to show; a scenario with breakpoints runs
    // to the first of them.
    void openScenario(const Scenario& scenario, bool firstStep = true);
    void close();
    void cancelLoading();
    // CPU threads of sessions opened from now on; 0: one per core.
    void setThreads(unsigned threads);
    unsigned threads() const { return m_threads; }
    // The session's scenario from the start, in a session on that device ("auto", "cpu", "cuda:N"), also for lanes that
    // named another one. What fails to open leaves everything as it was.
    void chooseDevice(const QString& device);
    // Who makes the devices of sessions opened from now on, in place of the program's own.
    void setBackendFactory(BackendFactory make);
    // What sessions are opened with: models, devices, conversions.
    const SessionOptions& sessionOptions() const { return m_options; }
    BackendFactory backendFactory() const { return m_options.make_backend; }

    // What is open as a scenario that can be run again, what the user did included. Errors: a file that holds none.
    Result<Scenario> replayableScenario() const;
    // As JSON for a recording file; of a file what it holds; "" where there is none.
    std::string scenarioJson() const;
    // Restart from here: the session is put back to the step from its nearest key frame (Session::restart), or one made from the open
    // file computes steps 0 … step again; it pauses there, and replayed() tells how it went. Returns why it cannot be, "" if it can.
    QString restart(int step);
    // A session with one lane more that continues one of those that are open; all are computed again up to where they stood, and the
    // cursor goes to the branch's first step. Returns why it cannot be, "" if it can.
    QString branch(const BranchWish& wish);
    // The scenario with the branch, or why there is none; nothing is opened.
    Result<Scenario> branched(const BranchWish& wish) const;

    static Scenario bundledScenario(const QString& prompt = {});
    static Scenario modelScenario(const QString& path, const QString& prompt = {});

    // The uncached lane that stopped at its limit with work left, or "".
    QString laneAtLimit() const;

    // Commands of the toolbar.
    void step(unsigned count = 1);
    void run();
    void pause();
    void reset();
    void continueUncached();
    // Actions on sequences and blocks, carried out by all lanes in the next step. Returns why it cannot be, "" if it can.
    QString act(const ScenarioAction& action);
    static ScenarioAction fork(const ForkChoice& choice);
    static ScenarioAction preempt(const QString& sequence);
    static ScenarioAction evict(BlockId block);
    static ScenarioAction resetPrefixCache();

Q_SIGNALS:
    void loadingChanged();
    void loadingProgress(double fraction, const QString& what);
    void sessionChanged();               // another session, or none
    void failed(const QString& sentence);
    void phaseChanged();
    void replayed(const QString& sentence);  // a replay ended; "" where all is as it was recorded

private:
    struct Loaded;
    void openRecording(const QString& path);
    // Runs `load` on the loader's thread; what it leaves in Loaded is taken over.
    void startLoading(std::function<void(std::stop_token, quint64 job, Loaded&)> load);
    void giveUpCards();
    void finishLoading(quint64 job, std::shared_ptr<Loaded> loaded);
    void showRecording();
    void focusPause();
    // session_controller_replay.cpp
    struct Replay {
        std::shared_ptr<const Recording> before;
        std::optional<std::uint32_t> last;
        int step = 0;                   // where the cursor stays
        std::string lane;               // in focus at the end
    };
    void openReplay(Scenario scenario, Replay replay);
    void awaitReplay(int step, const std::string& lane);
    void followReplay();

    Cursor m_cursor;
    FrameClock m_clock;
    SessionOptions m_options;
    std::unique_ptr<Session> m_session;
    std::optional<StoredRecording> m_file;
    QString m_filePath;
    std::jthread m_loader;
    quint64 m_job = 0;
    std::uint32_t m_moreUncached = 0;  // tokens granted to uncached lanes beyond their limit
    std::optional<PauseFocus> m_shownFocus;  // locked once; what the user locks or clears afterwards stays
    bool m_loading = false;
    bool m_firstStep = false;
    std::optional<Replay> m_replay;    // for the session that is being opened
    int m_replayStep = 0;              // of a replay: where the cursor stays
    std::string m_replayLane;          // and the lane in focus
    bool m_replaying = false;
    unsigned m_threads = 0;
    BackendFactory m_otherFactory;
};

}  // namespace kvloupe
