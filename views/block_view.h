// SPDX-License-Identifier: GPL-3.0-or-later
//
// BlockView: base of the pictures of what one block holds of one layer. It chooses the block (block_choice.h), asks the source
// for it and says why there is nothing. ← → choose the head, ↑ ↓ the layer, Page Up and Page Down the block.
#pragma once

#include "views/block_choice.h"
#include "views/block_values_source.h"
#include "views/growing_data.h"
#include "views/sequence_tokens.h"
#include "views/view.h"

#include <QPointer>

#include <memory>
#include <optional>

namespace kvloupe {

class BlockView : public View {
    Q_OBJECT

public:
    BlockView(QString id, QString title, Cursor* cursor, QWidget* parent = nullptr);

    // Outlives the view, or goes first. Null: there is no engine behind the recording.
    void setSource(BlockValuesSource* source);

protected:
    // Another block, layer, head, step or size: what is drawn is laid out anew. values() is not null.
    virtual void valuesChanged() = 0;
    // Heads among which ← and → choose, of the layer in focus.
    virtual std::uint32_t headCount() const = 0;
    // "" or why this lane has nothing for this picture.
    virtual QString whyNot(const LaneInfo&) const { return {}; }

    const BlockValues* values() const { return m_values.get(); }
    std::uint32_t layer() const;
    // Of headCount(), by the query head in focus.
    std::uint32_t kvHead() const;
    void chooseHead(std::uint32_t layer, std::uint32_t head);
    // "sequence a, positions 16–31 · step 12"; where the cursor stands elsewhere it says so.
    QString whereText() const;
    // Of the block's token; "" where the position is not known.
    QString tokenText(std::uint32_t token) const;
    std::optional<std::uint32_t> positionOf(std::uint32_t token) const;
    Pick pickOf(std::uint32_t token) const;

    int refreshInterval() const override { return 250; }
    bool navigates() const override { return true; }
    void refresh() override;
    void settle() override { m_tokens.settle(); }
    void refreshSelection() override;  // another block may be locked; a hover is only outlined
    void keyPressEvent(QKeyEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

private:
    QString emptySentenceFor(const LaneRecord* lane) const;
    void takeAnswer();
    std::uint32_t queryHeadsPerHead() const;

    QPointer<BlockValuesSource> m_source;
    std::optional<BlockChoice> m_choice;
    std::shared_ptr<const BlockValues> m_values;
    GrowingData<SequenceTokens> m_tokens;
    Pick m_lock;  // as of the last refresh
};

}  // namespace kvloupe
