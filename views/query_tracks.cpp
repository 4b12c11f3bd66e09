// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/query_tracks.h"

#include "views/query_model.h"

#include <QSettings>

#include <algorithm>
#include <limits>

namespace kvloupe {

QueryTracks::QueryTracks(QObject* parent) : QObject(parent) {
    QSettings settings;
    const int count = settings.beginReadArray(QStringLiteral("tracks"));
    for (int i = 0; i < count && m_tracks.size() < most; ++i) {
        settings.setArrayIndex(i);
        m_tracks.push_back({settings.value(QStringLiteral("title")).toString(), settings.value(QStringLiteral("sql")).toString(),
                            settings.value(QStringLiteral("column")).toString(), {}, {}});
    }
    settings.endArray();
}

bool QueryTracks::pin(QueryTrack track) {
    const auto same = std::find_if(m_tracks.begin(), m_tracks.end(), [&](const QueryTrack& each) {
        return each.sql == track.sql && each.column == track.column;
    });
    if (same != m_tracks.end()) *same = std::move(track);
    else if (m_tracks.size() >= most) return false;
    else m_tracks.push_back(std::move(track));
    write();
    Q_EMIT changed();
    return true;
}

void QueryTracks::remove(std::size_t index) {
    if (index >= m_tracks.size()) return;
    m_tracks.erase(m_tracks.begin() + static_cast<std::ptrdiff_t>(index));
    write();
    Q_EMIT changed();
}

void QueryTracks::fill(std::size_t index, std::vector<QueryTrack::Point> points, const QString& problem) {
    if (index >= m_tracks.size()) return;
    m_tracks[index].points = std::move(points);
    m_tracks[index].problem = problem;
    Q_EMIT changed();
}

void QueryTracks::empty() {
    for (QueryTrack& each : m_tracks) {
        each.points.clear();
        each.problem.clear();
    }
    Q_EMIT changed();
}

QueryTrack QueryTracks::trackOf(const QueryAnswer& answer, const QString& sql, const QString& column) {
    QueryTrack track{{}, sql, column, {}, {}};
    if (!answer.error.isEmpty()) {
        track.problem = answer.error;
        return track;
    }
    const auto place = [&answer](const QString& name) {
        const auto found = std::find_if(answer.columns.begin(), answer.columns.end(), [&](const std::string& each) {
            return QString::fromStdString(each).compare(name, Qt::CaseInsensitive) == 0;
        });
        return static_cast<std::size_t>(found - answer.columns.begin());
    };
    const std::size_t steps = place(QStringLiteral("step")), values = place(column);
    if (steps == answer.columns.size() || values == answer.columns.size()) {
        track.problem = steps == answer.columns.size() ? tr("The answer has no column “step”. Name one so in the question.")
                                                       : tr("The answer has no column “%1”.").arg(column);
        return track;
    }
    for (const auto& row : answer.rows) {
        const auto* step = std::get_if<std::int64_t>(&row[steps]);
        const auto value = sqlNumber(row[values]);
        if (step && value && *step >= 0 && *step < std::numeric_limits<std::uint32_t>::max())
            track.points.push_back({static_cast<std::uint32_t>(*step), *value});
    }
    std::stable_sort(track.points.begin(), track.points.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
    if (track.points.empty()) track.problem = tr("No row has both a step and a number.");
    return track;
}

void QueryTracks::write() const {
    QSettings settings;
    settings.remove(QStringLiteral("tracks"));
    settings.beginWriteArray(QStringLiteral("tracks"));
    for (std::size_t i = 0; i < m_tracks.size(); ++i) {
        settings.setArrayIndex(static_cast<int>(i));
        settings.setValue(QStringLiteral("title"), m_tracks[i].title);
        settings.setValue(QStringLiteral("sql"), m_tracks[i].sql);
        settings.setValue(QStringLiteral("column"), m_tracks[i].column);
    }
    settings.endArray();
}

}  // namespace kvloupe
