// SPDX-License-Identifier: GPL-3.0-or-later
//
// BlockTables: the block tables of all sequences side by side: a row per sequence and cache group, a column per logical
// index, so that a block two sequences share stands in the same column of both, tied together. Long tables go on in a
// second band below. A copy of the step goes from its source to its destination, null blocks are empty.
#pragma once

#include "views/picking.h"
#include "views/sequence_facts.h"
#include "views/token_track.h"



#include <QRectF>

#include <map>
#include <vector>

namespace kvloupe {

class Canvas;

class BlockTables {
public:
    struct Row {
        SequenceId sequence;
        std::uint32_t held = 0;        // entries that are no null blocks
        std::uint8_t group = 0;
        int depth = 0;                 // forks below their parent
        std::vector<BlockId> table;
        std::uint32_t written = 0;     // tokens whose K/V lie in the cache
        std::uint32_t reused = 0;      // first tokens that it did not compute: hits, or its parent's
        StepWork work;                 // of the step
        std::uint32_t shared = 0;      // blocks with another owner
        std::vector<std::uint32_t> owners;  // of each entry
        std::vector<double> tops;           // where it lies in each band that it reaches; by layOut()
    };
    // An entry of a table.
    struct Place {
        std::size_t row = 0;
        std::uint32_t logical = 0;
        std::optional<std::uint32_t> slot;
    };

    void update(const Cursor& cursor, const SequenceFacts& facts);  // the cursor must have a state
    void clear();
    const std::vector<Row>& rows() const { return m_rows; }
    // Sentences of the copies of the step, the newest last.
    const QStringList& copies() const { return m_copySentences; }

    void layOut(double width, double unit);
    double height() const { return m_height; }
    QRectF cell(std::size_t row, std::uint32_t logical) const;  // empty where there is none; not scrolled
    std::optional<Place> placeAt(const QPointF& point) const;   // not scrolled
    std::optional<std::size_t> rowAt(const QPointF& point) const;

    // area: where it is drawn; offset: scrolled by; draws what lies in the area.
    void paint(const Canvas& canvas, const QRectF& area, double offset, const Cursor& cursor) const;
    QString describe(const Cursor& cursor, const Place& place) const;
    QString textOf(const Cursor& cursor, const Place& place) const;  // of the block's tokens; "" while they are not read
    // textOf() ran out of what may be read for one picture: paint again.
    bool reading() const { return m_reading; }
    // For one picture. The first of a step shows what is at hand: it must not wait for a file.
    void allowReading() const {
        m_allowed = {most_records, m_painted == m_step ? most_chunks : 0};
        m_painted = m_step;
        m_reading = false;
    }
    void settle() const { m_allowed = {UINT64_MAX}; }                      // for an export: all of it

private:
    struct Band {
        double top = 0;                  // of its head
        std::vector<std::size_t> rows;   // that reach it
    };
    struct Copy {
        BlockId source, destination;
        SequenceId writer;
    };
    struct Added {  // what rows are made from
        const LaneRecord& lane;
        const LaneState& state;
        const SequenceFacts& facts;
        std::map<std::uint32_t, std::vector<SequenceId>> children;  // of those that were forked from
    };
    void addRows(const Added& from, SequenceId sequence, int depth);
    void paintLabel(const Canvas& canvas, const QRectF& box, const Row& row, const Cursor& cursor) const;
    void paintCell(const Canvas& canvas, const QRectF& box, const Row& row, std::uint32_t logical, const Cursor& cursor) const;
    void paintTies(const Canvas& canvas, const Band& band) const;
    void paintCopies(const Canvas& canvas) const;
    std::optional<QRectF> cellOfBlock(BlockId block, SequenceId preferred) const;

    std::vector<Row> m_rows;
    std::vector<Band> m_bands;
    std::vector<Copy> m_copies;
    QStringList m_copySentences;
    struct Text {
        TokenTrack track;
        std::size_t step = SIZE_MAX;  // of the tokens in it
    };
    mutable std::map<std::uint32_t, Text> m_texts;  // by sequence, of the cells drawn
    static constexpr std::uint64_t most_records = 40'000, most_chunks = 2;
    mutable ScanLimit m_allowed;                    // what may still be read for them
    mutable std::size_t m_painted = SIZE_MAX;       // the step of the picture before
    mutable bool m_reading = false;
    std::shared_ptr<const Recording> m_recording;   // at the last update
    std::uint32_t m_blockSize = 0;
    LaneId m_lane;                // at the last update
    std::size_t m_step = 0;
    std::uint32_t m_columns = 1;
    std::uint32_t m_longest = 0;  // entries of the longest table
    double m_label = 0, m_cellWidth = 0, m_rowHeight = 0, m_head = 0, m_gap = 0, m_rowGap = 0, m_unit = 1, m_height = 0;
};

}  // namespace kvloupe
