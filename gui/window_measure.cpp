// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window_measure.h"

#include "gui/commands.h"
#include "gui/main_window.h"

#include <QApplication>
#include <QTimer>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>

namespace kvloupe {

int measureWindow(MainWindow& window) {
    SessionController* controller = window.controller();
    QObject::connect(controller, &SessionController::failed, &window, [](const QString& sentence) {
        fail(sentence.toStdString());
        QApplication::exit(exit_failed);
    });
    QObject::connect(controller, &SessionController::sessionChanged, &window,
                     [controller] { QTimer::singleShot(200, controller, [controller] { controller->run(); }); });
    // Uncached lanes pause at their limit and are continued, so that the run lasts.
    QTimer poll;
    int continued = 0;
    QObject::connect(&poll, &QTimer::timeout, &window, [&] {
        if (!controller->hasSession() || controller->phase() == Phase::running || controller->cursor()->stepCount() < 2)
            return;
        if (controller->phase() == Phase::paused && continued++ < 20) {
            controller->continueUncached();
            controller->run();
            return;
        }
        QApplication::exit(exit_done);
    });
    poll.start(50);
    Scenario scenario = SessionController::bundledScenario();
    scenario.requests.front().max_new_tokens = 400;
    QTimer::singleShot(0, controller, [controller, scenario] { controller->openScenario(scenario, true); });
    QTimer::singleShot(60000, &window, [] { QApplication::exit(exit_failed); });
    const int status = QApplication::exec();

    std::vector<double> gaps = controller->clock()->frameGaps();
    std::sort(gaps.begin(), gaps.end());
    nlohmann::json document;
    document["first_paint_ms"] = window.firstPaintMs() ? nlohmann::json(*window.firstPaintMs()) : nlohmann::json();
    document["frames"] = gaps.size();
    document["steps"] = controller->cursor()->stepCount();
    const auto share = [&gaps](double p) {
        return gaps.empty() ? nlohmann::json() : nlohmann::json(gaps[static_cast<std::size_t>(p * static_cast<double>(gaps.size() - 1))]);
    };
    document["frame_gap_ms"] = {{"p50", share(0.50)}, {"p95", share(0.95)}, {"max", share(1.0)}};
    std::cout << document.dump(2) << '\n';
    return status;
}

}  // namespace kvloupe
