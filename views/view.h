// SPDX-License-Identifier: GPL-3.0-or-later
//
// View: base of every picture. A view reads the recording up to the cursor and the selection, nothing else.
#pragma once

#include "views/cursor.h"
#include "views/palette.h"

#include <QFont>
#include <QElapsedTimer>
#include <QString>
#include <QTimer>
#include <QVariant>
#include <QWidget>

#include <memory>
#include <vector>

class QPainter;
class QPushButton;

namespace kvloupe {

// One thing a view lets its user choose among few, such as what colours the cells of a pool. Dock head, context menu and
// keyboard offer it, the window saves it.
struct ViewChoice {
    QString key;            // "colour": stable, in the settings
    QString title;          // "Colour by"
    QStringList names;      // as shown
    int current = 0;
};

class View : public QWidget {
    Q_OBJECT

public:
    // id: fixed by the contract ("pool"); title: for the dock head ("Block pool").
    View(QString id, QString title, Cursor* cursor, QWidget* parent = nullptr);

    const QString& id() const { return m_id; }
    const QString& title() const { return m_title; }
    // One line beside the title: what is shown now ("96 blocks of 16 slots").
    QString subtitle() const { return m_subtitle; }

    // What the view shows, as RFC 4180 text with a header row; columns of numbers name unit and origin.
    virtual QString csv() const = 0;
    // Draws the content into `area` (device-independent pixels); used for screen, PNG, SVG and PDF alike.
    virtual void paintContent(QPainter& painter, const QRectF& area) = 0;
    // F: whole range in sight.
    virtual void fit() {}
    // Range or filter the user chose; invalid: the whole, or none.
    virtual QVariant zoomState() const { return {}; }
    // Undo and redo: shows that range or filter again.
    void restoreZoom(const QVariant& state);
    // The user zoomed or filtered: goes onto the stack that all views share (Cursor::zoomStack()).
    void zoomChanged();
    // Rebuilds now if something changed while the view was hidden; exports and tests call it.
    void catchUp();
    // What can be chosen; C goes on in the first of them, Shift+C in the last.
    virtual std::vector<ViewChoice> choices() const { return {}; }
    void choose(const QString& key, int index);
    // For the dock head: the subtitle, or what is being computed while the picture is of an earlier step.
    QString headText() const;
    bool isStale() const { return m_stale; }
    // Why there is nothing to show, one sentence, or ""; as of the last refresh (catchUp()).
    QString emptyReason() const { return m_emptySentence; }

    // PNG, SVG or PDF by suffix, CSV too; errors as a sentence, "" on success.
    QString exportTo(const QString& path, double scale = 1.0);
    QImage image(double scale = 1.0);

    QSize sizeHint() const override { return {480, 320}; }
    QSize minimumSizeHint() const override { return {160, 90}; }

Q_SIGNALS:
    void subtitleChanged();
    void emptyAction(const QString& action);  // the one button of an empty view was pressed
    void choiceChanged();
    void menuRequested(const QPoint& global, const Pick& meant);  // what the pointer, or else the lock, is on

protected:
    // A picture or a table is about to be handed out: what is still being read in the background is waited for.
    virtual void settle() {}
    // The cursor, the selection, the recording or the palette changed and the view is visible: rebuild what is drawn.
    // Hidden views are marked dirty and get this when they are shown.
    virtual void refresh() = 0;
    // Something else changed that the view draws: now, or when it is shown.
    void refreshIfVisible();
    // Only hover or lock changed. Views that merely outline it override this with update().
    virtual void refreshSelection() { refresh(); }
    // Text of the tip at a point of the widget, "" for none.
    virtual QString tipAt(const QPointF& position) const;

    Cursor* cursor() const { return m_cursor; }
    const Palette& palette_() const;  // colours of the current theme
    void setSubtitle(const QString& subtitle);
    // One sentence and at most one button in the middle; "" removes it.
    void setEmpty(const QString& sentence, const QString& button = {}, const QString& action = {});
    bool isEmptyShown() const { return !m_emptySentence.isEmpty(); }
    const QString& emptySentence() const { return m_emptySentence; }
    virtual void setZoomState(const QVariant&) {}
    virtual void setChoice(const QString& key, int index);  // called only with another index that exists
    // The picture is of an earlier state: a job runs, or a refresh is late. It fades to 60 % until then.
    void setStale(bool stale);
    // A table or plot that fills the view on screen; paintContent() still draws the exports.
    void setEmbedded(QWidget* widget);

    // Fonts: pixel sizes at 100 % (12 body, 11 captions, 10.5 ticks), times the cursor's scale.
    double unit() const { return m_cursor->fontScale(); }
    QFont textFont(double pixels = 12, int weight = QFont::Normal) const;
    QFont monoFont(double pixels = 11, int weight = QFont::Normal) const;

    // While the recording grows, a view that costs more than it shows by being current in every frame may ask for fewer:
    // at least this many milliseconds between two refreshes. It catches up when the run pauses.
    virtual int refreshInterval() const { return 0; }

    // True where arrow keys move a selection inside the view. They do so when the focus came by the keyboard; after a
    // click the arrows ← and → stay the window's step commands (see keyboardDriven()).
    virtual bool navigates() const { return false; }
    bool keyboardDriven() const { return m_keyboardDriven; }

    bool event(QEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    void leaveEvent(QEvent* event) override;        // the hover ends
    void keyPressEvent(QKeyEvent* event) override;  // Esc clears the lock, F fits; all else goes on to the window
    void paintEvent(QPaintEvent* event) override;
    void showEvent(QShowEvent* event) override;
    void changeEvent(QEvent* event) override;
    void contextMenuEvent(QContextMenuEvent* event) override;

private:
    void markDirty();
    void selectionChanged();
    void placeChildren();
    QSizeF exportSize() const;                   // content plus a head with title and subtitle
    void paintExport(QPainter& painter);

    QString m_id, m_title, m_subtitle;
    Cursor* m_cursor;
    QString m_emptySentence, m_emptyButton, m_emptyActionName;
    QWidget* m_embedded = nullptr;
    QPushButton* m_button = nullptr;
    QWidget* m_veil = nullptr;  // lies over a stale picture
    QVariant m_zoom;  // as last known
    QElapsedTimer m_sinceRefresh;
    QTimer m_later;
    bool m_dirty = true;
    bool m_stale = false;
    bool m_keyboardDriven = false;
};

}  // namespace kvloupe
