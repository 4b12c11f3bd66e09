// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/comparing.h"

#include "engine/record/open_recording.h"
#include "gui/glyph_icon.h"
#include "views/difference_view.h"
#include "views/format.h"
#include "views/reference.h"
#include "views/view.h"

#include <QAction>
#include <QActionGroup>
#include <QComboBox>
#include <QEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QFrame>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenu>
#include <QPushButton>
#include <QToolButton>

#include <algorithm>
#include <optional>

namespace kvloupe {

namespace {

constexpr Alignment alignments[] = {Alignment::step, Alignment::token, Alignment::time};
constexpr Parting::Kind parting_kinds[] = {Parting::token, Parting::table, Parting::logit};

std::optional<LaneId> laneOfName(const Recording& recording, const std::string& name) {
    for (std::uint32_t i = 0; i < recording.lanes().size(); ++i)
        if (recording.lanes()[i]->info().name == name) return LaneId(i);
    return std::nullopt;
}

QString laneText(const Recording& recording, LaneId lane) { return QString::fromStdString(recording.lane(lane).info().name); }

}  // namespace

Comparing::Comparing(Cursor* cursor, QWidget* window)
    : QObject(window), m_cursor(cursor), m_window(window), m_open(new QAction(tr("Co&mpare with recording…"), window)),
      m_menu(new QMenu(tr("&Compare"), window)), m_first(new QMenu(tr("First &difference"), window)) {
    m_open->setShortcut(QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_O));
    connect(m_open, &QAction::triggered, this, &Comparing::choose);
    for (const Parting::Kind kind : parting_kinds) {
        const QString names[] = {tr("In the &tokens"), tr("In the &block tables"), tr("In the &logits")};
        m_first->addAction(names[kind], this, [this, kind] { goToFirst(kind); });
    }
    buildBar(window);
    buildMenu();
    connect(cursor, &Cursor::referenceChanged, this, &Comparing::update);
    connect(cursor, &Cursor::stepChanged, this, &Comparing::updateText);
    connect(cursor, &Cursor::grew, this, &Comparing::updateText);
    connect(cursor, &Cursor::focusChanged, this, &Comparing::follow);
    connect(cursor, &Cursor::recordingChanged, this, [this] {
        m_other.reset();
        m_wanted.clear();
        m_lane = m_cursor->lane();
        update();
    });
    update();
}

Comparing::~Comparing() { m_job.cancel(); }

QWidget* Comparing::bar() const { return m_bar; }

void Comparing::attach(const QList<View*>& views) {
    for (View* view : views) {
        for (const char* id : {"pool", "split", "step-time", "attention"})
            if (view->id() == QLatin1String(id)) m_views << view;
        if (auto* differences = qobject_cast<DifferenceView*>(view)) {
            m_differences = differences;
            connect(differences, &DifferenceView::told, this, &Comparing::told);
        }
    }
}

void Comparing::buildBar(QWidget* window) {
    m_bar = new QFrame(window);
    m_bar->setFrameShape(QFrame::StyledPanel);
    auto* row = new QHBoxLayout(m_bar);
    row->setContentsMargins(10, 2, 6, 2);
    row->setSpacing(8);
    m_text = new QLabel(m_bar);
    m_text->setTextFormat(Qt::RichText);
    m_text->setMinimumWidth(80);
    m_text->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    row->addWidget(m_text, 1);
    auto* by = new QLabel(tr("Aligned by"), m_bar);
    row->addWidget(by);
    m_alignmentBox = new QComboBox(m_bar);
    for (const Alignment alignment : alignments) m_alignmentBox->addItem(Reference::alignmentName(alignment));
    m_alignmentBox->setAccessibleName(tr("Aligned by"));
    m_alignmentBox->setToolTip(tr("Which step stands beside the cursor's: the one of the same number, the one that had written as many "
                                  "tokens of the sequence in focus, or the one that ran after as much time"));
    connect(m_alignmentBox, &QComboBox::activated, this, [this](int index) { alignBy(alignments[index]); });
    row->addWidget(m_alignmentBox);
    auto* first = new QToolButton(m_bar);
    first->setText(tr("First difference ▾"));
    first->setObjectName(QStringLiteral("dockChoice"));
    first->setPopupMode(QToolButton::InstantPopup);
    first->setMenu(m_first);
    first->setFocusPolicy(Qt::TabFocus);
    row->addWidget(first);
    auto* table = new QPushButton(tr("Differences"), m_bar);
    table->setToolTip(tr("The table of what differs"));
    connect(table, &QPushButton::clicked, this, &Comparing::differencesWanted);
    row->addWidget(table);
    auto* close = new QToolButton(m_bar);
    close->setObjectName(QStringLiteral("dockButton"));
    close->setIcon(glyphIcon(QStringLiteral("close"), m_bar));
    close->setAccessibleName(tr("Stop comparing"));
    close->setToolTip(close->accessibleName());
    connect(close, &QToolButton::clicked, this, &Comparing::stop);
    row->addWidget(close);
    m_bar->installEventFilter(this);
    m_bar->hide();
}

