// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/card_ceilings.h"

#include "kernels/cuda/card_memory.h"
#include "kernels/cuda/kernels.h"

#include <algorithm>
#include <ctime>
#include <random>
#include <vector>

namespace kvloupe::cuda {

namespace {

constexpr const char* measurement = "the measurement of the card";
constexpr int runs = 20;  // a card that idled needs some milliseconds to reach its clocks

class Stopwatch {
public:
    explicit Stopwatch(Card& card) : m_card(card) {
        for (cudaEvent_t& event : m_events) m_card.fault().note(cudaEventCreateWithFlags(&event, cudaEventDefault), measurement);
    }
    ~Stopwatch() {
        for (cudaEvent_t event : m_events)
            if (event != nullptr && cudaEventDestroy(event) != cudaSuccess) (void)cudaGetLastError();
    }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

    // Seconds of the fastest of several runs of f, which queues work and says whether it could; 0: it could not.
    template <class F>
    double best(F&& f) {
        double fastest = 0;
        for (int run = 0; run < runs; ++run) {
            float milliseconds = 0;
            DeviceFault& fault = m_card.fault();
            if (!fault.good() || !fault.note(cudaEventRecord(m_events[0], m_card.stream), measurement) || !f() ||
                !fault.note(cudaEventRecord(m_events[1], m_card.stream), measurement) ||
                !fault.note(cudaEventSynchronize(m_events[1]), measurement) ||
                !fault.note(cudaEventElapsedTime(&milliseconds, m_events[0], m_events[1]), measurement))
                return 0;
            const double seconds = static_cast<double>(milliseconds) / 1e3;
            if (seconds > 0 && (fastest == 0 || seconds < fastest)) fastest = seconds;
        }
        return fastest;
    }

private:
    Card& m_card;
    cudaEvent_t m_events[2] = {};
};

double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

std::string today() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    char text[16] = "";
    if (gmtime_r(&now, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
    return text;
}

// Factors of 0.5 to 1 of either sign with random digits: equal or zero factors toggle fewer bits, draw less power and would
// be multiplied at clocks that no real matrix sees.
bool fill(Card& card, const CardMemory& factors) {
    std::vector<std::uint16_t> part(std::size_t{1} << 20);
    std::mt19937 random(1);
    for (std::uint16_t& value : part) value = static_cast<std::uint16_t>(0x3800u | (random() & 0x83FFu));
    const std::uint64_t size = part.size() * sizeof part[0];
    for (std::uint64_t begin = 0; begin < factors.bytes(); begin += size)
        if (!card.fault().note(cudaMemcpyAsync(factors.data() + begin, part.data(), std::min(size, factors.bytes() - begin),
                                               cudaMemcpyHostToDevice, card.stream), measurement))
            return false;
    return true;
}

}  // namespace

Ceilings measure_card(Card& card, MatrixLibrary& library, const CudaOptions& options, std::stop_token stop) {
    Ceilings ceilings;
    ceilings.matrix_type = DType::f16;
    if (!card.ready()) return ceilings;
    DeviceFault& fault = card.fault();
    Stopwatch watch(card);
    {
        // Never more than a quarter of measurement is free: others compute here too.
        const std::uint64_t bytes = std::min(options.ceiling_bytes, card.room().free / 4) / 4096 * 4096;
        auto from = CardMemory::make(card, bytes, Purpose::activations, measurement);
        auto to = CardMemory::make(card, bytes, Purpose::activations, measurement);
        auto sum = CardMemory::make(card, 256, Purpose::activations, measurement);
        if (from && to && sum && bytes > 0 && fault.note(cudaMemsetAsync(from->data(), 1, bytes, card.stream), measurement)) {
            if (!stop.stop_requested())
                ceilings.read_bandwidth = per_second(static_cast<double>(bytes), watch.best([&] {
                    return fault.note(read_all(from->data(), bytes, sum->as<unsigned>(), card.processors(), card.stream), measurement);
                }));
            if (!stop.stop_requested())
                ceilings.copy_bandwidth = per_second(2.0 * static_cast<double>(bytes), watch.best([&] {
                    return fault.note(cudaMemcpyAsync(to->data(), from->data(), bytes, cudaMemcpyDeviceToDevice, card.stream), measurement);
                }));
        }
    }
    const std::uint64_t n = options.ceiling_matrix;
    if (stop.stop_requested() || n * n * 8 > card.room().free / 2) return ceilings;
    auto factors = CardMemory::make(card, 2 * n * n * sizeof(std::uint16_t), Purpose::activations, measurement);
    auto product = CardMemory::make(card, n * n * sizeof(float), Purpose::activations, measurement);
    if (factors && product && fill(card, *factors)) {
        Gemm gemm;
        gemm.matrix = factors->data();
        gemm.in = factors->data() + n * n * sizeof(std::uint16_t);
        gemm.out = product->as<float>();
        gemm.rows = gemm.cols = gemm.matrix_rows = gemm.in_width = gemm.out_width = options.ceiling_matrix;
        const double operations = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
        ceilings.matrix_rate = per_second(operations, watch.best([&] {
            const char* problem = library.multiply(gemm);
            if (problem != nullptr) fault.note(measurement, problem);
            return problem == nullptr;
        }));
    }
    if (ceilings.measured()) ceilings.measured_on = today();
    return ceilings;
}

}  // namespace kvloupe::cuda
