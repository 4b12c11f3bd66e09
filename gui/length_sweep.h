// SPDX-License-Identifier: GPL-3.0-or-later
//
// Length sweep: generates up to N tokens with and without a KV cache on the model at hand and takes the time to every
// length from the same runs. It runs beside the window, with cancel.
#pragma once

#include "engine/model/model.h"
#include "engine/record/result.h"
#include "engine/serve/session.h"
#include "views/sweep_result.h"

#include <QList>
#include <QObject>

#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace kvloupe {

class SessionController;
class SweepView;
class View;

struct SweepOptions {
    std::string model;                  // bundled, bundled:NAME or a path
    std::vector<int> lengths;           // new tokens, ascending, e.g. 10 … 500
    int repeats = 3;                    // the median of each length is taken
    int threads = 0;                    // 0: one per core
};

// The lengths from `least` to `most`, at most `count` of them, evenly spread and without repetition.
std::vector<int> sweepLengths(int least, int most, int count);

// Lengths that leave no room in the context are cut to `room`, once.
std::vector<int> lengthsWithin(std::vector<int> lengths, int room);

// Blocking. progress: 0 … 1 and a sentence. Times are sums of measured step durations until the length was reached.
Result<SweepResult> runLengthSweep(const SweepOptions& options, std::stop_token stop,
                                   const std::function<void(double, const std::string&)>& progress);

class LengthSweep : public QObject {
    Q_OBJECT

public:
    explicit LengthSweep(QObject* parent = nullptr);
    ~LengthSweep() override;

    void attach(const QList<View*>& views, SessionController* controller);
    void start();
    void cancel();
    // New tokens of the first and the last bar.
    void setRange(int least, int most);
    int least() const { return m_least; }
    int most() const { return m_most; }

private:
    void startThread(std::function<void(std::stop_token)> work);

    SessionController* m_controller = nullptr;
    SweepView* m_view = nullptr;
    std::jthread m_thread;
    bool m_busy = false;
    int m_least = 10;
    int m_most = 500;
};

}  // namespace kvloupe
