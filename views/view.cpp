// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/view.h"

#include "views/zoom_command.h"

#include <QBuffer>
#include <QContextMenuEvent>
#include <QEvent>
#include <QFileInfo>
#include <QFontDatabase>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QPageSize>
#include <QPainter>
#include <QPdfWriter>
#include <QPushButton>
#include <QSaveFile>
#include <QSvgGenerator>
#include <QToolTip>
#include <QUndoStack>

namespace kvloupe {

namespace {

constexpr double export_head_height = 26;
constexpr int late_ms = 120;  // a refresh that has to wait longer than that leaves a picture that is marked as stale

// What lies over a stale picture: the panel's colour, so that 60 % of the picture is left.
class Veil : public QWidget {
public:
    explicit Veil(QWidget* parent) : QWidget(parent) { setAttribute(Qt::WA_TransparentForMouseEvents); }

protected:
    void paintEvent(QPaintEvent*) override {
        QColor colour = Palette::of(this).panel;
        colour.setAlphaF(0.4f);
        QPainter(this).fillRect(rect(), colour);
    }
};

}  // namespace

View::View(QString id, QString title, Cursor* cursor, QWidget* parent)
    : QWidget(parent), m_id(std::move(id)), m_title(std::move(title)), m_cursor(cursor) {
    m_later.setSingleShot(true);
    connect(&m_later, &QTimer::timeout, this, [this] {
        if (isVisible()) catchUp();
    });
    setObjectName(m_id);
    setAccessibleName(m_title);
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    setAttribute(Qt::WA_OpaquePaintEvent);
    connect(cursor, &Cursor::recordingChanged, this, &View::refreshIfVisible);
    connect(cursor, &Cursor::stepChanged, this, &View::refreshIfVisible);
    connect(cursor, &Cursor::grew, this, &View::refreshIfVisible);
    connect(cursor, &Cursor::focusChanged, this, &View::refreshIfVisible);
    connect(cursor, &Cursor::fontScaleChanged, this, &View::refreshIfVisible);
    connect(cursor, &Cursor::referenceChanged, this, [this] {
        refreshIfVisible();
        Q_EMIT choiceChanged();  // whether a difference is shown is a choice while there is a reference
    });
    connect(cursor, &Cursor::hoverChanged, this, &View::selectionChanged);
    connect(cursor, &Cursor::lockChanged, this, &View::selectionChanged);
}

const Palette& View::palette_() const { return Palette::of(this); }

QFont View::textFont(double pixels, int weight) const {
    QFont font = this->font();
    font.setPixelSize(qMax(7, qRound(pixels * unit())));
    font.setWeight(static_cast<QFont::Weight>(weight));
    return font;
}

QFont View::monoFont(double pixels, int weight) const {
    QFont font = QFontDatabase::systemFont(QFontDatabase::FixedFont);
    font.setPixelSize(qMax(7, qRound(pixels * unit())));
    font.setWeight(static_cast<QFont::Weight>(weight));
    return font;
}

void View::setSubtitle(const QString& subtitle) {
    if (subtitle == m_subtitle) return;
    m_subtitle = subtitle;
    setAccessibleDescription(subtitle);
    Q_EMIT subtitleChanged();
}

void View::setEmpty(const QString& sentence, const QString& button, const QString& action) {
    m_emptySentence = sentence;
    m_emptyButton = button;
    m_emptyActionName = action;
    if (!button.isEmpty() && !m_button) {
        m_button = new QPushButton(this);
        connect(m_button, &QPushButton::clicked, this, [this] { Q_EMIT emptyAction(m_emptyActionName); });
    }
    if (m_button) {
        m_button->setText(button);
        m_button->setVisible(!button.isEmpty() && !sentence.isEmpty());
    }
    if (!sentence.isEmpty()) setAccessibleDescription(sentence);
    placeChildren();
    update();
}

void View::setEmbedded(QWidget* widget) {
    m_embedded = widget;
    if (!widget) return;
    widget->setParent(this);
    setFocusProxy(widget);
    placeChildren();
}

void View::placeChildren() {
    if (m_embedded) {
        m_embedded->setGeometry(rect());
        m_embedded->setVisible(!isEmptyShown());
    }
    if (m_veil) m_veil->setGeometry(rect());
    if (m_button && !m_button->isHidden()) {
        m_button->setFont(textFont());
        m_button->resize(m_button->sizeHint().expandedTo({0, qRound(28 * unit())}));
        m_button->move((width() - m_button->width()) / 2, height() / 2 + qRound(8 * unit()));
    }
}

void View::catchUp() {
    if (!m_dirty) return;
    m_dirty = false;
    m_later.stop();
    m_sinceRefresh.start();
    setStale(false);
    refresh();
    update();
}

void View::setStale(bool stale) {
    if (stale == m_stale) return;
    m_stale = stale;
    if (stale && !m_veil) m_veil = new Veil(this);
    if (m_veil) {
        m_veil->setGeometry(rect());
        m_veil->setVisible(stale);
        m_veil->raise();
    }
    Q_EMIT subtitleChanged();
}

QString View::headText() const {
    return m_stale ? tr("computing step %1").arg(m_cursor->stepOf(m_cursor->lane())) : m_subtitle;
}

void View::choose(const QString& key, int index) {
    for (const ViewChoice& choice : choices()) {
        if (choice.key != key || index < 0 || index >= choice.names.size() || index == choice.current) continue;
        setChoice(key, index);
        refreshIfVisible();
        Q_EMIT choiceChanged();
        return;
    }
}

void View::setChoice(const QString&, int) {}

void View::contextMenuEvent(QContextMenuEvent* event) {
    Q_EMIT menuRequested(event->globalPos(), m_cursor->hover().empty() ? m_cursor->locked() : m_cursor->hover());
    event->accept();
}

void View::restoreZoom(const QVariant& state) {
    m_zoom = state;
    setZoomState(state);
}

void View::zoomChanged() {
    const QVariant now = zoomState();
    if (now == m_zoom) return;
    m_cursor->zoomStack()->push(new ZoomCommand(this, m_zoom, now));
    m_zoom = now;
}

void View::markDirty() { m_dirty = true; }

void View::refreshIfVisible() {
    markDirty();
    if (!isVisible()) return;
    const Recording* recording = m_cursor->recording();
    const int interval = recording && recording->phase() == Phase::running ? refreshInterval() : 0;
    const qint64 rest = m_sinceRefresh.isValid() ? interval - m_sinceRefresh.elapsed() : 0;
    if (rest <= 0)
        catchUp();
    else if (!m_later.isActive())
        m_later.start(static_cast<int>(rest));
    if (m_dirty && rest > late_ms) setStale(true);
}

void View::selectionChanged() {
    if (!isVisible()) {
        markDirty();
    } else if (m_dirty) {
        catchUp();
    } else {
        refreshSelection();
        update();
    }
}

QString View::tipAt(const QPointF&) const { return {}; }

bool View::event(QEvent* event) {
    if (event->type() == QEvent::ToolTip && !isEmptyShown() && !m_embedded) {
        const auto* help = static_cast<QHelpEvent*>(event);
        const QString tip = tipAt(help->pos());
        if (tip.isEmpty())
            QToolTip::hideText();
        else
            QToolTip::showText(help->globalPos(), tip, this);
        return true;
    }
    if (event->type() == QEvent::ShortcutOverride && navigates() && m_keyboardDriven) {
        const int key = static_cast<QKeyEvent*>(event)->key();
        if (key == Qt::Key_Left || key == Qt::Key_Right || key == Qt::Key_Up || key == Qt::Key_Down) {
            event->accept();
            return true;
        }
    }
    const bool result = QWidget::event(event);
    if (event->type() == QEvent::Resize) placeChildren();
    return result;
}

void View::focusInEvent(QFocusEvent* event) {
    // Coming back to the window (ActiveWindowFocusReason) is no choice of the keyboard.
    m_keyboardDriven = event->reason() == Qt::TabFocusReason || event->reason() == Qt::BacktabFocusReason ||
                       event->reason() == Qt::ShortcutFocusReason || event->reason() == Qt::OtherFocusReason;
    QWidget::focusInEvent(event);
    update();
}

void View::focusOutEvent(QFocusEvent* event) {
    m_keyboardDriven = false;
    QWidget::focusOutEvent(event);
    update();
}

void View::leaveEvent(QEvent* event) {
    m_cursor->setHover({});
    QWidget::leaveEvent(event);
}

void View::keyPressEvent(QKeyEvent* event) {
    if (event->key() == Qt::Key_Escape) {
        m_cursor->clear();
    } else if (event->key() == Qt::Key_F && event->modifiers() == Qt::NoModifier) {
        fit();
        zoomChanged();
    } else if (const std::vector<ViewChoice> all = choices();
               event->key() == Qt::Key_C && !(event->modifiers() & ~Qt::ShiftModifier) && !all.empty()) {
        const ViewChoice& choice = event->modifiers() & Qt::ShiftModifier ? all.back() : all.front();
        choose(choice.key, (choice.current + 1) % static_cast<int>(choice.names.size()));
    } else {
        QWidget::keyPressEvent(event);
    }
}

void View::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.fillRect(rect(), palette_().panel);
    if (!isEmptyShown()) {
        if (!m_embedded) paintContent(painter, QRectF(rect()));
        if (hasFocus() && m_keyboardDriven) {
            painter.setPen(QPen(palette_().accent, 1));
            painter.setBrush(Qt::NoBrush);
            painter.drawRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5));
        }
        return;
    }
    painter.setFont(textFont());
    painter.setPen(palette_().ink2);
    const int below = m_button && !m_button->isHidden() ? height() / 2 : 0;
    const QRect room = rect().adjusted(16, 8, -16, below ? -below : -8);
    painter.drawText(room, Qt::AlignHCenter | (below ? Qt::AlignBottom : Qt::AlignVCenter) | Qt::TextWordWrap,
                     m_emptySentence);
}

