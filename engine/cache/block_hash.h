// SPDX-License-Identifier: GPL-3.0-or-later
//
// Chained hash of full blocks, vLLM's `sha256_cbor` (CACHE_SEMANTICS 1.1 "Hashing"):
//
//     H_i = SHA-256(CBOR [H_{i-1}, [tokens of block i], extra keys])
//
// in canonical CBOR: 83, then 58 20 and the 32 bytes before, then an array of integers, then f6 (null) where the block has
// no extra keys. H_{-1} is the fixed root, SHA-256 of the CBOR text "0" (61 30). Extra keys are an array of pairs, each
// tagged with what it is, so that an adapter named as a salt is another key:
//
//     [["adapter", name]]                   82 is the pair, e.g. 81 82 67 "adapter" 61 "x"
//     [["salt", salt]]                      first block only, e.g. 81 82 64 "salt" 61 "x"
//     [["adapter", name], ["salt", salt]]   first block with both, in this order: 82 82 ... 82 ...
//
// Untagged (`tag_extra_keys` off), as vLLM writes them, the values stand bare: [name], [salt], [name, salt]; then a first
// block under the adapter "x" and one under the salt "x" are the same. Without extra keys all digests equal vLLM's.
// SHA-256 is nettle's: with SHA-NI where the processor has it. OpenSSL's EVP interface took 1.4 times as long a block.
#pragma once

#include "engine/cache/cache_manager.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kvloupe {

// What stands before the first block.
const BlockHash& root_hash();

// keys: of this block; the caller leaves the salt out of all but the first.
BlockHash hash_block(const BlockHash& before, std::span<const TokenId> tokens, const ExtraKeys& keys, bool tagged = true);

// The first `bits` bits (1 .. 256); the others become 0.
BlockHash shortened(BlockHash hash, std::uint32_t bits);

// The first 8 bytes, big-endian: what events carry.
std::uint64_t first_bytes(const BlockHash& hash);

// Which SHA-256 code runs here, for benchmarks: "nettle, SHA-NI" or "nettle, no SHA-NI".
std::string_view hash_code_path();

// Hashes of one sequence's full blocks, computed once each, as far as asked for.
class HashChain {
public:
    struct Rules {
        std::uint32_t block_size = 16;
        std::uint32_t hash_bits = 256;   // shortened hashes are chained shortened, so that a collision lasts
        bool tag_extra_keys = true;
        bool exact = false;              // keep the chain of whole hashes too; needs hash_bits < 256
    };

    // Hashes the blocks up to `count`; the tokens of those must be there. Earlier ones are taken as they are.
    void extend(const Rules& rules, std::span<const TokenId> tokens, const ExtraKeys& keys, std::uint32_t count);
    // Only the first `count` blocks.
    void shorten(std::uint32_t count);

    std::uint32_t size() const { return static_cast<std::uint32_t>(m_hashes.size()); }
    std::span<const BlockHash> hashes() const { return m_hashes; }
    const BlockHash& hash(std::uint32_t block) const { return m_hashes[block]; }
    // Tells prefixes apart whose shortened hashes are equal; the hash itself where it is not shortened.
    const BlockHash& exact(std::uint32_t block) const { return m_exact.empty() ? m_hashes[block] : m_exact[block]; }

private:
    std::vector<BlockHash> m_hashes;  // (full blocks)
    std::vector<BlockHash> m_exact;   // (full blocks), or empty
};

}  // namespace kvloupe
