// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/event_filter.h"

#include "engine/record/describe.h"
#include "views/event_names.h"
#include "views/picking.h"

#include <QCoreApplication>
#include <QRegularExpression>

namespace kvloupe {

namespace {

QString filter_text(const char* text) { return QCoreApplication::translate("kvloupe::EventFilter", text); }

}  // namespace

EventFilter EventFilter::parse(const QString& line) {
    EventFilter filter;
    static const QRegularExpression word_pattern(QStringLiteral("(?:[^\\s\"]|\"[^\"]*\"?)+"));
    for (auto matches = word_pattern.globalMatch(line); matches.hasNext();) {
        const QString word = matches.next().captured().remove(QLatin1Char('"'));
        const qsizetype colon = word.indexOf(QLatin1Char(':'));
        const QString key = word.left(colon).toLower(), value = word.mid(colon + 1);
        if (colon <= 0) {
            filter.words << word;
            continue;
        }
        bool good = !value.isEmpty();
        if (!good) continue;  // still being typed
        if (key == QLatin1String("seq")) {
            filter.sequence = value;
        } else if (key == QLatin1String("request")) {
            filter.request = value;
        } else if (key == QLatin1String("cause")) {
            if (const auto cause = causeFromName(value))
                filter.causes.set(static_cast<std::size_t>(*cause));
            else
                filter.causeWords << value;
        } else if (key == QLatin1String("step")) {
            const QStringList ends = value.split(QLatin1Char('-'));
            bool secondGood = true;
            filter.firstStep = ends.first().toUInt(&good);
            filter.lastStep = ends.size() > 1 && !ends.last().isEmpty() ? ends.last().toUInt(&secondGood) : *filter.firstStep;
            good = good && secondGood && ends.size() <= 2;
        } else if (key == QLatin1String("block")) {
            filter.block = value.toUInt(&good);
        } else if (key == QLatin1String("kind")) {
            for (const QString& name : value.split(QLatin1Char(','), Qt::SkipEmptyParts)) {
                const auto kind = event_kind_from_name(name.toLower().replace(QLatin1Char('-'), QLatin1Char('_')).toStdString());
                if (kind)
                    filter.kinds.set(static_cast<std::size_t>(*kind));
                else
                    good = false;
            }
        } else {
            filter.error = filter_text("The key “%1” is unknown: use seq, request, step, kind, cause or block.").arg(key);
            continue;
        }
        if (!good) filter.error = filter_text("“%1” is no value for %2.").arg(value, key);
    }
    return filter;
}

bool EventFilter::empty() const {
    return sequence.isEmpty() && request.isEmpty() && !firstStep && !block && kinds.none() && causes.none() &&
           causeWords.isEmpty() && words.isEmpty();
}

bool EventFilter::matches(const Recording& recording, const LaneRecord& lane, const Event& event, std::uint32_t step) const {
    if (!error.isEmpty()) return true;  // a line that is not understood hides nothing
    if (firstStep && (step < *firstStep || step > *lastStep)) return false;
    if (kinds.any() && !kinds.test(static_cast<std::size_t>(event.kind))) return false;
    if (block) {
        const bool other = event.kind == EventKind::copy_on_write && event.other == *block;
        if (!(event.block.valid() && event.block.value == *block) && !other) return false;
    }
    if (!sequence.isEmpty()) {
        if (!event.sequence.valid()) return false;
        if (sequence != QString::number(event.sequence.value) && sequence != sequenceName(recording, lane, event.sequence))
            return false;
    }
    if (!request.isEmpty()) {
        if (!event.sequence.valid() || event.sequence.value >= lane.sequences().size()) return false;
        const RequestId own = lane.sequences()[event.sequence.value].request;
        if (!own.valid() || own.value >= recording.requests().size() ||
            request != QString::fromStdString(recording.requests()[own.value].id))
            return false;
    }
    if (causes.any() && !causes.test(static_cast<std::size_t>(event.cause))) return false;
    if (words.isEmpty() && causeWords.isEmpty()) return true;
    const QString cause = QString::fromStdString(describe_cause(recording, lane, event));
    for (const QString& word : causeWords)
        if (!cause.contains(word, Qt::CaseInsensitive)) return false;
    const QString name = kindName(event.kind);
    for (const QString& word : words)
        if (!cause.contains(word, Qt::CaseInsensitive) && !name.contains(word, Qt::CaseInsensitive)) return false;
    return true;
}

}  // namespace kvloupe
