// SPDX-License-Identifier: GPL-3.0-or-later
//
// "Device" memory of emulated tests: an array whose elements hold NaN (all bits set) until something is written, between
// guards of 256 bytes. guards_hold() finds writes beside it in every build; under AddressSanitizer the guards are poisoned,
// and the access itself is reported. Aligned to 256 bytes, as cudaMalloc aligns.
//
//     DeviceArray<float> in(values), out(count);
//     LAUNCHED(cuda::rms_norm(in.data(), …, out.data(), nullptr));   // ends the row with the emulation's sentence
//     CHECK_EQUAL(out.host()[3], 2.5f);
//     CHECK_THAT(out.guards_hold());
#pragma once

#include "kernels/cuda/platform.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace kvloupe::test {

template <class T>
class DeviceArray {
public:
    // shift: bytes by which data() lies beside an address aligned to 256, to test unaligned accesses.
    explicit DeviceArray(std::size_t count, std::size_t shift = 0) : m_count(count), m_shift(shift) {
        m_memory = static_cast<unsigned char*>(::operator new(total(), std::align_val_t{256}));
        std::memset(m_memory, guard_byte, total());
        std::memset(m_memory + begin(), 0xFF, bytes());
        poison();
    }
    explicit DeviceArray(const std::vector<T>& values, std::size_t shift = 0) : DeviceArray(values.size(), shift) {
        if (!values.empty()) std::memcpy(data(), values.data(), bytes());
    }
    ~DeviceArray() {
        unpoison();
        ::operator delete(m_memory, std::align_val_t{256});
    }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;

    T* data() { return reinterpret_cast<T*>(m_memory + begin()); }
    const T* data() const { return reinterpret_cast<const T*>(m_memory + begin()); }
    std::size_t size() const { return m_count; }
    std::size_t bytes() const { return m_count * sizeof(T); }
    // A copy on the host.
    std::vector<T> host() const {
        std::vector<T> values(m_count);
        if (m_count > 0) std::memcpy(values.data(), data(), bytes());
        return values;
    }
    void set(const std::vector<T>& values) {
        if (values.size() == m_count && m_count > 0) std::memcpy(data(), values.data(), bytes());
    }
    // Whether nothing was written beside the array.
    bool guards_hold() const {
        unpoison();
        bool hold = true;
        for (std::size_t i = 0; i < begin(); ++i) hold = hold && m_memory[i] == guard_byte;
        for (std::size_t i = begin() + bytes(); i < total(); ++i) hold = hold && m_memory[i] == guard_byte;
        poison();
        return hold;
    }

private:
    static constexpr std::size_t guard_bytes = 256;
    static constexpr unsigned char guard_byte = 0xA5;

    std::size_t begin() const { return guard_bytes + m_shift; }
    std::size_t total() const { return (begin() + bytes() + guard_bytes + 255) / 256 * 256; }
    void poison() const {
#if defined(__SANITIZE_ADDRESS__)
        __asan_poison_memory_region(m_memory, begin());
        __asan_poison_memory_region(m_memory + begin() + bytes(), total() - begin() - bytes());
        __asan_unpoison_memory_region(m_memory + begin(), bytes());
#endif
    }
    void unpoison() const {
#if defined(__SANITIZE_ADDRESS__)
        __asan_unpoison_memory_region(m_memory, total());
#endif
    }

    unsigned char* m_memory = nullptr;
    std::size_t m_count = 0, m_shift = 0;
};

}  // namespace kvloupe::test

// Ends the row where a launch failed, with the reason.
#define LAUNCHED(call)                                                                                          \
    do {                                                                                                        \
        if (const cudaError_t error_ = (call); error_ != cudaSuccess) {                                         \
            check.fail(std::string(#call " failed: ") + cudaGetErrorString(error_) + ". " +                     \
                           ::kvloupe::emulation::last_failure(), __FILE__, __LINE__);                           \
            return;                                                                                             \
        }                                                                                                       \
    } while (false)
