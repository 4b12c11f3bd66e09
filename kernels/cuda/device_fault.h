// SPDX-License-Identifier: GPL-3.0-or-later
//
// DeviceFault: the first thing that went wrong on a card. CUDA's errors stick: after one, every call of the process's context
// fails, and what a step computed means nothing. So the backend keeps the first as its one sentence and answers with it from
// then on; the caller's other devices go on. What is the step's own (no memory for its scratch) ends with the step.
#pragma once

#include "engine/record/result.h"
#include "kernels/cuda/runtime.h"

#include <optional>
#include <string>

namespace kvloupe::cuda {

class DeviceFault {
public:
    explicit DeviceFault(std::string device) : m_device(std::move(device)) {}

    // True where status is a success and nothing failed before. what: "attention", "the upload of a batch".
    bool note(cudaError_t status, const char* what) {
        if (status == cudaSuccess) return good();
        note(what, std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ")");
        (void)cudaGetLastError();  // a status that does not stick must not show in another backend's launches
        return false;
    }
    void note(const char* what, const std::string& problem) {
        if (m_error) return;
        m_error = Error{m_device + " failed in " + what + ": " + problem,
                        "Restart the program to use the card again, or choose the device 'cpu'"};
    }

    // Fails the step at hand alone.
    void note_in_step(const Error& error) {
        if (!m_error && !m_step_error) m_step_error = error;
    }
    void begin_step() { m_step_error.reset(); }

    bool good() const { return !m_error.has_value() && !m_step_error.has_value(); }
    bool lost() const { return m_error.has_value(); }
    Result<void> result() const { return good() ? Result<void>() : Result<void>(error()); }
    const Error& error() const { return m_error ? *m_error : *m_step_error; }

private:
    std::string m_device;  // "cuda:0 (NVIDIA H200)"
    std::optional<Error> m_error, m_step_error;
};

}  // namespace kvloupe::cuda
