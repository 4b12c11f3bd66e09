// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/stored_token.h"

#include "views/format.h"

#include <QCoreApplication>

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {

// Of one pack: scales, and where it has them minima, in f16 (FORMATS 2.3).
std::uint64_t scaleBytesInPack(DType type) {
    if (!is_packed(type)) return 0;
    return type == DType::q4_1 || type == DType::q5_1 ? 4 : 2;
}

// Codes and scales of a token in one row of a plane; what lies between them, so that scales begin where they can be read in one
// access, belongs to the scales.
struct StoredRow {
    double codes = 0, scales = 0;
};

StoredRow storedRow(const KvPlane& plane) {
    const std::uint64_t packs = is_packed(plane.format.dtype) ? plane.width() / elements_per_pack(plane.format.dtype) : 0;
    const auto codes = static_cast<double>(plane.code_bytes - packs * scaleBytesInPack(plane.format.dtype));
    return {codes, static_cast<double>(plane.row_block_bytes) / plane.block_size - codes};
}

// A recording of a model of equal layers may only say how many heads there are.
LayerInfo storedLayer(const LaneInfo& lane, std::uint32_t layer) {
    if (!lane.layer_infos.empty()) return lane.layer_infos[std::min<std::size_t>(layer, lane.layer_infos.size() - 1)];
    LayerInfo uniform;
    const auto dtype = dtype_from_name(lane.cache_dtype);
    if (!dtype || lane.latent_rank > 0) return uniform;
    uniform.kv_heads = lane.kv_heads;
    uniform.key_dim = uniform.value_dim = lane.head_dim;
    uniform.keys = uniform.values = KvFormat::of(*dtype);
    return uniform;
}

QString storedTokenText(const char* text) { return QCoreApplication::translate("kvloupe::StoredToken", text); }

}  // namespace

StoredToken StoredToken::of(const LaneInfo& lane, std::uint32_t layer) {
    StoredToken token;
    if (!lane.kv_cache || lane.layers == 0) return token;
    const LayerInfo info = storedLayer(lane, layer);
    const auto keys = KvPlane::of(info.keys, KvPart::keys, info.kv_heads, info.key_dim, lane.block_size);
    const auto values = KvPlane::of(info.values, KvPart::values, info.kv_heads, info.value_dim, lane.block_size);
    if (!keys || !values) return token;
    const auto add = [&token](StoredPiece::Kind kind, const KvPlane& plane, std::uint32_t row) {
        const StoredRow parts = storedRow(plane);
        const auto piece = [&](StoredPiece::Kind what, double size) {
            if (size < 1e-9) return;  // none, but for rounding
            token.pieces.push_back({what, row * plane.heads_per_row, plane.heads_per_row, size});
            token.bytes += size;
            token.scales = token.scales || what == StoredPiece::Kind::scales;
        };
        piece(kind, parts.codes);
        piece(StoredPiece::Kind::scales, parts.scales);
    };
    for (std::uint32_t row = 0; row < std::max(keys->rows(), values->rows()); ++row) {
        if (row < keys->rows()) add(info.latent ? StoredPiece::Kind::latent : StoredPiece::Kind::keys, *keys, row);
        if (row < values->rows()) add(info.latent ? StoredPiece::Kind::rotary : StoredPiece::Kind::values, *values, row);
    }
    token.besideBlocks = keys->fixed_bytes + values->fixed_bytes > 0;
    token.newestInF16 = keys->format.keeps_residual() || values->format.keeps_residual();
    return token;
}

QString StoredToken::text(bool dark) const {
    if (pieces.empty()) return {};
    QStringList parts;
    const bool whole = std::abs(bytes - std::round(bytes)) < 1e-9;
    parts << (whole ? formatBytes(static_cast<quint64>(std::llround(bytes))) : QStringLiteral("%1 B").arg(bytes, 0, 'f', 1));
    const auto has = [this](StoredPiece::Kind kind) {
        return std::any_of(pieces.begin(), pieces.end(), [kind](const StoredPiece& piece) { return piece.kind == kind; });
    };
    if (has(StoredPiece::Kind::rotary)) parts << storedTokenText(QT_TRANSLATE_NOOP("kvloupe::StoredToken", "pale: rotary key"));
    if (scales)
        parts << storedTokenText(dark ? QT_TRANSLATE_NOOP("kvloupe::StoredToken", "white: scales")
                                      : QT_TRANSLATE_NOOP("kvloupe::StoredToken", "black: scales"));
    if (besideBlocks) parts << storedTokenText(QT_TRANSLATE_NOOP("kvloupe::StoredToken", "scales beside the blocks"));
    if (newestInF16) parts << storedTokenText(QT_TRANSLATE_NOOP("kvloupe::StoredToken", "newest tokens in f16"));
    return parts.join(QStringLiteral(", "));
}

}  // namespace kvloupe
