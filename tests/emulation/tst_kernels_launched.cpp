// SPDX-License-Identifier: GPL-3.0-or-later
//
// Every __global__ function of kernels/cuda runs in some emulated test. Runs after them: each leaves the names of the
// kernels that it launched in a file.
#include "tests/support/rows.h"

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

using namespace kvloupe::test;

namespace {

// A kernel's name: its file, and whether its body begins with KVLOUPE_KERNEL(its name).
struct Kernel {
    std::string file;
    bool named = false;
};

// Reads what may stand between `__global__` and a kernel's body.
class Scanner {
public:
    Scanner(const std::string& text, std::size_t at) : m_text(text), m_at(at) {}

    std::string word() {
        skip_spaces();
        const std::size_t begin = m_at;
        while (m_at < m_text.size() && (std::isalnum(static_cast<unsigned char>(m_text[m_at])) != 0 || m_text[m_at] == '_')) ++m_at;
        return m_text.substr(begin, m_at - begin);
    }
    // "(…)" with its nested ones; the text between.
    std::string parentheses() {
        skip_spaces();
        if (!take('(')) return "";
        const std::size_t begin = m_at;
        for (int depth = 1; m_at < m_text.size(); ++m_at) {
            depth += (m_text[m_at] == '(') - (m_text[m_at] == ')');
            if (depth == 0) return m_text.substr(begin, m_at++ - begin);
        }
        return "";
    }
    bool take(char letter) {
        skip_spaces();
        if (m_at >= m_text.size() || m_text[m_at] != letter) return false;
        ++m_at;
        return true;
    }

private:
    void skip_spaces() {
        while (m_at < m_text.size() && std::isspace(static_cast<unsigned char>(m_text[m_at])) != 0) ++m_at;
    }

    const std::string& m_text;
    std::size_t m_at;
};

std::map<std::string, Kernel> kernels_of_the_sources() {
    const std::string mark = "__global__";
    std::map<std::string, Kernel> kernels;
    for (const auto& entry : std::filesystem::directory_iterator(KVLOUPE_SOURCE_DIR "/kernels/cuda")) {
        const std::string extension = entry.path().extension().string();
        if (extension != ".cu" && extension != ".cuh" && extension != ".h") continue;
        std::ifstream in(entry.path());
        std::string text;
        for (std::string line; std::getline(in, line);) text += line.substr(0, line.find("//")) + '\n';
        for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
            // __global__ void __launch_bounds__(…) name(…) { KVLOUPE_KERNEL(name)
            Scanner scanner(text, at + mark.size());
            std::string word = scanner.word();
            while (word == "void" || word == "__launch_bounds__" || word == "static") {
                if (word == "__launch_bounds__") scanner.parentheses();
                word = scanner.word();
            }
            const bool understood = !word.empty() && !scanner.parentheses().empty();
            Kernel& kernel = kernels[understood ? word : "(a kernel that this test does not understand)"];
            kernel.file = entry.path().filename().string();
            if (scanner.take('{') && scanner.word() == "KVLOUPE_KERNEL" && scanner.parentheses() == word) kernel.named = true;
        }
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
            // ctest runs them all before; one that leaves no file has launched nothing.
            if (std::getenv("KVLOUPE_EMULATED_TESTS_RAN") != nullptr) continue;
            check.skip("the emulated test " + test + " has not run (ctest -L emulation runs all of them first)");
            return;
        }
        for (std::string name; std::getline(in, name);) launched.insert(name);
    }
    std::string missing;
    for (const auto& [name, kernel] : kernels_of_the_sources())
        if (launched.count(name) == 0) missing += " " + name + " (" + kernel.file + ")";
    CHECK_THAT(!launched.empty());
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
