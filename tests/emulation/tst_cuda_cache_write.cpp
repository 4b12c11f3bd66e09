// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the device stores is what the CPU stores, to the bit: codes, scales, pages and all other bytes of the blocks, emulated. Every
// precision, scale and shape; then KIVI's blocks from their pages, and scales per head from the first rows.
#include "kernels/cpu/cpu_cache.h"
#include "kernels/cpu/fp8.h"
#include "kernels/cpu/kv_rows.h"
#include "kernels/cuda/codes.h"
#include "kernels/cuda/kernels.h"
#include "tests/emulation/coded_cases.h"
#include "tests/emulation/random_values.h"
#include "tests/support/rows.h"

#include <bit>
#include <cmath>
#include <limits>

using namespace kvloupe;
using namespace kvloupe::test;

namespace {

constexpr std::uint32_t token_rows = 5, blocks = 4, query_heads = 3;

struct WriteCase {
    FormatPair formats;
    std::uint32_t kv_heads = 2, key_dim = 64, value_dim = 64, block_size = 16, rotary_dim = 0;
    RotaryLayout layout = RotaryLayout::half_split;
    float spread = 1;

    std::string label() const {
        return text_of(formats.keys) + " / " + text_of(formats.values) + ", " + std::to_string(kv_heads) + " heads of " + std::to_string(key_dim) + "/" +
               std::to_string(value_dim) + ", blocks of " + std::to_string(block_size) + ", turned " + std::to_string(rotary_dim);
    }
};

// The same rows on both sides.
class Both {
public:
    explicit Both(const WriteCase& c)
        : m_case(c), device({c.formats.keys, c.formats.values, c.kv_heads, c.key_dim, c.value_dim, c.block_size, blocks, blocks}),
          q(random_floats(std::size_t{token_rows} * query_heads * c.key_dim, 1)), k(random_floats(std::size_t{token_rows} * c.kv_heads * c.key_dim, 2, c.spread)),
          v(random_floats(std::size_t{token_rows} * c.kv_heads * c.value_dim, 3, c.spread)), overflowed(std::vector<unsigned long long>{7}) {
        KvCacheShape shape;
        shape.blocks = blocks;
        shape.block_size = c.block_size;
        shape.residual_pages = blocks;
        shape.layers.push_back({c.kv_heads, c.key_dim, c.value_dim, false, c.formats.keys, c.formats.values, 0});
        auto made = cpu::CpuKvCache::make(shape, Purpose::kv_cache, m_counters);
        if (!made) return;
        m_cpu = std::move(*made);
        for (std::uint32_t block = 0; block < blocks; ++block) {
            host().poison_block(block);
            if (c.formats.keys.keeps_residual() || c.formats.values.keeps_residual()) host().poison_page(block);
        }
        const std::vector<std::uint32_t> order = random_order(blocks * c.block_size, 11);
        for (std::uint32_t i = 0; i < token_rows; ++i) {
            slots.push_back(order[i % order.size()]);
            pages.push_back(static_cast<std::uint32_t>(slots[i] / c.block_size) + 1);  // page b stands for block b
        }
    }
    cpu::CpuKvCache& host() { return static_cast<cpu::CpuKvCache&>(*m_cpu); }
    bool made() const { return m_cpu != nullptr; }

