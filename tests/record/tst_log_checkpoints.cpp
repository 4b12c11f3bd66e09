// SPDX-License-Identifier: GPL-3.0-or-later
//
// A database's log is taken over while it is written: it stays short, whoever reads meanwhile, and nothing is lost.
#include "engine/record/log_checkpoints.h"
#include "tests/support/claims.h"
#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr int transactions = 60;
const std::string text(6000, 'x');  // most of a page

SqlDatabase made(const std::string& path) {
    {
        auto database = SqlDatabase::create(path);
        if (!database || !database->execute("CREATE TABLE t(n INTEGER PRIMARY KEY, text TEXT)")) return {};
    }
    auto database = SqlDatabase::open_to_append(path);
    return database ? std::move(*database) : SqlDatabase();
}

std::int64_t number(SqlDatabase& database, const char* sql) {
    auto statement = database.prepare(sql);
    if (!statement) return -1;
    const auto row = statement->step();
    return row && *row ? statement->integer(0) : -1;
}

// longest: how long the log ever was, in bytes.
void write_all(Check& check, SqlDatabase& database, LogCheckpoints& checkpoints, std::uintmax_t& longest) {
    auto insert = database.prepare("INSERT INTO t(text) VALUES (?)");
    CHECK_THAT(insert);
    for (int i = 0; insert && i < transactions; ++i) {
        CHECK_THAT(database.execute("BEGIN"));
        for (int row = 0; row < 8; ++row) {
            insert->bind_text(1, text);
            CHECK_THAT(insert->run());
        }
        CHECK_THAT(database.execute("COMMIT"));
        CHECK_THAT(checkpoints.committed());
        std::error_code error;
        longest = std::max(longest, std::filesystem::file_size(database.path() + "-wal", error));
    }
}

void theLogStaysShortAndNothingIsLost(Check& check) {
    const TemporaryFolder folder;
    const std::string path = folder.file("log.db");
    {
        SqlDatabase database = made(path);
        CHECK_THAT(database.handle());
        LogCheckpoints checkpoints(database, "", {16, 64});
        std::uintmax_t longest = 0;
        write_all(check, database, checkpoints, longest);
        CHECK_THAT(longest < 120u * (8192 + 24));  // 64 pages and those of one transaction, of some 500 that were written
    }
    CHECK_THAT(!std::filesystem::exists(path + "-wal"));
    auto database = SqlDatabase::open_read_only(path);
    CHECK_THAT(database);
    CHECK_EQUAL(number(*database, "SELECT count(*) FROM t"), std::int64_t{transactions * 8});
    CHECK_EQUAL(number(*database, "SELECT count(*) FROM t WHERE length(text) = 6000"), std::int64_t{transactions * 8});
}

// Somebody with another program looks at the file and keeps his view of it: the log grows, and all is there in the end.
void aReaderDelaysItAndBreaksNothing(Check& check) {
    const TemporaryFolder folder;
    const std::string path = folder.file("log.db");
    {
        SqlDatabase database = made(path);
        CHECK_THAT(database.handle());
        auto reader = SqlDatabase::open_beside(path);
        CHECK_THAT(reader);
        CHECK_THAT(reader->execute("BEGIN"));
        CHECK_EQUAL(number(*reader, "SELECT count(*) FROM t"), std::int64_t{0});
        LogCheckpoints checkpoints(database, "", {16, 64});
        std::uintmax_t longest = 0;
        write_all(check, database, checkpoints, longest);
        CHECK_THAT(longest > 480u * 8192);
        CHECK_EQUAL(number(*reader, "SELECT count(*) FROM t"), std::int64_t{0});  // what it began with
    }
    auto database = SqlDatabase::open_beside(path);
    CHECK_THAT(database);
    CHECK_EQUAL(number(*database, "SELECT count(*) FROM t"), std::int64_t{transactions * 8});
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(theLogStaysShortAndNothingIsLost));
    claims.add(CLAIM(aReaderDelaysItAndBreaksNothing));
    return claims.rows();
}
