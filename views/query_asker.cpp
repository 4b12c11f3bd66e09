// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/query_asker.h"

#include "engine/record/kvt_writer.h"

#include <QDir>
#include <QFile>
#include <QTemporaryDir>

#include <algorithm>
#include <chrono>
#include <utility>

namespace kvloupe {

namespace {

constexpr auto longest_query = std::chrono::minutes(10);

double millisecondsSince(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

// Used by the job alone while one runs.
struct QueryAsker::Source {
    std::shared_ptr<const Recording> recording;
    std::string file;                        // of an opened recording, or ""
    std::unique_ptr<QTemporaryDir> folder;   // of the copy
    std::unique_ptr<KvtQuery> query;
    std::size_t steps = 0;
    double milliseconds = 0;
    int copies = 0;

    Result<void> open(QueryAnswer& answer) {
        if (query) return {};
        std::string path = file;
        if (path.empty()) {
            auto copied = copy();
            if (!copied) return copied.error();
            path = *copied;
            answer.copyMilliseconds = milliseconds;
        }
        auto opened = KvtQuery::open(path);
        if (!opened) return opened.error();
        query = std::move(*opened);
        return {};
    }

    Result<std::string> copy() {
        if (!folder) folder = std::make_unique<QTemporaryDir>();
        if (!folder->isValid())
            return Error{"No folder for a copy of the session can be made in " + QDir::tempPath().toStdString(), "Make room there"};
        const auto begin = std::chrono::steady_clock::now();
        std::size_t now = 0;
        for (const auto& lane : recording->lanes()) now = std::max(now, lane->step_count());
        if (copies > 0) QFile::remove(folder->filePath(QStringLiteral("session-%1.kvt").arg(copies)));
        KvtOptions options;
        options.path = folder->filePath(QStringLiteral("session-%1.kvt").arg(++copies)).toStdString();
        options.program = "KVLoupe";
        if (auto written = write_kvt(recording, options, 0, now); !written) return written.error();
        steps = now;
        milliseconds = millisecondsSince(begin);
        return options.path;
    }
};

QueryAsker::~QueryAsker() { m_stop.request_stop(); }  // the jobs are children: they are waited for

void QueryAsker::setSource(std::shared_ptr<const Recording> recording, const QString& path) {
    m_stop.request_stop();
    m_job = nullptr;
    m_source.reset();
    if (!recording) return;
    m_source = std::make_shared<Source>();
    m_source->recording = std::move(recording);
    m_source->file = path.toStdString();
}

bool QueryAsker::asksFile() const { return m_source && !m_source->file.empty(); }

void QueryAsker::ask(const QString& sql, std::uint64_t rows, std::function<void(QueryAnswer)> done) {
    if (m_job || !m_source) return;
    auto* job = m_job = new BackgroundJob(this);
    m_stop = std::stop_source();
    auto answer = std::make_shared<QueryAnswer>();
    job->start(
        [source = m_source, answer, sql = sql.toStdString(), rows, stop = m_stop.get_token()](const BackgroundJob::Cancelled&) {
            const auto fail = [&](const Error& error) {
                *answer = {};
                answer->error = QString::fromStdString(error.message());
            };
            if (auto opened = source->open(*answer); !opened) return fail(opened.error());
            const auto begin = std::chrono::steady_clock::now();
            QueryLimits limits;
            limits.time = longest_query;
            limits.rows = rows;
            limits.stop = stop;
            const auto end = source->query->run(
                sql, limits, [&](std::vector<std::string> names) { answer->columns = std::move(names); },
                [&](std::vector<SqlValue> values) { answer->rows.push_back(std::move(values)); });
            if (!end) return fail(end.error());
            answer->cut = end->cut;
            answer->milliseconds = millisecondsSince(begin);
        },
        [this, job, answer, done = std::move(done)] {
            job->deleteLater();
            if (job != m_job) return;  // of another recording
            m_job = nullptr;
            done(std::move(*answer));
        });
}

void QueryAsker::stop() { m_stop.request_stop(); }

std::size_t QueryAsker::copiedSteps() const { return m_source && m_source->query ? m_source->steps : 0; }

double QueryAsker::copyMilliseconds() const { return m_source ? m_source->milliseconds : 0; }

void QueryAsker::renew() {
    if (m_source && m_source->file.empty() && !m_job) m_source->query.reset();
}

}  // namespace kvloupe