    // Turned by the device, whose k is then what the CPU stores: angles differ in the last bit.
    cudaError_t store(bool take_scales) {
        DeviceArray<float> device_q(q), device_k(k), device_v(v);
        std::vector<double> frequencies(m_case.rotary_dim / 2);
        for (std::size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = std::pow(10000.0, -2.0 * static_cast<double>(i) / m_case.rotary_dim);
        const DeviceArray<double> device_frequencies(frequencies);
        const DeviceArray<std::uint32_t> positions(std::vector<std::uint32_t>{0, 1, 977, 5, 1000000}), slot_pages(pages);
        const DeviceArray<std::uint64_t> device_slots(slots);
        cuda::RotaryStore args;
        args.q = device_q.data(), args.k = device_k.data(), args.v = device_v.data();
        args.positions = positions.data(), args.slots = device_slots.data(), args.overflowed = overflowed.data();
        args.rows = token_rows, args.query_heads = query_heads;
        args.rotary = {device_frequencies.data(), m_case.rotary_dim, m_case.layout};
        args.cache = device.layer();
        args.slot_pages = slot_pages.data();
        if (take_scales) {
            if (const cudaError_t error = cuda::take_head_scales(args, nullptr); error != cudaSuccess) return error;
            args.rotary.rotary_dim = 0;
        }
        const cudaError_t error = cuda::rotary_store(args, nullptr);
        guards = device_q.guards_hold() && device_k.guards_hold() && device_v.guards_hold() && device.guards_hold() && overflowed.guards_hold();
        q_after = device_q.host();
        k = device_k.host();
        return error;
    }
    std::uint64_t store_on_cpu() {
        cpu::take_head_scales(host().keys(0), k.data(), token_rows);
        cpu::take_head_scales(host().values(0), v.data(), token_rows);
        std::uint64_t beyond = 0;
        for (std::uint32_t row = 0; row < token_rows; ++row)
            beyond += cpu::store_token(host(), 0, {slots[row] / m_case.block_size, static_cast<std::uint32_t>(slots[row] % m_case.block_size), pages[row]},
                                       k.data() + std::size_t{row} * m_case.kv_heads * m_case.key_dim,
                                       v.data() + std::size_t{row} * m_case.kv_heads * m_case.value_dim);
        return beyond;
    }
    // Whether all blocks, pages and scales are the same bytes.
    bool equal() {
        for (const bool values : {false, true}) {
            const cpu::CpuPlane& plane = values ? host().values(0) : host().keys(0);
            for (std::uint32_t block = 0; block < blocks; ++block) {
                if (std::memcmp(plane.block(block), device.data(values).data() + block * plane.plane.block_bytes, plane.plane.block_bytes) != 0) return false;
                if (plane.plane.format.keeps_residual() &&
                    std::memcmp(plane.pages + block * plane.page_stride, device.pages(values).data() + block * plane.plane.residual_page_bytes,
                                plane.plane.residual_page_bytes) != 0)
                    return false;
            }
            if (plane.fixed != nullptr && std::memcmp(plane.fixed, device.fixed(values).data(), plane.plane.fixed_bytes) != 0) return false;
        }
        return true;
    }

private:
    WriteCase m_case;
    cpu::Counters m_counters;
    std::unique_ptr<KvCache> m_cpu;

public:
    CodedCache device;
    std::vector<float> q, k, v, q_after;
    std::vector<std::uint64_t> slots;
    std::vector<std::uint32_t> pages;
    DeviceArray<unsigned long long> overflowed;
    bool guards = false;
};

bool takes_scales(const WriteCase& c) { return c.formats.keys.scale == KvScale::head || c.formats.values.scale == KvScale::head; }

void stores_what_the_cpu_stores(Check& check, const WriteCase& c) {
    Both both(c);
    CHECK_THAT(both.made());
    const std::vector<float> q_before = both.q, k_before = both.k;
    LAUNCHED(both.store(takes_scales(c)));
    CHECK_THAT(both.guards);
    const std::uint64_t beyond = both.store_on_cpu();
    CHECK_THAT(both.equal());
    CHECK_EQUAL(*both.overflowed.data(), 7 + beyond);
    CHECK_EQUAL(both.k == k_before, c.rotary_dim == 0);  // row 0 is at position 0, the others turn
    CHECK_EQUAL(both.q_after == q_before, c.rotary_dim == 0);
    // A second store finds the scales as the first left them.
    if (!takes_scales(c)) return;
    for (float& value : both.k) value *= 3;
    LAUNCHED(both.store(false));
    const std::uint64_t more = both.store_on_cpu();
    CHECK_THAT(both.equal());
    CHECK_EQUAL(*both.overflowed.data(), 7 + beyond + more);
}

// Values beyond every range, infinite ones, zeros and halves between two codes.
void strange_rows(Check& check, const WriteCase& c) {
    Both both(c);
    CHECK_THAT(both.made());
    for (std::vector<float>* x : {&both.k, &both.v}) {
        std::fill_n(x->begin(), 64, 0.0f);
        (*x)[64] = 1e6f, (*x)[65] = -3e5f, (*x)[66] = 65519.0f;
        for (std::size_t i = 0; i < 64; ++i) (*x)[128 + i] = static_cast<float>(i) - 31.5f;  // halves
        for (std::size_t i = 0; i < 64; ++i) (*x)[192 + i] = i % 2 == 0 ? 254.0f : -254.0f + static_cast<float>(i);
    }
    LAUNCHED(both.store(takes_scales(c)));
    const std::uint64_t beyond = both.store_on_cpu();
    CHECK_THAT(both.equal());
    CHECK_EQUAL(*both.overflowed.data(), 7 + beyond);
}

void seals(Check& check, const WriteCase& c) {
    Both both(c);
    CHECK_THAT(both.made());
    std::mt19937 random(5);
    constexpr std::uint32_t page = 2, block = 1;
    for (const bool values : {false, true}) {
        if (!both.device.plane(values).format.keeps_residual()) continue;
        for (std::uint32_t offset = 0; offset < c.block_size; ++offset) both.device.random_token(values, block, page + 1, offset, random);
        const cpu::CpuPlane& plane = values ? both.host().values(0) : both.host().keys(0);
        std::memcpy(plane.pages + page * plane.page_stride, both.device.pages(values).data() + page * plane.plane.residual_page_bytes,
                    plane.plane.residual_page_bytes);
    }
    const cuda::CacheLayer layer = both.device.layer();
    for (const bool keys : {true, false}) {
        const cuda::CacheTensor& tensor = keys ? layer.keys : layer.values;
        if (tensor.scale != KvScale::channel) continue;
        LAUNCHED(cuda::seal_block({tensor, keys, block, page, c.block_size, c.kv_heads, keys ? c.key_dim : c.value_dim}, nullptr));
    }
    CHECK_THAT(both.device.guards_hold());
    cpu::seal_block(both.host(), block, page);
    for (const bool values : {false, true}) {
        const cpu::CpuPlane& plane = values ? both.host().values(0) : both.host().keys(0);
        CHECK_THAT(std::memcmp(plane.blocks, both.device.data(values).data(), blocks * plane.plane.block_bytes) == 0);
    }
}

// Every f16 and what lies between two of them, on both sides of every border of the 8-bit floats.
void narrow_fp8(Check& check, DType type) {
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
        const float value = f16_to_f32(static_cast<std::uint16_t>(bits));
        for (float x : {value, std::nextafter(value, 1e30f), std::nextafter(value, -1e30f), value * 0x1p-9f}) {
            const unsigned code = cuda::fp8_from_float(type, x);
            CHECK_EQUAL(code, static_cast<unsigned>(cpu::f32_to_fp8(type, x)));
        }
    }
    for (unsigned code = 0; code < 256; ++code) {
        const double got = static_cast<double>(cuda::fp8_value(type, code)), want = fp8_of(type, code);
        CHECK_THAT(got == want || (std::isnan(got) && std::isnan(want)));
        if (std::isfinite(want)) CHECK_EQUAL(static_cast<unsigned>(cuda::fp8_from_float(type, static_cast<float>(want))), code);
    }
}

// A KIVI row whose block has no page is not stored; a launch without rows does nothing.
void without_pages(Check& check) {
    WriteCase c;
    c.formats = {KvFormat::of(DType::kivi4), KvFormat::of(DType::kivi4)};
    fit(c.formats, c.kv_heads, c.key_dim, c.block_size);
    Both both(c);
    both.pages.assign(token_rows, 0);
    LAUNCHED(both.store(false));
    for (const bool values : {false, true})
        for (std::byte byte : both.device.pages(values).host()) CHECK_THAT(byte == std::byte{0xFF});
    cuda::RotaryStore args;
    args.cache = both.device.layer();
    LAUNCHED(cuda::rotary_store(args, nullptr));
    LAUNCHED(cuda::take_head_scales(args, nullptr));
    args.rows = 1;
    args.cache.keys.pages = nullptr;
    CHECK_EQUAL(cuda::rotary_store(args, nullptr), cudaErrorInvalidValue);
    CHECK_EQUAL(cuda::seal_block({args.cache.keys, true, 0, 0, 16, 2, 64}, nullptr), cudaErrorInvalidValue);
}

}  // namespace

