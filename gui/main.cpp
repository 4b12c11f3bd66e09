// SPDX-License-Identifier: GPL-3.0-or-later
//
// kvloupe: a window, or one of the commands that need none.
#include "gui/commands.h"
#include "gui/comparing.h"
#include "gui/environment.h"
#include "gui/main_window.h"
#include "gui/window_measure.h"

#include <QApplication>
#include <QTimer>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <sstream>
#include <unistd.h>

namespace {

constexpr const char* usage_text =
    "kvloupe [FILE]                             open the window: a model (GGUF file or Hugging Face folder), a scenario\n"
    "                                           (.json), a recording (.kvt) or a memory snapshot of PyTorch's (.pickle)\n"
    "kvloupe FILE.kvt --compare OTHER.kvt       open the window with two recordings side by side\n"
    "kvloupe run SCENARIO [--export DIR] [--pictures] [--record FILE.kvt [--flight-recorder MINUTES]] [--threads N]\n"
    "kvloupe tokenize MODEL (--text T | --file F) [--special] [--json]\n"
    "kvloupe devices [--json]\n"
    "kvloupe size MODEL [--context N] [--batch B] [--dtype T] [--tp N] [--pp N] [--gpu NAME] [--utilization 0.9] [--json]\n"
    "kvloupe bench [MODEL] [--sweep] [--json]\n"
    "kvloupe quality SCENARIO|MODEL [--dtype LIST] [--text FILE] [--texts N] [--questions N] [--reference LANE] [--json]\n"
    "kvloupe export FILE (--view ID [--step N | --steps A..B] [--lane NAME] [--size WxH] [--scale S]\n"
    "                      [--compare OTHER.kvt] [--with LANE] [--align step|token|time] | --trace | --results | --report\n"
    "                     | --cut A..B [--strip] | --strip) --to OUT       FILE: a recording (.kvt) or a memory snapshot (.pickle)\n"
    "kvloupe query FILE.kvt \"SQL\" [--json | --csv] [--seconds N]\n"
    "kvloupe check FILE.kvt [--assert \"copies <= 3\"] …\n"
    "kvloupe branch FILE.kvt --step N [--lane L] [--name NAME] [--set cache.dtype=int8] … [--request ID --token ID] [--steps M]\n"
    "                                           (--record OUT.kvt | --export DIR)\n"
    "kvloupe diff A.kvt [B.kvt] [--lane NAME] [--with LANE] [--no-times] [--json]\n";

// The lines of the usage text that speak of a command; "" for a word that is none.
std::string usage_of(const std::string& command) {
    std::istringstream lines(usage_text);
    std::string text, line;
    bool wanted = false;
    while (std::getline(lines, line)) {
        if (line.rfind("kvloupe", 0) == 0) wanted = line.rfind("kvloupe " + command + ' ', 0) == 0;
        if (wanted) text += line + '\n';
    }
    return text;
}

bool display_named() {
    const auto set = [](const char* name) {
        const char* value = std::getenv(name);
        return value && *value;
    };
    return set("DISPLAY") || set("WAYLAND_DISPLAY") || set("QT_QPA_PLATFORM");
}

// Qt aborts where no display answers; one sentence and an exit status say the same.
void message_handler(QtMsgType type, const QMessageLogContext&, const QString& text) {
    if (type == QtFatalMsg) {
        std::cerr << "kvloupe: the display '" << (std::getenv("DISPLAY") ? std::getenv("DISPLAY") : "") << "' does not answer. "
                  << "Start it from a desktop, or use the commands that need no window (kvloupe --help).\n";
        _exit(kvloupe::exit_failed);
    }
    if (type == QtWarningMsg || type == QtCriticalMsg) {
        if (!text.contains(QLatin1String("xcb")) && !text.contains(QLatin1String("wayland")))
            spdlog::warn("Qt: {}", text.toStdString());
    }
}

// Commands paint without a display: what Qt says about the desktop that is not there concerns nobody.
void command_messages(QtMsgType type, const QMessageLogContext&, const QString& text) {
    if (type == QtFatalMsg) std::cerr << "kvloupe: " << text.toStdString() << '\n';
    else spdlog::debug("Qt: {}", text.toStdString());
}

int window(int argc, char** argv, const std::vector<std::string>& words, bool measure) {
    if (!display_named())
        return kvloupe::fail("no display is set (DISPLAY, WAYLAND_DISPLAY). Start it from a desktop, or use the commands "
                             "that need no window (kvloupe --help).");
    qInstallMessageHandler(message_handler);
    QApplication application(argc, argv);
    kvloupe::MainWindow main_window;
    main_window.show();
    if (measure) return kvloupe::measureWindow(main_window);
    QTimer::singleShot(0, &main_window, [&] {
        if (words.empty())
            main_window.controller()->openBundled();
        else
            main_window.controller()->openPath(QString::fromStdString(words[0]));
        if (words.size() == 3)  // FILE --compare OTHER
            QObject::connect(main_window.controller(), &kvloupe::SessionController::sessionChanged, &main_window,
                             [&] { main_window.comparing()->open(QString::fromStdString(words[2])); }, Qt::SingleShotConnection);
    });
    return QApplication::exec();
}

int dispatch(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const std::string first = words.empty() ? "" : words[0];
    const std::vector<std::string> rest(words.begin() + (words.empty() ? 0 : 1), words.end());

    kvloupe::set_up_logging();
    QCoreApplication::setApplicationName(QStringLiteral("kvloupe"));
    QCoreApplication::setOrganizationName(QStringLiteral("kvloupe"));
    QCoreApplication::setApplicationVersion(QStringLiteral(KVLOUPE_VERSION));

    if (first == "--help" || first == "-h") {
        std::cout << usage_text;
        return kvloupe::exit_done;
    }
    if (first == "--version") {
        std::cout << "kvloupe " KVLOUPE_VERSION "\n";
        return kvloupe::exit_done;
    }
    if (!rest.empty() && (rest[0] == "--help" || rest[0] == "-h")) {
        if (const std::string text = usage_of(first); !text.empty()) {
            std::cout << text;
            return kvloupe::exit_done;
        }
    }
    if (first == "--check-display") {
        if (!display_named()) return kvloupe::fail("no display is set (DISPLAY, WAYLAND_DISPLAY).");
        qInstallMessageHandler(message_handler);
        QGuiApplication application(argc, argv);
        return kvloupe::exit_done;
    }
    if (first == "--measure-window") return window(argc, argv, rest, true);
    if (first == "run") {
        // Pictures are painted without a display; a platform that was chosen is kept.
        setenv("QT_QPA_PLATFORM", "offscreen", 0);
        const bool pictures = std::find(words.begin(), words.end(), "--pictures") != words.end();
        if (!pictures) return kvloupe::run_command(rest);
        qInstallMessageHandler(command_messages);
        QApplication application(argc, argv);
        return kvloupe::run_command(rest);
    }
    if (first == "tokenize") return kvloupe::tokenize_command(rest);
    if (first == "devices") return kvloupe::devices_command(rest);
    if (first == "size") return kvloupe::size_command(rest);
    if (first == "bench") return kvloupe::bench_command(rest);
    if (first == "quality") return kvloupe::quality_command(rest);
    if (first == "query") return kvloupe::query_command(rest);
    if (first == "check") return kvloupe::check_command(rest);
    if (first == "branch") return kvloupe::branch_command(rest);
    if (first == "diff") return kvloupe::diff_command(rest);
    if (first == "export") {
        setenv("QT_QPA_PLATFORM", "offscreen", 0);
        qInstallMessageHandler(command_messages);
        QApplication application(argc, argv);
        return kvloupe::export_command(rest);
    }
    if (words.size() == 3 && words[1] == "--compare" && first.rfind("-", 0) != 0) return window(argc, argv, words, false);
    if (first.rfind("-", 0) == 0 || words.size() > 1) {
        kvloupe::fail(words.size() > 1 && first.rfind("-", 0) != 0
                          ? "'" + words[1] + "' is one argument too many; the window opens one FILE"
                          : "'" + first + "' is no option of kvloupe",
                      kvloupe::exit_usage);
        std::cerr << usage_text;
        return kvloupe::exit_usage;
    }
    return window(argc, argv, words, false);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const int status = dispatch(argc, argv);
        std::cout.flush();
        // A disk that filled up: what was printed into a file is not whole.
        if (!std::cout && status == kvloupe::exit_done) return kvloupe::fail("what was to be printed could not be written. Free some space where it goes.");
        return status;
    } catch (const std::exception& problem) {
        return kvloupe::fail(std::string("this should not have happened: ") + problem.what());
    }
}
