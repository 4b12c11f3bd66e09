// SPDX-License-Identifier: GPL-3.0-or-later
//
// A run that is recorded where there is no room: exit status 1, a sentence, and what was written opens.
#include "engine/record/kvt_reader.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/texts.h"

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <sched.h>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr int cannot_mount = 77;

std::string scenario() {
    std::string json = "{\"version\": 1, \"model\": \"none\", \"lanes\": [{\"name\": \"a\", \"cache\": {\"blocks\": 4000}}], \"requests\": [";
    for (int i = 0; i < 64; ++i)
        json += std::string(i ? ", " : "") + "{\"id\": \"r" + std::to_string(i) + "\", \"prompt_tokens\": [1, 2, 3], \"max_new_tokens\": 900}";
    return json + "]}";
}

// The program's exit status; what it says on stderr goes into a file.
int run_program(const std::string& scenario_path, const std::string& record, const std::string& said, rlim_t longest_file = RLIM_INFINITY) {
    const pid_t child = fork();
    if (child == 0) {
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        dup2(open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
        if (longest_file != RLIM_INFINITY) {
            const rlimit limit{longest_file, longest_file};
            setrlimit(RLIMIT_FSIZE, &limit);
            std::signal(SIGXFSZ, SIG_IGN);  // writing then fails, and the program goes on
        }
        execl(KVLOUPE_PROGRAM, KVLOUPE_PROGRAM, "run", scenario_path.c_str(), "--record", record.c_str(), static_cast<char*>(nullptr));
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// "" or what is wrong with how the run ended and with what it left.
std::string judge_full(int status, const std::string& said, const std::string& record, std::string_view sentence) {
    if (status != 1) return "exit status " + std::to_string(status);
    if (!contains(said, record) || !contains(said, sentence)) return "it says: " + said;
    const auto stored = open_kvt(record);
    if (!stored) return stored.error().message();
    if (stored->recording->lanes()[0]->step_count() == 0) return "no step was kept";
    const auto wrong = check_kvt(record);
    return wrong.empty() ? std::string() : wrong.front();
}

// In namespaces of its own, so that nobody else sees the mount.
int on_a_small_disk(const std::string& folder, const std::string& report) {
    if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0) return cannot_mount;
    (void)mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    const std::string disk = folder + "/disk";
    std::filesystem::create_directory(disk);
    if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1200k") != 0) return cannot_mount;
    const int status = run_program(folder + "/long.json", disk + "/run.kvt", folder + "/said");
    const std::string wrong = judge_full(status, read_file(folder + "/said"), disk + "/run.kvt", "the disk is full");
    write_bytes(report, wrong);
    return wrong.empty() ? 0 : 1;
}

void aFullDiskIsSaidAndWhatWasWrittenStays(Check& check) {
    const TemporaryFolder folder;
    CHECK_THAT(write_bytes(folder.file("long.json"), scenario()));
    const pid_t child = fork();
    if (child == 0) _exit(on_a_small_disk(folder.path(), folder.file("report")));
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == cannot_mount) return check.skip("no small file system can be mounted here");
    CHECK_EQUAL(read_file(folder.file("report")), "");
    CHECK_THAT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void aFileThatMayNotGrowIsSaidAndWhatWasWrittenStays(Check& check) {
    const TemporaryFolder folder;
    CHECK_THAT(write_bytes(folder.file("long.json"), scenario()));
    const std::string record = folder.file("run.kvt");
    const int status = run_program(folder.file("long.json"), record, folder.file("said"), 1'500'000);
    CHECK_EQUAL(judge_full(status, read_file(folder.file("said")), record, "writing failed"), "");
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aFullDiskIsSaidAndWhatWasWrittenStays));
    claims.add(CLAIM(aFileThatMayNotGrowIsSaidAndWhatWasWrittenStays));
    return claims.rows();
}