void Comparing::buildMenu() {
    m_menu->addAction(m_open);
    QMenu* lanes = m_menu->addMenu(tr("With &lane"));
    connect(lanes, &QMenu::aboutToShow, this, [this, lanes] { fillLanes(lanes); });
    QMenu* aligned = m_menu->addMenu(tr("&Aligned by"));
    auto* group = new QActionGroup(aligned);
    for (const Alignment alignment : alignments) {
        QAction* choice = aligned->addAction(Reference::alignmentName(alignment), this, [this, alignment] { alignBy(alignment); });
        choice->setCheckable(true);
        group->addAction(choice);
        connect(aligned, &QMenu::aboutToShow, choice, [this, choice, alignment] { choice->setChecked(m_alignment == alignment); });
    }
    m_shown = m_menu->addAction(tr("&Differences in the views"));
    m_shown->setCheckable(true);
    m_shown->setChecked(true);
    connect(m_shown, &QAction::triggered, this, [this](bool shown) {
        for (View* view : m_views) view->choose(QLatin1String(difference_key), shown ? 1 : 0);
    });
    m_menu->addSeparator();
    m_menu->addAction(tr("&Table of differences"), this, &Comparing::differencesWanted);
    m_menu->addMenu(m_first);
    m_stop = m_menu->addAction(tr("&Stop comparing"), this, &Comparing::stop);
}

void Comparing::fillLanes(QMenu* lanes) {
    lanes->clear();
    const Recording* shown = m_cursor->recording();
    const Reference* reference = m_cursor->reference();
    const auto add = [&](const std::shared_ptr<const Recording>& recording, LaneId lane, auto compare) {
        QAction* choice = lanes->addAction(laneText(*recording, lane), this, compare);
        choice->setCheckable(true);
        choice->setChecked(reference && reference->recording() == recording && reference->lane() == lane);
    };
    for (std::uint32_t i = 0; shown && i < shown->lanes().size(); ++i)
        if (LaneId(i) != m_cursor->lane()) add(m_cursor->sharedRecording(), LaneId(i), [this, i] { compareWithLane(LaneId(i)); });
    if (m_other) {
        lanes->addSection(m_otherName);
        for (std::uint32_t i = 0; i < m_other->lanes().size(); ++i) add(m_other, LaneId(i), [this, i] { compareWithOther(LaneId(i)); });
    }
    if (lanes->isEmpty()) lanes->addAction(tr("The recording has one lane"))->setEnabled(false);
}

void Comparing::choose() {
    if (!m_cursor->recording()) return;
    const QString path = QFileDialog::getOpenFileName(m_window, tr("Compare with a recording"), {}, tr("Recordings (*.kvt);;All files (*)"));
    if (!path.isEmpty()) open(path);
}

void Comparing::open(const QString& path) {
    if (!m_cursor->recording()) return;
    m_wanted = path;
    start();
}

void Comparing::start() {
    if (m_job.running() || m_wanted.isEmpty()) return;
    const QString path = m_wanted;
    auto stored = std::make_shared<std::optional<Result<StoredRecording>>>();
    m_job.start([path, stored](const BackgroundJob::Cancelled&) { *stored = open_recording(path.toStdString()); },
                [this, path, stored] {
                    if (path == m_wanted) opened(path, **stored);
                    else start();  // another one is wanted since
                });
}

