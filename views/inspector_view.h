// SPDX-License-Identifier: GPL-3.0-or-later
//
// Inspector: everything known about the locked or hovered token, block, sequence or event, else about the step; every
// number with its origin.
#pragma once

#include "views/scrolling_view.h"

#include "views/attention_index.h"
#include "views/sequence_facts.h"
#include "views/token_track.h"

#include <vector>

namespace kvloupe {

class Canvas;

class InspectorView : public ScrollingView {
    Q_OBJECT

public:
    struct Row {
        enum Kind { heading, value, sentence } kind = value;
        QString label, text;
        std::optional<Origin> origin;
        std::optional<unsigned> owner;  // swatch
    };

    explicit InspectorView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;
    const std::vector<Row>& rows() const { return m_rows; }

protected:
    int refreshInterval() const override { return 40; }
    void refresh() override;
    void layOut() override;
    void settle() override;

private:
    void add(const QString& label, const QString& text, std::optional<Origin> origin = {});
    void head(const QString& text, std::optional<unsigned> owner = {});
    void say(const QString& sentence);
    void describeStep();
    void describeToken(SequenceId sequence, std::uint32_t position);
    void describeBlock(BlockId block);
    void describeOwned(BlockId block);
    void tellHistory(BlockId block);
    void describeSequence(SequenceId sequence);
    void describeEvent(std::uint64_t event);
    void collectMass(BlockId block, SequenceId sequence);
    double heightOf(const Row& row, const Canvas* canvas, double width) const;
    void paintMass(const Canvas& canvas, const QRectF& area) const;

    std::vector<Row> m_rows;
    std::vector<double> m_mass;        // attention of the newest query on the block, by query head
    std::uint32_t m_massQuery = 0;
    TokenTrack m_track;
    SequenceFacts m_facts;
};

}  // namespace kvloupe