void View::showEvent(QShowEvent* event) {
    QWidget::showEvent(event);
    catchUp();
}

void View::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::StyleChange ||
        event->type() == QEvent::FontChange || event->type() == QEvent::LanguageChange)
        refreshIfVisible();
}

QSizeF View::exportSize() const { return QSizeF(size()) + QSizeF(0, export_head_height * unit()); }

void View::paintExport(QPainter& painter) {
    const QSizeF size = exportSize();
    const double head = export_head_height * unit();
    const Palette& colours = palette_();
    painter.setRenderHint(QPainter::Antialiasing);
    painter.fillRect(QRectF(QPointF(), size), colours.panel);
    painter.save();
    painter.setFont(textFont(12, QFont::DemiBold));
    painter.setPen(colours.ink1);
    painter.drawText(QRectF(10, 0, size.width() - 20, head), Qt::AlignVCenter | Qt::AlignLeft, m_title);
    const double left = 10 + QFontMetricsF(painter.font()).horizontalAdvance(m_title) + 10;
    painter.setFont(textFont(11));
    painter.setPen(colours.ink2);
    const QRectF room(left, 0, size.width() - left - 10, head);
    painter.drawText(room, Qt::AlignVCenter | Qt::AlignLeft,
                     QFontMetricsF(painter.font()).elidedText(m_subtitle, Qt::ElideRight, room.width()));
    painter.restore();
    const QRectF area(0, head, size.width(), size.height() - head);
    painter.save();
    if (isEmptyShown()) {
        painter.setFont(textFont());
        painter.setPen(colours.ink2);
        painter.drawText(area.adjusted(16, 0, -16, 0), Qt::AlignCenter | Qt::TextWordWrap, m_emptySentence);
    } else {
        painter.setClipRect(area);
        paintContent(painter, area);
    }
    painter.restore();
}

