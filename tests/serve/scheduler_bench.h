// SPDX-License-Identifier: GPL-3.0-or-later
//
// Drives a scheduler as a lane does, with a token that nobody else has as every sampled one.
#pragma once

#include "engine/serve/scheduler.h"
#include "tests/support/texts.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvloupe::test {

inline SchedulerOptions budget(std::uint32_t tokens, std::uint32_t sequences = 256) {
    SchedulerOptions result;
    result.max_num_batched_tokens = tokens;
    result.max_num_seqs = sequences;
    return result;
}

inline CacheManagerOptions pool(std::uint32_t blocks, std::uint32_t block_size = 16) {
    CacheManagerOptions result;
    result.blocks = blocks;
    result.block_size = block_size;
    return result;
}

struct Bench {
    std::unique_ptr<CacheManager> cache;
    std::unique_ptr<Scheduler> scheduler;
    std::vector<std::unique_ptr<Request>> requests;
    std::vector<Request*> held;   // static batching
    bool fixed = false;

    Schedule schedule;            // of the last step
    std::string step_text;        // "a400 b1": who computed how many tokens in it
    std::string problem;
    std::vector<std::string> ended;
    int steps = 0, preemptions = 0;
    std::uint64_t computed = 0;   // tokens in all steps
    TokenId next_token = 1000;

    Bench(const SchedulerOptions& options, const CacheManagerOptions& pool, std::uint32_t context = 0)
        : fixed(options.batching == Batching::fixed) {
        auto made = CacheManager::create(pool);
        if (!made) throw std::runtime_error(made.error().message());
        cache = std::move(*made);
        scheduler = std::make_unique<Scheduler>(options, cache.get(), context);
    }

    Request& add(std::vector<TokenId> prompt, std::uint32_t new_tokens, int priority = 0) {
        auto request = std::make_unique<Request>();
        request->name = std::string(1, char('a' + requests.size()));
        request->sequence = SequenceId{std::uint32_t(requests.size())};
        request->prompt_tokens = std::uint32_t(prompt.size());
        request->tokens = std::move(prompt);
        request->max_new_tokens = new_tokens;
        request->priority = priority;
        requests.push_back(std::move(request));
        scheduler->arrive(*requests.back());
        return *requests.back();
    }
    Request& add(std::uint32_t prompt, std::uint32_t new_tokens, int priority = 0) {
        std::vector<TokenId> tokens(prompt);
        for (TokenId& token : tokens) token = next_token++;
        return add(std::move(tokens), new_tokens, priority);
    }
    Request& request(const char* name) { return *requests[std::size_t(name[0] - 'a')]; }

    void release(Request& request, Cause cause) {
        if (!cache->apply(cache->plan_release(request.view(), cause, request.computed))) problem = "release failed";
    }

    std::string step() {
        ++steps;
        step_text.clear();
        auto made = scheduler->schedule();
        if (!made) return problem = made.error().message();
        schedule = std::move(*made);
        preemptions += count(EventKind::preempt);
        for (const ScheduledSequence& scheduled : schedule.sequences) {
            Request& request = *scheduled.request;
            step_text += request.name + std::to_string(scheduled.count) + ' ';
            computed += scheduled.count;
            request.computed = scheduled.first + scheduled.count;
            (void)cache->note_computed(request.view(), request.computed);
            if (request.to_compute() > 0) continue;
            request.tokens.push_back(next_token++);
            if (request.output_tokens() < request.new_tokens()) continue;
            ended.push_back(request.name);
            if (fixed) held.push_back(&request);
            else release(request, Cause::sequence_finished);
            scheduler->remove(request);
        }
        if (scheduler->running().empty()) {
            for (Request* request : held) release(*request, Cause::batch_ended);
            held.clear();
        }
        if (const auto sound = cache->audit(); !sound) problem = sound.error().message();
        return step_text = trimmed(step_text);
    }
    bool busy() const { return problem.empty() && (!scheduler->running().empty() || !scheduler->waiting().empty()); }
    void run() {
        for (int i = 0; i < 20000 && busy(); ++i) step();
        if (busy()) problem = "it does not end";
    }
    // Until the request is scheduled.
    void run_until(const char* name) {
        for (int i = 0; i < 20000 && busy(); ++i) {
            step();
            for (const ScheduledSequence& scheduled : schedule.sequences)
                if (scheduled.request == &request(name)) return;
        }
    }
    void preempt(const char* name) {
        std::vector<Event> events;
        if (!scheduler->preempt(request(name), nullptr, Cause::requested, events)) problem = "preempt failed";
    }
    std::string waiting() const {
        std::string names;
        for (const Request* request : scheduler->waiting()) names += request->name;
        return names;
    }
    int count(EventKind kind) const {
        int found = 0;
        for (const Event& event : schedule.events) found += event.kind == kind;
        return found;
    }
    // "b:pool_too_full c:…" of the last step's events of that kind.
    std::string causes(EventKind kind) const {
        std::string text;
        for (const Event& event : schedule.events)
            if (event.kind == kind) text += requests[event.sequence.value]->name + ":" + cause_name(event.cause) + " ";
        return trimmed(text);
    }
    static std::string cause_name(Cause cause) {
        switch (cause) {
        case Cause::pool_too_full: return "pool_too_full";
        case Cause::prompt_too_long_now: return "prompt_too_long_now";
        case Cause::below_watermark: return "below_watermark";
        case Cause::batch_full: return "batch_full";
        case Cause::batch_running: return "batch_running";
        case Cause::budget_used: return "budget_used";
        case Cause::preempted_this_step: return "preempted_this_step";
        case Cause::priority: return "priority";
        case Cause::last_running: return "last_running";
        case Cause::shortest_output: return "shortest_output";
        default: return std::to_string(int(cause));
        }
    }
};

}  // namespace kvloupe::test
