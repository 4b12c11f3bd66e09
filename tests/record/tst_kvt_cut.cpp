// SPDX-License-Identifier: GPL-3.0-or-later
//
// Parts of recordings: a cut says of its steps what the whole said of them, a stripped file says nothing of the text.
#include "engine/record/kvt_reader.h"
#include "engine/record/kvt_writer.h"
#include "engine/record/lane_state_code.h"
#include "engine/record/results.h"
#include "tests/support/claims.h"
#include "tests/support/demo_recording.h"
#include "tests/support/demo_sharing.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/texts.h"

#include <cstring>
#include <map>
#include <set>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

KvtOptions named(const std::string& path) {
    KvtOptions options;
    options.path = path;
    options.program = "a test";
    return options;
}

struct Range {
    std::shared_ptr<const Recording> recording;
    std::size_t first, end;
};

Cases<Range> ranges() {
    Cases<Range> cases;
    const auto sharing = demo_sharing_recording();
    cases.add("the beginning", {sharing, 0, 30});
    cases.add("in the middle", {sharing, 31, 125});
    cases.add("one step", {sharing, 118, 119});
    cases.add("to the end", {sharing, 200, SIZE_MAX});
    cases.add("with attention and stages", {demo_recording(), 40, 90});
    DemoSharingOptions many;
    many.steps = 1500;
    many.blocks = 400;
    many.arrivals = 3;
    many.lanes = {"paged", "windows"};
    cases.add("over key frames", {demo_sharing_recording(many), 700, 1400});
    return cases;
}

void same_part(Check& check, const LaneRecord& whole, std::size_t first, const LaneRecord& part) {
    std::size_t different = 0;
    const StateChange change{static_cast<std::uint32_t>(first), 0};
    const std::size_t stride = std::max<std::size_t>(part.step_count() / 100, 1);
    for (std::size_t i = 0; i < part.step_count(); ++i) {
        const StepRecord &a = whole.step(first + i), &b = part.step(i);
        different += a.start_ns != b.start_ns || a.used_blocks != b.used_blocks || a.events.size() != b.events.size() ||
                     a.tokens.size() != b.tokens.size() || a.attention.size() != b.attention.size() || b.step.value != i;
        for (std::uint64_t e = 0; e < std::min(a.events.size(), b.events.size()); ++e)
            different += std::memcmp(&whole.events()[a.events.begin + e], &part.events()[b.events.begin + e], sizeof(Event)) != 0;
        for (std::uint64_t t = 0; t < std::min(a.tokens.size(), b.tokens.size()); ++t)
            different += whole.tokens()[a.tokens.begin + t].token != part.tokens()[b.tokens.begin + t].token;
        const LogRange x = whole.stages_of(first + i), y = part.stages_of(i);
        different += x.size() != y.size();
        for (std::uint64_t s = 0; s < std::min(x.size(), y.size()); ++s)
            different += whole.stages()[x.begin + s].duration_ns != part.stages()[y.begin + s].duration_ns;
        if (i % stride == 0 || i + 1 == part.step_count())
            different += LaneStateCode::encode(whole.state_after(first + i), change) != LaneStateCode::encode(part.state_after(i));
    }
    CHECK_EQUAL(different, std::size_t{0});
}

void aCutSaysWhatTheWholeSaidOfItsSteps(Check& check, const Range& range) {
    const TemporaryFolder folder;
    const std::string path = folder.file("cut.kvt");
    CHECK_THAT(write_kvt(range.recording, named(path), range.first, range.end));
    CHECK_EQUAL(check_kvt(path), std::vector<std::string>{});
    const auto cut = open_kvt(path);
    CHECK_THAT(cut);
    if (!cut) return;
    for (std::size_t i = 0; i < cut->recording->lanes().size(); ++i) {
        const LaneRecord &whole = *range.recording->lanes()[i], &part = *cut->recording->lanes()[i];
        CHECK_EQUAL(part.step_count(), std::min(range.end, whole.step_count()) - range.first);
        CHECK_EQUAL(part.begins_later(), range.first > 0);
        same_part(check, whole, range.first, part);
        CHECK_EQUAL(part.damage(), "");
    }
    CHECK_THAT(!blocks_json(*cut->recording).empty() && !summary_json(*cut->recording).empty());
}

