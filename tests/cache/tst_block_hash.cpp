// SPDX-License-Identifier: GPL-3.0-or-later
//
// The digests of CACHE_SEMANTICS 1.1 "Hashing", extra keys byte by byte, and shortened chains.
#include "engine/cache/block_hash.h"
#include "tests/support/claims.h"
#include "tests/support/texts.h"

#include <nettle/sha2.h>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

std::string_view letters(const BlockHash& hash) { return {reinterpret_cast<const char*>(hash.data()), hash.size()}; }
std::string hex(const BlockHash& hash) { return to_hex(letters(hash)); }
std::string root() { return std::string(letters(root_hash())); }
std::string sha256(const std::string& message) {
    sha256_ctx state;
    sha256_init(&state);
    sha256_update(&state, message.size(), reinterpret_cast<const std::uint8_t*>(message.data()));
    std::string digest(SHA256_DIGEST_SIZE, '\0');
    sha256_digest(&state, digest.size(), reinterpret_cast<std::uint8_t*>(digest.data()));
    return to_hex(digest);
}

void rootAndFirstBlocksAreTheKnownDigests(Check& check) {
    CHECK_EQUAL(hex(root_hash()), "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e");
    const std::vector<TokenId> tokens{1, 2, 3, 4, 5, 6, 7, 8};
    const std::span<const TokenId> all(tokens);
    const BlockHash first = hash_block(root_hash(), all.first(4), {});
    CHECK_EQUAL(hex(first), "c9d58ba695280d69b243e1e0df813136ca9196b286fb1a021e0b2e028ef071cb");
    CHECK_EQUAL(hex(hash_block(first, all.last(4), {})), "24125b23e68883b5c2141db2959d48433fe6bde2f26bd914efad121d154ab2d6");
    HashChain chain;
    chain.extend({4}, tokens, {}, 2);
    CHECK_EQUAL(hex(chain.hash(1)), "24125b23e68883b5c2141db2959d48433fe6bde2f26bd914efad121d154ab2d6");
    CHECK_EQUAL(first_bytes(first), 0xc9d58ba695280d69ull);
}

struct IntegersTakeTheShortestFormCase {
    int token;
    std::string cbor;
};
Cases<IntegersTakeTheShortestFormCase> integersTakeTheShortestForm_cases() {
    Cases<IntegersTakeTheShortestFormCase> cases;
    cases.add("0", {0, "00"});
    cases.add("23", {23, "17"});
    cases.add("24", {24, "1818"});
    cases.add("255", {255, "18ff"});
    cases.add("256", {256, "190100"});
    cases.add("65535", {65535, "19ffff"});
    cases.add("65536", {65536, "1a00010000"});
    cases.add("largest", {2147483647, "1a7fffffff"});
    cases.add("-1", {-1, "20"});
    cases.add("smallest", {int(-2147483648LL), "3a7fffffff"});
    return cases;
}
void integersTakeTheShortestForm(Check& check, const IntegersTakeTheShortestFormCase& row) {
    const std::vector<TokenId> tokens{row.token};
    const std::string message = from_hex("835820") + root() + from_hex("81" + row.cbor + "f6");
    CHECK_EQUAL(hex(hash_block(root_hash(), tokens, {})), sha256(message));
}

void longBlocksGoThroughTheBuffer(Check& check) {
    const std::vector<TokenId> tokens(256, 70000);
    std::string message = from_hex("835820") + root() + from_hex("990100");
    for (int i = 0; i < 256; ++i) message += from_hex("1a00011170");
    CHECK_EQUAL(hex(hash_block(root_hash(), tokens, {})), sha256(message + from_hex("f6")));
}