QImage View::image(double scale) {
    catchUp();
    settle();
    QImage image((exportSize() * scale).toSize().expandedTo({1, 1}), QImage::Format_ARGB32_Premultiplied);
    image.setDevicePixelRatio(scale);
    image.fill(palette_().panel);
    QPainter painter(&image);
    paintExport(painter);
    return image;
}

QString View::exportTo(const QString& path, double scale) {
    catchUp();
    settle();
    const QString suffix = QFileInfo(path).suffix().toLower();
    QByteArray bytes;
    if (suffix == QLatin1String("csv")) {
        bytes = csv().toUtf8();
    } else {
        QBuffer buffer(&bytes);
        buffer.open(QIODevice::WriteOnly);
        if (suffix == QLatin1String("png")) {
            image(scale).save(&buffer, "PNG");
        } else if (suffix == QLatin1String("svg")) {
            QSvgGenerator svg;
            svg.setOutputDevice(&buffer);
            svg.setSize(exportSize().toSize());
            svg.setViewBox(QRectF(QPointF(), exportSize()));
            svg.setTitle(m_title);
            svg.setDescription(m_subtitle);
            QPainter painter(&svg);
            paintExport(painter);
        } else if (suffix == QLatin1String("pdf")) {
            // One device-independent pixel is 1/96 inch on paper.
            QPdfWriter pdf(&buffer);
            pdf.setTitle(m_title);
            pdf.setResolution(96);
            pdf.setPageSize(QPageSize(exportSize() * 72.0 / 96.0, QPageSize::Point));
            pdf.setPageMargins(QMarginsF(0, 0, 0, 0));
            QPainter painter(&pdf);
            paintExport(painter);
        } else {
            return tr("%1: the suffix “%2” names no picture format. Use .png, .svg, .pdf or .csv.").arg(path, suffix);
        }
    }
    QSaveFile file(path);
    if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size() || !file.commit())
        return tr("%1 could not be written: %2. Choose another folder.").arg(path, file.errorString());
    return {};
}

}  // namespace kvloupe
