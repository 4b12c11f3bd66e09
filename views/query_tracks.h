// SPDX-License-Identifier: GPL-3.0-or-later
//
// QueryTracks: answers of questions that were pinned: a number against steps each. The settings keep question and column; the numbers
// belong to one recording and are asked for again with the next.
#pragma once

#include <QObject>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "views/query_asker.h"

#include <QString>

#include <cstdint>
#include <vector>

namespace kvloupe {

struct QueryTrack {
    struct Point {
        std::uint32_t step = 0;
        double value = 0;
    };
    QString title;              // of the question, or ""
    QString sql;
    QString column;
    std::vector<Point> points;  // by step
    QString problem;            // why there are none
};

class QueryTracks : public QObject {
    Q_OBJECT

public:
    static constexpr std::size_t most = 12;

    explicit QueryTracks(QObject* parent = nullptr);  // reads the settings

    const std::vector<QueryTrack>& tracks() const { return m_tracks; }
    // Replaces one of the same question and column. False where there are too many.
    bool pin(QueryTrack track);
    void remove(std::size_t index);
    void fill(std::size_t index, std::vector<QueryTrack::Point> points, const QString& problem);
    void empty();  // another recording

    // Column `column` of the answer against its column "step"; rows that lack either are left out. Errors: no such columns.
    static QueryTrack trackOf(const QueryAnswer& answer, const QString& sql, const QString& column);

Q_SIGNALS:
    void changed();

private:
    void write() const;

    std::vector<QueryTrack> m_tracks;
};

}  // namespace kvloupe
