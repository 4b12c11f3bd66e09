// SPDX-License-Identifier: GPL-3.0-or-later
//
// Feeds every file of the given folders to a fuzz target, in the order of their names: what libFuzzer found once is
// tried again by every build. No input at all is a failure.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
    try {
        std::vector<std::filesystem::path> inputs;
        for (int i = 1; i < argc; ++i)
            for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i]))
                if (entry.is_regular_file()) inputs.push_back(entry.path());
        std::sort(inputs.begin(), inputs.end());
        for (const std::filesystem::path& path : inputs) {
            std::ifstream file(path, std::ios::binary);
            const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
            // A copy of exactly the input's size: reading past its end is then an error that AddressSanitizer sees.
            const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
            LLVMFuzzerTestOneInput(input.data(), input.size());
        }
        std::printf("replayed %zu inputs\n", inputs.size());
        return inputs.empty() ? 1 : 0;
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "replay failed: %s\n", failure.what());
        return 1;
    }
}
