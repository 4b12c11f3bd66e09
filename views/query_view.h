// SPDX-License-Identifier: GPL-3.0-or-later
//
// Query: questions in SQL to the recording, saved ones beside those being written, and the answer as a table. A row with a step takes
// the cursor there; a column of numbers beside a column `step` can be pinned as a track.
#pragma once

#include "views/view.h"

#include "views/query_model.h"
#include "views/saved_questions.h"

class QComboBox;
class QLabel;
class QPlainTextEdit;
class QPushButton;
class QSpinBox;
class QSplitter;
class QTableView;
class QToolButton;

namespace kvloupe {

class QueryTracks;

class QueryView : public View {
    Q_OBJECT

public:
    explicit QueryView(Cursor* cursor, QWidget* parent = nullptr);

    QString csv() const override;
    void paintContent(QPainter& painter, const QRectF& area) override;

    // The file that the cursor's recording was opened from, "" for one in memory. Before the question is put.
    void setFile(const QString& path);
    // Where tracks are pinned; outlives the view.
    void setTracks(QueryTracks* tracks);

    void setQuestion(const QString& sql);
    QString question() const;
    void run();
    void stop();
    bool running() const { return m_asker.running(); }
    QString told() const;  // what came of it
    QueryModel& model() { return *m_model; }
    QTableView* table() const { return m_table; }
    // The column chosen for it becomes a track; asks for all rows.
    void pinTrack();
    // Asks for the numbers of every track that has none.
    void fillTracks();

protected:
    int refreshInterval() const override { return 200; }
    void refresh() override;
    void refreshSelection() override {}
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void buildBars();
    void takeRecording();
    void restyle();
    void offerQuestions(const QString& chosen);
    void choose(int index);
    void keep();
    void answered(QueryAnswer answer);
    void fillTrack(std::size_t index);
    void explain();
    void updateButtons();
    void goTo(int row);
    Pick pickOf(int row) const;
    LaneId laneOf(int row) const;

    SavedQuestions m_questions;
    QueryAsker m_asker;
    QueryTracks* m_tracks = nullptr;
    QueryModel* m_model;
    QString m_path;
    std::shared_ptr<const Recording> m_asked;  // what the asker asks
    QWidget* m_body;
    QComboBox* m_saved;
    QToolButton *m_keep, *m_remove;
    QSpinBox* m_limit;
    QPushButton *m_run, *m_stop;
    QPlainTextEdit* m_editor;
    QSplitter* m_splitter;
    QTableView* m_table;
    QLabel* m_told;
    QComboBox* m_column;
    QPushButton *m_pin, *m_renew;
    bool m_answered = false;
    bool m_filling = false;
    double m_styledScale = 0;
    bool m_styledDark = false;
};

}  // namespace kvloupe
