// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/record/compressed.h"

#include <zstd.h>

#include <memory>

namespace kvloupe {

std::string compressed(std::string_view bytes) {
    const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
    std::string frame(ZSTD_compressBound(bytes.size()), '\0');
    const std::size_t size = ZSTD_compress2(context.get(), frame.data(), frame.size(), bytes.data(), bytes.size());
    frame.resize(size);  // cannot fail: the room is what ZSTD_compressBound() says
    return frame;
}

Result<std::string> decompressed(std::string_view frame, std::size_t limit) {
    const Error damaged{"A compressed part of the recording is damaged", "Open a backup of the file, or record the run again"};
    const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > limit) return damaged;
    std::string bytes(static_cast<std::size_t>(size), '\0');
    const std::size_t got = ZSTD_decompress(bytes.data(), bytes.size(), frame.data(), frame.size());
    if (ZSTD_isError(got) || got != bytes.size()) return damaged;
    return bytes;
}

}  // namespace kvloupe
