// SPDX-License-Identifier: GPL-3.0-or-later
//
// Every __global__ function of kernels/cuda runs in some emulated test. Runs after them: each leaves the names of the
// kernels that it launched in a file.
#include "tests/support/rows.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

using namespace kvloupe::test;

namespace {

// A kernel's name: its file, and whether its body begins with KVLOUPE_KERNEL(its name).
struct Kernel {
    std::string file;
    bool named = false;
};

std::map<std::string, Kernel> kernels_of_the_sources() {
    // __global__ void __launch_bounds__(…) name( … ) { KVLOUPE_KERNEL(name)
    static const std::regex head("__global__\\s+(?:__launch_bounds__\\s*\\([^)]*\\)\\s*)?void\\s+"
                                 "(?:__launch_bounds__\\s*\\([^)]*\\)\\s*)?(\\w+)\\s*\\(([^{;]*)([{;])\\s*(?:KVLOUPE_KERNEL\\((\\w+)\\))?");
    std::map<std::string, Kernel> kernels;
    for (const auto& entry : std::filesystem::directory_iterator(KVLOUPE_SOURCE_DIR "/kernels/cuda")) {
        const std::string extension = entry.path().extension().string();
        if (extension != ".cu" && extension != ".cuh" && extension != ".h") continue;
        std::ifstream in(entry.path());
        std::string text;
        for (std::string line; std::getline(in, line);) text += line.substr(0, line.find("//")) + '\n';
        for (std::sregex_iterator it(text.begin(), text.end(), head), end; it != end; ++it) {
            Kernel& kernel = kernels[(*it)[1].str()];
            kernel.file = entry.path().filename().string();
            kernel.named = kernel.named || (*it)[4].str() == (*it)[1].str();
        }
        // Nothing may escape the pattern.
        const std::string word = "__global__";
        std::size_t words = 0;
        for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++words;
        const auto found = std::distance(std::sregex_iterator(text.begin(), text.end(), head), std::sregex_iterator());
        if (words != static_cast<std::size_t>(found)) kernels["__global__ not understood"].file = entry.path().filename().string();
    }
    return kernels;
}

std::vector<std::string> emulated_tests() {
    std::istringstream names(KVLOUPE_EMULATED_TESTS);
    return {std::istream_iterator<std::string>(names), {}};
}

void all_launched(Check& check) {
    std::set<std::string> launched;
    for (const std::string& test : emulated_tests()) {
        std::ifstream in(KVLOUPE_LAUNCHED_FOLDER "/" + test + ".txt");
        if (!in) {
            // Run by hand, one test at a time.
            check.skip("the emulated test " + test + " has not run (ctest -L emulation runs all of them first)");
            return;
        }
        for (std::string name; std::getline(in, name);) launched.insert(name);
    }
    std::string missing;
    for (const auto& [name, kernel] : kernels_of_the_sources())
        if (launched.count(name) == 0) missing += " " + name + " (" + kernel.file + ")";
    if (!missing.empty()) check.fail("no emulated test launched:" + missing, __FILE__, __LINE__);
    check.note(shown(kernels_of_the_sources().size()) + " kernels");
}

void all_named(Check& check) {
    for (const auto& [name, kernel] : kernels_of_the_sources())
        if (!kernel.named)
            check.fail(name + " in " + kernel.file + " does not begin with KVLOUPE_KERNEL(" + name + ")", __FILE__, __LINE__);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    return {
        {"every kernel's body begins with its name", all_named},
        {"every kernel was launched by an emulated test", all_launched},
    };
}
