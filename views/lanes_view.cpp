// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/lanes_view.h"

#include "engine/record/figures.h"
#include "views/cached_heads.h"
#include "views/canvas.h"
#include "views/format.h"
#include "views/predicted_bytes.h"
#include "views/token_strip.h"

#include <algorithm>

namespace kvloupe {

namespace {

constexpr double wide_from = 340;        // width from which strips stand beside the names
constexpr double wide_head = 20;         // line above the cards
constexpr double wide_card = 38, least_wide_card = 30, narrow_card = 46;  // heights; wide ones shrink where not all fit
constexpr double strip_height = 17, thin_strip = 4;

}  // namespace

LanesView::LanesView(Cursor* cursor, QWidget* parent)
    : ListView(QStringLiteral("lanes"), tr("Lanes"), cursor, parent) {}

bool LanesView::isWide(double width) const { return width >= wide_from * unit(); }

void LanesView::refresh() {
    m_tokens.clear();
    m_most = 0;
    if (!cursor()->recording()) {
        setSubtitle({});
        setCards({});
        setEmpty(tr("Open a model, a scenario or a sample to fill the lanes."), tr("Open…"), QStringLiteral("open"));
        return;
    }
    setEmpty({});
    const auto& lanes = cursor()->recording()->lanes();
    for (const auto& lane : lanes) {
        m_tokens.push_back(StoredToken::of(lane->info(), cursor()->layer()));
        m_most = std::max(m_most, m_tokens.back().bytes);
    }
    layOut();
    QString text;
    if (m_recorded) text = lanes.size() > 1 ? tr("%1 of a recording").arg(lanes.size()) : tr("recording");
    else if (lanes.size() > 1) text = tr("%1, stepping together").arg(lanes.size());
    if (m_most > 0 && isWide(width()))
        text += (text.isEmpty() ? QString() : QStringLiteral(" · ")) + tr("a token of layer %1 to scale").arg(cursor()->layer());
    setSubtitle(text);
}

void LanesView::setRecorded(bool recorded) {
    if (recorded == m_recorded) return;
    m_recorded = recorded;
    refreshIfVisible();
}

void LanesView::layOut() {
    const bool wide = isWide(width());
    std::vector<Card> cards;
    double y = wide && m_most > 0 ? wide_head * unit() : 0;
    double height = (wide ? wide_card : narrow_card) * unit();
    if (wide && !m_tokens.empty())
        height = std::clamp((viewportHeight() - y) / static_cast<double>(m_tokens.size()), least_wide_card * unit(), height);
    for (std::size_t i = 0; i < m_tokens.size(); ++i, y += height) cards.push_back({y, height, true});
    setCards(std::move(cards));
}

const StepRecord* LanesView::stepOf(std::uint32_t lane) const {
    const int step = cursor()->stepOf(LaneId(lane));
    return step < 0 ? nullptr : &cursor()->recording()->lane(LaneId(lane)).step(static_cast<std::size_t>(step));
}

// "GQA · f16 · block 16"; wide: "2,048 B per token"; without a cache only what it does instead.
QString LanesView::configurationOf(std::uint32_t lane, bool wide) const {
    const LaneInfo& info = cursor()->recording()->lane(LaneId(lane)).info();
    if (!info.kv_cache) {
        if (wide) return tr("stores nothing");
        const StepRecord* step = stepOf(lane);
        if (step && hasEnded(lane)) return tr("ended at step %1").arg(formatCount(step->step.value));
        return step ? tr("recomputes all %1 tokens").arg(formatCount(step->computed_tokens)) : tr("recomputes every token");
    }
    if (wide) return originMark(Origin::derived) + QLatin1Char(' ') + tr("%1 per token").arg(formatBytes(info.bytes_per_token));
    QStringList parts;
    if (!info.attention_variant.empty()) parts << QString::fromStdString(info.attention_variant);
    parts << QString::fromStdString(info.cache_dtype) << tr("block %1").arg(info.block_size);
    return parts.join(QStringLiteral(" · "));
}

QString LanesView::stripText(std::uint32_t lane) const {
    const LaneInfo& info = cursor()->recording()->lane(LaneId(lane)).info();
    if (!info.kv_cache) {
        const StepRecord* step = stepOf(lane);
        if (step && hasEnded(lane))
            return tr("recomputed %1 tokens in step %2, its last").arg(formatCount(step->computed_tokens), formatCount(step->step.value));
        return step ? tr("recomputes %1 tokens in the step").arg(formatCount(step->computed_tokens)) : tr("recomputes every token");
    }
    QString text = m_tokens[lane].text(palette_().dark);
    if (info.layer_infos.empty()) return text;
    const LayerInfo& layer = info.layer_infos[std::min<std::size_t>(cursor()->layer(), info.layer_infos.size() - 1)];
    if (layer.window > 0) text += tr(", window of %1").arg(formatCount(layer.window));
    else if (layer.chunk > 0) text += tr(", chunks of %1").arg(formatCount(layer.chunk));
    return text;
}

QString LanesView::blocksText(std::uint32_t lane) const {
    const LaneInfo& info = cursor()->recording()->lane(LaneId(lane)).info();
    if (!info.kv_cache) return tr("no KV cache");
    return tr("%1 of %2 blocks").arg(formatCount(usedBlocks(lane)), formatCount(info.blocks ? info.blocks - 1 : 0));
}

bool LanesView::hasEnded(std::uint32_t lane) const {
    return cursor()->step() - cursor()->stepOf(LaneId(lane)) > (cursor()->recording()->phase() == Phase::running ? 1 : 0);
}

std::uint32_t LanesView::usedBlocks(std::uint32_t lane) const {
    const LaneState* state = cursor()->stateOf(LaneId(lane));
    return state ? state->used_blocks() : 0;
}

std::pair<std::uint64_t, Origin> LanesView::kvBytes(std::uint32_t lane) const {
    const StepRecord* step = stepOf(lane);
    if (!step) return {0, Origin::measured};
    const LaneInfo& info = cursor()->recording()->lane(LaneId(lane)).info();
    if (!info.kv_cache || usedBlocks(lane) == step->used_blocks) return {step->kv_bytes, Origin::measured};
    return {usedBlocks(lane) * info.block_bytes, Origin::derived};
}

LanesView::Columns LanesView::columnsFor(const Canvas& canvas, double width) const {
    const TextStyle name{12, QFont::DemiBold}, small{11};
    Columns columns;
    double number = 0;
    for (std::uint32_t i = 0; i < m_tokens.size(); ++i) {
        const QString own = QString::fromStdString(cursor()->recording()->lane(LaneId(i)).info().name);
        columns.names = std::max({columns.names, canvas.width(own, name), canvas.width(configurationOf(i, true), small)});
        number = std::max({number, canvas.width(formatBytes(kvBytes(i).first)) + canvas.u(14), canvas.width(blocksText(i), small)});
    }
    columns.names = std::min(columns.names, width * 0.36) + canvas.u(42);  // swatch, margins, and a gap
    if (!isWide(width)) {
        columns.pixelsPerByte = m_most > 0 ? (width - canvas.u(36)) / m_most : 0;
        return columns;
    }
    const double room = width - columns.names - canvas.u(10);
    if (room > number + canvas.u(260)) columns.numbers = number + canvas.u(16);
    // The widest strip with its words fills what is left; a narrow one may have more words behind it than the widest.
    double most = room - columns.numbers;
    for (std::uint32_t i = 0; i < m_tokens.size() && m_most > 0; ++i) {
        if (m_tokens[i].pieces.empty()) continue;
        const double words = canvas.width(stripText(i), small) + canvas.u(8), share = m_tokens[i].bytes / m_most;
        most = std::min(most, (room - columns.numbers - words) / share);
    }
    columns.pixelsPerByte = m_most > 0 ? std::max(most, room * 0.25) / m_most : 0;
    return columns;
}

void LanesView::paintContent(QPainter& painter, const QRectF& area) {
    if (!cursor()->recording()) return;
    const Canvas canvas(painter, palette_(), font(), unit());
    const Palette& colours = canvas.colours();
    const double width = area.width() - (this->width() - contentWidth());
    // Cards are laid out for the screen's width; an export of another size keeps their places.
    const bool wide = isWide(this->width());
    const Columns columns = columnsFor(canvas, wide ? std::max(width, wide_from * unit()) : std::min(width, wide_from * unit() - 1));
    if (wide && m_most > 0)
        canvas.text(QRectF(area.left() + columns.names, area.top() - offset(), width - columns.names - canvas.u(10), canvas.u(wide_head)),
                    tr("one token in layer %1, as stored, to scale").arg(cursor()->layer()), {11, QFont::Normal, colours.ink2, false});
    for (std::uint32_t i = 0; i < cards().size(); ++i) {
        const Card& card = cards()[i];
        const QRectF box(area.left(), area.top() + card.top - offset(), width, card.height);
        if (box.bottom() < area.top() || box.top() > area.bottom()) continue;
        if (cursor()->lane() == LaneId(i)) {
            painter.fillRect(box, colours.selectedRow);
            painter.fillRect(QRectF(box.left(), box.top(), canvas.u(3), box.height()), colours.ink1);
        }
        painter.setPen(QPen(colours.line, 1));
        painter.drawLine(box.bottomLeft(), box.bottomRight());
        if (wide) paintWide(canvas, box, columns, i);
        else paintNarrow(canvas, box, columns, i);
        const auto outline = [&](const Pick& pick, double line) {
            if (pick.lane == LaneId(i) && !pick.block && !pick.sequence && !pick.position)
                canvas.outline(box.adjusted(1, 1, -1, -1), colours.ink1, line);
        };
        outline(cursor()->hover(), 1);
        outline(cursor()->locked(), 2);
    }
}

double LanesView::paintNumbers(const Canvas& canvas, const QRectF& top, const QRectF& bottom, std::uint32_t lane) const {
    const TextStyle small{11, QFont::Normal, canvas.colours().ink2, false};
    const auto [bytes, origin] = kvBytes(lane);
    const double used = canvas.number(top, origin, formatBytes(bytes), {12});
    canvas.text(bottom, blocksText(lane), small, Qt::AlignRight | Qt::AlignVCenter);
    return std::max(used, canvas.width(blocksText(lane), small));
}

void LanesView::paintWide(const Canvas& canvas, const QRectF& card, const Columns& columns, std::uint32_t lane) const {
    const Palette& colours = canvas.colours();
    const LaneRecord& record = cursor()->recording()->lane(LaneId(lane));
    const TextStyle small{11, QFont::Normal, colours.ink2, false};
    const QColor colour = colours.lane(*cursor()->recording(), LaneId(lane));
    const QRectF inner = card.adjusted(canvas.u(10), canvas.u(2), -canvas.u(10), -canvas.u(2));
    const double side = canvas.u(10), half = inner.height() / 2;
    canvas.painter().fillRect(QRectF(inner.left(), inner.top() + half / 2 - side / 2, side, side), colour);
    const QRectF name(inner.left() + side + canvas.u(6), inner.top(), columns.names - side - canvas.u(26), half);
    canvas.text(name, QString::fromStdString(record.info().name), {12, QFont::DemiBold});
    const QRectF rest(card.left() + columns.names, inner.top(), inner.right() - card.left() - columns.names, inner.height());
    if (const std::string failure = record.failure(); !failure.empty()) {
        canvas.text(name.translated(0, half), configurationOf(lane, true), small);
        canvas.text(rest, tr("stopped: %1").arg(QString::fromStdString(failure)), {11, QFont::Normal, colours.breakpoint, false});
        return;
    }
    canvas.text(name.translated(0, half), configurationOf(lane, true), small);
    if (columns.numbers > 0) {
        const QRectF numbers(inner.right() - columns.numbers, inner.top(), columns.numbers, half);
        paintNumbers(canvas, numbers, numbers.translated(0, half), lane);
    }
    QRectF words = rest.adjusted(0, 0, -columns.numbers, 0);
    if (!m_tokens[lane].pieces.empty()) {
        const TokenStrip strip(canvas, m_tokens[lane], colour, columns.pixelsPerByte);
        strip.paint(QPointF(rest.left(), rest.center().y() - canvas.u(strip_height) / 2), canvas.u(strip_height));
        words.setLeft(rest.left() + strip.width() + canvas.u(6));
    }
    canvas.text(words, stripText(lane), small);
}

void LanesView::paintNarrow(const Canvas& canvas, const QRectF& card, const Columns& columns, std::uint32_t lane) const {
    const Palette& colours = canvas.colours();
    const LaneRecord& record = cursor()->recording()->lane(LaneId(lane));
    const TextStyle small{11, QFont::Normal, colours.ink2, false};
    const QColor colour = colours.lane(*cursor()->recording(), LaneId(lane));
    const double side = canvas.u(10), indent = side + canvas.u(6), below = canvas.u(thin_strip + 3);
    const QRectF inner = card.adjusted(canvas.u(10), canvas.u(3), -canvas.u(10), -canvas.u(2) - below);
    const QRectF top(inner.left(), inner.top(), inner.width(), inner.height() / 2);
    const QRectF bottom(inner.left(), inner.center().y(), inner.width(), inner.height() / 2);
    canvas.painter().fillRect(QRectF(top.left(), top.center().y() - side / 2, side, side), colour);
    if (const std::string failure = record.failure(); !failure.empty()) {
        canvas.text(top.adjusted(indent, 0, 0, 0), QString::fromStdString(record.info().name), {12, QFont::DemiBold});
        canvas.text(bottom.adjusted(indent, 0, 0, 0), tr("stopped: %1").arg(QString::fromStdString(failure)),
                    {11, QFont::Normal, colours.breakpoint, false});
        return;
    }
    const double used = paintNumbers(canvas, top, bottom, lane);
    canvas.text(top.adjusted(indent, 0, -used - canvas.u(8), 0), QString::fromStdString(record.info().name), {12, QFont::DemiBold});
    canvas.text(bottom.adjusted(indent, 0, -used - canvas.u(8), 0), configurationOf(lane, false), small);
    if (!m_tokens[lane].pieces.empty())
        TokenStrip(canvas, m_tokens[lane], colour, columns.pixelsPerByte)
            .paint(QPointF(inner.left() + indent, inner.bottom() + canvas.u(2)), canvas.u(thin_strip));
}

QString LanesView::tipAt(const QPointF& position) const {
    const int card = cardAt(position);
    if (card < 0) return {};
    const auto lane = static_cast<std::uint32_t>(card);
    const LaneInfo& info = cursor()->recording()->lane(LaneId(lane)).info();
    QString text = (m_recorded ? tr("recording of %1 on %2\n%3 layers, %4, head size %5\n%6 parameters, weights %7 %8")
                               : tr("%1 on %2\n%3 layers, %4, head size %5\n%6 parameters, weights %7 %8"))
                       .arg(QString::fromStdString(info.model_name), QString::fromStdString(info.device), QString::number(info.layers),
                            cachedHeadsSentence(info), QString::number(info.head_dim), formatCount(info.parameters),
                            originMark(Origin::measured), formatBytes(info.weight_bytes));
    if (!info.conversion.empty()) text += QLatin1Char('\n') + QString::fromStdString(info.conversion);
    if (!info.kv_cache) return text;
    text += QLatin1Char('\n') + originMark(Origin::derived) + QLatin1Char(' ') + QString::fromStdString(kv_formula(info));
    if (!m_tokens[lane].pieces.empty())
        text += QLatin1Char('\n') + originMark(Origin::derived) + QLatin1Char(' ') +
                tr("layer %1: %2").arg(cursor()->layer()).arg(stripText(lane));
    if (PredictedBytes::windowed(info)) text += QLatin1Char('\n') + tr("layers with a window keep no more than it holds");
    return text;
}

Pick LanesView::pickOf(int card) const {
    Pick pick;
    pick.lane = LaneId(static_cast<std::uint32_t>(card));
    return pick;
}

void LanesView::choose(int card) { cursor()->setLane(LaneId(static_cast<std::uint32_t>(card))); }

QString LanesView::csv() const {
    QString csv = QStringLiteral("lane,model,attention,kv_cache,dtype,block_size,kv_bytes_after_step,"
                                 "used_blocks_after_step_measured,blocks,computed_tokens_measured,layer,bytes_of_a_token_in_it_derived\r\n");
    if (!cursor()->recording()) return csv;
    for (std::uint32_t i = 0; i < cursor()->recording()->lanes().size(); ++i) {
        const LaneInfo& info = cursor()->recording()->lane(LaneId(i)).info();
        const StepRecord* step = stepOf(i);
        csv += QStringLiteral("%1,%2,%3,%4,%5,%6,%7,%8,%9,")
                   .arg(csvField(QString::fromStdString(info.name)), csvField(QString::fromStdString(info.model_name)),
                        QString::fromStdString(info.attention_variant), info.kv_cache ? QStringLiteral("yes") : QStringLiteral("no"),
                        QString::fromStdString(info.cache_dtype), QString::number(info.block_size),
                        step ? QString::number(kvBytes(i).first) : QString(), step ? QString::number(usedBlocks(i)) : QString(),
                        QString::number(info.blocks)) +
               QStringLiteral("%1,%2,%3\r\n")
                   .arg(step ? QString::number(step->computed_tokens) : QString(), QString::number(cursor()->layer()),
                        i < m_tokens.size() && !m_tokens[i].pieces.empty() ? QString::number(m_tokens[i].bytes, 'g', 12) : QString());
    }
    return csv;
}

}  // namespace kvloupe