std::vector<Row> kvloupe::test::rows() {
    std::vector<Row> rows;
    struct Sizes {
        std::uint32_t kv_heads, key_dim, value_dim, block_size, rotary_dim;
    };
    unsigned seed = 0;
    for (const Sizes& sizes : {Sizes{2, 64, 64, 16, 0}, Sizes{3, 128, 64, 8, 96}, Sizes{9, 32, 32, 32, 32}, Sizes{4, 16, 16, 1, 0}, Sizes{8, 12, 20, 4, 12},
                               Sizes{1, 512, 64, 16, 0}, Sizes{2, 80, 80, 16, 80}, Sizes{1, 256, 256, 256, 128}})
        for (FormatPair pair : format_pairs()) {
            WriteCase c;
            c.kv_heads = sizes.kv_heads, c.key_dim = sizes.key_dim, c.value_dim = sizes.value_dim;
            c.block_size = sizes.block_size, c.rotary_dim = sizes.rotary_dim;
            if (!fit(pair, c.kv_heads, std::min(c.key_dim, c.value_dim), c.block_size) || !KvPlane::of(pair.keys, KvPart::keys, c.kv_heads, c.key_dim, c.block_size))
                continue;
            c.layout = ++seed % 2 == 0 ? RotaryLayout::half_split : RotaryLayout::adjacent;
            pair.keys.rotate = std::has_single_bit(c.key_dim) && seed % 3 == 0;
            pair.values.rotate = std::has_single_bit(c.value_dim) && seed % 5 < 2;
            c.formats = pair;
            rows.push_back({"stores what the CPU stores: " + c.label(), [c](Check& check) { stores_what_the_cpu_stores(check, c); }});
        }
    for (FormatPair pair : format_pairs()) {
        WriteCase c;
        fit(pair, c.kv_heads, c.key_dim, c.block_size);
        c.formats = pair;
        rows.push_back({"strange values too: " + c.label(), [c](Check& check) { strange_rows(check, c); }});
        if (!pair.keys.keeps_residual() && !pair.values.keeps_residual()) continue;
        for (const Sizes& sizes : {Sizes{2, 64, 64, 16, 0}, Sizes{1, 128, 128, 64, 0}, Sizes{3, 32, 96, 8, 0}, Sizes{2, 20, 40, 1, 0}}) {
            c.kv_heads = sizes.kv_heads, c.key_dim = sizes.key_dim, c.value_dim = sizes.value_dim, c.block_size = sizes.block_size;
            if (!fit(pair, c.kv_heads, c.value_dim, c.block_size)) continue;
            c.formats = pair;
            rows.push_back({"a block is quantised from its page as the CPU does it: " + c.label(), [c](Check& check) { seals(check, c); }});
        }
    }
    for (DType type : {DType::fp8_e4m3, DType::fp8_e5m2})
        rows.push_back({"every number narrows and widens as the format says: " + std::string(name_of(type)), [type](Check& check) { narrow_fp8(check, type); }});
    rows.push_back({"a row whose block has no page is not stored; what is described in part is refused", without_pages});
    return rows;
}