void aCutOfACutIsACut(Check& check) {
    const TemporaryFolder folder;
    const auto recording = demo_sharing_recording();
    CHECK_THAT(write_kvt(recording, named(folder.file("once.kvt")), 20, 160));
    const auto once = open_kvt(folder.file("once.kvt"));
    CHECK_THAT(once && write_kvt(once->recording, named(folder.file("whole.kvt"))));
    CHECK_THAT(write_kvt(once->recording, named(folder.file("twice.kvt")), 50, 100));
    for (const auto& [name, first] : {std::pair("whole.kvt", 20u), std::pair("twice.kvt", 70u)}) {
        CHECK_EQUAL(check_kvt(folder.file(name)), std::vector<std::string>{});
        const auto part = open_kvt(folder.file(name));
        CHECK_THAT(part);
        if (!part) return;
        for (std::size_t i = 0; i < recording->lanes().size(); ++i) same_part(check, *recording->lanes()[i], first, *part->recording->lanes()[i]);
    }
}

std::map<std::uint32_t, TokenId> tokens_until(const LaneRecord& lane, std::uint32_t sequence, std::size_t step) {
    std::map<std::uint32_t, TokenId> tokens;
    for (std::uint64_t i = 0; i < lane.step(step).tokens.end; ++i)
        if (lane.tokens()[i].sequence.value == sequence) tokens[lane.tokens()[i].position] = lane.tokens()[i].token;
    return tokens;
}

void whoLivesInACutKeepsItsTokens(Check& check) {
    const TemporaryFolder folder;
    const auto recording = demo_sharing_recording();
    constexpr std::size_t first = 90, end = 120;
    CHECK_THAT(write_kvt(recording, named(folder.file("cut.kvt")), first, end));
    const auto cut = open_kvt(folder.file("cut.kvt"));
    CHECK_THAT(cut);
    if (!cut) return;
    const LaneRecord &whole = *recording->lanes()[0], &part = *cut->recording->lanes()[0];
    const LaneState state = part.state_after(0);
    CHECK_THAT(!state.holders().empty());
    for (const std::uint32_t sequence : state.holders())
        CHECK_THAT(tokens_until(whole, sequence, first) == tokens_until(part, sequence, 0));
    // Of those that come later nothing is told.
    CHECK_THAT(part.sequences().size() < whole.sequences().size());
    CHECK_THAT(cut->recording->requests().size() < recording->requests().size());
    std::set<std::uint32_t> named_requests;
    for (std::size_t i = 0; i < part.sequences().size(); ++i) named_requests.insert(part.sequences()[i].request.value);
    CHECK_THAT(*named_requests.rbegin() < cut->recording->requests().size());
}

// A recording whose text cannot be mistaken for anything else.
std::shared_ptr<const Recording> telling_recording() {
    auto vocabulary = std::make_shared<VocabularyText>();
    vocabulary->pieces.resize(80000);
    vocabulary->shown.resize(80000);
    for (std::size_t i = 0; i < 100; ++i) vocabulary->pieces[70000u + i] = vocabulary->shown[70000u + i] = "zebra" + std::to_string(i);
    RecordingWriter writer("stripes", 1 << 20);
    LaneInfo info;
    info.name = "only";
    info.blocks = 8;
    info.block_size = 4;
    info.vocabulary = 80000;
    LaneWriter& lane = writer.add_lane(info, vocabulary);
    writer.lanes_complete();
    RequestInfo request;
    request.id = "a";
    request.prompt = {70001, 70002, 70003, 70004, 70005};
    request.salt = "peppercorn";
    writer.add_request(request);
    const SequenceId sequence = lane.add_sequence({RequestId(0), SequenceId::none()});
    const auto tell = [&](EventKind kind, BlockId block, std::uint32_t other, std::uint32_t tokens) {
        Event event;
        event.kind = kind;
        event.sequence = sequence;
        event.block = block;
        event.other = other;
        event.tokens = tokens;
        lane.event(event);
    };
    for (std::uint32_t step = 0; step < 4; ++step) {
        lane.begin_step();
        if (step == 0) {
            tell(EventKind::arrive, BlockId::none(), Event{}.other, 5);
            tell(EventKind::allocate, BlockId(1), 0, 0);
            tell(EventKind::prefill, BlockId::none(), 0, 4);
            tell(EventKind::store, BlockId(1), 0x5A5A1234, 0x77665544);
        }
        const Alternative alternatives[] = {{static_cast<TokenId>(70050 + step), .9f, 1.f}};
        TokenRecord token;
        token.sequence = sequence;
        token.position = step;
        token.token = static_cast<TokenId>(70010 + step);
        token.source = TokenRecord::sampled;
        lane.token(token, alternatives);
        lane.end_step({});
    }
    writer.set_phase(Phase::finished, "the token zebra11 was sampled");
    return writer.recording();
}

// As SQLite keeps a number of three bytes.
std::string stored_number(TokenId token) {
    return {static_cast<char>(token >> 16), static_cast<char>(token >> 8), static_cast<char>(token)};
}