void Comparing::opened(const QString& path, Result<StoredRecording>& stored) {
    m_wanted.clear();
    if (!stored) {
        Q_EMIT told(QString::fromStdString(stored.error().message()));
        return;
    }
    if (stored->recording->lanes().empty()) {
        Q_EMIT told(tr("%1 has no lane to compare with.").arg(path));
        return;
    }
    m_other = stored->recording;
    m_otherName = QFileInfo(path).fileName();
    const auto same = laneOfName(*m_other, m_cursor->laneRecord()->info().name);
    compareWithOther(same.value_or(LaneId(std::min(m_cursor->lane().value, static_cast<std::uint32_t>(m_other->lanes().size() - 1)))));
    if (stored->recovered) Q_EMIT told(tr("%1 was cut off: it is compared as far as it was written. The file stays as it is.").arg(m_otherName));
}

void Comparing::compareWithLane(LaneId lane) {
    if (m_cursor->recording()) m_cursor->compareWith(m_cursor->sharedRecording(), lane, m_alignment);
}

void Comparing::compareWithOther(LaneId lane) {
    if (m_other) m_cursor->compareWith(m_other, lane, m_alignment, m_otherName);
}

void Comparing::alignBy(Alignment alignment) {
    m_alignment = alignment;
    m_cursor->alignBy(alignment);
    update();
}

void Comparing::stop() {
    m_other.reset();
    m_wanted.clear();
    m_cursor->stopComparing();
}

void Comparing::goToFirst(Parting::Kind kind) {
    if (m_differences) m_differences->goToFirst(kind);
}

// Another lane in focus is compared with the lane of its name in the other recording; the two lanes of one recording change places.
void Comparing::follow() {
    const LaneId before = std::exchange(m_lane, m_cursor->lane());
    const Reference* reference = m_cursor->reference();
    if (!reference || before == m_lane) return updateText();
    if (reference->recording() == m_cursor->sharedRecording()) {
        if (reference->lane() == m_lane && before.valid()) return compareWithLane(before);
    } else if (const auto same = laneOfName(*reference->recording(), m_cursor->laneRecord()->info().name); same && *same != reference->lane()) {
        return compareWithOther(*same);
    }
    updateText();
}

void Comparing::update() {
    const Reference* reference = m_cursor->reference();
    if (reference) m_alignment = reference->alignment();
    m_alignmentBox->setCurrentIndex(static_cast<int>(m_alignment));
    m_open->setEnabled(m_cursor->recording() != nullptr);
    m_menu->setEnabled(m_cursor->recording() != nullptr);
    m_first->setEnabled(reference != nullptr);
    m_stop->setEnabled(reference != nullptr);
    m_shown->setEnabled(reference != nullptr);
    m_bar->setVisible(reference != nullptr);
    updateText();
}

QString Comparing::sentence() const {
    const Reference* reference = m_cursor->reference();
    if (!reference || !m_cursor->laneRecord()) return {};
    const auto at = [](int step) { return step < 0 ? tr("no step") : tr("step %1").arg(formatCount(static_cast<quint64>(step))); };
    QString text = tr("Lane %1, %2, compared with %3, %4")
                       .arg(laneText(*m_cursor->recording(), m_cursor->lane()), at(m_cursor->stepOf(m_cursor->lane())), reference->label(),
                            at(reference->step()));
    // By number, what comes after its end stands beside its last step.
    if (reference->alignment() == Alignment::step && reference->step() >= 0 && reference->step() < m_cursor->stepOf(m_cursor->lane()))
        text += tr(", its last one");
    if (reference->isSameLane()) text += tr(": the same lane, choose another one in focus");
    if (reference->computing()) text += tr(" · reading tokens");
    return text;
}

void Comparing::updateText() {
    const Reference* reference = m_cursor->reference();
    if (!reference || !m_cursor->laneRecord()) return;
    const Palette& colours = Palette::of(m_bar);
    const QString here = QStringLiteral("<span style=\"color:%1\">■</span> ").arg(colours.here.name());
    const QString there = QStringLiteral("<span style=\"color:%1\">■</span> ").arg(colours.there.name());
    const QString label = reference->label().toHtmlEscaped();
    QString text = sentence().toHtmlEscaped();
    text.replace(text.lastIndexOf(label), label.size(), there + label);
    m_text->setText(here + text);
    m_text->setToolTip(sentence());
}

bool Comparing::eventFilter(QObject* object, QEvent* event) {
    if (object == m_bar && event->type() == QEvent::PaletteChange) updateText();
    return QObject::eventFilter(object, event);
}

}  // namespace kvloupe