struct ExtraKeysAreTaggedPairsCase {
    std::string adapter, salt, cbor;
};
Cases<ExtraKeysAreTaggedPairsCase> extraKeysAreTaggedPairs_cases() {
    Cases<ExtraKeysAreTaggedPairsCase> cases;
    cases.add("none", {std::string(), std::string(), "f6"});
    cases.add("adapter", {"x", std::string(), "818267" + to_hex("adapter") + "6178"});
    cases.add("salt", {std::string(), "x", "818264" + to_hex("salt") + "6178"});
    cases.add("both",
              {"x", "yy", "828267" + to_hex("adapter") + "61788264" + to_hex("salt") + "627979"});
    return cases;
}
void extraKeysAreTaggedPairs(Check& check, const ExtraKeysAreTaggedPairsCase& row) {
    const std::vector<TokenId> tokens{1, 2};
    const std::string message = from_hex("835820") + root() + from_hex("820102" + row.cbor);
    const ExtraKeys keys{std::string_view(row.adapter.data(), std::size_t(row.adapter.size())),
                         std::string_view(row.salt.data(), std::size_t(row.salt.size()))};
    CHECK_EQUAL(hex(hash_block(root_hash(), tokens, keys)), sha256(message));
    // In a chain the salt stands in the first block only, yet the second differs too.
    HashChain chain, plain;
    chain.extend({1}, tokens, keys, 2);
    plain.extend({1}, tokens, {}, 2);
    CHECK_EQUAL(hex(chain.hash(1)), hex(hash_block(chain.hash(0), std::span(tokens).last(1), {keys.adapter, {}})));
    CHECK_EQUAL(chain.hash(1) == plain.hash(1), row.cbor == "f6");
}

void shortHashesCollideAndExactOnesDoNot(Check& check) {
    HashChain::Rules rules{1, 2, true, true};
    int collisions = 0;
    HashChain first;
    first.extend(rules, std::vector<TokenId>{0, 7}, {}, 2);
    for (TokenId token = 1; token < 40; ++token) {
        HashChain other;
        other.extend(rules, std::vector<TokenId>{token, 7}, {}, 2);
        CHECK_THAT(other.exact(0) != first.exact(0) && other.exact(1) != first.exact(1));
        if (other.hash(0) != first.hash(0)) continue;
        ++collisions;
        CHECK_THAT(other.hash(1) == first.hash(1));  // the collision lasts
    }
    CHECK_THAT(collisions > 0);
    CHECK_EQUAL(hex(first.hash(0)).substr(2), std::string(62, '0'));
}

void shorteningKeepsTheFirstBits(Check& check) {
    BlockHash ones;
    ones.fill(std::byte{0xFF});
    CHECK_EQUAL(hex(shortened(ones, 256)), std::string(64, 'f'));
    CHECK_EQUAL(hex(shortened(ones, 12)), "fff" + std::string(61, '0'));
    CHECK_EQUAL(hex(shortened(ones, 1)), "8" + std::string(63, '0'));
    CHECK_EQUAL(hex(shortened(ones, 255)), std::string(63, 'f') + "e");
}

void aChainIsExtendedAndCut(Check& check) {
    std::vector<TokenId> tokens(64);
    for (int i = 0; i < 64; ++i) tokens[std::size_t(i)] = i * 977;
    HashChain once, often;
    once.extend({4}, tokens, {}, 16);
    for (std::uint32_t count : {3u, 2u, 9u}) often.extend({4}, tokens, {}, count);
    CHECK_EQUAL(often.size(), 9u);
    often.shorten(5);
    CHECK_EQUAL(often.size(), 5u);
    often.extend({4}, tokens, {}, 16);
    for (std::uint32_t block = 0; block < 16; ++block) CHECK_THAT(once.hash(block) == often.hash(block));
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    Claims claims;
    claims.add(CLAIM(rootAndFirstBlocksAreTheKnownDigests));
    claims.add(CLAIM(integersTakeTheShortestForm), integersTakeTheShortestForm_cases());
    claims.add(CLAIM(longBlocksGoThroughTheBuffer));
    claims.add(CLAIM(extraKeysAreTaggedPairs), extraKeysAreTaggedPairs_cases());
    claims.add(CLAIM(shortHashesCollideAndExactOnesDoNot));
    claims.add(CLAIM(shorteningKeepsTheFirstBits));
    claims.add(CLAIM(aChainIsExtendedAndCut));
    return claims.rows();
}
