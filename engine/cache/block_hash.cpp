// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/block_hash.h"

#include <nettle/sha2.h>

#include <algorithm>
#include <cstring>

namespace kvloupe {

namespace {

// Canonical CBOR into a buffer that goes to the hash when it is full.
class Hasher {
public:
    Hasher() { sha256_init(&m_context); }

    // Major type 0 .. 7 and its argument in the shortest form.
    void head(std::uint32_t major, std::uint64_t value) {
        const std::uint8_t type = static_cast<std::uint8_t>(major << 5);
        reserve(9);
        if (value < 24) {
            put(static_cast<std::uint8_t>(type | value));
            return;
        }
        const int bytes = value <= 0xFF ? 1 : value <= 0xFFFF ? 2 : value <= 0xFFFFFFFF ? 4 : 8;
        put(static_cast<std::uint8_t>(type | (bytes == 1 ? 24 : bytes == 2 ? 25 : bytes == 4 ? 26 : 27)));
        for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) put(static_cast<std::uint8_t>(value >> shift));
    }
    void integer(TokenId value) {
        if (value >= 0)
            head(0, static_cast<std::uint32_t>(value));
        else
            head(1, static_cast<std::uint64_t>(-1 - std::int64_t{value}));
    }
    void bytes(const void* data, std::size_t size) {
        if (size > sizeof m_buffer - m_used) flush();
        if (size > sizeof m_buffer) {
            sha256_update(&m_context, size, static_cast<const std::uint8_t*>(data));
            return;
        }
        std::memcpy(m_buffer + m_used, data, size);
        m_used += size;
    }
    void text(std::string_view value) {
        head(3, value.size());
        bytes(value.data(), value.size());
    }
    void null() {
        reserve(1);
        put(0xF6);
    }

    BlockHash digest() {
        flush();
        BlockHash hash;
        sha256_digest(&m_context, hash.size(), reinterpret_cast<std::uint8_t*>(hash.data()));
        return hash;
    }

private:
    void put(std::uint8_t byte) { m_buffer[m_used++] = byte; }
    void reserve(std::size_t size) {
        if (size > sizeof m_buffer - m_used) flush();
    }
    void flush() {
        sha256_update(&m_context, m_used, m_buffer);
        m_used = 0;
    }

    sha256_ctx m_context;
    std::uint8_t m_buffer[256];
    std::size_t m_used = 0;
};

}  // namespace

const BlockHash& root_hash() {
    static const BlockHash root = [] {
        Hasher hasher;
        hasher.text("0");
        return hasher.digest();
    }();
    return root;
}

BlockHash hash_block(const BlockHash& before, std::span<const TokenId> tokens, const ExtraKeys& keys, bool tagged) {
    Hasher hasher;
    hasher.head(4, 3);
    hasher.head(2, before.size());
    hasher.bytes(before.data(), before.size());
    hasher.head(4, tokens.size());
    for (const TokenId token : tokens) hasher.integer(token);
    if (keys.adapter.empty() && keys.salt.empty()) {
        hasher.null();
        return hasher.digest();
    }
    const auto pair = [&](std::string_view tag, std::string_view value) {
        if (value.empty()) return;
        if (tagged) {
            hasher.head(4, 2);
            hasher.text(tag);
        }
        hasher.text(value);
    };
    hasher.head(4, (keys.adapter.empty() ? 0u : 1u) + (keys.salt.empty() ? 0u : 1u));
    pair("adapter", keys.adapter);
    pair("salt", keys.salt);
    return hasher.digest();
}

BlockHash shortened(BlockHash hash, std::uint32_t bits) {
    for (std::size_t i = 0; i < hash.size(); ++i) {
        const auto kept = std::clamp<std::int64_t>(std::int64_t{bits} - std::int64_t(8 * i), 0, 8);
        hash[i] &= static_cast<std::byte>(0xFF00 >> kept);
    }
    return hash;
}

std::uint64_t first_bytes(const BlockHash& hash) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) value = value << 8 | std::to_integer<std::uint64_t>(hash[i]);
    return value;
}

std::string_view hash_code_path() {
#if defined(__x86_64__)
    // nettle is built with run-time dispatch and asks the processor the same question.
    unsigned a = 7, b = 0, c = 0, d = 0;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return (b >> 29 & 1) != 0 ? "nettle, SHA-NI" : "nettle, no SHA-NI";
#else
    return "nettle";
#endif
}

void HashChain::extend(const Rules& rules, std::span<const TokenId> tokens, const ExtraKeys& keys, std::uint32_t count) {
    if (count <= size()) return;
    const bool exact = rules.exact && rules.hash_bits < 256;
    for (std::uint32_t block = size(); block < count; ++block) {
        const auto own = tokens.subspan(std::size_t{block} * rules.block_size, rules.block_size);
        const ExtraKeys of_block{keys.adapter, block == 0 ? keys.salt : std::string_view{}};
        const BlockHash& before = block == 0 ? root_hash() : m_hashes.back();
        BlockHash hash = hash_block(before, own, of_block, rules.tag_extra_keys);
        if (exact) {
            const bool same = block == 0 || m_exact.back() == before;
            m_exact.push_back(same ? hash : hash_block(m_exact.back(), own, of_block, rules.tag_extra_keys));
        }
        m_hashes.push_back(rules.hash_bits < 256 ? shortened(hash, rules.hash_bits) : hash);
    }
}

void HashChain::shorten(std::uint32_t count) {
    if (m_hashes.size() > count) m_hashes.resize(count);
    if (m_exact.size() > count) m_exact.resize(count);
}

}  // namespace kvloupe
