// SPDX-License-Identifier: GPL-3.0-or-later
//
// QueryAsker: puts questions in SQL to a recording in the background. An opened file answers itself; a recording in memory is written
// into a temporary file first, as far as it has come, and that copy answers until it is renewed.
#pragma once

#include "views/background_job.h"

#include "engine/record/kvt_query.h"

#include <QString>

#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

namespace kvloupe {

struct QueryAnswer {
    std::vector<std::string> columns;
    std::vector<std::vector<SqlValue>> rows;
    bool cut = false;             // there were more rows than asked for
    QString error;                // a sentence; the rest is then empty
    double milliseconds = 0;      // of the query alone
    double copyMilliseconds = 0;  // of the copy, where one was written for it
};

class QueryAsker : public QObject {
    Q_OBJECT

public:
    explicit QueryAsker(QObject* parent = nullptr) : QObject(parent) {}
    ~QueryAsker() override;  // stops and waits

    // What is asked from now on; an answer that is outstanding is dropped. path: of the recording's own file, or "".
    void setSource(std::shared_ptr<const Recording> recording, const QString& path);
    bool hasSource() const { return m_source != nullptr; }
    bool asksFile() const;

    // One at a time. done is called in this object's thread.
    void ask(const QString& sql, std::uint64_t rows, std::function<void(QueryAnswer)> done);
    bool running() const { return m_job != nullptr; }
    void stop();  // the answer is then an error that says so

    // Steps of the copy that answers, 0 where there is none; not while running.
    std::size_t copiedSteps() const;
    double copyMilliseconds() const;
    void renew();  // the next question is put to a new copy; not while running

private:
    struct Source;

    std::shared_ptr<Source> m_source;
    BackgroundJob* m_job = nullptr;  // of the outstanding answer
    std::stop_source m_stop;
};

}  // namespace kvloupe
