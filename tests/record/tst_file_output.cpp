// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/file_output.h"
#include "engine/record/results.h"
#include "engine/record/writer.h"
#include "tests/support/claims.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/texts.h"

#include <csignal>
#include <filesystem>
#include <sys/resource.h>
#include <unistd.h>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::string content(const std::string& path) {
    return file_exists(path) ? read_file(path) : "unreadable";
}

// Writes fail beyond so many bytes a file, as on a full disk.
class FileSizeLimit {
public:
    explicit FileSizeLimit(rlim_t bytes) {
        m_handler = std::signal(SIGXFSZ, SIG_IGN);
        ::getrlimit(RLIMIT_FSIZE, &m_before);
        rlimit limit = m_before;
        limit.rlim_cur = bytes;
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~FileSizeLimit() {
        ::setrlimit(RLIMIT_FSIZE, &m_before);
        std::signal(SIGXFSZ, m_handler);
    }
    FileSizeLimit(const FileSizeLimit&) = delete;
    FileSizeLimit& operator=(const FileSizeLimit&) = delete;

private:
    rlimit m_before{};
    void (*m_handler)(int) = nullptr;
};

void filesAppearOnlyWhenPutInPlace(Check& check) {
    const TemporaryFolder folder;
    {
        FileOutput output(folder.path());
        CHECK_THAT(output.write("a.txt", "one"));
        CHECK_THAT(!file_exists(folder.file("a.txt")));
        CHECK_THAT(output.put_in_place());
        CHECK_EQUAL(content(folder.file("a.txt")), "one");
        CHECK_THAT(output.write("b.txt", "two"));
    }  // given up
    CHECK_EQUAL(names_in(folder.path()), (std::vector<std::string>{"a.txt"}));
    CHECK_THAT(write_file(folder.file("a.txt"), "three"));
    CHECK_EQUAL(content(folder.file("a.txt")), "three");
}

void failedWriteKeepsTheOldFile(Check& check) {
    const TemporaryFolder folder;
    const std::string path = folder.file("a.txt");
    CHECK_THAT(write_file(path, "old"));
    {
        const FileSizeLimit limit(1000);
        CHECK_THAT(!write_file(path, std::string(5000, 'x')));
    }
    CHECK_EQUAL(content(folder.file("a.txt")), "old");
    CHECK_EQUAL(names_in(folder.path()), (std::vector<std::string>{"a.txt"}));
}

void fullDiskLeavesNothingHalfWritten(Check& check) {
    const TemporaryFolder folder;
    const FileSizeLimit limit(1000);
    const auto written = write_file(folder.file("big.json"), std::string(5000, 'x'));
    CHECK_THAT(!written);
    const std::string message = written.error().message();
    CHECK_OR_SAY(contains(message, "big.json cannot be written: File too large"), message);
    CHECK_THAT(names_in(folder.path()).empty());
}

struct ErrorsNameFileReasonAndRemedyCase {
    std::string path, reason;
};
Cases<ErrorsNameFileReasonAndRemedyCase> errorsNameFileReasonAndRemedy_cases() {
    Cases<ErrorsNameFileReasonAndRemedyCase> cases;
    cases.add("no such folder", {"/nowhere/at/all.json", "No such file or directory"});
    cases.add("a folder has the name", {"FOLDER", "what has this name is no file"});
    cases.add("long name", {"FOLDER/" + std::string(300, 'n'), "File name too long"});
    cases.add("proc", {"/proc/kvloupe.json", ""});
    return cases;
}
void errorsNameFileReasonAndRemedy(Check& check, const ErrorsNameFileReasonAndRemedyCase& row) {
    const TemporaryFolder folder;
    const std::string path = row.path.starts_with("FOLDER") ? folder.path() + row.path.substr(6) : row.path;
    const auto written = write_file(path, "text");
    CHECK_THAT(!written);
    const std::string message = written.error().message();
    CHECK_OR_SAY(contains(message, path + " cannot be written: ") && contains(message, row.reason), message);
    CHECK_THAT(!written.error().hint.empty());
}

void readOnlyFolderIsSaid(Check& check) {
    using std::filesystem::perms;
    if (::geteuid() == 0) SKIP_ROW("root may write to read-only folders");
    const TemporaryFolder folder;
    std::filesystem::permissions(folder.path(), perms::owner_read | perms::owner_exec);
    const auto written = write_file(folder.file("a.txt"), "text");
    std::filesystem::permissions(folder.path(), perms::owner_all);
    CHECK_THAT(!written);
    CHECK_THAT(written.error().message().find("Permission denied") != std::string::npos);
}

void resultsAreAllOrNothing(Check& check) {
    RecordingWriter writer("t", 0);
    LaneInfo info;
    info.name = std::string(3000, 'n');  // makes summary.json longer than the limit
    writer.add_lane(info, nullptr);
    writer.lanes_complete();
    const TemporaryFolder folder;
    const std::string results = folder.file("new/results");
    {
        const FileSizeLimit limit(2000);
        const auto written = write_results(*writer.recording(), results, {});
        CHECK_THAT(!written);
        CHECK_THAT(written.error().message().find("summary.json") != std::string::npos);
    }
    CHECK_THAT(names_in(folder.file("new/results")).empty());
    CHECK_THAT(write_results(*writer.recording(), results, {}));
    CHECK_EQUAL(names_in(folder.file("new/results")),
                (std::vector<std::string>{"events.csv", "steps.csv", "summary.json", "trace.json"}));
    ResultOptions options;
    options.blocks = true;
    CHECK_THAT(write_results(*writer.recording(), results, options));
    CHECK_THAT(file_exists(folder.file("new/results/blocks.json")));
    // A file where the folder should be.
    const auto blocked = write_results(*writer.recording(), results + "/steps.csv", {});
    CHECK_THAT(!blocked);
    CHECK_OR_SAY(blocked.error().message().find("steps.csv cannot be written") != std::string::npos, blocked.error().message());
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(filesAppearOnlyWhenPutInPlace));
    claims.add(CLAIM(failedWriteKeepsTheOldFile));
    claims.add(CLAIM(fullDiskLeavesNothingHalfWritten));
    claims.add(CLAIM(errorsNameFileReasonAndRemedy), errorsNameFileReasonAndRemedy_cases());
    claims.add(CLAIM(readOnlyFolderIsSaid));
    claims.add(CLAIM(resultsAreAllOrNothing));
    return claims.rows();
}
