// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/environment.h"

#include "engine/model/mapped_file.h"
#include "gui/model_conversions.h"
#include "kernels/make_backend.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <sys/utsname.h>
#include <unistd.h>

namespace kvloupe {

namespace fs = std::filesystem;

namespace {

std::string environment_variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

// Folder for the log, "" if there is none that can be written.
std::string state_folder() {
    std::string base = environment_variable("XDG_STATE_HOME");
    if (base.empty()) {
        const std::string home = environment_variable("HOME");
        if (home.empty()) return {};
        base = home + "/.local/state";
    }
    std::error_code error;
    const fs::path folder = fs::path(base) / "kvloupe";
    fs::create_directories(folder, error);
    return error ? std::string() : folder.string();
}

// Models by path, loaded once and kept as long as a session uses them.
class ModelShelf {
public:
    Result<std::shared_ptr<const Model>> get(const std::string& path, const LoadOptions& options) {
        const std::lock_guard lock(m_mutex);
        if (auto held = m_models[path].lock()) return held;
        auto loaded = load_model(path, options);
        if (loaded) m_models[path] = *loaded;
        return loaded;
    }

private:
    std::mutex m_mutex;
    std::map<std::string, std::weak_ptr<const Model>> m_models;
};

}  // namespace

std::string resource_folder() {
    std::error_code error;
    const std::string named = environment_variable("KVLOUPE_RESOURCES");
    if (!named.empty()) return named;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    if (!error) {
        const fs::path installed = program.parent_path().parent_path() / "share" / "kvloupe";
        if (fs::is_directory(installed, error)) return installed.string();
    }
    return KVLOUPE_SOURCE_RESOURCES;
}

std::vector<std::string> bundled_models() {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(resource_folder()) / "models", error))
        if (fs::exists(entry.path() / "config.json", error)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

std::string default_bundled_model() { return "gqa"; }

Result<std::string> bundled_model_path(const std::string& name) {
    const std::vector<std::string> names = bundled_models();
    if (std::find(names.begin(), names.end(), name) != names.end())
        return (fs::path(resource_folder()) / "models" / name).string();
    if (names.empty())
        return Error{"There are no bundled models in " + resource_folder() + "/models",
                     "Set KVLOUPE_RESOURCES to KVLoupe's folder 'resources', or name a model file."};
    std::string list;
    for (const std::string& each : names) list += (list.empty() ? "" : ", ") + each;
    return Error{"There is no bundled model '" + name + "'", "The bundled models are: " + list + "."};
}

Result<std::string> resolve_model(const std::string& model) {
    if (model == "bundled") return bundled_model_path(default_bundled_model());
    if (model.rfind("bundled:", 0) == 0) return bundled_model_path(model.substr(8));
    return model;
}

Result<KnownModels> known_models() {
    const Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(resource_folder() + "/known_models.json");
    if (!file) return file.error();
    return KnownModels::parse((*file)->bytes(), (*file)->path());
}

void set_up_logging() {
    std::vector<spdlog::sink_ptr> sinks;
    auto console = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    console->set_level(spdlog::level::warn);
    console->set_pattern("%l: %v");
    sinks.push_back(std::move(console));
    if (const std::string folder = state_folder(); !folder.empty()) {
        try {
            sinks.push_back(
                std::make_shared<spdlog::sinks::rotating_file_sink_mt>(folder + "/kvloupe.log", 1 << 20, 2));
        } catch (const spdlog::spdlog_ex&) {
            // A folder that cannot be written costs the log file, nothing else.
        }
    }
    auto logger = std::make_shared<spdlog::logger>("kvloupe", sinks.begin(), sinks.end());
    logger->set_level(spdlog::level::info);
    logger->flush_on(spdlog::level::warn);
    spdlog::set_default_logger(std::move(logger));
}

double process_age_ms() {
    // proc(5): the fields after the name in parentheses; starttime is the 22nd, in clock ticks since boot.
    std::ifstream stat("/proc/self/stat");
    std::string text((std::istreambuf_iterator<char>(stat)), {});
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) return 0;
    std::istringstream fields(text.substr(name_end + 1));
    std::string field;
    for (int i = 3; i <= 22; ++i) fields >> field;
    timespec now{};
    if (!fields || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
    const double started = std::strtod(field.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
    return (static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - started) * 1e3;
}

SessionOptions session_options(unsigned threads) {
    SessionOptions options;
    options.make_backend = [threads](const std::string& device) {
        return make_backend(BackendOptions{device, threads});
    };
    auto shelf = std::make_shared<ModelShelf>();
    options.find_model = [shelf](const std::string& model) -> Result<std::shared_ptr<const Model>> {
        auto path = resolve_model(model);
        if (!path) return path.error();
        return shelf->get(*path, {});
    };
    options.convert_model = [conversions = std::make_shared<ModelConversions>(options.make_backend)](
                                std::shared_ptr<const Model> model, const ConvertOptions& convert, const LoadOptions& run) {
        return conversions->get(std::move(model), convert, run);
    };
    return options;
}

KvtOptions kvt_options(const std::string& path, const std::string& scenario) {
    KvtOptions options;
    options.path = path;
    options.program = "KVLoupe " KVLOUPE_VERSION;
    std::ifstream processors("/proc/cpuinfo");
    for (std::string line; options.machine.empty() && std::getline(processors, line);)
        if (line.rfind("model name", 0) == 0) options.machine = line.substr(std::min(line.find(':') + 2, line.size()));
    utsname system{};
    if (uname(&system) == 0)
        options.machine += (options.machine.empty() ? "" : ", ") + std::string(system.sysname) + " " + system.release + ", " + system.machine;
    options.scenario = scenario;
    return options;
}

}  // namespace kvloupe
