// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/lanes_view.h"

#include "views/cached_heads.h"
#include "views/canvas.h"
#include "views/format.h"

#include <QCoreApplication>

namespace kvloupe {

namespace {

// "GQA · f16 · block 16"; without a cache only "GQA".
QString configurationOf(const LaneInfo& info) {
    QStringList parts;
    if (!info.attention_variant.empty()) parts << QString::fromStdString(info.attention_variant);
    if (info.kv_cache) {
        parts << QString::fromStdString(info.cache_dtype);
        parts << QCoreApplication::translate("kvloupe::LanesView", "block %1").arg(info.block_size);
    }
    return parts.join(QStringLiteral(" · "));
}

}  // namespace

LanesView::LanesView(Cursor* cursor, QWidget* parent)
    : ListView(QStringLiteral("lanes"), tr("Lanes"), cursor, parent) {}

void LanesView::refresh() {
    if (!cursor()->recording()) {
        setSubtitle({});
        setCards({});
        setEmpty(tr("Open a model, a scenario or a sample to fill the lanes."), tr("Open…"), QStringLiteral("open"));
        return;
    }
    setEmpty({});
    std::vector<Card> cards;
    double y = 0;
    const auto count = cursor()->recording()->lanes().size();
    for (std::size_t i = 0; i < count; ++i) {
        cards.push_back({y, 42 * unit(), true});
        y += 42 * unit();
    }
    setCards(std::move(cards));
    setSubtitle(count > 1 ? tr("%1, stepping together").arg(count) : QString());
}

const StepRecord* LanesView::stepOf(std::uint32_t lane) const {
    const int step = cursor()->stepOf(LaneId(lane));
    return step < 0 ? nullptr : &cursor()->recording()->lane(LaneId(lane)).step(static_cast<std::size_t>(step));
}

void LanesView::paintContent(QPainter& painter, const QRectF& area) {
    if (!cursor()->recording()) return;
    const Canvas canvas(painter, palette_(), font(), unit());
    const Palette& colours = canvas.colours();
    const double width = area.width() - (this->width() - contentWidth());
    for (std::uint32_t i = 0; i < cards().size(); ++i) {
        const Card& card = cards()[i];
        const QRectF box(area.left(), area.top() + card.top - offset(), width, card.height);
        if (box.bottom() < area.top() || box.top() > area.bottom()) continue;
        const LaneRecord& lane = cursor()->recording()->lane(LaneId(i));
        const LaneInfo& info = lane.info();
        const StepRecord* step = stepOf(i);
        const bool focus = cursor()->lane() == LaneId(i);
        if (focus) {
            painter.fillRect(box, colours.selectedRow);
            painter.fillRect(QRectF(box.left(), box.top(), canvas.u(3), box.height()), colours.ink1);
        }
        painter.setPen(QPen(colours.line, 1));
        painter.drawLine(box.bottomLeft(), box.bottomRight());
        const double side = canvas.u(10);
        QRectF inner = box.adjusted(canvas.u(10), canvas.u(4), -canvas.u(10), -canvas.u(4));
        const QRectF top(inner.left(), inner.top(), inner.width(), inner.height() / 2);
        const QRectF bottom(inner.left(), inner.center().y(), inner.width(), inner.height() / 2);
        painter.fillRect(QRectF(top.left(), top.center().y() - side / 2, side, side), colours.lane(*cursor()->recording(), LaneId(i)));
        const double indent = side + canvas.u(6);
        const TextStyle small{11, QFont::Normal, colours.ink2, false};
        double right = 0, rightBelow = 0;
        QString below, configuration = configurationOf(info);
        if (const std::string failure = lane.failure(); !failure.empty()) {
            canvas.text(bottom.adjusted(indent, 0, 0, 0), tr("stopped: %1").arg(QString::fromStdString(failure)),
                        {11, QFont::Normal, colours.breakpoint, false});
            rightBelow = -1;
        } else if (info.kv_cache) {
            right = canvas.number(top, Origin::measured, step ? formatBytes(step->kv_bytes) : formatBytes(0), {12});
            below = tr("%1 of %2 blocks").arg(formatCount(step ? step->used_blocks : 0), formatCount(info.blocks ? info.blocks - 1 : 0));
        } else {
            right = canvas.number(top, Origin::measured, step ? formatBytes(step->kv_bytes) : formatBytes(0), {12});
            below = tr("no KV cache");
            configuration = step ? tr("recomputes all %1 tokens").arg(formatCount(step->computed_tokens)) : tr("recomputes every token");
        }
        canvas.text(top.adjusted(indent, 0, -right - canvas.u(6), 0), QString::fromStdString(info.name), {12, QFont::DemiBold});
        if (rightBelow < 0) continue;
        rightBelow = canvas.width(below, small);
        canvas.text(bottom, below, small, Qt::AlignRight | Qt::AlignVCenter);
        canvas.text(bottom.adjusted(indent, 0, -rightBelow - canvas.u(8), 0), configuration, small);
        if (cursor()->hover().lane == LaneId(i) && currentCard() == static_cast<int>(i))
            canvas.outline(box.adjusted(1, 1, -1, -1), colours.ink1, 1);
    }
}

QString LanesView::tipAt(const QPointF& position) const {
    const int card = cardAt(position);
    if (card < 0) return {};
    const LaneInfo& info = cursor()->recording()->lane(LaneId(static_cast<std::uint32_t>(card))).info();
    return tr("%1 on %2\n%3 layers, %4, head size %5\n%6 parameters, weights %7 %8")
        .arg(QString::fromStdString(info.model_name), QString::fromStdString(info.device), QString::number(info.layers),
             cachedHeadsSentence(info), QString::number(info.head_dim), formatCount(info.parameters),
             originMark(Origin::measured), formatBytes(info.weight_bytes)) +
           (info.kv_cache ? tr("\n%1 %2 per token").arg(originMark(Origin::derived), formatBytes(info.bytes_per_token)) : QString());
}

Pick LanesView::pickOf(int card) const {
    Pick pick;
    pick.lane = LaneId(static_cast<std::uint32_t>(card));
    return pick;
}

void LanesView::choose(int card) { cursor()->setLane(LaneId(static_cast<std::uint32_t>(card))); }

QString LanesView::csv() const {
    QString csv = QStringLiteral("lane,model,attention,kv_cache,dtype,block_size,kv_bytes_measured,used_blocks_measured,"
                                 "blocks,computed_tokens_measured\r\n");
    if (!cursor()->recording()) return csv;
    for (std::uint32_t i = 0; i < cursor()->recording()->lanes().size(); ++i) {
        const LaneInfo& info = cursor()->recording()->lane(LaneId(i)).info();
        const StepRecord* step = stepOf(i);
        csv += QStringLiteral("%1,%2,%3,%4,%5,%6,%7,%8,%9,")
                   .arg(csvField(QString::fromStdString(info.name)), csvField(QString::fromStdString(info.model_name)),
                        QString::fromStdString(info.attention_variant), info.kv_cache ? QStringLiteral("yes") : QStringLiteral("no"),
                        QString::fromStdString(info.cache_dtype), QString::number(info.block_size),
                        step ? QString::number(step->kv_bytes) : QString(), step ? QString::number(step->used_blocks) : QString(),
                        QString::number(info.blocks)) +
               (step ? QString::number(step->computed_tokens) : QString()) + QStringLiteral("\r\n");
    }
    return csv;
}

}  // namespace kvloupe
