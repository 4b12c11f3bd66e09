// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/query_view.h"

#include "views/canvas.h"
#include "views/csv_line.h"
#include "views/query_tracks.h"
#include "views/table_picture.h"

#include <QComboBox>
#include <QFontMetrics>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QSplitter>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>

#include <algorithm>

namespace kvloupe {

namespace {

constexpr int rows_at_first = 10'000, most_rows = 1'000'000;
constexpr std::uint64_t most_track_rows = 5'000'000;
constexpr double renewed_unasked_ms = 500;  // a copy that takes no longer is renewed with each question
constexpr int widest_cell = 420;            // pixels at 100 %

}  // namespace

QueryView::QueryView(Cursor* cursor, QWidget* parent)
    : View(QStringLiteral("query"), tr("Query"), cursor, parent), m_asker(this), m_model(new QueryModel(this)), m_body(new QWidget(this)),
      m_saved(new QComboBox(m_body)), m_keep(new QToolButton(m_body)), m_remove(new QToolButton(m_body)), m_limit(new QSpinBox(m_body)),
      m_run(new QPushButton(tr("Run"), m_body)), m_stop(new QPushButton(tr("Stop"), m_body)), m_editor(new QPlainTextEdit(m_body)),
      m_splitter(new QSplitter(Qt::Vertical, m_body)), m_table(new QTableView(m_body)), m_told(new QLabel(m_body)),
      m_column(new QComboBox(m_body)), m_pin(new QPushButton(tr("Pin as track"), m_body)), m_renew(new QPushButton(tr("Renew"), m_body)) {
    buildBars();
    offerQuestions({});
    takeRecording();
    connect(cursor, &Cursor::recordingChanged, this, [this] {
        m_path.clear();
        takeRecording();
    });
    connect(m_model, &QAbstractItemModel::modelReset, this, &QueryView::updateButtons);
}

void QueryView::buildBars() {
    m_saved->setEditable(true);
    m_saved->setInsertPolicy(QComboBox::NoInsert);
    m_saved->setAccessibleName(tr("Saved questions"));
    m_saved->lineEdit()->setPlaceholderText(tr("Choose a question, or name yours to keep it"));
    m_saved->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    m_saved->setMinimumContentsLength(16);
    m_saved->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    m_saved->setMaxVisibleItems(20);
    connect(m_saved, &QComboBox::activated, this, &QueryView::choose);
    connect(m_saved, &QComboBox::editTextChanged, this, &QueryView::updateButtons);
    m_keep->setText(tr("Keep"));
    m_keep->setToolTip(tr("Keep the question under this name"));
    connect(m_keep, &QToolButton::clicked, this, &QueryView::keep);
    m_remove->setText(tr("Delete"));
    m_remove->setToolTip(tr("Delete your question of this name"));
    connect(m_remove, &QToolButton::clicked, this, [this] {
        if (m_questions.remove(m_saved->currentText())) offerQuestions({});
    });
    m_limit->setRange(1, most_rows);
    m_limit->setValue(rows_at_first);
    m_limit->setGroupSeparatorShown(true);
    m_limit->setPrefix(tr("rows ≤ "));
    m_limit->setAccessibleName(tr("Most rows"));
    m_run->setToolTip(tr("Ask (Ctrl+Enter)"));
    connect(m_run, &QPushButton::clicked, this, &QueryView::run);
    connect(m_stop, &QPushButton::clicked, this, &QueryView::stop);
    m_editor->setAccessibleName(tr("Question in SQL"));
    m_editor->setPlaceholderText(tr("SELECT … FROM steps, events, tokens, stages, requests, sequences, lanes, checks …   "
                                      "(Ctrl+Enter asks)"));
    m_editor->setTabChangesFocus(true);
    m_editor->setFrameShape(QFrame::NoFrame);
    m_editor->document()->setDocumentMargin(8);
    m_editor->installEventFilter(this);
    connect(m_editor, &QPlainTextEdit::textChanged, this, &QueryView::updateButtons);
    m_table->setModel(m_model);
    m_table->setAccessibleName(tr("Answer"));
    m_table->setMouseTracking(true);
    m_table->setSortingEnabled(true);
    m_table->horizontalHeader()->setSortIndicator(-1, Qt::AscendingOrder);
    m_table->viewport()->installEventFilter(this);
    connect(m_table, &QTableView::entered, this, [this](const QModelIndex& index) { this->cursor()->setHover(pickOf(index.row())); });
    connect(m_table, &QTableView::clicked, this, [this](const QModelIndex& index) { goTo(index.row()); });
    connect(m_table, &QTableView::activated, this, [this](const QModelIndex& index) { goTo(index.row()); });
    m_told->setWordWrap(true);
    m_told->setTextFormat(Qt::PlainText);
    m_told->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_column->setAccessibleName(tr("Column for a track"));
    m_pin->setToolTip(tr("Draw this column against the steps, below the block history"));
    connect(m_pin, &QPushButton::clicked, this, &QueryView::pinTrack);
    m_renew->setToolTip(tr("Ask the session as it is now"));
    connect(m_renew, &QPushButton::clicked, this, [this] {
        m_asker.renew();
        run();
    });

    auto* top = new QHBoxLayout;
    top->setContentsMargins(8, 4, 8, 2);
    for (QWidget* each : std::initializer_list<QWidget*>{m_saved, m_keep, m_remove, m_limit, m_run, m_stop}) top->addWidget(each);
    auto* bottom = new QHBoxLayout;
    bottom->setContentsMargins(8, 2, 8, 4);
    bottom->addWidget(m_told, 1);
    for (QWidget* each : std::initializer_list<QWidget*>{m_renew, m_column, m_pin}) bottom->addWidget(each);
    m_splitter->addWidget(m_editor);
    m_splitter->addWidget(m_table);
    m_splitter->setChildrenCollapsible(false);
    m_splitter->setStretchFactor(0, 2);
    m_splitter->setStretchFactor(1, 5);
    auto* column = new QVBoxLayout(m_body);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    column->addLayout(top);
    column->addWidget(m_splitter, 1);
    column->addLayout(bottom);
    m_body->setFocusProxy(m_editor);
    setEmbedded(m_body);
}

void QueryView::setFile(const QString& path) {
    if (path == m_path) return;
    m_path = path;
    takeRecording();
}

// What was answered belongs to the recording before.
void QueryView::takeRecording() {
    m_asked = cursor()->sharedRecording();
    m_asker.setSource(m_asked, m_path);
    m_model->clear();
    m_answered = m_filling = false;
    m_told->clear();
    if (m_tracks) m_tracks->empty();
    updateButtons();
}

void QueryView::setTracks(QueryTracks* tracks) { m_tracks = tracks; }

void QueryView::setQuestion(const QString& sql) { m_editor->setPlainText(sql); }

QString QueryView::question() const { return m_editor->toPlainText().trimmed(); }

QString QueryView::told() const { return m_told->text(); }

void QueryView::offerQuestions(const QString& chosen) {
    m_saved->clear();
    for (const SavedQuestion& each : m_questions.all()) m_saved->addItem(each.title);
    m_saved->setCurrentIndex(-1);
    m_saved->setEditText(chosen);
}

void QueryView::choose(int index) {
    if (index < 0 || static_cast<std::size_t>(index) >= m_questions.all().size()) return;
    setQuestion(m_questions.all()[static_cast<std::size_t>(index)].sql);
    run();
}

void QueryView::keep() {
    const QString title = m_saved->currentText().trimmed();
    if (title.isEmpty() || question().isEmpty()) return;
    m_questions.keep(title, question());
    offerQuestions(title);
    m_told->setText(tr("Kept as “%1”.").arg(title));
}

void QueryView::run() {
    if (m_asker.running() || question().isEmpty() || !m_asker.hasSource()) return;
    const auto now = static_cast<std::size_t>(cursor()->stepCount());
    if (!m_asker.asksFile() && m_asker.copiedSteps() != now && m_asker.copyMilliseconds() < renewed_unasked_ms) m_asker.renew();
    m_told->setText(m_asker.asksFile() || m_asker.copiedSteps() > 0 ? tr("Asking…") : tr("Writing a copy of the session, then asking…"));
    m_asker.ask(question(), static_cast<std::uint64_t>(m_limit->value()), [this](QueryAnswer answer) { answered(std::move(answer)); });
    updateButtons();
}

void QueryView::stop() { m_asker.stop(); }

void QueryView::answered(QueryAnswer answer) {
    m_answered = true;
    m_model->show(std::move(answer));
    m_table->horizontalHeader()->setSortIndicator(-1, Qt::AscendingOrder);
    m_table->resizeColumnsToContents();
    for (int column = 0; column + 1 < m_model->columnCount(); ++column)
        m_table->setColumnWidth(column, std::min(m_table->columnWidth(column), qRound(widest_cell * unit())));
    explain();
    updateButtons();
    fillTracks();
}

void QueryView::explain() {
    if (!m_answered || m_asker.running()) return;
    const QueryAnswer& answer = m_model->answer();
    QString text = answer.error;
    const QString measured = originMark(Origin::measured);
    if (text.isEmpty()) {
        const auto rows = formatCount(answer.rows.size());
        text = answer.cut ? tr("The first %1 rows; there are more.").arg(rows) : answer.rows.size() == 1 ? tr("1 row.")
                : tr("%1 rows.").arg(rows);
        text += QLatin1Char(' ') + tr("Answered in %1 %2").arg(measured, formatDuration(answer.milliseconds * 1e6));
        setSubtitle(text);
        if (m_asker.asksFile()) text += tr(" by the file itself.");
        else {
            const auto steps = static_cast<quint64>(m_asker.copiedSteps()), now = static_cast<quint64>(cursor()->stepCount());
            text += tr(" by a copy of the session with %1 steps, written in %2 %3.")
                        .arg(formatCount(steps), measured, formatDuration(m_asker.copyMilliseconds() * 1e6));
            if (now > steps) text += QLatin1Char(' ') + tr("%1 steps are newer: Renew asks them too.").arg(formatCount(now - steps));
        }
    } else {
        setSubtitle(tr("no answer"));
    }
    m_told->setText(text);
}

void QueryView::updateButtons() {
    const bool running = m_asker.running(), asks = m_asker.hasSource() && !question().isEmpty();
    m_run->setEnabled(asks && !running);
    m_stop->setEnabled(running);
    m_keep->setEnabled(!m_saved->currentText().trimmed().isEmpty() && !question().isEmpty());
    const auto& all = m_questions.all();
    const auto own = [this](const SavedQuestion& each) { return each.own && each.title == m_saved->currentText(); };
    m_remove->setEnabled(std::any_of(all.begin(), all.end(), own));
    m_renew->setVisible(m_asker.hasSource() && !m_asker.asksFile() && m_answered);
    m_renew->setEnabled(!running && static_cast<std::size_t>(cursor()->stepCount()) != (running ? 0 : m_asker.copiedSteps()));
    const QString before = m_column->currentText();
    const bool pins = m_tracks && m_model->columnNamed(QStringLiteral("step")) >= 0;
    m_column->clear();
    if (pins)
        for (const int column : m_model->numericColumns())
            m_column->addItem(QString::fromStdString(m_model->answer().columns[static_cast<std::size_t>(column)]));
    if (const int same = m_column->findText(before); same >= 0) m_column->setCurrentIndex(same);
    m_column->setVisible(m_column->count() > 0);
    m_pin->setVisible(m_column->count() > 0);
    m_pin->setEnabled(!running);
}

void QueryView::pinTrack() {
    if (!m_tracks || m_column->currentText().isEmpty() || m_asker.running()) return;
    QueryTrack track;
    const auto& all = m_questions.all();
    const auto saved = std::find_if(all.begin(), all.end(), [this](const SavedQuestion& each) { return each.sql == question(); });
    if (saved != all.end()) track.title = saved->title;
    track.sql = question();
    track.column = m_column->currentText();
    if (!m_tracks->pin(std::move(track))) {
        m_told->setText(tr("There are %1 tracks already. Remove one first.").arg(QueryTracks::most));
        return;
    }
    fillTracks();
}

void QueryView::fillTracks() {
    if (!m_tracks || m_asker.running() || !m_asker.hasSource()) return;
    if (!m_asker.asksFile() && !m_answered) return;  // a session is copied when somebody asks
    const auto& tracks = m_tracks->tracks();
    for (std::size_t i = 0; i < tracks.size(); ++i)
        if (tracks[i].points.empty() && tracks[i].problem.isEmpty()) return fillTrack(i);
}

void QueryView::fillTrack(std::size_t index) {
    const QString sql = m_tracks->tracks()[index].sql, column = m_tracks->tracks()[index].column;
    m_asker.ask(sql, most_track_rows, [this, sql, column](const QueryAnswer& answer) {
        QueryTrack filled = QueryTracks::trackOf(answer, sql, column);
        const auto& tracks = m_tracks->tracks();
        for (std::size_t i = 0; i < tracks.size(); ++i)
            if (tracks[i].sql == sql && tracks[i].column == column) m_tracks->fill(i, std::move(filled.points), filled.problem);
        updateButtons();
        fillTracks();
    });
    updateButtons();
}

LaneId QueryView::laneOf(int row) const {
    const Recording* recording = cursor()->recording();
    if (const auto lane = m_model->integer(row, m_model->columnNamed(QStringLiteral("lane"))))
        if (*lane >= 0 && static_cast<std::size_t>(*lane) < recording->lanes().size()) return LaneId(static_cast<std::uint32_t>(*lane));
    if (const int named = m_model->columnNamed(QStringLiteral("lane_name")); named >= 0)
        if (const auto* name = std::get_if<std::string>(&m_model->value(row, named)))
            for (std::size_t i = 0; i < recording->lanes().size(); ++i)
                if (recording->lanes()[i]->info().name == *name) return LaneId(static_cast<std::uint32_t>(i));
    return cursor()->lane();
}

Pick QueryView::pickOf(int row) const {
    Pick pick;
    if (row < 0 || row >= m_model->rowCount() || !cursor()->recording()) return pick;
    const LaneId laneId = laneOf(row);
    const LaneRecord& lane = cursor()->recording()->lane(laneId);
    const auto named = [&](const char* name, std::uint64_t end) -> std::optional<std::uint64_t> {
        const auto value = m_model->integer(row, m_model->columnNamed(QLatin1String(name)));
        if (!value || *value < 0 || static_cast<std::uint64_t>(*value) >= end) return {};
        return static_cast<std::uint64_t>(*value);
    };
    if (const auto event = named("event", lane.events().size())) pick.event = *event;
    if (const auto sequence = named("sequence", lane.sequences().size())) pick.sequence = SequenceId(static_cast<std::uint32_t>(*sequence));
    if (const auto block = named("block", lane.info().blocks)) pick.block = BlockId(static_cast<std::uint32_t>(*block));
    if (!pick.empty()) pick.lane = laneId;
    return pick;
}

void QueryView::goTo(int row) {
    if (row < 0 || row >= m_model->rowCount() || !cursor()->recording()) return;
    cursor()->setLane(laneOf(row));
    if (const auto step = m_model->integer(row, m_model->columnNamed(QStringLiteral("step"))))
        cursor()->setStep(static_cast<int>(std::clamp<std::int64_t>(*step, 0, cursor()->stepCount() - 1)));
    if (const Pick pick = pickOf(row); !pick.empty()) cursor()->lock(pick);
}

bool QueryView::eventFilter(QObject* watched, QEvent* event) {
    if (watched == m_editor && event->type() == QEvent::KeyPress) {
        const auto* key = static_cast<QKeyEvent*>(event);
        if ((key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter) && key->modifiers() & Qt::ControlModifier) {
            run();
            return true;
        }
    }
    if (watched == m_table->viewport() && event->type() == QEvent::Leave) cursor()->setHover({});
    return View::eventFilter(watched, event);
}

void QueryView::restyle() {
    const Palette& colours = palette_();
    if (m_styledScale == unit() && m_styledDark == colours.dark) return;
    m_styledScale = unit();
    m_styledDark = colours.dark;
    styleTable(m_table, colours, 19, unit());
    m_table->horizontalHeader()->setSectionsClickable(true);
    m_editor->setFont(monoFont(11.5));
    m_editor->setMinimumHeight(QFontMetrics(m_editor->font()).lineSpacing() * 2 + 12);
    for (QWidget* child : m_body->findChildren<QWidget*>(Qt::FindDirectChildrenOnly))
        if (child != m_splitter) child->setFont(textFont(11));
    QPalette palette = m_body->palette();
    palette.setColor(QPalette::Window, colours.panel);
    m_body->setPalette(palette);
    m_body->setAutoFillBackground(true);
}

void QueryView::refresh() {
    if (!cursor()->recording()) {
        setSubtitle({});
        setEmpty(tr("Open a model, a scenario or a recording to put questions to it."), tr("Open…"), QStringLiteral("open"));
        return;
    }
    setEmpty({});
    restyle();
    if (!m_answered) setSubtitle(tr("SQL over the recording's tables"));
    explain();
    if (!m_asker.running()) {
        const bool newer = static_cast<std::size_t>(cursor()->stepCount()) != m_asker.copiedSteps();
        m_renew->setEnabled(newer);
        fillTracks();
    }
}

void QueryView::paintContent(QPainter& painter, const QRectF& area) {
    const Canvas canvas(painter, palette_(), font(), unit());
    const double used = canvas.paragraph(area.adjusted(canvas.u(10), canvas.u(4), -canvas.u(10), 0), question(),
                                         {11, QFont::Normal, canvas.colours().ink2, true});
    if (!m_answered) {
        canvas.text(area, tr("The question was not asked yet."), {12, QFont::Normal, canvas.colours().ink2}, Qt::AlignCenter);
        return;
    }
    paintTable(canvas, area.adjusted(canvas.u(6), std::min(used + canvas.u(10), area.height() / 2), -canvas.u(6), 0), *m_model, 0);
}

QString QueryView::csv() const {
    if (m_answered) return tableCsv(*m_model);
    return csvLine({QStringLiteral("question (not asked yet)")}) + csvLine({question()});
}

}  // namespace kvloupe
