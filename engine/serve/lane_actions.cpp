// SPDX-License-Identifier: GPL-3.0-or-later
//
// Actions: what the scenario or the window asks of a lane at the beginning of a step. One that cannot be done is refused
// with a sentence and changes nothing.
#include "engine/serve/lane.h"

#include <algorithm>

namespace kvloupe {

// Those of this step: the scenario's, then those asked for while running.
void Lane::act() {
    while (!m_actions.empty() && m_actions.back().at_step <= m_step) {
        const ScenarioAction action = std::move(m_actions.back());
        m_actions.pop_back();
        act_on(action);
    }
}

// The list is in reverse: the new one stands before those that are done earlier or in the same step.
void Lane::act(const ScenarioAction& action) {
    const auto place = std::find_if(m_actions.begin(), m_actions.end(), [&](const ScenarioAction& each) { return each.at_step <= action.at_step; });
    m_actions.insert(place, action);
}

void Lane::act_on(const ScenarioAction& action) {
    switch (action.kind) {
    case ActionKind::cancel: {
        const std::vector<Request*> requests = named(action.request);
        if (requests.empty()) refuse_action(action, nullptr, unknown(action.request));
        for (Request* request : requests) cancel_now(*request);
        break;
    }
    case ActionKind::preempt: preempt_now(action); break;
    case ActionKind::fork: fork_now(action); break;
    case ActionKind::evict:
    case ActionKind::reset_prefix_cache: change_cache_now(action); break;
    }
}

// The live sequence of that name, or all live sequences of the request.
std::vector<Request*> Lane::named(const std::string& name) const {
    std::vector<Request*> result;
    if (const auto found = m_by_name.find(name); found != m_by_name.end()) {
        if (found->second->status != RequestStatus::ended) result.push_back(found->second);
        return result;
    }
    for (const auto& request : m_requests)
        if (request->family == name && request->status != RequestStatus::ended) result.push_back(request.get());
    return result;
}

std::string Lane::unknown(const std::string& name) const {
    const bool ended = m_by_name.count(name) > 0 ||
                       std::any_of(m_requests.begin(), m_requests.end(), [&](const auto& r) { return r->family == name; });
    return "request: '" + name + (ended ? "' has ended" : "' does not exist in this lane");
}

void Lane::refuse_action(const ScenarioAction& action, const Request* request, const std::string& why) {
    Event event;
    event.kind = EventKind::refuse;
    event.cause = Cause::action_refused;
    if (request) event.sequence = request->sequence;
    if (action.block) event.block = BlockId(*action.block);
    event.detail = m_writer->intern("The action " + std::string(name_of(action.kind)) + " cannot be done: " + why);
    m_writer->event(event);
}

void Lane::cancel_now(Request& request) {
    if (request.status == RequestStatus::coming) {
        const auto same = [&](const auto& entry) { return entry.second == &request; };
        m_coming.erase(std::find_if(m_coming.begin(), m_coming.end(), same));
        request.sequence = m_writer->add_sequence({request.id, SequenceId::none(), 0});
    }
    end_request(request, Cause::sequence_cancelled);
}

void Lane::preempt_now(const ScenarioAction& action) {
    const std::vector<Request*> requests = named(action.request);
    if (requests.empty()) return refuse_action(action, nullptr, unknown(action.request));
    bool any = false;
    // The last first, so that those of one request wait in their old order.
    for (auto request = requests.rbegin(); request != requests.rend() && m_cache; ++request) {
        if ((*request)->status != RequestStatus::running) continue;
        any = m_preempted_by_action = true;
        std::vector<Event> events;
        const auto done = m_scheduler->preempt(**request, nullptr, Cause::requested, events);
        write(events);
        if (!done) refuse_action(action, *request, done.error().sentence);
    }
    if (!any)
        refuse_action(action, requests.front(), "request: '" + action.request + (m_cache ? "' does not run" : "' has no KV cache to give up"));
}

void Lane::change_cache_now(const ScenarioAction& action) {
    if (!m_cache) return refuse_action(action, nullptr, "the lane has no KV cache");
    if (action.kind == ActionKind::evict && action.block.value_or(0) > m_cache->usable_blocks()) {
        ScenarioAction unnamed = action;  // an event names only blocks that there are
        unnamed.block.reset();
        return refuse_action(unnamed, nullptr, "block: the pool has no block " + std::to_string(action.block.value_or(0)));
    }
    auto plan = action.kind == ActionKind::evict ? m_cache->plan_evict(BlockId(action.block.value_or(0))) : m_cache->plan_reset();
    if (!plan) return refuse_action(action, nullptr, plan.error().sentence);
    auto changes = m_cache->apply(*plan);
    if (!changes) return refuse_action(action, nullptr, changes.error().sentence);
    write(*changes);
}

// The child's tokens and how many of them lie in the cache: what the action gives, else what the parent has.
Result<Request> Lane::continuation(const ScenarioAction& action, const Request& parent, std::uint32_t position) const {
    Request child = parent;
    child.name = child.family = action.as;
    child.sampling.seed = Sampler::request_seed(m_setup.seed, child.name);
    child.computed = position;
    child.beam = false;
    std::vector<TokenId> appended = action.prompt_tokens.value_or(std::vector<TokenId>());
    if (action.prompt) {
        const Tokenizer* tokenizer = m_device ? m_device->model->tokenizer.get() : nullptr;
        if (!tokenizer) return Error{"prompt: a lane without a tokenizer takes token ids", "Give prompt_tokens."};
        appended = tokenizer->encode(*action.prompt, false);
        if (appended.empty()) return Error{"prompt: it has no tokens", ""};
    }
    const std::uint32_t outputs_before = position > parent.prompt_tokens ? position - parent.prompt_tokens : 0;
    const std::uint32_t left = parent.new_tokens() - std::min(parent.new_tokens(), outputs_before);
    if (action.output_tokens) {
        child.forced = *action.output_tokens;
        child.generated_from = -1;
    } else {
        if (!child.forced.empty()) child.forced.erase(child.forced.begin(), child.forced.begin() + outputs_before);
        if (child.generated_from >= 0) child.generated_from += static_cast<TokenId>(outputs_before);
        child.max_new_tokens = left;
        if (action.max_new_tokens) {
            child.max_new_tokens = *action.max_new_tokens;
            if (child.forced.size() > child.max_new_tokens) child.forced.resize(child.max_new_tokens);
        }
    }
    const bool own = !appended.empty() || action.output_tokens;
    const bool rest_of_prompt = !own && position < parent.prompt_tokens;
    if (rest_of_prompt) {  // the parent's prompt, and what it sampled only where the child stands where it stands
        if (position < parent.computed) child.tokens.resize(parent.prompt_tokens);
        child.prompt_tokens = parent.prompt_tokens;
        return child;
    }
    const bool at_end = position == parent.computed && !own;
    if (!at_end) child.tokens.resize(position);
    child.tokens.insert(child.tokens.end(), appended.begin(), appended.end());
    child.prompt_tokens = at_end ? position : child.size();
    if (child.size() > child.computed) return child;
    // The next token stands at `position`: a forced one is known, another is sampled again from the position before.
    if (child.is_forced() && child.new_tokens() > 0) child.tokens.push_back(child.forced_token(0));
    else --child.computed;
    return child;
}

void Lane::fork_now(const ScenarioAction& action) {
    const std::vector<Request*> requests = named(action.request);
    if (requests.empty()) return refuse_action(action, nullptr, unknown(action.request));
    Request& parent = *requests.front();
    const auto refuse = [&](const std::string& why) { refuse_action(action, &parent, why); };
    if (requests.size() > 1) return refuse("request: '" + action.request + "' has several sequences; name one, such as '" + parent.name + "'");
    if (parent.status != RequestStatus::running) return refuse("request: '" + action.request + "' does not run");
    if (parent.beam || parent.width > 1) return refuse("request: '" + action.request + "' is searched by beams or about to be sampled several times");
    if (m_by_name.count(action.as)) return refuse("as: there is a sequence '" + action.as + "' already");
    const std::uint32_t position = action.position.value_or(parent.computed);
    if (position == 0 || position > parent.computed)
        return refuse("position: " + std::to_string(position) + " lies beyond the " + std::to_string(parent.computed) +
                      " tokens that '" + action.request + "' has in its cache");
    if (m_scheduler->full()) return refuse("max_num_seqs sequences run");
    auto child = continuation(action, parent, position);
    if (!child) return refuse(child.error().sentence);
    if (child->new_tokens() == 0 || child->computed == 0) return refuse("position: nothing is left to do from " + std::to_string(position) + " on");
    if (const auto never = m_scheduler->rejection(*child)) return refuse(never->sentence);
    const std::uint32_t shared = child->computed;
    if (forks_inside_sealed(parent, shared))
        return refuse("position: " + std::to_string(shared) + " lies inside a block that is quantised already; fork at a block border, or among the newest tokens");
    auto forked = fork(std::move(*child), parent, shared, Cause::requested);
    if (!forked) return refuse(forked.error().sentence);
    Request& added = **forked;
    if (added.output_tokens() < added.new_tokens()) return;
    // All that it was to say is known already.
    end_request(added, added.forced.empty() ? Cause::length_reached : Cause::forced_tokens_used_up);
}

}  // namespace kvloupe