void aStrippedFileTellsNothingOfTheText(Check& check) {
    const TemporaryFolder folder;
    const auto recording = telling_recording();
    KvtOptions options = named(folder.file("whole.kvt"));
    options.scenario = "{\"version\": 1, \"_\": \"my secret aim\", \"lanes\": [{\"name\": \"only\", \"cache\": {\"blocks\": 8}}], \"requests\":"
                       " [{\"id\": \"a\", \"prompt\": \"Once upon a stripe\", \"output_tokens\": [70077], \"salt\": \"peppercorn\"}],"
                       " \"actions\": [{\"at_step\": 1, \"do\": \"fork\", \"prompt\": \"another stripe\"}]}";
    CHECK_THAT(write_kvt(recording, options));
    // From a file, as a person would.
    const auto whole = open_kvt(options.path);
    CHECK_THAT(whole);
    options.path = folder.file("stripped.kvt");
    options.strip = true;
    CHECK_THAT(write_kvt(whole->recording, options));
    const std::string told = read_file(folder.file("whole.kvt")), silent = read_file(options.path);
    std::vector<std::string> secrets = {"zebra", "secret aim", "Once upon", "another stripe", "peppercorn", "70077", std::string("\x71\x11\x01\x00", 4),
                                        std::string("\x5A\x5A\x12\x34"), std::string("\x77\x66\x55\x44")};
    for (const TokenId token : {70010, 70013, 70050, 70053}) secrets.push_back(stored_number(token));
    for (const std::string& secret : secrets) {
        CHECK_THAT(contains(told, secret));
        CHECK_THAT(!contains(silent, secret));
    }
    CHECK_EQUAL(check_kvt(options.path), std::vector<std::string>{});
    const auto stripped = open_kvt(options.path);
    CHECK_THAT(stripped);
    if (!stripped) return;
    CHECK_EQUAL(stripped->meta.at("stripped"), "1");
    CHECK_EQUAL(stripped->recording->requests()[0].prompt.size(), std::size_t{5});
    CHECK_EQUAL(stripped->recording->lanes()[0]->tokens().size(), std::size_t{4});
    CHECK_EQUAL(stripped->recording->lanes()[0]->events().size(), recording->lanes()[0]->events().size());
    CHECK_THAT(contains(stripped->meta.at("scenario"), "\"blocks\": 8"));
}

// Who finds whose blocks is part of the numbers: equal hashes stay equal, others stay different.
void strippedHashesSayTheSameOfWhoSharesWhat(Check& check) {
    const TemporaryFolder folder;
    DemoSharingOptions demo;
    demo.lanes = {"paged", "windows", "radix"};
    const auto recording = demo_sharing_recording(demo);
    KvtOptions options = named(folder.file("stripped.kvt"));
    options.strip = true;
    CHECK_THAT(write_kvt(recording, options, 60, 200));
    CHECK_EQUAL(check_kvt(options.path), std::vector<std::string>{});
    const auto stripped = open_kvt(options.path);
    CHECK_THAT(stripped);
    if (!stripped) return;
    std::map<std::uint64_t, std::uint64_t> other;
    std::set<std::uint64_t> others;
    std::size_t compared = 0, wrong = 0;
    const auto compare = [&](std::uint64_t a, std::uint64_t b) {
        const auto [at, fresh] = other.try_emplace(a, b);
        wrong += at->second != b || (a == 0) != (b == 0) || (a != 0 && a == b);
        if (fresh) wrong += !others.insert(b).second;
        ++compared;
    };
    for (std::size_t l = 0; l < recording->lanes().size(); ++l)
        for (std::size_t step = 60; step < 200; ++step) {
            const LaneState a = recording->lanes()[l]->state_after(step), b = stripped->recording->lanes()[l]->state_after(step - 60);
            for (std::size_t block = 0; block < a.blocks().size(); ++block) {
                if (!a.blocks()[block].hashed) continue;
                compare(a.blocks()[block].hash, b.blocks()[block].hash);
                compare(a.blocks()[block].parent_hash, b.blocks()[block].parent_hash);
            }
        }
    CHECK_EQUAL(wrong, std::size_t{0});
    CHECK_THAT(compared > 1000 && others.size() > 30);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(aCutSaysWhatTheWholeSaidOfItsSteps), ranges());
    claims.add(CLAIM(aCutOfACutIsACut));
    claims.add(CLAIM(whoLivesInACutKeepsItsTokens));
    claims.add(CLAIM(aStrippedFileTellsNothingOfTheText));
    claims.add(CLAIM(strippedHashesSayTheSameOfWhoSharesWhat));
    return claims.rows();
}
