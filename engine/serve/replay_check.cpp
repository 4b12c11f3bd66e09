// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/serve/replay_check.h"

#include "engine/record/describe.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace kvloupe {

namespace {

std::string replayed_token(const LaneRecord& lane, TokenId token) {
    const auto& texts = lane.vocabulary().shown;
    const auto at = static_cast<std::size_t>(token);
    return token >= 0 && at < texts.size() ? "'" + texts[at] + "'" : "token " + std::to_string(token);
}

// Times and interned texts aside.
bool replayed_event(const Event& a, const Event& b) {
    return a.kind == b.kind && a.cause == b.cause && a.flags == b.flags && a.group == b.group && a.sequence == b.sequence && a.block == b.block &&
           a.other == b.other && a.tokens == b.tokens;
}

std::string short_number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
}

}  // namespace

std::string ReplayReport::sentence() const {
    std::string text;
    if (!damage.empty()) text = "The replay could not be compared in full: " + damage + ". ";
    if (first_difference.empty()) return text;
    if (tokens_differ) return text + "The replay differs from what was recorded. " + first_difference;
    return text + "The replay has the same tokens and blocks, but not the same logits (by at most " + short_number(largest_logit_difference) +
           "). " + first_difference;
}

ReplayCheck::ReplayCheck(std::shared_ptr<const Recording> before, const Recording& now) : m_before(std::move(before)) {
    for (std::uint32_t b = 0; b < m_before->lanes().size(); ++b)
        for (std::uint32_t n = 0; n < now.lanes().size(); ++n)
            if (m_before->lanes()[b]->info().name == now.lanes()[n]->info().name)
                m_pairs.push_back({b, n, now.lanes()[n]->step_count(), false});
    std::size_t kept = SIZE_MAX;
    for (const auto& lane : now.lanes()) kept = std::min(kept, lane->step_count());
    m_report.computed_from = now.lanes().empty() ? 0 : kept;
}

void ReplayCheck::compare(const Recording& now) {
    for (Pair& pair : m_pairs) {
        const LaneRecord& was = *m_before->lanes()[pair.before];
        const LaneRecord& is = *now.lanes()[pair.now];
        const std::size_t steps = std::min(was.step_count(), is.step_count());
        for (; pair.compared < steps && !pair.parted; ++pair.compared) compare_step(pair, was, is, pair.compared, now);
    }
}

// Tokens and events take the place of a difference of logits: they weigh more.
void ReplayCheck::note(const LaneRecord& lane, std::size_t step, const std::string& what) {
    m_report.first_difference = "Lane '" + lane.info().name + "', step " + std::to_string(step) + ": " + what + ".";
}

void ReplayCheck::compare_step(Pair& pair, const LaneRecord& was, const LaneRecord& is, std::size_t step, const Recording& now) {
    ++m_report.steps;
    const StepRecord old = was.step(step), again = is.step(step);
    const bool told = m_report.tokens_differ;
    const auto part = [&](const std::string& what) {
        pair.parted = m_report.tokens_differ = true;
        if (!told) note(is, step, what);
    };
    const std::uint64_t tokens = std::min(old.tokens.size(), again.tokens.size());
    for (std::uint64_t i = 0; i < tokens; ++i) {
        const TokenRecord a = was.tokens()[old.tokens.begin + i], b = is.tokens()[again.tokens.begin + i];
        ++m_report.tokens;
        const auto where = [&] { return "sequence " + sequence_name(now, is, b.sequence) + ", position " + std::to_string(b.position) + ": "; };
        if (a.sequence != b.sequence || a.position != b.position || a.token != b.token)
            return part(where() + replayed_token(was, a.token) + " was recorded, now it is " + replayed_token(is, b.token));
        for (std::uint32_t k = 0; k < std::min(a.alternative_count, b.alternative_count); ++k) {
            const Alternative x = was.alternatives()[a.alternatives_begin + k], y = is.alternatives()[b.alternatives_begin + k];
            ++m_report.logits;
            const double difference = std::fabs(double(x.logit) - double(y.logit));
            if (x.token == y.token && x.logit == y.logit) continue;
            m_report.largest_logit_difference = std::max(m_report.largest_logit_difference, difference);
            if (m_report.first_difference.empty())
                note(is, step,
                     where() + "the logit of " + replayed_token(was, x.token) + " was " + short_number(x.logit) + ", now " +
                         (x.token == y.token ? "it is " : "in its place " + replayed_token(is, y.token) + " has ") + short_number(y.logit));
        }
    }
    const std::uint64_t events = std::min(old.events.size(), again.events.size());
    for (std::uint64_t i = 0; i < events; ++i) {
        const std::uint64_t a = old.events.begin + i, b = again.events.begin + i;
        if (!replayed_event(was.events()[a], is.events()[b]))
            return part("the event " + std::string(name_of(was.events()[a].kind)) + " was recorded (" + describe_event(*m_before, was, a) + "), now " +
                        std::string(name_of(is.events()[b].kind)) + " (" + describe_event(now, is, b) + ")");
    }
    if (old.events.size() != again.events.size())
        part(std::to_string(old.events.size()) + " events were recorded, now there are " + std::to_string(again.events.size()));
    else if (old.tokens.size() != again.tokens.size())
        part(std::to_string(old.tokens.size()) + " tokens were recorded, now there are " + std::to_string(again.tokens.size()));
}

ReplayReport ReplayCheck::end(bool unfinished) {
    m_report.unfinished = unfinished;
    for (const auto& lane : m_before->lanes())
        if (m_report.damage.empty()) m_report.damage = lane->damage();
    return m_report;
}

}  // namespace kvloupe
