// SPDX-License-Identifier: GPL-3.0-or-later
//
// Planted faults, each in a process of its own: what a sanitizer is said to catch, it catches, and names the place; the same
// kernels without the fault pass.
#include "tests/support/rows.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>

using namespace kvloupe::test;

namespace {

struct Outcome {
    int status = -1;
    std::string output;
};

Outcome run(const std::string& fault) {
    const std::string command = "ASAN_OPTIONS=exitcode=77:detect_leaks=0 TSAN_OPTIONS=exitcode=66:halt_on_error=1 "
                                "UBSAN_OPTIONS=print_stacktrace=0 '" KVLOUPE_FAULTS "' " + fault + " 2>&1";
    Outcome outcome;
    FILE* const pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return outcome;
    std::array<char, 4096> part{};
    while (const std::size_t count = std::fread(part.data(), 1, part.size(), pipe)) outcome.output.append(part.data(), count);
    const int status = pclose(pipe);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
}

enum class Sanitizer { none, address, thread };

#if defined(KVLOUPE_EMULATION_ASAN)
constexpr Sanitizer built = Sanitizer::address;
#elif defined(KVLOUPE_EMULATION_TSAN)
constexpr Sanitizer built = Sanitizer::thread;
#else
constexpr Sanitizer built = Sanitizer::none;
#endif

// parts: what the report must say, the kernel's name among it.
Row caught(Sanitizer by, const char* claim, const char* fault, std::vector<std::string> parts) {
    return {std::string(by == Sanitizer::address ? "AddressSanitizer" : "ThreadSanitizer") + " reports " + claim,
            [by, fault, parts](Check& check) {
                if (by != built)
                    return check.skip(by == Sanitizer::address ? "not built with AddressSanitizer (preset asan)"
                                                               : "not built with ThreadSanitizer (preset tsan)");
                const Outcome outcome = run(fault);
                if (outcome.status != (by == Sanitizer::address ? 77 : 66))
                    check.fail("exit status " + shown(outcome.status) + ": " + outcome.output, __FILE__, __LINE__);
                for (const std::string& part : parts)
                    if (outcome.output.find(part) == std::string::npos)
                        check.fail("no '" + part + "' in: " + outcome.output, __FILE__, __LINE__);
            }};
}

Row passes(const char* claim, const char* fault) {
    return {claim, [fault](Check& check) {
        const Outcome outcome = run(fault);
        if (outcome.status != 0)
            check.fail("exit status " + shown(outcome.status) + ": " + outcome.output, __FILE__, __LINE__);
    }};
}

void divergence(Check& check) {
    const Outcome outcome = run("divergent");
    CHECK_EQUAL(outcome.status, 3);
    CHECK_THAT(outcome.output.find("divergent __syncthreads") != std::string::npos);
    CHECK_THAT(outcome.output.find("thread (10, 0, 0) never reaches: it has returned") != std::string::npos);
    CHECK_EQUAL(run("no such fault").status, 2);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    const std::string file = "emulation_faults.cpp";
    return {
        caught(Sanitizer::address, "a write past a static shared array", "static-shared", {"write_static_shared", file}),
        caught(Sanitizer::address, "a write before a static shared array", "static-shared-before", {"write_static_shared", file}),
        caught(Sanitizer::address, "a write past dynamic shared memory", "dynamic-shared", {"write_dynamic_shared", file}),
        caught(Sanitizer::address, "a write past an array in global memory", "global", {"write_global", file}),
        caught(Sanitizer::address, "a write past a local array of one thread", "local", {"write_local", "stack-buffer-overflow"}),
        caught(Sanitizer::thread, "a missing barrier between a write and a read", "barrier", {"data race", "reverse", file}),
        caught(Sanitizer::thread, "a missing barrier before shared memory is written again", "second-barrier",
               {"data race", "reverse_twice", file}),
        caught(Sanitizer::thread, "a shuffle in the place of __syncwarp", "syncwarp", {"data race", "through_a_warp", file}),
        caught(Sanitizer::thread, "a missing barrier after the wait for asynchronous copies", "copy-barrier",
               {"data race", "copy_tile"}),
        caught(Sanitizer::thread, "two blocks that write one element", "blocks", {"data race", "write_from_blocks", file}),
        passes("accesses within their arrays pass", "sound-memory"),
        passes("threads that wait for each other pass", "sound-threads"),
        {"a thread that leaves before a barrier is named in every build", divergence},
    };
}
